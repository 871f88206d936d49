"""What a FileSink notes of its transactions.

    FOLDER/_transactions/ID.pending     pre-committed: the newest entry that the log had, then a line for each file
    FOLDER/_transactions/ID.done        the newest that its owner has committed

The second is written before the first is deleted, so a transaction without either has not been pre-committed, or is older than
the newest that is done.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass

from ..runtime.storage.hadoop import FileExists, HadoopFiles, NotFound
from .transactional import Transaction

PENDING, DONE = ".pending", ".done"
LIMIT = 64 << 20  # bytes of a transaction's list of files
File = tuple[str, int, int]  # path below _batches, bytes, milliseconds since 1970


@dataclass(frozen=True)
class Prepared:
    """:param after: the log's newest entry, before the transaction can have one. :param found: the transaction's files."""

    after: int
    found: list[File]


class Notes:
    """May be used by several at once."""

    def __init__(self, files: HadoopFiles, folder: str) -> None:
        self._files = files
        self._folder = f"{folder}/_transactions"

    def pending(self, owner: str) -> list[Transaction]:
        return self._of(owner, PENDING)

    def committed(self, owner: str) -> int:
        """The last batch that is in a committed transaction; -1 if there is none."""
        return max((t.batch for t in self._of(owner, DONE)), default=-1)

    def taken(self, transaction: Transaction) -> int:
        """The last batch that another transaction of the owner has; -1 if there is none."""
        # In this order: one that is just being committed is in the second list at the latest.
        others = [*self.pending(transaction.owner), *self._of(transaction.owner, DONE)]
        return max((t.batch for t in others if t != transaction), default=-1)

    def read(self, transaction: Transaction) -> Prepared | None:
        """None if it is not pre-committed."""
        try:
            text = self._files.read_bytes(self._note(transaction, PENDING), LIMIT).decode()
        except NotFound:
            return None
        after, *lines = text.splitlines()
        return Prepared(int(after), [tuple(json.loads(line)) for line in lines])

    def prepare(self, transaction: Transaction, prepared: Prepared) -> None:
        note = self._note(transaction, PENDING)
        self._files.delete(note)  # of an attempt that failed
        lines = [str(prepared.after), *map(json.dumps, prepared.found)]
        self._files.write_new(note, "\n".join(lines).encode())

    def done(self, transaction: Transaction) -> None:
        with suppress(FileExists):
            self._files.write_new(self._note(transaction, DONE), b"")
        self.forget(transaction)
        for older in self._of(transaction.owner, DONE):
            if older.batch < transaction.batch:
                self._files.delete(self._note(older, DONE))

    def forget(self, transaction: Transaction) -> None:
        self._files.delete(self._note(transaction, PENDING))

    def _of(self, owner: str, suffix: str) -> list[Transaction]:
        try:
            names = [f.path for f in self._files.list(self._folder)]
        except NotFound:
            return []
        found = [Transaction.read(n.removesuffix(suffix)) for n in names if n.endswith(suffix)]
        return [t for t in found if t is not None and t.owner == owner]

    def _note(self, transaction: Transaction, suffix: str) -> str:
        return f"{self._folder}/{transaction}{suffix}"
