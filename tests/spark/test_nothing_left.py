"""A script whose queries have all finished when it is stopped, and that starts nothing when it runs again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver
from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode, RecordsRequest
from streamjob.protocol.messages.driver_config import Restore
from streamjob.protocol.messages.driver_status import DriverPhase
from streamjob.runtime.savepoints.layout import verify_savepoint
from streamjob.storage.hadoop import HadoopFiles

from .feeds import eventually
from .test_bounds import finished

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
    carried = tuple(replace(s, carried_from=before.checkpoint) for s in before.stages)
    assert (record.over, record.stages) == (True, carried)
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


SERVICE = """
import time
from pathlib import Path
from pyspark.sql import SparkSession
from streamjob.runtime.driver.start import without_query

without_query.PATIENCE = 1.0
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
    """Also before the first: each stop has its checkpoint and savepoint, and loses nothing.

    The script ends by SystemExit: it waits for no query that could tell it.
    """
    app = tmp_path / "app.py"
    app.write_text(SERVICE)
    (tmp_path / "in").mkdir()

    def a_round(driver: LocalDriver, name: str) -> None:
        (tmp_path / "in" / name).write_text(f"{name}\n")
        (tmp_path / "due").touch()
        eventually(lambda: "a round is over" in driver.log.read_text(), "a round")

    def stop(driver: LocalDriver) -> CheckpointRecord:
        eventually(lambda: "polls" in driver.log.read_text(), "the script polls")
        driver.terminate(Mode.STOP, timeout=15)
        record = driver.finish()
        assert "leaves" in driver.log.read_text()
        assert (record.scenario, record.over) == (Scenario.STOP, False)
        assert record.savepoint is not None
        assert verify_savepoint(HadoopFiles(spark), record.savepoint) == []
        assert (driver.report().phase, driver.report().problem) == (DriverPhase.TERMINATED, None)
        return record

    with LocalDriver(tmp_path, app) as idle:
        assert stop(idle).stages == ()
    with idle.next_epoch(app) as first:
        a_round(first, "a")
        before = stop(first)
    carried = tuple(replace(s, carried_from=before.checkpoint) for s in before.stages)
    with first.next_epoch(app) as idle:
        assert stop(idle).stages == carried
    nothing = tmp_path / "nothing.py"
    nothing.write_text(
        "import time\nfrom pathlib import Path\nprint('polls', flush=True)\n"
        "while not Path('may end').exists():\n    time.sleep(0.05)\n"
    )
    with idle.next_epoch(nothing) as ends:
        eventually(lambda: "polls" in ends.log.read_text(), "the script polls")
        ends.terminate(Mode.STOP)
        (tmp_path / "may end").touch()
        record = ends.finish()
        assert (record.scenario, record.stages) == (Scenario.STOP, carried), "it is no failure of a stop"
    with ends.next_epoch(app) as last:
        a_round(last, "b")
        stop(last)
    assert sorted(r.value for r in spark.read.parquet(str(tmp_path / "out")).collect()) == ["a", "b"]
