"""The runtime as a process: an unchanged script is stopped, resumed, drained, evicted and killed."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver, manifest
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages import DriverPhase, Mode, Restore, TerminationRequest

from .apps.windows import SCHEMA, windows

APP = Path(__file__).parent / "apps" / "windows.py"
FILES = 12
# Spark's file sink compacts its log every ten batches; in a new folder, where a restored job begins in the middle, that
# fails for want of the earlier batches (a limit that the README names).
NO_COMPACTION = {"spark.sql.streaming.fileSink.log.compactInterval": "1000"}


class Feed:
    """Input files, a minute of event time apart, so that windows stay open until somebody drains."""

    def __init__(self, home: Path) -> None:
        self.source, self.sink = home / "in", home / "out"
        self.source.mkdir(parents=True)
        self._next = 0

    def add(self, files: int) -> None:
        for _ in range(files):
            rows = [
                {
                    "t": f"2026-01-01T{m // 60:02}:{m % 60:02}:{s:02}.000Z",
                    "k": f"k{s % 3}",
                    "v": self._next * 10 + s,
                }
                for m in [self._next]
                for s in range(0, 60, 10)
            ]
            hidden = self.source / f".{self._next:04}.json"
            hidden.write_text("\n".join(map(json.dumps, rows)) + "\n")
            hidden.rename(self.source / f"{self._next:04}.json")
            self._next += 1

    def arguments(self, how: str = "await") -> tuple[str, str, str]:
        return str(self.source), str(self.sink), how

    def output(self, spark: SparkSession) -> list[tuple[object, ...]]:
        if not (self.sink / "_spark_metadata").exists():
            return []
        rows = spark.read.parquet(str(self.sink)).select("window.start", "k", "n", "s").collect()
        return sorted(tuple(r) for r in rows)

    def expected(self, spark: SparkSession) -> list[tuple[object, ...]]:
        batch = windows(spark.read.schema(SCHEMA).json(str(self.source)))
        return sorted(tuple(r) for r in batch.select("window.start", "k", "n", "s").collect())


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path)


def test_stop_resume_drain_equals_the_batch(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.add(FILES)
    with LocalDriver(tmp_path, APP, *feed.arguments()) as first:
        first.running(2)
        stopped = first.finish(Mode.STOP, "one")
    before = first.boundary()
    assert before[0] == before[1] == stopped.stages[0].tasks[0].batch
    assert (stopped.scenario, stopped.drained) == (Scenario.STOP, False)
    assert not any(o.finished for o in stopped.stages[0].operators)
    assert manifest(stopped.savepoint)["version"] == 2
    early = feed.output(spark)
    feed.add(FILES)
    with first.next_epoch(APP, *feed.arguments()) as second:
        status = second.running(stopped.stages[0].tasks[0].batch + 2)
        assert status.epoch == 2
        drained = second.finish(Mode.DRAIN, "two")
    assert drained.checkpoint == stopped.checkpoint + 1
    assert drained.drained
    assert {o.kind.value for o in drained.stages[0].operators} == {"Source", "State", "Sink"}
    assert set(early) < set(feed.output(spark))
    read = _read_files(tmp_path)
    assert feed.output(spark) == sorted(
        tuple(r)
        for r in windows(spark.read.schema(SCHEMA).json(read)).select("window.start", "k", "n", "s").collect()
    )
    report = second.report()
    assert (report.phase, report.completed) == (DriverPhase.TERMINATED, drained)
    assert report.termination is not None
    assert report.termination.flushed_rows is not None
    assert report.termination.flushed_rows > 0


def _read_files(home: Path) -> list[str]:
    """The input files that the query has read, from the file source's own log."""
    log = home / "checkpoints" / "main" / "0" / "sources" / "0"
    lines = [
        line for f in log.iterdir() if not f.name.startswith(".") for line in f.read_text().splitlines()[1:]
    ]
    return sorted({json.loads(line)["path"] for line in lines})


@pytest.mark.parametrize("how", ["poll", "any", "fall-off"])
def test_no_script_cuts_a_drain_short(spark: SparkSession, feed: Feed, tmp_path: Path, how: str) -> None:
    feed.add(4)
    with LocalDriver(tmp_path, APP, *feed.arguments(how)) as driver:
        driver.running(3)
        driver.finish(Mode.DRAIN)
    assert feed.output(spark) == feed.expected(spark)


def test_the_end_of_the_input_is_a_drain(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.add(4)
    with LocalDriver(tmp_path, APP, *feed.arguments("available-now")) as driver:
        record = driver.finish()
    assert (record.scenario, record.drained, record.savepoint) == (Scenario.END_OF_INPUT, True, None)
    assert feed.output(spark) == feed.expected(spark)


def test_a_script_that_stops_its_query_flushes_nothing(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.add(4)
    with LocalDriver(tmp_path, APP, *feed.arguments("script-stops")) as driver:
        record = driver.finish()
    assert (record.scenario, record.drained) == (Scenario.STOP, False)
    offsets, commits = driver.boundary()
    assert offsets == commits
    assert len(feed.output(spark)) < len(feed.expected(spark))


def test_sigterm_is_a_stop_with_savepoint(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.add(FILES)
    with LocalDriver(tmp_path, APP, *feed.arguments("slow"), grace=60) as driver:
        driver.running(1)
        driver.process.send_signal(signal.SIGTERM)
        # Nobody answers for the index: the report stands in for it.
        assert driver.wait(60) == 0, driver.tail()
    report = driver.report()
    assert report.evicted
    assert report.phase is DriverPhase.TERMINATED
    assert report.completed is not None
    assert manifest(str(report.completed.savepoint))["checkpoint"]["checkpoint"] == 1  # type: ignore[index]
    offsets, commits = driver.boundary()
    assert offsets == commits == report.completed.stages[0].tasks[0].batch


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


def test_a_drain_that_is_killed_is_finished_by_the_next_driver(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    """D1 to D4: at random moments between the request and the checkpoint; the request is the same in each epoch."""
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


def test_a_new_job_is_restored_from_a_savepoint(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.add(4)
    with LocalDriver(tmp_path / "a", APP, *feed.arguments()) as first:
        first.running(3)
        stopped = first.finish(Mode.STOP)
    fork = tuple(str(tmp_path / "fork" / "out") if i == 1 else a for i, a in enumerate(feed.arguments()))
    restore = Restore(savepoint=stopped.savepoint)
    with LocalDriver(tmp_path / "fork", APP, *fork, restore=restore, spark_conf=NO_COMPACTION) as second:
        drained = second.finish(Mode.DRAIN)
    assert drained.stages[0].tasks[0].batch == stopped.stages[0].tasks[0].batch + 1
    with LocalDriver(tmp_path / "again", APP, *fork, restore=Restore(savepoint=drained.savepoint)) as refused:
        assert refused.wait() == 1
    problem = refused.report().problem
    assert problem is not None
    assert (problem.reason, problem.retryable) == ("AlreadyDrained", False)
    assert "allowDrained" in problem.remedy
    allowed = Restore(savepoint=drained.savepoint, allow_drained=True)
    feed.add(2)
    feed.sink = tmp_path / "on" / "out"
    with LocalDriver(
        tmp_path / "on", APP, *feed.arguments(), restore=allowed, spark_conf=NO_COMPACTION
    ) as third:
        third.running(drained.stages[0].tasks[0].batch + 1)
        third.finish(Mode.DRAIN)
    # File by file: the sink's own log begins in the middle in a new folder.
    rows = spark.read.parquet(*map(str, feed.sink.glob("*.parquet"))).count()
    assert rows == 6, "what came after the drain was dropped as late"


def test_a_tampered_savepoint_is_refused_by_name(feed: Feed, tmp_path: Path) -> None:
    feed.add(3)
    with LocalDriver(tmp_path / "a", APP, *feed.arguments()) as first:
        first.running(2)
        stopped = first.finish(Mode.STOP)
    root = Path(str(stopped.savepoint).removeprefix("file://"))
    victim = next(p for p in sorted(root.rglob("state/0/0/*.delta")))
    data = victim.read_bytes()
    victim.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with LocalDriver(
        tmp_path / "b", APP, *feed.arguments(), restore=Restore(savepoint=stopped.savepoint)
    ) as second:
        assert second.wait() == 1
    problem = second.report().problem
    assert problem is not None
    assert victim.name in problem.message
    # Without it no query takes the folder for a checkpoint, and the next restore wipes it.
    assert not (tmp_path / "b" / "checkpoints" / "main" / "0" / "metadata").exists()
