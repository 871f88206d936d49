"""The runtime as a process: an unchanged script is stopped, resumed, drained and restored."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver, manifest
from streamjob.protocol.lifecycle import Scenario, TaskState
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import CheckpointSettings, Restore
from streamjob.protocol.messages.driver_status import DriverPhase

from .apps.windows import SCHEMA, windows
from .feeds import eventually
from .job import APP, Feed
from .stores import ROCKSDB
from .test_drain import numbers_of_keys

FILES = 12


def test_row1_and_row8_stop_resume_drain_equals_the_batch(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.add(FILES)
    state = {"spark.sql.streaming.stateStore.providerClass": ROCKSDB}
    with LocalDriver(tmp_path, APP, *feed.arguments(), spark_conf=state) as first:
        first.running(2)
        stopped = first.finish(Mode.STOP, "one")
    before = first.boundary()
    assert before[0] == before[1] == stopped.stages[0].tasks[0].batch
    assert (stopped.scenario, stopped.drained) == (Scenario.STOP, False)
    assert not any(o.finished for o in stopped.stages[0].operators)
    assert manifest(str(stopped.savepoint))["version"] == 2
    early = feed.output(spark)
    feed.add(FILES)
    with first.next_epoch(APP, *feed.arguments(), spark_conf=state) as second:
        status = second.running(stopped.stages[0].tasks[0].batch + 2)
        assert status.epoch == 2
        drained = second.finish(Mode.DRAIN, "two")
    assert drained.checkpoint == stopped.checkpoint + 1
    assert drained.drained
    assert {o.kind.value for o in drained.stages[0].operators} == {"Source", "State", "Sink"}
    assert set(early) < set(feed.output(spark))
    read = feed.read_files(tmp_path / "checkpoints" / "main" / "0")
    assert feed.output(spark) == sorted(
        tuple(r)
        for r in windows(spark.read.schema(SCHEMA).json(read)).select("window.start", "k", "n", "s").collect()
    )
    report = second.report()
    assert (report.phase, report.completed) == (DriverPhase.TERMINATED, drained)
    assert report.termination is not None
    assert report.termination.flushed_rows is not None
    assert report.termination.flushed_rows > 0
    assert report.termination.state_rows_left == 0
    checkpoint, batch = tmp_path / "checkpoints" / "main" / "0", drained.stages[0].tasks[0].batch
    assert batch is not None
    assert set(numbers_of_keys(checkpoint, batch + 1)) == {-1}, "the drain did not count them"


@pytest.mark.parametrize(
    "how", [*(pytest.param(how, marks=pytest.mark.slow) for how in ("poll", "any")), "fall-off"]
)
@pytest.mark.default_spark
def test_row2_no_script_cuts_a_drain_short(spark: SparkSession, feed: Feed, tmp_path: Path, how: str) -> None:
    feed.add(4)
    with LocalDriver(tmp_path, APP, *feed.arguments(how)) as driver:
        driver.running(3)
        driver.finish(Mode.DRAIN)
    assert feed.output(spark) == feed.expected(spark)


@pytest.mark.default_spark
def test_row12_the_end_of_the_input_is_a_drain(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.add(4)
    with LocalDriver(tmp_path, APP, *feed.arguments("available-now"), answers=False) as driver:
        # Its sink is durable at each batch, so the query does not wait; the job does, for the index.
        driver.wait_for(
            lambda s: (
                any(t.state is TaskState.CLOSED for g in s.stages for t in g.tasks)
                and s.phase is DriverPhase.TERMINATING
            )
        )
        # What the driver was told is not handed on: each process that Hadoop starts, dozens a batch, would
        # get a copy.
        assert b"STREAMJOB_" not in (Path("/proc") / driver.jvm() / "environ").read_bytes()
        record = driver.finish()
    assert (record.scenario, record.drained, record.savepoint) == (Scenario.END_OF_INPUT, True, None)
    assert feed.output(spark) == feed.expected(spark)


@pytest.mark.default_spark
@pytest.mark.slow
def test_row2_a_script_that_stops_its_query_flushes_nothing(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.add(4)
    with LocalDriver(tmp_path, APP, *feed.arguments("script-stops")) as driver:
        record = driver.finish()
    assert (record.scenario, record.drained) == (Scenario.STOP, False)
    offsets, commits = driver.boundary()
    assert offsets == commits
    assert len(feed.output(spark)) < len(feed.expected(spark))


@pytest.mark.slow
@pytest.mark.any_spark
def test_row13_and_row14_a_new_job_is_restored_from_a_savepoint(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.add(4)
    with LocalDriver(tmp_path / "a", APP, *feed.arguments()) as first:
        first.running(3)
        stopped = first.finish(Mode.STOP)
    fork = tuple(str(tmp_path / "fork" / "out") if i == 1 else a for i, a in enumerate(feed.arguments()))
    restore = Restore(savepoint=stopped.savepoint)
    with LocalDriver(tmp_path / "fork", APP, *fork, restore=restore) as second:
        drained = second.finish(Mode.DRAIN)
    before, last = (record.stages[0].tasks[0].batch for record in (stopped, drained))
    assert before is not None
    assert last == before + 1
    with LocalDriver(tmp_path / "again", APP, *fork, restore=Restore(savepoint=drained.savepoint)) as refused:
        assert refused.wait() == 1
    problem = refused.report().problem
    assert problem is not None
    assert (problem.reason, problem.retryable) == ("AlreadyDrained", False)
    assert "allowDrained" in problem.remedy
    allowed = Restore(savepoint=drained.savepoint, allow_drained=True)
    feed.add(2)
    feed.sink = tmp_path / "on" / "out"
    with LocalDriver(tmp_path / "on", APP, *feed.arguments(), restore=allowed) as third:
        third.running(last + 1)
        directory = tmp_path / "on" / "checkpoints" / "main" / "0"
        eventually(lambda: len(feed.read_files(directory)) == 6, "all is read")
        third.finish(Mode.DRAIN)
    assert len(feed.output(spark)) == 6, "what came after the drain was dropped as late"


@pytest.mark.any_spark
def test_row6_a_stop_waits_for_exactly_its_savepoint(feed: Feed, tmp_path: Path) -> None:
    feed.add(FILES)
    every = CheckpointSettings(interval=0.2)
    with LocalDriver(tmp_path, APP, *feed.arguments("slow"), checkpointing=every, answers=False) as driver:
        periodic = driver.wait_for(lambda s: s.completed is not None).completed
        assert periodic is not None
        assert (periodic.scenario, periodic.savepoint, periodic.drained) == (None, None, False)
        request = driver.terminate(Mode.STOP)
        driver.complete(periodic.checkpoint)  # completes after the request, and was triggered before it
        final = driver.wait_for(lambda s: s.completed is not None and s.completed.scenario is not None)
        assert final.completed is not None
        assert final.phase is DriverPhase.TERMINATING
        assert (final.completed.request_id, final.completed.savepoint) == (
            request.request_id,
            request.savepoint,
        )
        driver.complete(final.completed.checkpoint)
        assert driver.wait() == 0, driver.tail()
