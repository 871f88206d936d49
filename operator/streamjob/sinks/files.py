"""A sink that publishes files atomically per transaction.

Readers follow the log of Spark's file sink (`runtime.spark.sink_log`): a commit is one new entry in that log,
also on object stores.

    FOLDER/_spark_metadata/N            the log: lists the committed files
    FOLDER/part-…                       committed files
    FOLDER/_batches/OWNER/K/BATCH/…     a batch of the K-th thousand, hidden from readers that ignore the log
    FOLDER/_transactions/…              the transactions, see `notes`

`spark.read` and `spark.readStream` see all of a transaction or nothing. A reader that ignores the log never
sees files of an uncommitted transaction, but may see part of one that is being committed.

A commit moves the files, appends the entry and records that it is done. Each step may be repeated, even
concurrently: a moved file is left alone, and the entry is not appended if an entry after the pre-commit
already has its lines.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from ..runtime.spark import sink_log
from ..storage.hadoop import HadoopFiles, NotFound
from ..transactional import Transaction, TransactionalSink, TransactionLost
from .notes import File, Notes, Prepared

GROUP = 1000  # batches per folder, so that listings do not grow with the life of the job


class FileSink(TransactionalSink):
    """`frame.writeStream.foreachBatch(FileSink("s3a://shop/orders"))`: a folder that nothing else writes to.

    :param folder: URI.
    :param format: a format of Spark's writer.
    :param options: options of that format.
    """

    def __init__(self, folder: str, format: str = "parquet", **options: str) -> None:
        self.folder: str = folder.rstrip("/")
        self._format = format
        self._options = options
        self._open: HadoopFiles | None = None
        self._owner = ""

    def recover(self, owner: str, batch: int | None) -> Sequence[Transaction]:
        self._owner = owner
        self.folder = self._files.qualify(self.folder)
        sink_log.refuse_lost(self.folder, sink_log.read(self._files, self.folder), self._notes.entry(owner))
        for dropped in self._batches(-1 if batch is None else batch):
            self._files.delete(self._place(dropped))
        left = []
        for transaction in self._notes.pending(owner):
            prepared = self._notes.read(transaction)
            # A crash may have happened after the entry was appended and before the commit was recorded.
            if prepared is not None and prepared.found and self._is_logged(prepared):
                self._done(transaction, self._newest)
            else:
                left.append(transaction)
        return left

    def begin(self, batch: int) -> None:
        self._files.delete(self._place(batch))

    def write(self, frame: DataFrame, batch: int) -> None:
        frame.write.format(self._format).options(**self._options).save(self._place(batch))

    def pre_commit(self, transaction: Transaction) -> None:
        batches = [b for b in self._batches(self._notes.taken(transaction)) if b <= transaction.batch]
        found = [file for batch in batches for file in self._written(batch)]
        self._notes.prepare(transaction, Prepared(self._newest, found))

    def commit(self, transaction: Transaction) -> None:
        prepared = self._notes.read(transaction)
        if self._notes.committed(transaction.owner) >= transaction.batch:
            self._notes.forget(transaction)
            return
        if prepared is None:
            raise TransactionLost(
                f"transaction {transaction} of {self.folder} is neither pre-committed nor committed: "
                "somebody has deleted its note in _transactions",
                remedy="Put the folder back as it was, or restore an earlier savepoint into another folder",
            )
        for path, *_ in prepared.found:
            self._files.move(self._hidden(path), self._visible(path))
        newest = sink_log.append(self._files, self.folder, self._lines(prepared), after=prepared.after)
        self._done(transaction, newest)

    def abort(self, transaction: Transaction) -> None:
        prepared = self._notes.read(transaction)
        if prepared is None:
            return
        if prepared.found and self._is_logged(prepared):  # a job restored from a savepoint has committed it
            self._done(transaction, self._newest)
            return
        for path, *_ in prepared.found:
            if self._files.exists(self._visible(path)):  # that job has moved the file, but not logged it
                self._files.move(self._visible(path), self._hidden(path))
        self._notes.forget(transaction)

    def knows(self, owner: str) -> bool:
        written = bool(self._names(f"_batches/{owner}"))
        return written or self._notes.committed(owner) >= 0 or bool(self._notes.pending(owner))

    # --- the folder -----------------------------------------------------------------------------------------

    @property
    def _files(self) -> HadoopFiles:
        if self._open is None:
            self._open = HadoopFiles(SparkSession.builder.getOrCreate())
        return self._open

    @property
    def _notes(self) -> Notes:
        return Notes(self._files, self.folder)

    def _place(self, batch: int) -> str:
        return f"{self.folder}/_batches/{self._owner}/{batch // GROUP}/{batch}"

    def _batches(self, after: int) -> list[int]:
        root = f"_batches/{self._owner}"
        groups = [n for n in self._names(root) if n.isdigit() and int(n) >= (after + 1) // GROUP]
        names = [name for group in groups for name in self._names(f"{root}/{group}")]
        return sorted(b for b in (int(n) for n in names if n.isdigit()) if b > after)

    def _names(self, folder: str) -> list[str]:
        try:
            return [f.path for f in self._files.list(f"{self.folder}/{folder}")]
        except NotFound:
            return []

    def _written(self, batch: int) -> list[File]:
        now = int(time.time() * 1000)
        found = [f for f in self._files.list(self._place(batch)) if not f.path.startswith(("_", "."))]
        return [(f"{self._owner}/{batch // GROUP}/{batch}/{f.path}", f.size, now) for f in found]

    def _hidden(self, path: str) -> str:
        return f"{self.folder}/_batches/{path}"

    def _visible(self, path: str) -> str:
        return f"{self.folder}/{path.rsplit('/', 1)[-1]}"  # Spark gives each file a unique name

    def _lines(self, prepared: Prepared) -> list[str]:
        return [sink_log.line(self._visible(path), size, modified) for path, size, modified in prepared.found]

    def _is_logged(self, prepared: Prepared) -> bool:
        return sink_log.has(self._files, self.folder, self._lines(prepared), after=prepared.after)

    @property
    def _newest(self) -> int:
        return sink_log.newest(self._files, self.folder)

    def _done(self, transaction: Transaction, newest: int) -> None:
        self._notes.done(transaction, newest)
        root = f"_batches/{transaction.owner}"
        for group in self._names(root):
            if group.isdigit() and int(group) < transaction.batch // GROUP:  # all its batches are committed
                self._files.delete(f"{self.folder}/{root}/{group}")
