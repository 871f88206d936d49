"""A JVM that is stopped (SIGSTOP) and goes on: the status says so, and nothing is lost or written twice."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver, manifest
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus, TerminationStep

from .feeds import eventually
from .scripts import Script, await_read

pytestmark = pytest.mark.any_spark

WAITS = """
def write(frame, batch):
    values = [row.v for row in frame.collect()]
    Path(home, f"begun-{batch}").touch()
    while not Path(home, "go").exists():
        time.sleep(0.02)
    into("copy")(spark.createDataFrame([(v,) for v in values], "v long"), batch)

read("in").writeStream.queryName("copy").foreachBatch(write).trigger(**OFTEN).start()
start("sums", windows(read("in")))
spark.streams.awaitAnyTermination()
"""


def is_frozen(status: DriverStatus) -> bool:
    return any(w.reason == "JvmNotResponding" for w in status.warnings)


def freeze(driver: LocalDriver) -> int:
    jvm = int(driver.jvm())
    os.kill(jvm, signal.SIGSTOP)
    return jvm


@pytest.mark.slow
def test_a_stop_whose_jvm_is_frozen_says_so_and_ends_when_it_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    script = Script(tmp_path, WAITS)
    for n in range(3):
        script.feed.add([{"t": f"2026-01-01T10:{n}{m}:00Z", "k": "a", "v": 10 * n + m} for m in range(10)])
    with script.driver() as driver:
        eventually((tmp_path / "begun-0").exists, "a batch runs")
        driver.terminate(Mode.STOP)
        driver.wait_for(lambda s: s.phase is DriverPhase.TERMINATING)
        jvm = freeze(driver)
        frozen = driver.wait_for(is_frozen)
        (warning,) = frozen.warnings
        assert f"process {jvm} is stopped (SIGSTOP)" in warning.message
        assert f"kill -CONT {jvm}" in warning.remedy
        assert frozen.termination is not None
        assert frozen.termination.step is TerminationStep.BOUNDARY
        (tmp_path / "go").touch()
        os.kill(jvm, signal.SIGCONT)
        goes_on = driver.wait_for(lambda s: not is_frozen(s))
        assert goes_on.problem is None
        stopped = driver.finish()
        assert manifest(str(stopped.savepoint))["checkpoint"]["checkpoint"] == stopped.checkpoint  # type: ignore[index]
    with script.next(driver) as driver:
        await_read(driver, "copy", script.feed.folder)
        await_read(driver, "sums", script.feed.folder)
        assert driver.finish(Mode.DRAIN).drained
    assert script.values(spark, "copy") == list(range(30))
    assert script.values(spark, "sums") == script.windows(spark)


@pytest.mark.slow
def test_an_eviction_whose_jvm_stays_frozen_says_why_there_is_no_savepoint(tmp_path: Path) -> None:
    """Before the grace period is over: then everything of the pod is killed."""
    script = Script(tmp_path, WAITS)
    script.feed.add([{"t": "2026-01-01T10:00:00Z", "k": "a", "v": 1}])
    with script.driver(grace=20) as driver:
        eventually((tmp_path / "begun-0").exists, "a batch runs")
        freeze(driver)
        driver.process.send_signal(signal.SIGTERM)
        eventually(lambda: driver.report_file.exists() and driver.report_file.stat().st_size > 0, "a report")
        report = driver.report()
    assert report.evicted
    assert report.completed is None
    assert is_frozen(report)
