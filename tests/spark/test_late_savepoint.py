"""A savepoint on demand that is still to be written when its job has ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import Restore
from streamjob.protocol.messages.driver_status import DriverPhase
from streamjob.protocol.restore.recovery import AlreadyDrained
from streamjob.runtime.savepoints.describe import describe_savepoint
from streamjob.storage.hadoop import HadoopFiles

from .feeds import eventually

pytestmark = pytest.mark.any_spark

WINDOWS = """
import sys
import time
from pathlib import Path
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("ts timestamp, v int").json(sys.argv[1]).withWatermark("ts", "1 minute")
sums = rows.groupBy(F.window("ts", "1 minute")).agg(F.sum("v").alias("s")).select("s")
sums.writeStream.queryName("w").trigger(availableNow=True).format("json").start("out").awaitTermination()
print("waits", flush=True)
while not Path("may end").exists():
    time.sleep(0.05)
"""


@pytest.fixture
def ended(tmp_path: Path) -> Iterator[LocalDriver]:
    """Its final checkpoint is complete, and the savepoint `live` finds a file where its folder would be."""
    (tmp_path / "app.py").write_text(WINDOWS)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text('{"ts": "2024-01-01T00:00:10Z", "v": 1}\n')
    (tmp_path / "savepoints").write_text("a file")
    with LocalDriver(tmp_path, tmp_path / "app.py", str(tmp_path / "in")) as driver:
        eventually(lambda: "waits" in driver.log.read_text(), "the query is over")
        assert driver.savepoint("live") == 202
        driver.wait_for(lambda s: s.savepoint is not None and s.savepoint.problem is not None)
        (tmp_path / "may end").touch()
        eventually(lambda: any(r.scenario for r in driver.confirmed), "the final checkpoint")
        driver.complete(driver.confirmed[-1].checkpoint)  # once more: when it returns, the driver has it
        assert driver.confirmed[-1].scenario is Scenario.END_OF_INPUT
        yield driver


def test_row13_it_does_not_hold_up_a_stop(ended: LocalDriver) -> None:
    ended.terminate(Mode.STOP)
    assert ended.wait() == 0
    report = ended.report()
    assert (report.phase, report.problem) == (DriverPhase.TERMINATED, None)
    assert report.completed is not None
    assert report.completed.scenario is Scenario.END_OF_INPUT
    assert report.savepoint is not None
    assert report.savepoint.problem is not None
    assert "has ended" in report.savepoint.problem.message


@pytest.mark.slow
def test_row14_it_is_an_end_and_another_job_resumes_only_if_that_is_allowed(
    spark: SparkSession, ended: LocalDriver, tmp_path: Path
) -> None:
    (tmp_path / "savepoints").unlink()
    assert ended.wait() == 0
    late = ended.report().savepoint
    assert late is not None
    assert late.completed is not None
    assert (late.completed.over, late.completed.leaves_nothing) == (False, True)
    assert late.completed.savepoint is not None
    assert describe_savepoint(HadoopFiles(spark), late.completed.savepoint).drained
    (tmp_path / "in" / "b").write_text('{"ts": "2024-01-01T00:09:10Z", "v": 100}\n')
    for allowed in (False, True):
        home = tmp_path / f"other-{allowed}"
        home.mkdir()
        (home / "may end").touch()
        restore = Restore(savepoint=late.completed.savepoint, allow_drained=allowed)
        with LocalDriver(home, tmp_path / "app.py", str(tmp_path / "in"), restore=restore) as other:
            code, problem = other.wait(), other.report().problem
        assert code == (0 if allowed else 1)
        assert (problem and problem.reason) == (None if allowed else AlreadyDrained.reason)
        found = sorted(r.s for r in spark.read.json(str(home / "out")).collect()) if allowed else []
        assert found == ([100] if allowed else [])
