"""An Apache Iceberg table: the summaries of its snapshots have the query id and the batch.

From SparkWrite of org.apache.iceberg.spark.source: a batch is skipped if the newest ancestor of the current
snapshot with its query id has a number that is not lower. What a rollback has taken back is no ancestor.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

from ....jvm.errors import one_line
from ..handles import jvm, plan_of_frame
from .table import Commit, TakenBack, taken_back

QUERY_ID, EPOCH_ID = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"
LENIENT = ("merge-schema", "check-nullability", "check-ordering")  # options that change what is taken
ANY_SCHEMA = "write.spark.accept-any-schema"  # a property of a table


class IcebergTable:
    """Implements `Table`. Asks Iceberg's own objects: metadata tables would cost Spark jobs.

    :param name: as SQL takes it: with its catalog, or the location of a table without one.
    """

    format = "iceberg"

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.name = name
        self._spark = spark

    @property
    def exists(self) -> bool:
        try:
            self._table()
        except AnalysisException:
            return False
        return True

    def skipped_up_to(self, query_id: str) -> int | None:
        return next((c.batch for c in self._commits(query_id)), None)

    def commits(self, query_id: str, newest: int | None = None) -> list[Commit]:
        return list(self._commits(query_id, newest))

    def taken_back(self, query_id: str, there: int, done: int) -> TakenBack | None:
        """Counts those that were current once, and whose lineage leaves that of the current snapshot."""
        table = self._refreshed()
        parents = {s.snapshotId(): s.parentId() for s in table.snapshots()}
        current = {s.snapshotId() for s in _lineage(table)}

        def leaves_lineage(snapshot_id: int | None) -> bool:  # otherwise the table was replaced
            while snapshot_id is not None and snapshot_id not in current:
                snapshot_id = parents.get(snapshot_id)
            return snapshot_id is not None

        once = {entry.snapshotId() for entry in table.history()} - current
        lost = [table.snapshot(i) for i in once if i in parents and leaves_lineage(i)]
        batches = {c.batch for c in _of_query(_lineage(table), query_id)}
        gone = (c for c in _of_query(lost, query_id) if c.batch not in batches)
        return taken_back(gone, there, done, lambda version: self._call("set_current_snapshot", version))

    def unfit(self, rows: DataFrame, options: Mapping[str, str]) -> str | None:
        conf, table = self._spark.conf, self._table()
        settings = [options.get(name) or conf.get(f"spark.sql.iceberg.{name}", None) for name in LENIENT]
        if any(settings) or table.properties().get(ANY_SCHEMA) == "true":
            return None
        iceberg, case_sensitive = jvm(self._spark).org.apache.iceberg, conf.get("spark.sql.caseSensitive")
        try:  # as SparkWriteBuilder does it
            schema = iceberg.spark.SparkSchemaUtil.convert(
                table.schema(), plan_of_frame(rows).schema(), case_sensitive == "true"
            )
            iceberg.types.TypeUtil.validateWriteSchema(table.schema(), schema, True, True)
        except (Py4JJavaError, IllegalArgumentException) as e:
            problems = [line.strip("* ") for line in str(e).splitlines() if line.startswith("* ")]
            return "; ".join(problems) or one_line(e)
        return None

    def rollback(self, version: int) -> str:
        return self._call("rollback_to_snapshot", version)

    def _call(self, procedure: str, version: int) -> str:
        if "/" in self.name and not self.name.startswith("`"):  # a location, and not a name in a catalog
            return f"the table {self.name} was brought back to snapshot {version}"
        catalog, _, table = self.name.partition(".")
        return f"CALL {catalog}.system.{procedure}('{table}', {version})"

    def _commits(self, query_id: str, newest: int | None = None) -> Iterator[Commit]:
        return _of_query(itertools.islice(_lineage(self._refreshed()), newest), query_id)

    def _refreshed(self) -> Any:
        table = self._table()
        table.refresh()  # a catalog may have a copy of it that is not the newest
        return table

    def _table(self) -> Any:
        """The org.apache.iceberg.Table that a query with this name writes to.

        :raises AnalysisException: there is none.
        """
        return plan_of_frame(self._spark.read.format("iceberg").load(self.name)).table().table()


def _lineage(table: Any) -> Iterator[Any]:
    """The current snapshot and its ancestors, newest first, up to those that have expired."""
    snapshot = table.currentSnapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parentId()
        snapshot = table.snapshot(parent) if parent is not None else None


def _of_query(snapshots: Iterable[Any], query_id: str) -> Iterator[Commit]:
    for snapshot in snapshots:
        summary = snapshot.summary()
        if summary.get(QUERY_ID) == query_id:
            yield Commit(int(summary.get(EPOCH_ID)), snapshot.snapshotId())
