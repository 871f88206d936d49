"""A version of Spark that is not in the table: probed, then used, refused, or allowed to interrupt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode
from streamjob.runtime.spark.boundary import How
from streamjob.runtime.spark.versions import choose, table
from streamjob.runtime.spark.versions.choose import Chooser

from .feeds import eventually
from .job import APP, Feed
from .scripts import Script

# What a script can do to this process, so that its Spark is not in the table, or lacks a class.
UNKNOWN = """
from streamjob.runtime.spark.versions import choose
choose.BY_VERSION = {}
"""
UNFIT = (
    UNKNOWN
    + """
from dataclasses import replace
from streamjob.runtime.spark.versions import probe
probe.BY_VERSION = {"4.3": replace(probe.BY_VERSION["4.3"], execution="org.example.elsewhere")}
"""
)


def script(home: Path, before: str) -> Path:
    """The script of the other tests, in a process whose Spark is not known."""
    file = home / "app.py"
    run = f"import runpy\nrunpy.run_path({str(APP)!r}, run_name='__main__')\n"
    file.write_text(f"import sys\nsys.path.insert(0, {str(APP.parent)!r})\n{before}\n{run}")
    return file


def test_a_probe_finds_the_entry_that_fits(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "BY_VERSION", {})
    chooser = Chooser(allow_unknown=False)
    internals = chooser.internals(spark)
    assert internals is not None
    own = table.BY_VERSION[table.line(spark.version)]
    traits = internals.traits
    assert not any((traits.drains_in_place, traits.snapshots_at_rest)), "nobody has read its code"
    traits = replace(traits, offset_log=own.offset_log, commit_log=own.commit_log, drains_in_place=True)
    assert replace(traits, snapshots_at_rest=own.snapshots_at_rest) == own
    assert chooser.warning is None


@pytest.mark.default_spark
def test_a_spark_that_passes_the_probe_stops_at_a_boundary(feed: Feed, tmp_path: Path) -> None:
    feed.add(3)
    with LocalDriver(tmp_path, script(tmp_path, UNKNOWN), *feed.arguments()) as driver:
        driver.running(2)
        driver.finish(Mode.STOP)
    assert "has passed the probe" in driver.log.read_text()
    planned, committed = driver.boundary()
    assert planned == committed


@pytest.mark.default_spark
def test_a_spark_that_fails_the_probe_is_refused(feed: Feed, tmp_path: Path) -> None:
    feed.add(1)
    with LocalDriver(tmp_path, script(tmp_path, UNFIT), *feed.arguments()) as driver:
        assert driver.wait() == 1, driver.tail()
    problem = driver.report().problem
    assert problem is not None
    assert (problem.reason, problem.retryable) == ("SparkUnknown", False)
    assert "org.example.elsewhere" in problem.message
    assert "spec.allowUnknownSpark" in problem.remedy
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.default_spark
def test_it_runs_if_the_user_allows_it(spark: SparkSession, tmp_path: Path) -> None:
    """A stop then interrupts the running batch and runs it again, and says so."""
    script = Script(
        tmp_path,
        UNFIT
        + """
@F.udf("long")
def slowly(v):
    Path(home, "inside").touch()
    time.sleep(0.3)
    return v


start("out", read("in").select(slowly("v").alias("v"))).awaitTermination()
""",
    )
    script.feed.minutes(0, 30)
    with script.driver(allow_unknown_spark=True) as driver:
        eventually((tmp_path / "inside").exists, "the first row")
        (warning,) = driver.status().warnings
        driver.finish(Mode.STOP)
    assert warning.reason == "SparkUnknown"
    assert "a stop interrupts the running batch and runs it again" in warning.message
    assert How.FINISHED.value in driver.log.read_text()
    assert script.values(spark, "out") == list(range(30))


@pytest.mark.any_spark
def test_an_old_spark_is_refused() -> None:
    for version in ("2.4.8", "3.4.4"):
        with pytest.raises(table.SparkTooOld, match=version) as refused:
            table.refuse_too_old(version)
        assert not refused.value.retryable
        assert "3.5" in refused.value.remedy
    for version in (*table.BY_VERSION, "4.4.0", "5.0.0-SNAPSHOT", "internal"):
        table.refuse_too_old(version)
