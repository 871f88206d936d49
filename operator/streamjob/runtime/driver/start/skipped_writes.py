"""Refuses a write of a foreachBatch function that Delta would skip, although its batch is a new one.

With the options `txnAppId` and `txnVersion`, Delta skips a write whose version is not above the last one that
the table has from that id (WriteIntoDelta.hasBeenExecuted). That is right for a batch that runs again after a
crash. A batch that this run has planned itself is written for the first time. If the table has its number
already, then from another line of batches: the job was restored from an older savepoint, forked, or begun
again without its checkpoints. Its rows would be lost in silence. So would those of the slower one of two
queries with one id, and files in a folder of Spark's file sink, whose log does not name them.
"""

from __future__ import annotations

import logging

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ....jvm.errors import one_line
from ...query.places.claim import SinkShared
from ...query.run import Run
from ...spark.handles import Table as CatalogTable
from ...spark.sink_log import FORMATS, METADATA, SinkAhead
from ...spark.tables.find import table_of_target
from ...spark.target import Target

log = logging.getLogger("streamjob")


class SkippedWrites:
    """Checks one run. Asks each table once: a later batch is ahead of it if the first new one is.

    :param run: the run, which is about to start.
    :param writers: the tasks that have written, by `txnAppId` and table. All runs of the job have one.
    """

    def __init__(self, run: Run, writers: dict[tuple[str, str], str]) -> None:
        self._run = run
        self._writers = writers
        self._runs_again = run.directory.latest_offset()
        self._folders: set[str] = set()
        self._asked: set[tuple[str, str | None, str | None]] = set()

    def refuse(self, target: Target, found: CatalogTable | None) -> None:
        """Check a write that is about to begin. Called in a thread of the batch.

        :param found: the table that `target.table` names.
        :raises SinkAhead: Delta would skip it. The batch fails, whatever its function makes of that.
        """
        function, options = self._run.each_batch, target.options
        app, version = options.get("txnappid"), options.get("txnversion")
        if function is None or function.batch is None or app is None or not (version or "").isdigit():
            return
        key = (app, target.table, options.get("path"))
        if key in self._asked or function.batch <= (-1 if self._runs_again is None else self._runs_again):
            return
        self._asked.add(key)
        if (error := self._ahead(target, found, app, int(version or 0), function.batch)) is not None:
            function.must_fail = function.failure = error
            raise error

    def refuse_shared(self, target: Target, found: CatalogTable | None) -> None:
        """Check that the rows of a write that is about to begin are not lost beside those of another query.

        :param found: as in `refuse`.
        :raises SinkShared: they would. The batch fails, whatever its function makes of that.
        """
        function = self._run.each_batch
        if function is None or function.batch is None:
            return
        if (error := self._one_id(target, found) or self._unread(target)) is not None:
            function.must_fail = function.failure = error
            raise error

    def _one_id(self, target: Target, found: CatalogTable | None) -> SinkShared | None:
        path, app, task = target.options.get("path"), target.options.get("txnappid"), self._run.task
        if app is None:
            return None
        table = self._run.files.canonical(path) if path is not None else str(found.name if found else "")
        other = self._writers.setdefault((app, table), task)
        if other == task:
            return None
        return SinkShared(
            f"the foreachBatch functions of queries {other!r} and {task!r} write to {table} with one "
            f"txnAppId, {app!r}: Delta would skip the batches of the slower one",
            remedy="Use a txnAppId for each query",
        )

    def _unread(self, target: Target) -> SinkShared | None:
        """The refusal of files in a folder whose readers go by the log of Spark's file sink.

        Each folder is looked at once.
        """
        files, path = self._run.files, target.options.get("path")
        if path is None or (target.format or "parquet").lower() not in FORMATS:
            return None
        folder = files.qualify(path).rstrip("/")
        if folder in self._folders:
            return None
        self._folders.add(folder)
        if not files.exists(f"{folder}/{METADATA}"):
            return None
        return SinkShared(
            f"the foreachBatch function of query {self._run.task!r} writes to {folder}, where Spark's file "
            f"sink of another query has its log ({METADATA}): readers go by the log and would not find these "
            "rows",
            remedy="Let the function write to a folder of its own",
        )

    def _ahead(
        self, target: Target, found: CatalogTable | None, app: str, version: int, batch: int
    ) -> SinkAhead | None:
        files, name = self._run.files, self._run.name.name
        try:
            table = table_of_target(files.spark, target, found, files.qualify)
            last = table.skipped_up_to(app) if table is not None and table.format == "delta" else None
        except (PySparkException, Py4JError) as e:
            log.warning(
                "whether a table has batches of txnAppId %r cannot be found out: %s", app, one_line(e)
            )
            return None
        if table is None or last is None or last < version:
            return None
        return SinkAhead(
            f"{table.name} has the txnAppId {app!r} up to {last}, and query {name!r} writes its new batch "
            f"{batch} with that id and txnVersion {version}: Delta would skip it, and its rows would be lost",
            remedy="Use another txnAppId. If the table has rows from behind the batch that the query began "
            "with, bring it back to that time first (RESTORE TABLE)",
        )
