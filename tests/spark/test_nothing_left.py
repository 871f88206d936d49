"""Scripts that start no query in an epoch: the job ends with the checkpoint that it was restored from."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver
from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import Restore
from streamjob.protocol.messages.driver_status import DriverPhase

from .feeds import eventually


def finished(record: CheckpointRecord) -> set[str]:
    return {s.uid for s in record.stages if s.finished}


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


@pytest.mark.any_spark
def test_row14_a_script_that_starts_nothing_more_after_such_a_stop_ends_the_job(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its query had finished when it was stopped. Another job goes on from that savepoint: what has finished
    stays so, and the rest of the script runs.
    """
    app = tmp_path / "app.py"
    app.write_text(DONE_ONCE)
    with LocalDriver(tmp_path, app, "first") as first:
        eventually(lambda: "waits" in first.log.read_text(), "its query is over")
        first.terminate(Mode.STOP)
        first.wait_for(lambda s: s.completed is not None and s.completed.scenario is not None)
        (tmp_path / "may end").touch()
        before = first.finish()
    assert (before.scenario, before.over, finished(before)) == (Scenario.STOP, False, {"first"})
    with first.next_epoch(app, "first") as last:
        assert last.wait() == 0, last.tail()
    report = last.report()
    assert (report.phase, report.problem, report.completed) == (DriverPhase.TERMINATED, None, None)
    assert report.unchanged_since == before.checkpoint

    home = tmp_path / "other"
    home.mkdir()
    restore = Restore(savepoint=before.savepoint, allow_non_restored_state=True)
    (home / "may end").touch()
    with LocalDriver(home, app, "first", "second", restore=restore) as other:
        record = other.finish()
    assert (record.scenario, finished(record)) == (Scenario.END_OF_INPUT, {"first", "second"})
    assert not list((home / "first").glob("*.parquet")), "it has run again"
    assert spark.read.parquet(str(home / "second")).count() > 0


SERVICE = """
import time
from pathlib import Path
from pyspark.sql import SparkSession

spark = None
print("polls", flush=True)
try:
    while True:
        if Path("due").exists():
            Path("due").unlink()
            spark = spark or SparkSession.builder.getOrCreate()
            rows = spark.readStream.schema("value string").text("in").writeStream.queryName("rounds")
            rows.trigger(availableNow=True).format("parquet").start("out").awaitTermination()
            print("a round is over", flush=True)
        time.sleep(0.05)
finally:
    print("leaves", flush=True)
"""


@pytest.mark.any_spark
def test_row13_a_script_that_starts_a_query_now_and_then_stops_between_two_of_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also before the first, and in an epoch without one: it is told by SystemExit, because it waits for no
    query, and nothing is lost.
    """
    app = tmp_path / "app.py"
    app.write_text(SERVICE)
    (tmp_path / "in").mkdir()

    def a_round(driver: LocalDriver, name: str) -> None:
        (tmp_path / "in" / name).write_text(f"{name}\n")
        (tmp_path / "due").touch()
        eventually(lambda: "a round is over" in driver.log.read_text(), "a round")

    def stop(driver: LocalDriver) -> None:
        eventually(lambda: "polls" in driver.log.read_text(), "the script polls")
        driver.terminate(Mode.STOP, timeout=15)

    def stops_without_a_query(driver: LocalDriver) -> int | None:
        stop(driver)
        assert driver.wait() == 0, driver.tail()
        report = driver.report()
        assert "leaves" in driver.log.read_text()
        assert (report.phase, report.problem, report.completed) == (DriverPhase.STARTING, None, None)
        return report.unchanged_since

    with LocalDriver(tmp_path, app, restore=Restore(exact=True)) as idle:
        assert stops_without_a_query(idle) == 0
    with idle.next_epoch(app) as first:
        a_round(first, "a")
        stop(first)
        before = first.finish()
        assert "leaves" in first.log.read_text()
    assert (before.scenario, before.over) == (Scenario.STOP, False)
    with first.next_epoch(app) as idle:
        assert stops_without_a_query(idle) == before.checkpoint
    with idle.next_epoch(app) as last:
        a_round(last, "b")
        last.finish(Mode.STOP)
    assert sorted(r.value for r in spark.read.parquet(str(tmp_path / "out")).collect()) == ["a", "b"]
