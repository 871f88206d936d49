"""What one measurement of a query's lag costs. A driver takes one every five seconds at most.

Each query reads what its source has and then waits, so that nothing runs beside the measurements.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from dev.bench.figures import Figures
from dev.bench.session import session
from dev.broker import CONNECTORS, LINE, Kafka
from dev.localdriver import FAST
from dev.tables import jars
from streamjob.runtime.query.figures import Lags
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.runtime.spark.internals import Internals
from streamjob.runtime.spark.sources.plan_sources import sources_of_plan
from streamjob.runtime.spark.versions.table import BY_VERSION
from streamjob.storage.hadoop import HadoopFiles

PARTITIONS, COMMITS = 16, 50  # of the topic; of the Delta table, behind the query
SAMPLES, WARM = 20, 5  # measurements of each run, and those before them that do not count
SETTINGS = {
    **FAST,
    "spark.jars": f"{CONNECTORS},{jars()}",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # not a task for each of 10,000 files
}


def measure(runs: int) -> Figures:
    figures = Figures()
    for run in range(runs):
        print(f"  lag: run {run + 1} of {runs}", flush=True)
        home = Path(tempfile.mkdtemp(prefix="streamjob-bench-"))
        kafka = Kafka(home / "kafka")
        try:
            with session(SETTINGS) as spark:
                for name, seconds in _measurements(spark, kafka.address, home):
                    figures.add(name, seconds)
        finally:
            kafka.stop()
            shutil.rmtree(home, ignore_errors=True)
    return figures


def _measurements(spark: SparkSession, brokers: str, home: Path) -> Iterator[tuple[str, float]]:
    for files in (100, 1_000, 10_000):
        folder = home / f"in-{files}"
        folder.mkdir()
        for i in range(files):
            (folder / str(i)).touch()
        query = _Waiting(spark, spark.readStream.text(str(folder)), home / f"of-{files}")
        yield from query.measured(f"a folder of {files:,} files, all read (s)")

    kafka = {"kafka.bootstrap.servers": brokers, "topic": "lag"}

    def produce() -> None:
        rows = spark.range(100 * PARTITIONS).selectExpr(
            "cast(id as string) value", f"cast(id % {PARTITIONS} as int) partition"
        )
        rows.write.format("kafka").options(**kafka).save()

    _create_topic(spark, brokers, "lag")
    produce()
    topic = spark.readStream.format("kafka").options(**kafka, subscribe="lag", startingOffsets="earliest")
    query = _Waiting(spark, topic.load(), home / "of-topic")
    yield from query.measured(f"a topic of {PARTITIONS} partitions, all read (s)")
    produce()
    yield from query.measured(f"a topic of {PARTITIONS} partitions, rows left in each (s)")

    def commit(times: int) -> None:
        for _ in range(times):
            spark.range(1).write.format("delta").mode("append").save(str(home / "table"))

    commit(1)
    query = _Waiting(spark, spark.readStream.format("delta").load(str(home / "table")), home / "of-table")
    commit(COMMITS)
    yield from query.measured(f"a Delta table, {COMMITS} commits left (s)")


class _Waiting:
    """A query that has read its source and runs its next batch in an hour."""

    def __init__(self, spark: SparkSession, source: DataFrame, checkpoint: Path) -> None:
        writer = source.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        query = writer.trigger(processingTime="1 hour").start()
        execution = Internals(spark, BY_VERSION[LINE]).execution(query)
        sources = sources_of_plan(source._jdf.queryExecution().analyzed())
        lags = Lags(CheckpointDir(HadoopFiles(spark), checkpoint.as_uri()), sources, spark._jvm)
        self._measure: Callable[[], None] = lambda: lags.measure(lambda: execution.sources)
        self._lags = lags
        while not lags.sources:
            if (error := query.exception()) is not None:
                raise error
            time.sleep(0.1)
            self._measure()

    def measured(self, name: str) -> Iterator[tuple[str, float]]:
        for i in range(WARM + SAMPLES):
            began = time.perf_counter()
            self._measure()
            seconds = time.perf_counter() - began
            if i >= WARM:
                yield name, seconds


def _create_topic(spark: SparkSession, brokers: str, topic: str) -> None:
    jvm: Any = spark._jvm
    settings = jvm.java.util.HashMap()
    settings.put("bootstrap.servers", brokers)
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
    new = jvm.org.apache.kafka.clients.admin.NewTopic(topic, PARTITIONS, 1)
    admin.createTopics(jvm.java.util.Collections.singletonList(new)).all().get()
    admin.close()
