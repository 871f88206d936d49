"""Files that become visible together. Readers go by the log of Spark's file sink (`runtime.sinklog`): a commit is one new entry
in it, on object stores as well.

    FOLDER/_spark_metadata/N            the log: which files there are
    FOLDER/part-…                       what is committed
    FOLDER/_batches/OWNER/K/BATCH/…     the files of a batch of the K-th thousand, hidden from readers that do not know the log
    FOLDER/_transactions/ID.pending     pre-committed: its files
    FOLDER/_transactions/ID.done        the newest that OWNER has committed

`spark.read` and `spark.readStream` see all of a transaction or nothing. A reader that does not know the log never sees what is
not committed, and may see a part of what is just being committed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from ..runtime import sinklog
from ..runtime.files import FileExists, HadoopFiles, NotFound
from .transactional import Transaction, TransactionalSink, TransactionLost

PENDING, DONE = ".pending", ".done"
GROUP = 1000  # batches in a folder, so that no listing grows with the life of the job
LIMIT = 64 << 20  # bytes of a transaction's list of files


File = tuple[str, int, int]  # path below _batches, bytes, milliseconds since 1970


class FileSink(TransactionalSink):
    """`frame.writeStream.foreachBatch(FileSink("s3a://shop/orders"))`: a folder that nothing else writes to.

    :param folder: URI. :param format: of Spark's writer. :param options: of that format.
    """

    def __init__(self, folder: str, format: str = "parquet", **options: str) -> None:
        self.folder = folder.rstrip("/")
        self._format = format
        self._options = options
        self._open: HadoopFiles | None = None
        self._owner = ""

    def recover(self, owner: str, batch: int | None) -> Sequence[Transaction]:
        self._owner = owner
        self.folder = self._files.qualify(self.folder)
        for dropped in self._batches(-1 if batch is None else batch):
            self._files.delete(self._place(dropped))
        pending = [t for t in self._transactions(PENDING) if t.owner == owner]
        # A crash may have come between the entry in the log and the note that it is there.
        done = [t for t in pending if self._logged(self._pending(t))]
        for transaction in done:
            self._note_done(transaction)
        return [t for t in pending if t not in done]

    def begin(self, batch: int) -> None:
        self._files.delete(self._place(batch))

    def write(self, frame: DataFrame, batch: int) -> None:
        frame.write.format(self._format).options(**self._options).save(self._place(batch))

    def pre_commit(self, transaction: Transaction) -> None:
        batches = [b for b in self._batches(self._taken(transaction)) if b <= transaction.batch]
        found = [file for batch in batches for file in self._written(batch)]
        self._replace(self._note(transaction, PENDING), "\n".join(map(json.dumps, found)))

    def commit(self, transaction: Transaction) -> None:
        if any(
            t.owner == transaction.owner and t.batch >= transaction.batch for t in self._transactions(DONE)
        ):
            self.abort(transaction)  # nothing came since
            return
        found = self._pending(transaction)
        # Another owner's may have been committed by itself, in between its entry and its note.
        if found and (transaction.owner == self._owner or not self._logged(found)):
            for path, *_ in found:
                self._files.move(f"{self.folder}/_batches/{path}", self._visible(path))
            sinklog.append(self._files, self.folder, self._lines(found))
        self._note_done(transaction)

    def abort(self, transaction: Transaction) -> None:
        self._files.delete(self._note(transaction, PENDING))

    # --- the folder -------------------------------------------------------------------------------------------

    @property
    def _files(self) -> HadoopFiles:
        if self._open is None:
            self._open = HadoopFiles(SparkSession.builder.getOrCreate())
        return self._open

    def _place(self, batch: int) -> str:
        return f"{self.folder}/_batches/{self._owner}/{batch // GROUP}/{batch}"

    def _note(self, transaction: Transaction, suffix: str) -> str:
        return f"{self.folder}/_transactions/{transaction}{suffix}"

    def _batches(self, after: int) -> list[int]:
        root = f"_batches/{self._owner}"
        groups = [n for n in self._names(root) if n.isdigit() and int(n) >= (after + 1) // GROUP]
        names = [name for group in groups for name in self._names(f"{root}/{group}")]
        return sorted(b for b in (int(n) for n in names if n.isdigit()) if b > after)

    def _transactions(self, suffix: str) -> list[Transaction]:
        names = [n.removesuffix(suffix) for n in self._names("_transactions") if n.endswith(suffix)]
        return [t for t in map(Transaction.read, names) if t is not None]

    def _taken(self, transaction: Transaction) -> int:
        """The last batch that another transaction of the owner has."""
        others = [*self._transactions(PENDING), *self._transactions(DONE)]
        return max((t.batch for t in others if t.owner == self._owner and t != transaction), default=-1)

    def _names(self, folder: str) -> list[str]:
        try:
            return [f.path for f in self._files.list(f"{self.folder}/{folder}")]
        except NotFound:
            return []

    def _written(self, batch: int) -> list[File]:
        now = int(time.time() * 1000)
        found = [f for f in self._files.list(self._place(batch)) if not f.path.startswith(("_", "."))]
        return [(f"{self._owner}/{batch // GROUP}/{batch}/{f.path}", f.size, now) for f in found]

    def _visible(self, path: str) -> str:
        return f"{self.folder}/{path.rsplit('/', 1)[-1]}"  # Spark gives each file a name of its own

    def _lines(self, found: Sequence[File]) -> list[str]:
        return [sinklog.line(self._visible(path), size, modified) for path, size, modified in found]

    def _logged(self, found: Sequence[File]) -> bool:
        return bool(found) and set(self._lines(found)) <= sinklog.lines(self._files, self.folder)

    def _pending(self, transaction: Transaction) -> list[File]:
        """:raises TransactionLost: nothing says that it was ever pre-committed."""
        try:
            text = self._files.read_bytes(self._note(transaction, PENDING), LIMIT).decode()
        except NotFound:
            raise TransactionLost(
                f"transaction {transaction} of {self.folder} is neither pre-committed nor committed: somebody has "
                "deleted its note in _transactions",
                remedy="Put the folder back as it was, or restore an earlier savepoint into another folder",
            ) from None
        return [tuple(json.loads(line)) for line in text.splitlines()]

    def _note_done(self, transaction: Transaction) -> None:
        self._replace(self._note(transaction, DONE), "")
        self._files.delete(self._note(transaction, PENDING))
        for older in self._transactions(DONE):
            if older.owner == transaction.owner and older.batch < transaction.batch:
                self._files.delete(self._note(older, DONE))

    def _replace(self, path: str, text: str) -> None:
        data = text.encode()
        try:
            self._files.write_new(path, data)
        except FileExists:
            self._files.delete(path)
            self._files.write_new(path, data)
