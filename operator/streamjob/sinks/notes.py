"""The files in which a FileSink records its transactions.

    FOLDER/_transactions/ID.pending     pre-committed: the newest entry that the log had, a line for each file
    FOLDER/_transactions/ID.done        the newest transaction that its owner has committed: the newest entry
                                        of the log since then

The second is written before the first is deleted. So a transaction that has neither is not pre-committed, or
is older than the newest committed one.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass

from ..runtime.spark.sink_log import TRANSACTIONS
from ..storage.hadoop import FileExists, HadoopFiles, NotFound
from ..transactional import Transaction

PENDING, DONE = ".pending", ".done"
LIMIT = 64 << 20  # bytes of a transaction's list of files
File = tuple[str, int, int]  # path below _batches, bytes, milliseconds since 1970


@dataclass(frozen=True)
class Prepared:
    """The contents of a `.pending` file.

    :param after: the newest entry of the sink's log at the pre-commit, so older than any entry of the
        transaction.
    :param found: the transaction's files.
    """

    after: int
    found: list[File]


class Notes:
    """The transactions recorded in a folder. May be used concurrently."""

    def __init__(self, files: HadoopFiles, folder: str) -> None:
        self._files = files
        self._folder = f"{folder}/{TRANSACTIONS}"

    def pending(self, owner: str) -> list[Transaction]:
        return self._of(owner, PENDING)

    def committed(self, owner: str) -> int:
        """The last batch in a committed transaction of the owner; -1 if there is none."""
        return max((t.batch for t in self._of(owner, DONE)), default=-1)

    def entry(self, owner: str) -> int | None:
        """The newest entry that the log had after the owner's last commit. None if that is not known."""
        last = max(self._of(owner, DONE), key=lambda t: t.batch, default=None)
        if last is None:
            return None
        text = self._files.read_bytes(self._note(last, DONE)).decode()
        return int(text) if text else None

    def taken(self, transaction: Transaction) -> int:
        """The last batch in any other transaction of the owner; -1 if there is none."""
        # In this order: a transaction that is committed meanwhile appears in the second list at the latest.
        others = [*self.pending(transaction.owner), *self._of(transaction.owner, DONE)]
        return max((t.batch for t in others if t != transaction), default=-1)

    def read(self, transaction: Transaction) -> Prepared | None:
        """Read the `.pending` file of a transaction; None if it has none."""
        try:
            text = self._files.read_bytes(self._note(transaction, PENDING), LIMIT).decode()
        except NotFound:
            return None
        after, *lines = text.splitlines()
        return Prepared(int(after), [tuple(json.loads(line)) for line in lines])

    def prepare(self, transaction: Transaction, prepared: Prepared) -> None:
        note = self._note(transaction, PENDING)
        self._files.delete(note)  # left by a failed attempt
        lines = [str(prepared.after), *map(json.dumps, prepared.found)]
        self._files.write_new(note, "\n".join(lines).encode())

    def done(self, transaction: Transaction, newest: int) -> None:
        with suppress(FileExists):
            self._files.write_new(self._note(transaction, DONE), str(newest).encode())
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
