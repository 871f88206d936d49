"""Scripts that wait for no query when their job is asked to end: what they may still do, and how they end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from dev.localdriver import LocalDriver
from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode

from .feeds import eventually

HEAD = """
import threading, time
from pathlib import Path
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from streamjob.runtime.driver.start import without_query
from streamjob.runtime.process import exit

without_query.PATIENCE = exit.PATIENCE = 0.5

def say(*words):
    print(*words, flush=True)

def a_round(spark):
    rows = spark.readStream.schema("value string").text("in").writeStream.queryName("rounds")
    rows.trigger(availableNow=True).format("parquet").start("out").awaitTermination()
    say("a round is over")

"""
SETTLED_LATER = """
say("polls")
while not Path("due").exists():
    time.sleep(0.05)
context = SparkContext(conf=SparkConf().setAppName("mine"))
spark = SparkSession.builder.config("spark.sql.warehouse.dir", "elsewhere").getOrCreate()
say("app", context.appName, spark.conf.get("spark.sql.warehouse.dir"))
a_round(spark)
"""
IN_A_CALL = """
spark = SparkSession.builder.getOrCreate()
a_round(spark)
try:
    spark._jvm.java.lang.Thread.sleep(600_000)
finally:
    say("counts", [spark.range(n).count() for n in (5, 7, 9)])
    time.sleep(2)
    say("has cleaned up")
"""
IN_A_LONG_JOB = """
exit.PATIENCE = 10.0  # the job has begun by then
spark = SparkSession.builder.getOrCreate()
a_round(spark)
say("polls")
try:
    spark.range(10**12).selectExpr("sum(id % 7)").collect()
finally:
    say("counts", [spark.range(n).count() for n in (5, 7, 9)])
"""
CATCHES_IT = """
import weakref
class Thing:
    pass
def dropped(_):
    while True:
        time.sleep(0.01)
caught = 0
say("polls")
while True:
    try:
        if caught == 2:
            break
        time.sleep(0.01)
    except:
        caught += 1
thing = Thing()
watched = weakref.ref(thing, dropped)
del thing
try:
    while True:
        time.sleep(0.01)
finally:
    say("ends at last")
"""
ALWAYS_CATCHES_IT = """
import io, sys
exit.LAST = exit.AGAIN = 1.0
say("polls")
while True:
    try:
        while True:
            try:
                time.sleep(0.01)
            except:
                say("caught")
                print("not flushed")
                sys.stdout = io.StringIO()
    except:
        pass
"""
CLEANS_UP_IN_A_COROUTINE = """
import asyncio
exit.AGAIN = 0.5

async def work():
    say("polls")
    try:
        while True:
            time.sleep(0.01)
    finally:
        await asyncio.sleep(3)
        say("has cleaned up")

asyncio.run(work())
"""
BESIDE_A_THREAD_WITH_A_JOB = """
spark = SparkSession.builder.getOrCreate()
a_round(spark)
go_on = Path("go on").absolute()

def waits(number):
    while not go_on.exists():
        time.sleep(0.05)
    return number

def work():
    job = spark.sparkContext.parallelize([5], 1).map(waits)
    say("the job", job.collect())

worker = threading.Thread(target=work)
worker.start()
while not spark.sparkContext.statusTracker().getActiveJobsIds():
    time.sleep(0.05)
say("polls")
try:
    spark._jvm.java.lang.Thread.sleep(600_000)
finally:
    time.sleep(1)
    go_on.touch()
    worker.join()
"""
WITH_HANDLERS_AT_EXIT = """
import atexit
exit.LAST = 5.0
def handler(name):
    say(name, "begins")
    time.sleep(0.5)
    say(name, "ends")
atexit.register(handler, "first")
atexit.register(handler, "second")
threading.Thread(target=lambda: time.sleep(600)).start()
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("value string").text("in")
query = rows.writeStream.queryName("live").format("noop").start()
query.processAllAvailable()
say("polls")
query.awaitTermination()
"""
BEFORE_ITS_FIRST_QUERY = """
exit.LAST = 0.5
say("polls")
try:
    while True:
        time.sleep(0.05)
finally:
    say("finally begins")
    time.sleep(2)
    say("finally ends")
"""
IN_A_JOIN = """
end = threading.Event()

def work():
    end.wait()
    time.sleep(1)
    say("the worker has ended")

worker = threading.Thread(target=work)
worker.start()
say("polls")
try:
    worker.join()
finally:
    end.set()
    worker.join()
    say("main has ended")
"""
WITHOUT_ITS_JVM = """
import os, signal
exit.LAST = 0.5
spark = SparkSession.builder.getOrCreate()
os.kill(int(spark._jvm.java.lang.ProcessHandle.current().pid()), signal.SIGKILL)
say("polls")
while True:
    time.sleep(0.05)
"""
BESIDE_A_QUERY = """
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("value string").text("in")
query = rows.writeStream.queryName("live").format("noop").start()
query.processAllAvailable()
say("polls")
try:
    while True:
        query.status
        time.sleep(0.05)
finally:
    say("ends as by sys.exit()")
"""
FOR_LONG = 600.0  # of a stop: nothing may have to wait for it


@pytest.fixture
def app(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("a\n")
    path = tmp_path / "app.py"
    path.write_text(HEAD + request.param)
    return path


def says(driver: LocalDriver, text: str) -> None:
    eventually(lambda: text in driver.log.read_text(), text)


def stopped(driver: LocalDriver, timeout: float = FOR_LONG) -> CheckpointRecord:
    says(driver, "polls")
    driver.terminate(Mode.STOP, timeout=timeout)
    return driver.finish()


@pytest.mark.parametrize("app", [pytest.param(SETTLED_LATER, id="settled-later")], indirect=True)
def test_a_drain_that_waits_makes_no_session(app: Path, tmp_path: Path) -> None:
    """The script makes it later, with settings of its own."""
    with LocalDriver(tmp_path, app) as driver:
        says(driver, "polls")
        driver.terminate(Mode.DRAIN)
        says(driver, "the drain waits")
        (tmp_path / "due").touch()
        record = driver.finish()
        said = driver.log.read_text()
    assert "app mine elsewhere" in said.replace(f"file:{tmp_path}/", "")
    assert record.scenario is Scenario.DRAIN
    assert said.count("the drain waits") == 1


@pytest.mark.parametrize("app", [pytest.param(BESIDE_A_QUERY, id="beside-a-query")], indirect=True)
def test_a_loop_beside_a_query_ends_although_it_never_asks_whether_that_is_active(
    app: Path, tmp_path: Path
) -> None:
    with LocalDriver(tmp_path, app) as driver:
        record = stopped(driver)
        assert "ends as by sys.exit()" in driver.log.read_text()
    assert [s.uid for s in record.stages] == ["live"]


@pytest.mark.parametrize("app", [pytest.param(IN_A_CALL, id="in-a-call")], indirect=True)
def test_a_call_into_the_jvm_is_left_and_the_next_ones_get_their_own_answers(
    app: Path, tmp_path: Path
) -> None:
    """And `finally` has its time, although the grace period is over when the script is told."""
    with LocalDriver(tmp_path, app, grace=0) as driver:
        says(driver, "a round is over")
        assert driver.finish(Mode.STOP).scenario is Scenario.STOP
        said = driver.log.read_text()
    assert "counts [5, 7, 9]" in said
    assert "has cleaned up" in said


@pytest.mark.parametrize("app", [pytest.param(IN_A_LONG_JOB, id="in-a-long-job")], indirect=True)
def test_the_job_of_a_call_that_is_left_gives_the_cores_to_finally(app: Path, tmp_path: Path) -> None:
    with LocalDriver(tmp_path, app) as driver:
        stopped(driver)
        assert "counts [5, 7, 9]" in driver.log.read_text()


@pytest.mark.parametrize("app", [pytest.param(CATCHES_IT, id="catches-it")], indirect=True)
def test_a_script_that_catches_what_ends_it_is_told_again(app: Path, tmp_path: Path) -> None:
    """So is one in which Python drops it."""
    with LocalDriver(tmp_path, app) as driver:
        stopped(driver)
        said = driver.log.read_text()
    assert "ends at last" in said
    assert said.count("its script runs on: SystemExit was raised") == 4


@pytest.mark.parametrize("app", [pytest.param(ALWAYS_CATCHES_IT, id="always-catches-it")], indirect=True)
def test_a_script_that_always_catches_it_is_ended_after_its_time(app: Path, tmp_path: Path) -> None:
    with LocalDriver(tmp_path, app, environment={"PYTHONUNBUFFERED": ""}) as driver:
        stopped(driver, timeout=0.1)
        said = driver.log.read_text()
    assert "caught" in said
    assert said.count("not flushed") == said.count("caught")
    assert "the script does not end: its process does" in said


@pytest.mark.parametrize("app", [pytest.param(CLEANS_UP_IN_A_COROUTINE, id="in-a-coroutine")], indirect=True)
def test_a_coroutine_cleans_up_undisturbed(app: Path, tmp_path: Path) -> None:
    with LocalDriver(tmp_path, app) as driver:
        stopped(driver)
        said = driver.log.read_text()
    assert "has cleaned up" in said
    assert said.count("its script runs on: SystemExit was raised") == 1


@pytest.mark.parametrize(
    "app", [pytest.param(BESIDE_A_THREAD_WITH_A_JOB, id="beside-a-thread-with-a-job")], indirect=True
)
def test_the_job_of_another_thread_is_left_alone(app: Path, tmp_path: Path) -> None:
    with LocalDriver(tmp_path, app) as driver:
        stopped(driver)
        assert "the job [5]" in driver.log.read_text()


@pytest.mark.parametrize("app", [pytest.param(BEFORE_ITS_FIRST_QUERY, id="without-a-query")], indirect=True)
def test_a_savepoint_that_waits_for_a_query_ends_at_its_timeout(app: Path, tmp_path: Path) -> None:
    with LocalDriver(tmp_path, app) as driver:
        says(driver, "polls")
        driver.savepoint("s-1", timeout=0.5)
        status = driver.wait_for(lambda s: s.savepoint is not None and s.savepoint.over)
        assert status.savepoint is not None
        assert status.savepoint.problem is not None
        assert "has not started all its queries" in status.savepoint.problem.message


@pytest.mark.parametrize("app", [pytest.param(WITH_HANDLERS_AT_EXIT, id="handlers-at-exit")], indirect=True)
def test_a_thread_that_never_ends_takes_nothing_from_the_handlers_at_exit(app: Path, tmp_path: Path) -> None:
    with LocalDriver(tmp_path, app) as driver:
        stopped(driver, timeout=0.1)
        said = driver.log.read_text()
    assert "second begins\nsecond ends\nfirst begins\nfirst ends" in said


@pytest.mark.parametrize("app", [pytest.param(BEFORE_ITS_FIRST_QUERY, id="before-its-query")], indirect=True)
def test_a_script_that_has_no_query_yet_has_the_grace_period_to_clean_up(app: Path, tmp_path: Path) -> None:
    with LocalDriver(tmp_path, app, grace=120) as driver:
        says(driver, "polls")
        driver.process.send_signal(signal.SIGTERM)
        says(driver, "finally begins")
        driver.process.send_signal(signal.SIGTERM)
        assert driver.wait() == 0
        assert "finally ends" in driver.log.read_text()


@pytest.mark.parametrize("app", [pytest.param(IN_A_JOIN, id="in-a-join")], indirect=True)
def test_a_thread_that_was_joined_is_waited_for(app: Path, tmp_path: Path) -> None:
    with LocalDriver(tmp_path, app) as driver:
        assert stopped(driver).stages == ()
        said = driver.log.read_text()
    assert said.index("the worker has ended") < said.index("main has ended")


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
