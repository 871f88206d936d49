"""Processing time in a drain: it stands still, so no timer of processing time fires."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from streamjob.protocol.messages.commands import Mode
from streamjob.runtime.spark.internals import Internals
from streamjob.runtime.spark.max_watermark.batch import kept_for_the_clock
from streamjob.runtime.spark.max_watermark.undrain import reopen
from streamjob.storage.hadoop import HadoopFiles

from .apps.states import Source
from .feeds import eventually
from .scripts import Script, await_batch
from .test_drain import Job

try:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
except ImportError:  # Spark 3.5 has no transformWithState
    StatefulProcessor = object  # type: ignore[assignment]


def offline(source: Source) -> DataFrame:
    """A row for each hundredth of a second in which a key is not heard of."""

    def watch(key: Any, frames: Iterable[Any], state: GroupState) -> Iterable[Any]:
        import pandas as pd

        if not state.hasTimedOut:
            list(frames)
        state.update((1,))
        state.setTimeoutDuration(10)
        yield pd.DataFrame({"k": [key[0]], "what": ["offline" if state.hasTimedOut else "row"]})

    timeout = GroupStateTimeout.ProcessingTimeTimeout
    return (
        source("a")
        .groupBy("k")
        .applyInPandasWithState(watch, "k string, what string", "n int", "append", timeout)
    )


def offline_by_timers(source: Source) -> DataFrame:
    """The same, with transformWithState."""

    class Watch(StatefulProcessor):  # in a function: the worker can't import this module
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._handle = handle

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            list(rows)
            return self._again(key, timerValues, "row")

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
            return self._again(key, timerValues, "offline")

        def _again(self, key: Any, timerValues: Any, what: str) -> Iterator[Any]:
            import pandas as pd

            for timer in list(self._handle.listTimers()):
                self._handle.deleteTimer(timer)
            self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 10)
            yield pd.DataFrame({"k": [key[0]], "what": [what]})

    keyed = source("a").groupBy("k")
    return keyed.transformWithStateInPandas(Watch(), "k string, what string", "append", "ProcessingTime")


def offlines(job: Job) -> int:
    written = job.output() if (job.home / "out" / "_spark_metadata").exists() else []
    return sum(what == "offline" for _, what in written)


def run_until_timers_fire(job: Job) -> None:
    before = offlines(job)
    query = job.start(processingTime="50 milliseconds")
    eventually(lambda: not query.isActive or offlines(job) > before, "a timer")
    assert query.exception() is None
    query.stop()
    if job.directory.latest_offset() != job.directory.latest_commit():
        job.once().awaitTermination()


with_timers = pytest.mark.skipif(StatefulProcessor is object, reason="Spark 3.5 has no transformWithState")


@pytest.mark.usefixtures("rocksdb")
@pytest.mark.parametrize(
    "query", [offline, pytest.param(offline_by_timers, marks=[with_timers, pytest.mark.slow])]
)
def test_r7_a_timer_of_processing_time_does_not_fire_and_is_told(
    spark: SparkSession,
    files: HadoopFiles,
    internals: Internals,
    tmp_path: Path,
    query: Callable[[Source], DataFrame],
) -> None:
    job = Job(spark, files, tmp_path, query)
    run_until_timers_fire(job)
    before = job.output()
    drained = job.drain(internals)
    assert drained is not None
    assert job.output() == before
    assert (drained.batches, drained.state_rows_left, drained.timers_left) == (1, 3, False)
    problem = kept_for_the_clock("main", drained)
    assert problem is not None
    assert problem.reason == "ProcessingTimersLeft"
    assert "3 rows and timers" in problem.message
    reopen(job.directory)  # as `allowDrained` does
    job.inputs["a"].minutes(60, 61)  # Spark does not look at its timers before there is input
    there = offlines(job)
    run_until_timers_fire(job)
    assert offlines(job) > there, "it goes on with the timers that were left"


def test_current_timestamp_is_that_of_the_last_batch_that_could_read(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path
) -> None:
    def query(source: Source) -> DataFrame:
        windows = source("a").withWatermark("t", "10 minutes").groupBy(F.window("t", "5 minutes")).count()
        return windows.select(F.col("window.start").alias("start"), F.current_timestamp().alias("now"))

    job = Job(spark, files, tmp_path, query)
    job.run()
    last = job.directory.boundary()
    assert last is not None
    drained = job.drain(internals)
    assert drained is not None
    assert not drained.processing_time
    assert kept_for_the_clock("main", drained) is None
    times: list[Any] = [now for _, now in job.output()]
    assert int(max(times).timestamp() * 1000) == job.directory.entry(last).metadata["batchTimestampMs"]


@pytest.mark.slow
def test_r7_a_reader_with_timers_of_processing_time_catches_up_in_a_drain(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's `availableNow` would run batches without input for ever."""
    script = Script(
        tmp_path,
        """
        def watch(key, frames, state):
            import pandas as pd
            n = sum(len(f) for f in frames) if not state.hasTimedOut else 0
            state.update((1,))
            state.setTimeoutDuration(10)
            yield pd.DataFrame({"k": [key[0]], "v": [n]})

        start("writer", read("in"), folder="between")
        keyed = read("between").groupBy("k")
        watched = keyed.applyInPandasWithState(
            watch, "k string, v long", "n int", "append", "ProcessingTimeTimeout")
        start("reader", watched)
        spark.streams.awaitAnyTermination()
        """,
    )
    script.feed.minutes(0, 6)
    with script.driver() as driver:
        await_batch(driver, "reader", 0)
        script.feed.minutes(6, 12)
        await_batch(driver, "writer", 1)
        driver.finish(Mode.DRAIN)
        status = driver.report()
    assert sum(script.values(spark, "reader")) == 12, "each row of the input is counted once"
    assert [w.reason for w in status.warnings] == ["ProcessingTimersLeft"]
    assert status.termination is not None
    assert status.termination.state_rows_left == 3
