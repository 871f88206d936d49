"""A Delta Lake table: transaction identifiers per query id, and the table's history.

From DeltaSink.addBatch (org.apache.spark.sql.delta.sources): a batch is skipped if the table's transaction
version of the query id is not below its number. RESTORE takes rows back and leaves the transaction versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, Row, SparkSession

from ..handles import java_session, jvm
from ..sources.delta_log import RESTORE
from .schema import unfit
from .table import NEWEST, Commit, TakenBack
from .table import taken_back as taken_back_of

AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"
UPDATE = "STREAMING UPDATE"
REPLACE = ("CREATE OR REPLACE", "REPLACE")  # how operations begin after which no earlier row is left


class DeltaTable:
    """Implements `Table`.

    :param name: as SQL takes it: a table's name, or delta.`PATH`.
    :param location: the URI of its folder.
    """

    format = "delta"

    def __init__(self, spark: SparkSession, name: str, location: str) -> None:
        self.name = name
        self._spark = spark
        self._location = location

    @property
    def exists(self) -> bool:
        return bool(self._log().tableExists())

    @property
    def newest(self) -> tuple[str, int]:
        """The id of the table and its newest version."""
        snapshot = self._snapshot()
        return str(snapshot.metadata().id()), int(snapshot.version())

    def skipped_up_to(self, query_id: str) -> int | None:
        found = self._snapshot().transactions().get(query_id)
        return int(found.get()) if found.isDefined() else None

    def commits(self, query_id: str, newest: int | None = None) -> list[Commit]:
        return in_effect(self._history(newest), query_id)

    def taken_back(self, query_id: str, there: int, done: int) -> TakenBack | None:
        if not any(row.operation == RESTORE for row in self._history(NEWEST)):
            return None
        return taken_back_of(taken_back(self._history(), query_id), there, done, self.rollback)

    def unfit(self, rows: DataFrame, options: Mapping[str, str]) -> str | None:
        merges = [options.get("mergeschema"), options.get("overwriteschema")]
        if any(
            (value or "").lower() == "true" for value in [*merges, self._spark.conf.get(AUTO_MERGE, "false")]
        ):
            return None
        return "; ".join(unfit(rows.schema, self._spark.table(self.name).schema)) or None

    def rollback(self, version: int) -> str:
        return f"RESTORE TABLE {self.name} TO VERSION AS OF {version}"

    def _history(self, newest: int | None = None) -> list[Row]:
        limit = f" LIMIT {newest}" if newest is not None else ""
        return self._spark.sql(f"DESCRIBE HISTORY {self.name}{limit}").collect()

    def _snapshot(self) -> Any:
        return _newest(self._log(), jvm(self._spark).scala.Option.empty())

    def _log(self) -> Any:
        logs = jvm(self._spark).org.apache.spark.sql.delta.DeltaLog
        return logs.forTable(java_session(self._spark), self._location)


def in_effect(history: Iterable[Row], query_id: str) -> list[Commit]:
    """The query's commits that no RESTORE has taken back, newest first.

    :param history: rows of DESCRIBE HISTORY: version, timestamp, operation, operationParameters.
    """
    return [commit for commit, kept in _commits(history, query_id) if kept]


def taken_back(history: Iterable[Row], query_id: str) -> list[Commit]:
    """The query's commits that a RESTORE has taken back, without those that the table has again."""
    found = _commits(history, query_id)
    there = {commit.batch for commit, kept in found if kept}
    return [commit for commit, kept in found if not kept and commit.batch not in there]


def _commits(history: Iterable[Row], query_id: str) -> list[tuple[Commit, bool]]:
    """The query's commits since the table was last replaced, newest first.

    :returns: with each, whether it is in effect.
    """
    rows = sorted(history, key=lambda row: -row.version)
    found: list[tuple[Commit, bool]] = []
    ceiling = rows[0].version if rows else 0  # the versions above it were taken back
    for row in rows:
        parameters, kept = row.operationParameters or {}, row.version <= ceiling
        if row.operation == UPDATE and parameters.get("queryId") == query_id:
            found.append((Commit(int(parameters["epochId"]), row.version), kept))
        elif kept and row.operation == RESTORE:
            ceiling = _restored(row, parameters, rows)
        elif kept and row.operation.startswith(REPLACE):
            break
    return found


def _restored(restore: Row, parameters: dict[str, str], rows: list[Row]) -> int:
    """The version that a RESTORE has brought back. The statement names a version or a time."""
    if (version := parameters.get("version")) is not None:
        return int(version)
    at = parameters["timestamp"]
    before = [r.version for r in rows if r.version < restore.version and str(r.timestamp) <= at]
    return max(before, default=-1)


def _newest(log: Any, nothing: Any) -> Any:
    """The newest snapshot of a DeltaLog. Other processes may have written since the log was cached.

    :param nothing: scala.None, for those of the parameters that have a default. Their number differs between
        versions of Delta.
    """
    for optional in ((nothing, nothing), (nothing,), ()):
        try:
            return log.update(False, *optional)
        except Py4JError as e:
            if "does not exist" not in str(e):
                raise
    raise Py4JError("this version of Delta Lake has another DeltaLog.update")
