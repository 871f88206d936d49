"""Stopping a query between two batches, where it is told to stop and what happens if it cannot."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streamjob.runtime.spark.boundary import (
    BoundaryTimeout,
    How,
    NoBoundary,
    QueryFailed,
    ThreadState,
    stop_at_boundary,
    thread_state_of,
)
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir, NotAtBoundary
from streamjob.runtime.spark.internals import Internals
from streamjob.storage.hadoop import HadoopFiles

from .feeds import Feed, eventually, rows

BATCH = ["MicroBatchExecution.runBatch", "MicroBatchExecution.executeOneBatch", "Thread.run"]
TRIGGER = ["TriggerExecutor.runOneBatch", "ProcessingTimeExecutor.execute", "Thread.run"]


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        ([], ThreadState.ENDED),
        (
            ["DAGScheduler.runJob", "SQLExecution$.x", "MicroBatchExecution.$anonfun$runBatch$18", *BATCH],
            ThreadState.SINK,
        ),
        (["HDFSMetadataLog.add", "MicroBatchExecution.markMicroBatchEnd", *BATCH], ThreadState.SINK),
        (["IncrementalExecution.executedPlan", *BATCH], ThreadState.PLANNING),
        # A source that runs SQL while its batch is planned: the thread has still to look at the state.
        (
            ["SQLExecution$.x", "Dataset.collect", "MicroBatchExecution.$anonfun$runBatch$2", *BATCH],
            ThreadState.PLANNING,
        ),
        (["Unsafe.park", "MicroBatchExecution.constructNextBatch", *BATCH[1:]], ThreadState.NEXT),
        (
            ["SQLExecution$.x", "MicroBatchExecution.$anonfun$constructNextBatch$3", *BATCH[1:]],
            ThreadState.NEXT,
        ),
        (["Object.wait", "SystemClock.waitTillTime", *TRIGGER[1:]], ThreadState.WAITING),
        (["Thread.sleep", *BATCH[1:]], ThreadState.SLEEPING),
        (["ProgressContext.finishTrigger", *BATCH[1:]], ThreadState.LOOP),
        (TRIGGER, ThreadState.OUTSIDE),
    ],
)  # fmt: skip
def test_where_a_thread_is(frames: list[str], place: ThreadState) -> None:
    assert thread_state_of(frames) is place


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        (["Unsafe.park", "MicroBatchExecution.constructNextBatch", *BATCH[1:]], ThreadState.NEXT),
        (
            ["Unsafe.park", "ReentrantLock.lock", "MicroBatchExecution.withProgressLocked", *BATCH],
            ThreadState.SINK,
        ),
        (
            ["Unsafe.park", "ReentrantLock.lock", "MicroBatchExecution.withProgressLocked", *BATCH[1:]],
            ThreadState.DONE,
        ),
    ],
)
def test_where_a_thread_is_that_waits_for_the_lock(frames: list[str], place: ThreadState) -> None:
    assert thread_state_of(frames, queued=True) is place


class Gate:
    """A sink that holds its batch until it is let go."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self.batches: list[int] = []

    def take(self, frame: DataFrame, batch: int) -> None:
        self.entered.set()
        assert self.opened.wait(300)
        self.batches.append(batch)


class Job:
    def __init__(self, spark: SparkSession, home: Path, files: int = 3) -> None:
        self.spark, self.home, self.gate = spark, home, Gate()
        self.feed = Feed(home / "in")
        for i in range(files):
            self.feed.add([{"v": i}])

    def start(self, **trigger: object) -> StreamingQuery:
        writer = self.feed.stream(self.spark, "v long").writeStream
        writer = writer.option("checkpointLocation", str(self.home / "checkpoint"))
        return writer.foreachBatch(self.gate.take).trigger(**trigger).start()  # type: ignore[call-overload]

    def once(self) -> StreamingQuery:
        return self.start(once=True)


class SlowJob:
    """Until it is stopped, a batch runs for as long as one likes inside the JVM, where an interrupt reaches
    it.
    """

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark, self.home = spark, home
        self.feed = Feed(home / "in")
        for i in range(3):
            self.feed.add([{"v": i}])

    def start(self, nap_ms: int = 0, **trigger: object) -> StreamingQuery:
        nap = f"java_method('java.lang.Thread', 'sleep', {nap_ms}L)"
        frame = self.feed.stream(self.spark, "v long").selectExpr("v", f"{nap} AS nap")
        writer = frame.writeStream.option("checkpointLocation", str(self.home / "checkpoint"))
        return writer.format("parquet").trigger(**trigger).start(str(self.home / "out"))  # type: ignore[call-overload]

    def once(self) -> StreamingQuery:
        return self.start(once=True)

    def start_and_reach_a_batch(self) -> StreamingQuery:
        query = self.start(nap_ms=3_600_000, processingTime="0 seconds")
        # Spark 3.5 may miss an interrupt that comes while the batch is planned, and stop() then waits for its
        # end.
        running = self.spark.sparkContext.statusTracker().getActiveStageIds
        eventually(running, "the tasks of the first batch to run")
        return query

    def output(self) -> list[tuple[int, ...]]:
        return rows(self.spark.read.parquet(str(self.home / "out")).select("v"))


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Job:
    return Job(spark, tmp_path)


def test_the_running_batch_is_the_last(job: Job, files: HadoopFiles, internals: Internals) -> None:
    query = job.start(processingTime="0 seconds")
    assert job.gate.entered.wait(300)
    said: list[str] = []

    def let_go(text: str) -> None:
        said.append(text)
        job.gate.opened.set()

    boundary = stop_at_boundary(query, files, internals, on_wait=let_go)
    assert (boundary.batch, boundary.how, job.gate.batches) == (0, How.IN_BATCH, [0])
    assert said == ["the running batch has to commit"]


def test_between_triggers_it_need_not_wait(job: Job, files: HadoopFiles, internals: Internals) -> None:
    job.gate.opened.set()
    query = job.start(processingTime="1 hour")
    eventually(lambda: query.lastProgress and not query.status["isTriggerActive"], "the first trigger to end")
    boundary = stop_at_boundary(query, files, internals)  # within the test's time limit
    assert (boundary.batch, boundary.how) == (0, How.BETWEEN)


def test_a_query_that_ended_by_itself(job: Job, files: HadoopFiles, internals: Internals) -> None:
    job.gate.opened.set()
    query = job.start(availableNow=True)
    query.awaitTermination()
    boundary = stop_at_boundary(query, files, internals)
    assert (boundary.batch, boundary.how) == (2, How.ENDED)


def test_a_query_without_input_has_no_batch(
    spark: SparkSession, tmp_path: Path, files: HadoopFiles, internals: Internals
) -> None:
    boundary = stop_at_boundary(
        Job(spark, tmp_path, files=0).start(processingTime="0 seconds"), files, internals
    )
    assert boundary.batch is None


def test_at_the_deadline_the_query_runs_on(job: Job, files: HadoopFiles, internals: Internals) -> None:
    query = job.start(processingTime="0 seconds")
    assert job.gate.entered.wait(300)
    with pytest.raises(BoundaryTimeout, match="runs on") as caught:
        stop_at_boundary(query, files, internals, deadline=time.monotonic() + 0.3)
    assert caught.value.retryable
    assert query.isActive
    job.gate.opened.set()
    eventually(lambda: len(job.gate.batches) == 3, "the batches after the timeout")
    assert stop_at_boundary(query, files, internals).batch == 2


def test_a_query_that_fails_says_why(
    spark: SparkSession, tmp_path: Path, files: HadoopFiles, internals: Internals
) -> None:
    job = Job(spark, tmp_path)

    def fail(frame: DataFrame, batch: int) -> None:
        raise ValueError("no room in the warehouse")

    job.gate.take = fail  # type: ignore[method-assign]
    query = job.start(processingTime="0 seconds")
    eventually(query.exception, "the failure")
    with pytest.raises(QueryFailed, match=r"(?s)^query .* failed: [^\n]*$"):
        stop_at_boundary(query, files, internals)


@pytest.fixture
def slow(spark: SparkSession, tmp_path: Path) -> SlowJob:
    return SlowJob(spark, tmp_path)


def test_a_batch_that_somebody_interrupted_is_run_again(
    slow: SlowJob, files: HadoopFiles, internals: Internals
) -> None:
    query = slow.start_and_reach_a_batch()
    query.stop()
    with pytest.raises(NotAtBoundary, match="batch 0 is planned, batch None"):
        stop_at_boundary(query, files, internals)
    boundary = stop_at_boundary(query, files, internals, finish_pending=slow.once)
    assert (boundary.batch, boundary.how, len(slow.output())) == (0, How.FINISHED, 1)


def test_a_pending_batch_that_fails_again(slow: SlowJob, files: HadoopFiles, internals: Internals) -> None:
    query = slow.start_and_reach_a_batch()
    query.stop()

    def fails() -> StreamingQuery:
        def take(frame: DataFrame, batch: int) -> None:
            raise ValueError("no room in the warehouse")

        writer = slow.feed.stream(slow.spark, "v long").writeStream.foreachBatch(take)
        return writer.option("checkpointLocation", str(slow.home / "checkpoint")).trigger(once=True).start()

    with pytest.raises(QueryFailed, match=r"^the batch could not be run: [^\n]*$"):
        stop_at_boundary(query, files, internals, finish_pending=fails)
    assert CheckpointDir(files, str(slow.home / "checkpoint")).latest_commit() is None


def test_continuous_processing_is_refused(
    spark: SparkSession, tmp_path: Path, files: HadoopFiles, internals: Internals
) -> None:
    spark.conf.set("spark.sql.streaming.stopTimeout", "10s")
    writer = spark.readStream.format("rate").load().writeStream.format("noop")
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(continuous="1 second").start()
    try:
        execution = internals.execution(query)
        assert (execution.trigger, execution.runs_micro_batches) == ("ContinuousTrigger", False)
        with pytest.raises(NoBoundary, match="ContinuousTrigger"):
            stop_at_boundary(query, files, internals)
        assert query.isActive
    finally:
        eventually(lambda: stopped(query), "the end of the query")
        spark.conf.unset("spark.sql.streaming.stopTimeout")


def stopped(query: StreamingQuery) -> bool:
    """Spark's own stop() of a continuous query that has just begun may come between two things that it would
    interrupt, and then waits for ever, while the query's tasks keep all slots.
    """
    try:
        query.stop()
    except Py4JJavaError:  # a TimeoutException
        return False
    return True
