"""An Apache Hudi table: commits of streaming queries have an identifier of the writer and the batch.

From HoodieStreamingSink of org.apache.hudi: a batch is skipped if the newest commit with the writer's
identifier has a number that is not lower. The identifier is an option, the same one for all queries unless
the script sets it. It has nothing to do with Spark's query id. What a rollback or a restore takes back is no
longer in the timeline, and its files are deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from ....jvm.errors import one_line
from ..handles import java_session, jvm, plan_of_frame
from .table import Commit, TakenBack

FORMATS = ("hudi", "org.apache.hudi")
IDENTIFIER = "hoodie.datasource.write.streaming.checkpoint.identifier"
DEFAULT = "default_single_writer"
RECONCILE = "hoodie.datasource.write.reconcile.schema"  # changes what is taken
CHECKPOINT = "_hudi_streaming_sink_checkpoint"  # in a commit's metadata: a JSON object, batches by identifier


class HudiTable:
    """Implements `Table`. Reads the active timeline: a commit of each batch, also of those without rows.

    :param name: as the script names it.
    :param location: the URI of its folder.
    :param options: of the query's writer, with keys in lower case.
    """

    format = "hudi"

    def __init__(self, spark: SparkSession, name: str, location: str, options: Mapping[str, str]) -> None:
        self.name = name
        self.identifier = options.get(IDENTIFIER, DEFAULT)
        self.shared_by: str | None = f"{IDENTIFIER}={self.identifier}"
        self._spark = spark
        self._location = location

    @property
    def exists(self) -> bool:
        try:
            self._meta_client()
        except Py4JJavaError as e:
            if e.java_exception.getClass().getSimpleName() == "TableNotFoundException":
                return False
            raise
        return True

    def skipped_up_to(self, query_id: str | None) -> int | None:
        return next((c.batch for c in self.commits()), None)

    def commits(self, query_id: str | None = None, newest: int | None = None) -> list[Commit]:
        timeline = jvm(self._spark).org.apache.hudi.common.table.timeline
        found = timeline.TimelineUtils.getAllExtraMetadataForKey(self._meta_client(), CHECKPOINT)
        return of_writer(
            ((time, value.get()) for time, value in found.items() if value.isPresent()), self.identifier
        )

    def taken_back(self, query_id: str, there: int, done: int) -> TakenBack | None:
        """Hudi keeps nothing of a commit that was rolled back: told by what the timeline has behind the rest.

        It also rolls back the remains of a writer that crashed. So a rollback says nothing if there is no
        earlier commit, which may have been archived. A restore is always somebody's wish.
        """
        last = next(iter(self.commits()), None)
        timeline = self._meta_client().getActiveTimeline()
        events = timeline.getRollbackAndRestoreTimeline() if last else timeline.getRestoreTimeline()
        event = events.filterCompletedInstants().lastInstant()
        if not event.isPresent() or (last is not None and int(event.get().requestedTime()) < last.version):
            return None
        return TakenBack(there + 1, done, None)

    def unfit(self, rows: DataFrame, options: Mapping[str, str]) -> str | None:
        if options.get(RECONCILE, "false").lower() == "true":
            return None
        hudi = jvm(self._spark).org.apache.hudi
        properties = hudi.common.config.DFSPropertiesConfiguration.getGlobalProps()
        for key, value in options.items():
            properties.setProperty(key, value)
        try:  # as HoodieSparkSqlWriter does it: a table without a commit takes all columns
            resolver = hudi.common.table.TableSchemaResolver(self._meta_client())
            there = resolver.getTableSchemaFromLatestCommit(False)
            schema = hudi.HoodieSchemaConversionUtils.convertStructTypeToHoodieSchema(
                plan_of_frame(rows).schema(), "rows", "hoodie"
            )
            nothing = hudi.common.util.Option.empty()
            hudi.HoodieSchemaUtils.deduceWriterSchema(schema, there, nothing, properties)
        except Py4JJavaError as e:
            if "Schema" not in e.java_exception.getClass().getSimpleName():
                raise
            return one_line(e)
        except (Py4JError, TypeError):  # before Hudi 1.2, other classes do this
            return None
        return None

    def rollback(self, version: int) -> str:
        """Three statements: Hudi brings a table back to a savepoint, which would keep its files for ever."""
        table = f"path => '{self._location}'"
        return (
            f"CALL create_savepoint({table}, commit_time => '{version}'); "
            f"CALL rollback_to_savepoint({table}, instant_time => '{version}'); "
            f"CALL delete_savepoint({table}, instant_time => '{version}')"
        )

    def _meta_client(self) -> Any:
        """The table's org.apache.hudi.common.table.HoodieTableMetaClient, with its newest timeline.

        :raises Py4JJavaError: there is no table.
        """
        hudi = jvm(self._spark).org.apache.hudi
        conf = java_session(self._spark).sessionState().newHadoopConf()
        storage = hudi.hadoop.fs.HadoopFSUtils.getStorageConfWithCopy(conf)
        return (
            hudi.common.table.HoodieTableMetaClient.builder()
            .setConf(storage)
            .setBasePath(self._location)
            .build()
        )


def of_writer(checkpoints: Iterable[tuple[str, str]], identifier: str) -> list[Commit]:
    """The commits of streaming queries with an identifier, newest first.

    :param checkpoints: of each commit of the timeline the time, and the value of `CHECKPOINT`.
    """
    batches = ((int(time), json.loads(value).get(identifier)) for time, value in checkpoints)
    found = [Commit(int(batch), time) for time, batch in batches if batch is not None]
    return sorted(found, key=lambda commit: -commit.version)
