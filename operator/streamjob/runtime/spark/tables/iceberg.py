"""An Apache Iceberg table: the summaries of its snapshots have the query id and the batch.

From SparkWrite of org.apache.iceberg.spark.source: a batch is skipped if the newest ancestor of the current
snapshot with its query id has a number that is not lower. What a rollback has taken back is no ancestor.
"""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from .table import Commit

QUERY_ID, EPOCH_ID = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"


class IcebergTable:
    """Implements `Table`.

    :param name: as SQL takes it: with its catalog, or the location of a table without one.
    """

    format = "iceberg"

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.name = name
        self._spark = spark

    @property
    def exists(self) -> bool:
        try:
            return self._about("refs").count() >= 0
        except PySparkException:
            return False

    def skipped_up_to(self, query_id: str) -> int | None:
        return next((c.batch for c in self.commits(query_id)), None)

    def commits(self, query_id: str, newest: int | None = None) -> list[Commit]:
        kept = self._about("history").where("is_current_ancestor").select("snapshot_id").distinct()
        rows = self._about("snapshots").join(kept, "snapshot_id").orderBy("committed_at").collect()
        return [
            Commit(int(row.summary[EPOCH_ID]), row.snapshot_id)
            for row in reversed(rows)
            if row.summary.get(QUERY_ID) == query_id
        ]

    def rollback(self, version: int) -> str:
        if self._is_location:
            return f"the table {self.name} was rolled back to snapshot {version}"
        catalog, _, table = self.name.partition(".")
        return f"CALL {catalog}.system.rollback_to_snapshot('{table}', {version})"

    @property
    def _is_location(self) -> bool:
        return "/" in self.name and not self.name.startswith("`")

    def _about(self, what: str) -> DataFrame:
        """One of the table's metadata tables."""
        place = f"{self.name}#{what}" if self._is_location else f"{self.name}.{what}"
        return self._spark.read.format("iceberg").load(place)
