"""How many tasks the longest stage of a query's batches has: as many cores as the query can use."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streamjob.runtime.spark.executors.cost import tasks_of

from .feeds import Feed


def test_the_longest_stage_counts(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in")
    slowly = F.expr("reflect('java.lang.Thread', 'sleep', 500L)").cast("string")
    rows = feed.stream(spark).repartition(3).select(slowly.alias("nothing"))
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start()
    try:
        query.processAllAvailable()
        assert tasks_of(query, spark._jvm) is None
        feed.minutes(0, 5)
        query.processAllAvailable()
        assert tasks_of(query, spark._jvm) == 3
    finally:
        query.stop()
