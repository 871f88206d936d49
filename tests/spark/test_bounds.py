"""Inputs whose end the script declares: the query drains, finishes with a checkpoint and stays finished; the
others run on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from dev.broker import CONNECTORS, Kafka
from dev.localdriver import LocalDriver
from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.lifecycle import Scenario, TaskState
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import CheckpointSettings
from streamjob.protocol.messages.driver_status import DriverStatus

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
@pytest.mark.slow
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
    with carries.next_epoch(tmp_path / "app.py") as last:  # it has to start the second query meanwhile
        assert last.finish(Mode.DRAIN).over
    for name in ("first", "second"):  # no row twice, none left out
        values = sorted(row.value for row in spark.read.parquet(str(tmp_path / name)).collect())
        assert values == list(range(len(values)))
    assert unknown.boundary("first") == last.boundary("first"), "it has run again"


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
@pytest.mark.slow
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
