"""Plain PySpark jobs with each kind of state that Spark has, in its stores: a query for each.

Arguments: which job; folders of the input (it has the folders a and b) and of the output; names that are put
before the queries', all once for each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

try:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
except ImportError:  # Spark 3.5 has no transformWithState
    StatefulProcessor = object  # type: ignore[assignment]

Source = Callable[[str], DataFrame]
Query = Callable[[Source], DataFrame]
SCHEMA = "t timestamp, k string, v long"
WINDOW = 300  # seconds, of the timers

STATE = "org.apache.spark.sql.execution.streaming.state"
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def window(source: Source) -> DataFrame:
    frame = source("a").withWatermark("t", "10 minutes")
    return frame.groupBy(F.window("t", "5 minutes"), "k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))


def session(source: Source) -> DataFrame:
    frame = source("a").withWatermark("t", "10 minutes")
    return frame.groupBy(F.session_window("t", "2 minutes"), "k").count()


def left_join(source: Source) -> DataFrame:
    a = source("a").withWatermark("t", "10 minutes").alias("a")
    b = source("b").withWatermark("t", "10 minutes").alias("b")
    near = "a.k = b.k AND b.t BETWEEN a.t - INTERVAL 5 MINUTES AND a.t + INTERVAL 5 MINUTES"
    return a.join(b, F.expr(near), "left_outer").select("a.t", "a.k", "a.v", F.col("b.v").alias("bv"))


def deduplicated(source: Source) -> DataFrame:
    return source("a").withWatermark("t", "10 minutes").dropDuplicatesWithinWatermark(["k", "v"])


class Sums(StatefulProcessor):
    """What `window` sums, by hand: a map and a timer for each five minutes of a key, and in a value how many
    are open.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._sums = handle.getMapState("sums", "until long", "s long")
        self._open = handle.getValueState("open", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for frame in rows:
            for t, v in zip(frame["t"], frame["v"], strict=True):
                until = (int(t.timestamp()) // WINDOW + 1) * WINDOW
                known = self._sums.containsKey((until,))
                (before,) = self._sums.getValue((until,)) or (0,)
                self._sums.updateValue((until,), (before + int(v),))
                if not known:
                    self._handle.registerTimer(until * 1000)
                    self._count(1)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        import pandas as pd

        until = expiredTimerInfo.getExpiryTimeInMs() // 1000
        (s,) = self._sums.getValue((until,)) or (0,)
        self._sums.removeKey((until,))
        self._count(-1)
        yield pd.DataFrame({"until": [until], "k": [key[0]], "s": [s]})

    def _count(self, change: int) -> None:
        (before,) = self._open.get() or (0,)
        if before + change:
            self._open.update((before + change,))
        else:
            self._open.clear()


def timers(source: Source) -> DataFrame:
    keyed = source("a").withWatermark("t", "10 minutes").groupBy("k")
    return keyed.transformWithStateInPandas(Sums(), "until long, k string, s long", "append", "eventTime")


# Which format of checkpoints a job has, its own settings say: Spark 4.0 has one for all queries of a driver.
# Spark has no transformWithState in the HDFS-backed store. Its queries begin with a Python process for which
# Spark waits ten seconds: first, while nothing else runs.
# Spark 3.5 has neither transformWithState nor format 2.
OLD = pyspark.__version__ < "4"
WITHOUT_TIMERS: tuple[Query, ...] = (window, session, left_join, deduplicated)
WITH_TIMERS: tuple[Query, ...] = () if OLD else (timers,)
JOBS: dict[str, dict[str, tuple[Query, ...]]] = {
    "format 1": {"RocksDB": (*WITH_TIMERS, left_join), "HDFSBacked": WITHOUT_TIMERS},
    **({} if OLD else {"format 2": {"RocksDB with changelog": (*WITH_TIMERS, *WITHOUT_TIMERS)}}),
}


def queries(job: str) -> Iterator[tuple[str, str, Query]]:
    """Name, store, query."""
    for store, of_it in JOBS[job].items():
        for query in of_it:
            yield f"{query.__name__} in {store}", store, query


def configure(spark: SparkSession, store: str) -> None:
    """Of the queries that start from now on.

    Each store also has another manager of its files; None is Spark's default.
    """
    manager = {"RocksDB": "FileSystemBased", "RocksDB with changelog": "FileContextBased"}.get(store)
    provider, _, changelog = store.partition(" with ")
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", f"{STATE}.{provider}StateStoreProvider")
    spark.conf.set(CHANGELOG, "true" if changelog else "false")
    if manager is None:
        spark.conf.unset(MANAGER)
    else:
        package = STATE.removesuffix(".state") + (".checkpointing" if spark.version >= "4.1" else "")
        spark.conf.set(MANAGER, f"{package}.{manager}CheckpointFileManager")


def main(job: str, source: str, out: str, *copies: str) -> None:
    spark = SparkSession.builder.appName("states").getOrCreate()

    def stream(name: str) -> DataFrame:
        return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(f"{source}/{name}")

    started: list[StreamingQuery] = []
    for name, store, query in queries(job):
        for copy in copies or ("",):
            configure(spark, store)
            writer = query(stream).writeStream.queryName(copy + name).format("json").outputMode("append")
            writer = writer.option("path", f"{out}/{copy}{name}").trigger(processingTime="1 second")
            started.append(writer.start())
    for running in started:
        running.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
