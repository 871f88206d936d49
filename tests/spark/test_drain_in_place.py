"""A drain in place: the running query fires all its timers, and leaves what a restarted one would leave."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streamjob.runtime.spark.boundary import QueryFailed
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.runtime.spark.internals import Execution, Internals
from streamjob.runtime.spark.max_watermark.batch import fire_timers
from streamjob.runtime.spark.max_watermark.resting_query import RestingQuery, come_to_rest
from streamjob.storage.hadoop import HadoopFiles
from tests import gate

from .apps.states import Source, deduplicated, left_join, session, window
from .feeds import eventually, rows
from .stores import ROCKSDB
from .test_drain import Job, chained

QUERIES = (window, left_join, chained, session, deduplicated)
POLLING = "spark.sql.streaming.pollingDelay"
TIMES = re.compile(r'("batchTimestampMs":)\d+')


@pytest.fixture(params=["RocksDB", pytest.param("HDFS", marks=[pytest.mark.default_spark, pytest.mark.slow])])
def store(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "RocksDB":
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    yield
    spark.conf.unset("spark.sql.streaming.stateStore.providerClass")


def running(job: Job) -> StreamingQuery:
    """A query that polls, and has read all that there is."""
    query = job.start(processingTime="0 seconds")
    query.processAllAvailable()
    return query


def rest(query: StreamingQuery, job: Job, internals: Internals) -> RestingQuery | None:
    return come_to_rest(query, job.directory, internals, on_wait=lambda _: None)


def at_rest(query: StreamingQuery, job: Job, internals: Internals) -> RestingQuery:
    resting = rest(query, job, internals)
    assert resting is not None
    return resting


def logs(directory: CheckpointDir) -> dict[str, str]:
    """The entries of both logs, without the times of day."""
    place = Path(directory.uri.removeprefix("file:"))
    return {
        str(file.relative_to(place)): TIMES.sub(r"\1?", file.read_text())
        for log in ("offsets", "commits")
        for file in sorted((place / log).glob("[0-9]*"))
    }


def lines(job: Job) -> list[str]:
    """All that it has written. The sink's log, and so a reader of the folder, has paths of the first copy."""
    return sorted(
        line for file in (job.home / "out").glob("part-*") for line in file.read_text().splitlines()
    )


def lacks(*_: object) -> bool:
    """In place of what this Spark may not have."""
    raise Py4JError("no such member")


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("query", gate.slow_but([left_join], QUERIES))
def test_it_leaves_what_a_restart_leaves(
    spark: SparkSession,
    files: HadoopFiles,
    internals: Internals,
    tmp_path: Path,
    query: Callable[[Source], DataFrame],
) -> None:
    job = Job(spark, files, tmp_path / "job", query)
    ran = running(job)
    if query is session and not internals.traits.describes_operators:
        assert rest(ran, job, internals) is None, "Spark 3.5 has no name for this operator"
        ran.stop()
        return
    resting = at_rest(ran, job, internals)
    boundary = job.directory.boundary()
    # The same job, copied at the boundary, with a restart.
    shutil.copytree(job.home, tmp_path / "copy")
    other = copy(job)
    other.home = tmp_path / "copy"
    other.directory = CheckpointDir(files, files.qualify(str(other.home / "checkpoint")))
    drained = resting.fire()
    assert drained is not None
    assert not ran.isActive
    assert ran.exception() is None
    assert boundary is not None
    assert drained.batch == boundary + 1
    assert (drained.batches, drained.state_rows_left, drained.timers_left) == (1, 0, False)
    assert job.directory.is_drained()
    assert job.output() == job.expected()
    restarted = fire_timers(other.once, other.directory, internals)
    assert restarted is not None
    assert (restarted.batch, restarted.output_rows) == (drained.batch, drained.output_rows)
    assert logs(job.directory) == logs(other.directory)
    assert lines(other) == lines(job)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("query", gate.slow_but([chained], [window, chained]))
def test_a_busy_query_ends_its_batch_and_reads_no_more(
    spark: SparkSession,
    files: HadoopFiles,
    internals: Internals,
    tmp_path: Path,
    query: Callable[[Source], DataFrame],
) -> None:
    """Input keeps coming while it is drained. What it has read is what comes out."""
    job = Job(spark, files, tmp_path, query)
    ran = running(job)
    minute, over = 60, threading.Event()

    def feed() -> None:
        nonlocal minute
        while not over.is_set():
            job.inputs["a"].minutes(minute, minute + 1)
            minute += 1
            over.wait(0.05)

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        eventually(lambda: (job.directory.latest_commit() or 0) >= 6, "batches of the new input")
        resting = at_rest(ran, job, internals)
        at = job.directory.boundary()
        drained = resting.fire()
    finally:
        over.set()
        feeding.join()
    assert drained is not None
    assert at is not None
    assert drained.batch == at + 1
    read = read_files(job)
    assert len(read) < len(list((job.home / "a").iterdir())), "input was left"
    table = spark.read.schema("t timestamp, k string, v long").json(read)
    assert job.output() == rows(job.query(lambda _: table))


def read_files(job: Job) -> list[str]:
    """The files that the file source has noted, as `FileStreamSourceLog` has them."""
    place = Path(job.directory.uri.removeprefix("file:")) / "sources" / "0"
    entries = [
        json.loads(line)
        for file in place.iterdir()
        if file.name.isdigit() or file.name.endswith(".compact")
        for line in file.read_text().splitlines()[1:]
    ]
    return sorted({entry["path"] for entry in entries})


def test_a_query_at_rest_reads_nothing_that_arrives(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path
) -> None:
    job = Job(spark, files, tmp_path, window)
    ran = running(job)
    resting = at_rest(ran, job, internals)
    expected, boundary = job.expected(), job.directory.boundary()
    job.inputs["a"].minutes(60, 90)
    seen = internals.execution(ran).frames
    eventually(lambda: any("onstructNextBatch" in f for f in seen()), "a look for new input")
    assert job.directory.boundary() == boundary
    assert resting.fire() is not None
    assert job.output() == expected


def test_a_query_that_sleeps_long_runs_the_batch_before_it_ends(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path
) -> None:
    """It must not be told to end while its thread has not yet seen the batch."""
    job = Job(spark, files, tmp_path, window)
    spark.conf.set(POLLING, "1s")
    try:
        resting = at_rest(running(job), job, internals)
    finally:
        spark.conf.unset(POLLING)
    assert resting.fire() is not None
    assert job.output() == job.expected()


@pytest.mark.default_spark
def test_others_are_restarted(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path
) -> None:
    """With an interval, without state, with a limit, and before the first batch: these run on, unchanged."""
    interval = Job(spark, files, tmp_path / "interval", window)
    slow = interval.start(processingTime="1 hour")
    eventually(lambda: slow.lastProgress is not None, "its first batch")
    stateless = Job(spark, files, tmp_path / "stateless", lambda source: source("a"))
    plain = running(stateless)
    limited = Job(spark, files, tmp_path / "limited", lambda source: window(source).limit(1000))
    few = running(limited)
    empty = Job(spark, files, tmp_path / "empty", window)
    for file in (empty.home / "a").iterdir():
        file.unlink()
    first = empty.start(processingTime="0 seconds")
    for query, job in ((slow, interval), (plain, stateless), (few, limited), (first, empty)):
        assert rest(query, job, internals) is None
        assert query.isActive
    stateless.inputs["a"].minutes(60, 61)
    plain.processAllAvailable()
    assert stateless.output() == stateless.expected(), "it still reads"
    for query in (slow, plain, few, first):
        query.stop()


@pytest.mark.default_spark
@pytest.mark.parametrize("written", gate.slow_but([True], [False, True]), ids=["before", "after"])
def test_what_is_not_as_expected_ends_in_a_restart(
    spark: SparkSession,
    files: HadoopFiles,
    internals: Internals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    written: bool,
) -> None:
    """Spark lacks a field before, or after, the batch has been written to the offset log."""
    job = Job(spark, files, tmp_path, window)
    ran = running(job)
    resting = at_rest(ran, job, internals)

    monkeypatch.setattr(Execution, "plan_next" if written else "has_no_batch_after", lacks)
    assert resting.fire() is None
    assert not ran.isActive
    assert job.directory.is_drained() is written
    assert job.drain(internals) is not None
    assert job.output() == job.expected()


@pytest.mark.default_spark
@pytest.mark.parametrize("member", gate.slow_but(["close_sources"], ["polls", "close_sources"]))
def test_a_query_that_cannot_come_to_rest_runs_on(
    spark: SparkSession,
    files: HadoopFiles,
    internals: Internals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    member: str,
) -> None:
    job = Job(spark, files, tmp_path, window)
    ran = running(job)

    monkeypatch.setattr(Execution, member, property(lacks) if member == "polls" else lacks)
    assert rest(ran, job, internals) is None
    job.inputs["a"].minutes(60, 61)
    ran.processAllAvailable()
    assert len(read_files(job)) == 3, "it still reads"
    ran.stop()


@pytest.mark.default_spark
def test_a_timeout_of_the_sink_is_its_failure_and_no_stop(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path
) -> None:
    """Spark takes an InterruptedIOException for its own stop if the query has been told to end."""
    job = Job(spark, files, tmp_path, window)
    late = threading.Event()

    def write(frame: DataFrame, batch: int) -> None:
        frame.collect()
        if late.is_set():
            time.sleep(1)
            jvm: Any = spark._jvm
            server = jvm.java.net.ServerSocket(0)
            server.setSoTimeout(1)
            server.accept()

    frame = window(lambda name: job.inputs[name].stream(spark))
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", job.directory.uri)
    ran = writer.trigger(processingTime="0 seconds").start()
    ran.processAllAvailable()
    resting = at_rest(ran, job, internals)
    late.set()
    with pytest.raises(QueryFailed, match=r"failed: .*Accept timed out"):
        resting.fire()
    assert ran.exception() is not None
    assert job.directory.is_drained(), "the batch is still planned"


@pytest.mark.default_spark
def test_a_batch_that_fails_in_place_is_run_again_by_a_restart(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path
) -> None:
    job = Job(spark, files, tmp_path, window)
    ran = running(job)
    resting = at_rest(ran, job, internals)
    out = tmp_path / "out"
    out.rename(tmp_path / "away")
    out.write_text("in the way of the sink")
    with pytest.raises(QueryFailed):
        resting.fire()
    out.unlink()
    (tmp_path / "away").rename(out)
    assert job.directory.is_drained()
    assert job.drain(internals) is not None
    assert job.output() == job.expected()


@pytest.mark.default_spark
def test_the_sources_are_stopped_although_spark_no_longer_knows_them(
    spark: SparkSession,
    files: HadoopFiles,
    internals: Internals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = Job(spark, files, tmp_path, left_join)
    resting = at_rest(running(job), job, internals)
    stopped: list[object] = []

    class Noting:
        def __init__(self, source: object) -> None:
            self.source = source

        def stop(self) -> None:
            stopped.append(self.source)
            jvm: Any = spark._jvm
            jvm.java.util.Collections.emptyList().add(1)  # which pyspark makes a PySparkException

    sources = list(resting._sources)
    assert len(sources) == 2
    monkeypatch.setattr(resting, "_sources", [Noting(s) for s in sources])
    assert resting.fire() is not None
    resting.stop_sources()
    assert stopped == sources
