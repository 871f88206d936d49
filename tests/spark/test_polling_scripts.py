"""Scripts that wait for no query when their job is asked to end: what they may still do, and how they end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode

from .feeds import eventually

HEAD = """
import time
from pyspark.sql import SparkSession

def say(*words):
    print(*words, flush=True)

"""
IN_A_CALL = """
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("value string").text("in")
query = rows.writeStream.queryName("live").format("noop").start()
query.processAllAvailable()
try:
    say("polls")
    spark._jvm.java.lang.Thread.sleep(600_000)
finally:
    say("counts", [spark.range(n).count() for n in (5, 7, 9)])
    time.sleep(2)
    say("has cleaned up")
"""
BEFORE_ITS_FIRST_QUERY = """
say("polls")
try:
    while True:
        time.sleep(0.05)
finally:
    say("finally begins")
    time.sleep(2)
    say("finally ends")
"""
WITHOUT_ITS_JVM = """
import os, signal
spark = SparkSession.builder.getOrCreate()
os.kill(int(spark._jvm.java.lang.ProcessHandle.current().pid()), signal.SIGKILL)
say("polls")
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def app(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("a\n")
    path = tmp_path / "app.py"
    path.write_text(HEAD + request.param)
    return path


def says(driver: LocalDriver, text: str) -> None:
    eventually(lambda: text in driver.log.read_text(), text)


@pytest.mark.parametrize("app", [pytest.param(IN_A_CALL, id="in-a-call")], indirect=True)
def test_a_script_that_runs_on_is_told_and_its_next_calls_get_their_own_answers(
    app: Path, tmp_path: Path
) -> None:
    """It waits in a call into the JVM, which is left."""
    with LocalDriver(tmp_path, app) as driver:
        says(driver, "polls")
        driver.terminate(Mode.STOP, timeout=30)
        record = driver.finish()
        said = driver.log.read_text()
    assert [s.uid for s in record.stages] == ["live"]
    assert "counts [5, 7, 9]" in said
    assert "has cleaned up" in said


@pytest.mark.parametrize("app", [pytest.param(BEFORE_ITS_FIRST_QUERY, id="without-a-query")], indirect=True)
def test_a_savepoint_that_waits_for_a_query_ends_at_its_timeout(app: Path, tmp_path: Path) -> None:
    with LocalDriver(tmp_path, app) as driver:
        says(driver, "polls")
        driver.savepoint("s-1", timeout=0.5)
        status = driver.wait_for(lambda s: s.savepoint is not None and s.savepoint.over)
        assert status.savepoint is not None
        assert status.savepoint.problem is not None
        assert "has not started all its queries" in status.savepoint.problem.message


@pytest.mark.parametrize("app", [pytest.param(BEFORE_ITS_FIRST_QUERY, id="before-its-query")], indirect=True)
def test_a_script_that_has_no_query_yet_has_the_grace_period_to_clean_up(app: Path, tmp_path: Path) -> None:
    with LocalDriver(tmp_path, app, grace=120) as driver:
        says(driver, "polls")
        driver.process.send_signal(signal.SIGTERM)
        says(driver, "finally begins")
        driver.process.send_signal(signal.SIGTERM)
        assert driver.wait() == 0
        assert "finally ends" in driver.log.read_text()


@pytest.mark.parametrize("app", [pytest.param(WITHOUT_ITS_JVM, id="without-its-jvm")], indirect=True)
def test_a_script_whose_jvm_has_died_runs_again_even_if_it_never_asks_for_it(
    app: Path, tmp_path: Path
) -> None:
    with LocalDriver(tmp_path, app) as driver:
        says(driver, "polls")
        assert driver.wait() == 1
        problem = driver.report().problem
    assert problem is not None
    assert (problem.reason, problem.retryable) == ("JvmDied", True)
