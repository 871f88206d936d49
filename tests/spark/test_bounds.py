"""Inputs whose end the script declares: the query drains, finishes with a checkpoint and stays finished; the
others run on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from dev.broker import CONNECTORS, Kafka
from dev.localdriver import LocalDriver
from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.lifecycle import Scenario, TaskState
from streamjob.protocol.messages.commands import Mode, RecordsRequest
from streamjob.protocol.messages.driver_config import CheckpointSettings, Restore
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus
from streamjob.runtime.savepoints.layout import verify_savepoint
from streamjob.storage.hadoop import HadoopFiles

from .apps.bounded import TICKS
from .apps.windows import SCHEMA, windows
from .feeds import eventually
from .job import Feed

APP = Path(__file__).parent / "apps" / "bounded.py"
STAGES = {"ticks", "files", "forever"}
EVERY: dict[str, Any] = {"checkpointing": CheckpointSettings(interval=0.5)}


def closed(status: DriverStatus) -> set[str]:
    return {g.uid for g in status.stages if all(t.state is TaskState.CLOSED for t in g.tasks)}


def finished(record: CheckpointRecord | None) -> set[str]:
    return {s.uid for s in record.stages if s.finished} if record else set()


def finish_for_good(driver: LocalDriver, uids: set[str], all_stages: set[str]) -> CheckpointRecord:
    """Wait until a checkpoint has them as finished, and play the index; the others are
    running, or start yet.
    """
    status = driver.wait_for(lambda s: finished(s.completed) == uids)
    assert status.completed is not None
    driver.complete(status.completed.checkpoint)
    driver.wait_for(lambda s: closed(s) == uids and {g.uid for g in s.stages} == all_stages)
    driver.record = status.completed
    return status.completed


def lines(frame: DataFrame) -> list[str]:
    return sorted(str(tuple(r)) for r in frame.collect())


@pytest.mark.slow
def test_row1_row10_files_until_a_marker_and_a_source_that_says_it_is_done(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.add(4)
    arguments = (str(feed.source), str(tmp_path))
    with LocalDriver(tmp_path, APP, *arguments, answers=False, **EVERY) as first:
        finish_for_good(first, {"ticks"}, STAGES)
        commits = tmp_path / "checkpoints" / "files" / "0" / "commits"
        eventually(lambda: len([f for f in commits.glob("*") if f.name.isdigit()]) >= 4, "all files read")
        feed.add(2)
        (feed.source / "_END").touch()
        finish_for_good(first, {"ticks", "files"}, STAGES)
        first.kill()
    feed.add(1)  # too late
    with first.next_epoch(APP, *arguments, **EVERY, exact=False) as second:
        second.wait_for(lambda s: len(s.stages) == 3)
        assert "stage files has finished" in second.log.read_text()
        drained = second.finish(Mode.DRAIN)
    assert drained.drained
    read = feed.read_files(tmp_path / "checkpoints" / "files" / "0")
    assert len(read) == 6
    batch = windows(spark.read.schema(SCHEMA).json(read)).select("window.start", "k", "n", "s")
    assert lines(spark.read.parquet(str(tmp_path / "files"))) == lines(batch)
    assert sorted(r.n for r in spark.read.parquet(str(tmp_path / "ticks")).collect()) == list(range(TICKS))


@pytest.mark.any_spark
def test_row1_a_topic_up_to_declared_offsets_and_not_a_row_more(
    spark: SparkSession, feed: Feed, tmp_path: Path, kafka: Kafka
) -> None:
    def produce(first: int, count: int) -> None:
        frame = spark.range(first, first + count, 1, 1).selectExpr(
            "cast(id as string) AS value", "cast(id % 2 as int) AS partition"
        )
        target = frame.write.format("kafka").option("kafka.bootstrap.servers", kafka.address)
        target.option("topic", "bounded").save()

    produce(0, 20)
    end = json.dumps({"bounded": {"0": 15, "1": 12}})
    arguments = (str(feed.source), str(tmp_path), kafka.address, end)
    with LocalDriver(tmp_path, APP, *arguments, **EVERY, spark_conf={"spark.jars": CONNECTORS}) as driver:
        finish_for_good(driver, {"ticks"}, {*STAGES, "topic"})
        produce(20, 40)
        record = finish_for_good(driver, {"ticks", "topic"}, {*STAGES, "topic"})
        driver.kill()
    rows = spark.read.parquet(str(tmp_path / "topic")).collect()
    assert sorted(int(r.value) for r in rows) == sorted([*range(0, 30, 2), *range(1, 24, 2)])
    assert {s.uid for s in record.stages} == {*STAGES, "topic"}


ONE_AFTER_THE_OTHER = """
import time
from pathlib import Path
from pyspark.sql import SparkSession
from streamjob import job

def start(name):
    writer = rows.writeStream.queryName(name).trigger(processingTime="100 milliseconds")
    return writer.format("parquet").start(name)

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
job.bounded(lambda offsets: offsets[0]["offset"] >= 30, "first")
start("first").awaitTermination()
while not Path("second may start").exists():
    time.sleep(0.05)
start("second").awaitTermination()
"""


@pytest.mark.any_spark
def test_row14_a_stop_before_the_script_has_started_its_last_query_is_no_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    """All that has started has finished, and that is not the job: the script has another query, which the
    checkpoint does not know yet, or knows and carries.
    """
    (tmp_path / "app.py").write_text(ONE_AFTER_THE_OTHER)
    may_start = tmp_path / "second may start"

    def stopped(driver: LocalDriver) -> CheckpointRecord:
        record = driver.finish(Mode.STOP)
        assert (record.scenario, record.over, finished(record)) == (Scenario.STOP, False, {"first"})
        return record

    with LocalDriver(tmp_path, tmp_path / "app.py", grace=2) as unknown:
        unknown.wait_for(lambda s: closed(s) == {"first"})
        stopped(unknown)
    may_start.touch()
    with unknown.next_epoch(tmp_path / "app.py", grace=2) as running:
        running.wait_for(lambda s: any(g.uid == "second" and g.tasks[0].batch for g in s.stages))
        stopped(running)
    may_start.unlink()
    with running.next_epoch(tmp_path / "app.py", grace=2) as carries:
        carries.wait_for(lambda s: bool(s.stages))
        assert {s.uid for s in stopped(carries).stages} == {"first", "second"}
    may_start.touch()
    with carries.next_epoch(tmp_path / "app.py", grace=2) as last:
        assert last.finish(Mode.DRAIN).over
    for name in ("first", "second"):  # no row twice, none left out
        values = sorted(row.value for row in spark.read.parquet(str(tmp_path / name)).collect())
        assert values == list(range(len(values)))
    assert unknown.boundary("first") == last.boundary("first"), "it has run again"


DONE_ONCE = """
import sys
import time
from pathlib import Path
from pyspark.sql import SparkSession
from streamjob import job

spark = SparkSession.builder.getOrCreate()

def start(name):
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    job.bounded(lambda offsets: offsets[0]["offset"] >= 30, name)
    writer = rows.writeStream.queryName(name).trigger(processingTime="100 milliseconds")
    return writer.format("parquet").start(name)

for name in sys.argv[1:]:
    if not Path(f"{name} is done").exists():
        start(name).awaitTermination()
        Path(f"{name} is done").touch()
print("waits", flush=True)
while not Path("may end").exists():
    time.sleep(0.05)
"""


@pytest.fixture
def stopped_when_done(tmp_path: Path) -> Iterator[LocalDriver]:
    """A script that has run its query, notes that, and is stopped before its end."""
    (tmp_path / "app.py").write_text(DONE_ONCE)
    with LocalDriver(tmp_path, tmp_path / "app.py", "first") as driver:
        eventually(lambda: "waits" in driver.log.read_text(), "its query is over")
        driver.terminate(Mode.STOP)
        driver.wait_for(lambda s: s.completed is not None and s.completed.scenario is not None)
        (tmp_path / "may end").touch()
        record = driver.finish()
        (tmp_path / "may end").unlink()
        assert (record.scenario, record.over, finished(record)) == (Scenario.STOP, False, {"first"})
        yield driver


@pytest.mark.any_spark
@pytest.mark.parametrize("session", ["", "SparkSession.builder.getOrCreate()", "spark.stop()"])
@pytest.mark.parametrize("mode", [None, Mode.DRAIN])
def test_row14_a_script_that_starts_nothing_more_after_such_a_stop_ends_the_job(
    spark: SparkSession, stopped_when_done: LocalDriver, tmp_path: Path, mode: Mode | None, session: str
) -> None:
    before = stopped_when_done.record
    assert before is not None
    begin = "spark = SparkSession.builder.getOrCreate()"
    text = DONE_ONCE.replace(begin, begin if session == "spark.stop()" else "") + session
    (tmp_path / "again.py").write_text(text)
    with stopped_when_done.next_epoch(tmp_path / "again.py", "first") as last:
        eventually(lambda: "waits" in last.log.read_text(), "the script runs again")
        if mode is not None:
            last.terminate(mode)
        (tmp_path / "may end").touch()
        record = last.finish()
    assert record.scenario is (Scenario.DRAIN if mode else Scenario.END_OF_INPUT)
    assert (record.over, record.stages) == (True, before.stages)
    assert (record.checkpoint, record.epoch) == (before.checkpoint + 1, 2)
    if mode is not None:
        assert record.savepoint is not None
        assert verify_savepoint(HadoopFiles(spark), record.savepoint) == []
    assert (last.report().phase, last.report().problem) == (DriverPhase.TERMINATED, None)


@pytest.mark.any_spark
def test_row14_another_job_goes_on_from_the_savepoint_of_such_a_stop(
    spark: SparkSession, stopped_when_done: LocalDriver, tmp_path: Path
) -> None:
    """What has finished stays so, and the rest of the script runs."""
    before = stopped_when_done.record
    assert before is not None
    home = tmp_path / "other"
    home.mkdir()
    restore = Restore(savepoint=before.savepoint, allow_non_restored_state=True)
    (home / "may end").touch()
    with LocalDriver(home, tmp_path / "app.py", "first", "second", restore=restore) as other:
        record = other.finish()
    assert (record.scenario, finished(record)) == (Scenario.END_OF_INPUT, {"first", "second"})
    assert not list((home / "first").glob("*.parquet")), "it has run again"
    assert spark.read.parquet(str(home / "second")).count() > 0


ROUNDS = """
import time
from pathlib import Path
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
if Path("due").exists():
    Path("due").unlink()
    rows = spark.readStream.schema("value string").text("in").writeStream.queryName("rounds")
    rows.trigger(availableNow=True).format("parquet").start("out").awaitTermination()
print("waits", flush=True)
while not Path("may end").exists():
    time.sleep(0.05)
"""


def stopped_while_it_waits(driver: LocalDriver) -> None:
    """Its script ends itself once it has been asked to stop."""
    eventually(lambda: "waits" in driver.log.read_text(), "its script waits")
    driver.terminate(Mode.STOP)
    (driver.home / "may end").touch()
    record = driver.finish()
    (driver.home / "may end").unlink()
    assert (record.scenario, record.over) == (Scenario.STOP, False)


@pytest.mark.any_spark
def test_row14_a_round_that_is_over_is_not_the_last_until_the_script_has_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two stops with nothing between them leave it as it is; then there is new input."""
    (tmp_path / "app.py").write_text(ROUNDS)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("1\n2\n")
    (tmp_path / "due").touch()
    with LocalDriver(tmp_path, tmp_path / "app.py") as first:
        stopped_while_it_waits(first)
    with first.next_epoch(tmp_path / "app.py") as idle:
        stopped_while_it_waits(idle)
        assert idle.record is not None
        assert finished(idle.record) == set()
    (tmp_path / "in" / "b").write_text("3\n4\n")
    (tmp_path / "due").touch()
    with idle.next_epoch(tmp_path / "app.py") as reads:
        stopped_while_it_waits(reads)
    assert sorted(r.value for r in spark.read.parquet(str(tmp_path / "out")).collect()) == [
        "1",
        "2",
        "3",
        "4",
    ]
    (tmp_path / "may end").touch()
    with reads.next_epoch(tmp_path / "app.py", exact=False) as last:  # after one that was killed
        assert last.finish().over


@pytest.mark.any_spark
def test_row14_the_rest_of_such_a_script_takes_savepoints_and_knows_its_records(
    stopped_when_done: LocalDriver, tmp_path: Path
) -> None:
    """Nothing runs that files could be reached through."""
    before = stopped_when_done.record
    assert before is not None
    restore = Restore(recorded=before.savepoint, exact=True)  # the index is lost
    with stopped_when_done.next_epoch(tmp_path / "app.py", "first", restore=restore, answers=False) as last:
        eventually(lambda: "waits" in last.log.read_text(), "the script runs again")
        assert last.savepoint("live") == 202
        (tmp_path / "may end").touch()
        assert last.saved("live").savepoint is not None
        last.wait_for(lambda s: s.completed is not None and s.completed.scenario is not None)
        last.call("PUT", "/v1/records", RecordsRequest(2, before.checkpoint))
        known = last.wait_for(lambda s: s.known is not None).known
        assert known is not None
        assert before.checkpoint in {r.checkpoint for r in known.records}
        last.finish()


@pytest.mark.any_spark
@pytest.mark.parametrize("live", [False, True])
def test_row14_another_job_has_nothing_to_do_either(
    stopped_when_done: LocalDriver, tmp_path: Path, live: bool
) -> None:
    """Also from a savepoint that was taken while the script ran on."""
    savepoint = stopped_when_done.record.savepoint if stopped_when_done.record else None
    if live:
        with stopped_when_done.next_epoch(tmp_path / "app.py", "first", "second") as driver:
            eventually(lambda: "waits" in driver.log.read_text(), "its query is over")
            driver.savepoint("live")
            record = driver.saved("live")
            assert (record.drained, record.over) == (True, False)
            savepoint = record.savepoint
    home = tmp_path / "other"
    home.mkdir()
    for name in ("first is done", "second is done", "may end"):
        (home / name).touch()
    names = ("first", "second") if live else ("first",)
    with LocalDriver(home, tmp_path / "app.py", *names, restore=Restore(savepoint=savepoint)) as other:
        record = other.finish()
    assert (record.scenario, record.over, finished(record)) == (Scenario.END_OF_INPUT, True, set(names))
    assert all(str(home) in t.location for s in record.stages for t in s.tasks)


BESIDE = """
import sys
from pyspark.sql import SparkSession
from streamjob import job

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()

def start(name, rows):
    writer = rows.writeStream.queryName(name).trigger(processingTime="100 milliseconds")
    return writer.format("noop").outputMode("update").start()

for name in sys.argv[1:]:
    start(name, rows.groupBy("value").count())
job.bounded(lambda offsets: False, "first")
start("first", rows).awaitTermination()
"""


@pytest.mark.any_spark
def test_a_query_with_state_that_is_gone_is_refused_where_the_script_waits_for_a_declared_end(
    tmp_path: Path,
) -> None:
    """The wait may end, but the script had started the query before it: it will not start it later."""
    (tmp_path / "app.py").write_text(BESIDE)
    with LocalDriver(tmp_path, tmp_path / "app.py", "counts") as both:
        both.wait_for(lambda s: len(s.stages) == 2 and all(g.tasks[0].batch for g in s.stages))
        both.finish(Mode.STOP)
    with both.next_epoch(tmp_path / "app.py") as one:
        assert one.wait() == 1
    problem = one.report().problem
    assert problem is not None
    assert (problem.reason, problem.retryable) == ("StateWithoutStage", False)
    assert "'counts'" in problem.message
