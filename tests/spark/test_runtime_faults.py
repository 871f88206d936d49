"""The runtime as a process that is evicted or killed, or whose storage fails."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver, manifest
from streamjob.protocol.formats.manifest import place
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.messages.driver_config import Restore
from streamjob.protocol.messages.driver_status import DriverPhase
from streamjob.runtime.savepoints.layout import read_manifest
from streamjob.storage.hadoop import HadoopFiles

from ..runtime.disks import small_disk
from .job import APP, Feed
from .scripts import Script, await_batch, said

pytestmark = pytest.mark.any_spark
FILES = 12


@pytest.mark.slow
def test_sigterm_is_a_stop_with_savepoint(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.add(FILES)
    with LocalDriver(tmp_path, APP, *feed.arguments("slow"), grace=300) as driver:
        driver.running(1)
        driver.process.send_signal(signal.SIGTERM)
        # Nobody answers for the index: the report stands in for it.
        assert driver.wait() == 0, driver.tail()
    report = driver.report()
    assert report.evicted
    assert report.phase is DriverPhase.TERMINATED
    assert report.completed is not None
    assert manifest(str(report.completed.savepoint))["checkpoint"]["checkpoint"] == 1  # type: ignore[index]
    offsets, commits = driver.boundary()
    assert offsets == commits == report.completed.stages[0].tasks[0].batch


@pytest.mark.slow
def test_a_driver_killed_while_it_plans_its_first_batch_is_followed_by_another(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    """It leaves a temporary file in the offset log, which Spark 4.1 takes for another query's."""
    feed.add(3)
    offsets = tmp_path / "checkpoints" / "main" / "0" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.49a80d8f-e4ff-4987-8cf6-bf7cab774988.tmp").write_text("v1\n{")
    with LocalDriver(tmp_path, APP, *feed.arguments()) as driver:
        driver.running(2)
        assert driver.finish(Mode.DRAIN).drained
    assert feed.output(spark) == feed.expected(spark)


@pytest.mark.slow
def test_a_killed_driver_goes_on_from_its_checkpoint(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.add(6)
    driver = LocalDriver(tmp_path, APP, *feed.arguments("slow"))
    with driver:
        driver.running(1)
        driver.kill()
    for _ in range(2):
        with driver.next_epoch(APP, *feed.arguments("slow"), exact=False) as driver:
            driver.running(driver.boundary()[1] + 1)
            driver.kill()
    with driver.next_epoch(APP, *feed.arguments("slow"), exact=False) as driver:
        driver.running(5)
        driver.finish(Mode.DRAIN)
    assert feed.output(spark) == feed.expected(spark)


def jvm_of(driver: LocalDriver) -> int:
    """The process id of the driver's JVM."""
    pids = []
    for children in Path(f"/proc/{driver.process.pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            pids += [int(pid) for pid in children.read_text().split()]
    return next(pid for pid in pids if Path(f"/proc/{pid}/comm").read_text().strip() == "java")


def test_a_driver_whose_jvm_dies_says_so_and_the_next_one_loses_nothing(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.add(4)
    with LocalDriver(tmp_path, APP, *feed.arguments()) as driver:
        driver.running(1)
        os.kill(jvm_of(driver), signal.SIGKILL)
        assert driver.wait() == 1, driver.tail()
    problem = driver.report().problem
    assert problem is not None
    assert (driver.report().phase, problem.reason, problem.retryable) == (DriverPhase.FAILED, "JvmDied", True)
    assert "killed by SIGKILL" in problem.message
    assert "the driver exits: the driver's JVM was killed by SIGKILL" in driver.log.read_text()
    with driver.next_epoch(APP, *feed.arguments(), exact=False) as driver:
        driver.running(3)
        assert driver.finish(Mode.DRAIN).drained
    assert feed.output(spark) == feed.expected(spark)


@pytest.mark.slow
def test_a_script_that_tries_for_ever_without_a_jvm_is_ended(tmp_path: Path) -> None:
    script = Script(
        tmp_path,
        """
        while True:
            try:
                start("copy", read("in")).awaitTermination()
            except Exception as e:
                say("again after", type(e).__name__)
                time.sleep(0.2)
        """,
    )
    script.feed.add([{"t": "2026-01-01T10:00:00Z", "k": "a", "v": 1}])
    with script.driver() as driver:
        await_batch(driver, "copy", 0)
        os.kill(jvm_of(driver), signal.SIGABRT)
        assert driver.wait() == 1, driver.tail()
    problem = driver.report().problem
    assert problem is not None
    assert problem.reason == "JvmDied"
    assert len(said(driver.log)) > 1


def test_a_jvm_without_memory_ends_also_if_nobody_in_it_minds(tmp_path: Path) -> None:
    """A thread of py4j, as those of netty and of listeners, catches the error and lives on."""
    script = Script(
        tmp_path,
        """
        query = start("copy", read("in"))
        query.processAllAvailable()
        try:
            spark.sparkContext._gateway.new_array(spark._jvm.byte, 2**31 - 64)
        except Exception as e:
            say("survived", type(e).__name__)
        query.awaitTermination()
        """,
    )
    script.feed.add([{"t": "2026-01-01T10:00:00Z", "k": "a", "v": 1}])
    with script.driver() as driver:
        assert driver.wait() == 1, driver.tail()
    problem = driver.report().problem
    assert problem is not None
    assert (problem.reason, problem.retryable) == ("JvmOutOfMemory", True)
    assert "Raise the driver's heap (spec.driver.memory)" in problem.remedy


FILLS = """
from pyspark.sql import SparkSession
rows = SparkSession.builder.getOrCreate().readStream.format("rate").option("rowsPerSecond", 1000).load()
padded = rows.selectExpr("value", "repeat(uuid(), 100) AS pad")
padded.writeStream.queryName("rows").format("json").start("{sink}").awaitTermination()
"""


@pytest.mark.slow
def test_a_sink_without_room_is_named(tmp_path: Path) -> None:
    """Spark wraps what a task has met: its own message says only that the task failed."""
    (tmp_path / "disk").mkdir()
    with small_disk(tmp_path / "disk", "1m") as disk:
        (tmp_path / "app.py").write_text(FILLS.format(sink=disk / "out"))
        with LocalDriver(tmp_path, tmp_path / "app.py") as driver:
            assert driver.wait() == 1
            problem = driver.report().problem
    assert problem is not None
    assert problem.reason == "StorageFull"
    assert "No space left on device" in problem.message


def test_a_drain_that_is_killed_is_finished_by_the_next_driver(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    """D1 to D4: at random moments between the request and the checkpoint; the request is the same in each
    epoch.
    """
    feed.add(6)
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    driver = LocalDriver(tmp_path, APP, *feed.arguments())
    with driver:
        driver.running(5)
        request = driver.terminate(Mode.DRAIN, "end")
        _kill_after(driver, chance.random())
    for attempt in range(4):
        pending = TerminationRequest(request.request_id, driver.epoch + 1, Mode.DRAIN, request.savepoint)
        driver = driver.next_epoch(APP, *feed.arguments(), exact=False, termination=pending)
        with driver:
            if attempt < 3:
                driver.wait_for(lambda s: bool(s.stages))
                _kill_after(driver, chance.random())
            else:
                record = driver.finish()
    assert record.drained
    assert record.request_id == request.request_id
    assert feed.output(spark) == feed.expected(spark)


def _kill_after(driver: LocalDriver, seconds: float) -> None:
    driver.process.poll()
    try:
        driver.process.wait(seconds)
    except Exception:
        driver.kill()


@pytest.mark.slow
def test_a_savepoint_that_cannot_be_written_is_tried_again(feed: Feed, tmp_path: Path) -> None:
    feed.add(3)
    (tmp_path / "savepoints").write_text("a file where a folder is needed")
    with LocalDriver(tmp_path, APP, *feed.arguments()) as driver:
        driver.running(2)
        driver.terminate(Mode.STOP)
        stuck = driver.wait_for(lambda s: bool(s.termination and s.termination.problem))
        assert stuck.termination is not None
        assert stuck.termination.problem is not None
        assert "savepoints" in stuck.termination.problem.message
        assert stuck.completed is None
        (tmp_path / "savepoints").unlink()
        record = driver.finish()
    assert manifest(str(record.savepoint))["checkpoint"]["checkpoint"] == record.checkpoint  # type: ignore[index]


@pytest.mark.slow
def test_a_tampered_savepoint_is_refused_by_name(feed: Feed, files: HadoopFiles, tmp_path: Path) -> None:
    feed.add(3)
    with LocalDriver(tmp_path / "a", APP, *feed.arguments()) as first:
        first.running(2)
        stopped = first.finish(Mode.STOP)
    assert stopped.savepoint is not None
    tampered = next(e for e in read_manifest(files, stopped.savepoint).files if e.path.endswith(".delta"))
    victim = Path(place(stopped.savepoint, tampered).removeprefix("file://"))
    data = victim.read_bytes()
    victim.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with LocalDriver(
        tmp_path / "b", APP, *feed.arguments(), restore=Restore(savepoint=stopped.savepoint)
    ) as second:
        assert second.wait() == 1
    problem = second.report().problem
    assert problem is not None
    assert problem.reason == "SavepointBroken"
    assert tampered.path in problem.message
    # Without it no query takes the folder for a checkpoint, and the next restore wipes it.
    assert not (tmp_path / "b" / "checkpoints" / "main" / "0" / "metadata").exists()
