"""How much a query is delayed by a savepoint that is written while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from dev.bench.figures import Figures

WARM = 10  # batches
SETTINGS = {"spark.sql.streaming.numRecentProgressUpdates": "100000", "spark.sql.shuffle.partitions": "2"}


def measure(
    spark: SparkSession,
    location: str,
    save: Callable[[], object],
    delete: Callable[[], object],
    figures: Figures,
    how: str = "",
) -> None:
    """Measure the longest time between the ends of two batches of a query that always has input: first while
    a savepoint is written, then for the same time without one.

    :param location: URI of the query's checkpoint directory.
    :param save: writes the savepoint.
    :param delete: deletes it.
    :param how: how the savepoint is written, for the names of the figures.
    """
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10_000).load()
    counts = rows.groupBy((F.col("value") % 1000).alias("k")).count()
    writer = counts.writeStream.outputMode("update").format("noop")
    query = writer.option("checkpointLocation", location).start()
    try:
        while len(query.recentProgress) < WARM:
            time.sleep(0.1)
        seconds = 0.0
        for what in ("with", "without"):
            before = len(_ends(query))
            began = time.monotonic()
            if what == "with":
                save()
                seconds = time.monotonic() - began
            else:
                time.sleep(seconds)
            _next_batch(query)  # the last batch that the savepoint can have delayed
            longest = max(b - a for a, b in pairwise(_ends(query)[before - 1 :]))
            figures.add(f"beside a query: longest time between two batches, {what} a savepoint{how}", longest)
        figures.add(f"beside a query: the savepoint{how}", seconds)
    finally:
        query.stop()
        delete()


def _next_batch(query: StreamingQuery) -> None:
    """Wait until the running batch and another one have ended."""
    seen = len(_ends(query))
    while len(_ends(query)) < seen + 2:
        time.sleep(0.1)


def _ends(query: StreamingQuery) -> list[float]:
    """When the query's batches ended, in seconds since 1970."""
    return [
        datetime.fromisoformat(p["timestamp"].replace("Z", "+00:00")).timestamp()
        + p["durationMs"]["triggerExecution"] / 1000
        for p in query.recentProgress
    ]
