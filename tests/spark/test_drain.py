"""Draining fires everything exactly once: the output equals what the same query gives as a batch."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from streamjob.runtime.spark.boundary import QueryFailed
from streamjob.runtime.spark.checkpoint_dir import MAX_WATERMARK_MS, CheckpointDir, NotAtBoundary
from streamjob.runtime.spark.internals import Internals
from streamjob.runtime.spark.max_watermark.batch import (
    DrainResult,
    fire_timers,
    run_max_watermark_batch,
    state_rows,
    write_max_watermark,
)
from streamjob.runtime.spark.session_conf import Settings
from streamjob.storage.hadoop import HadoopFiles
from tests import gate

from .apps.states import Source, deduplicated, left_join, session, window
from .feeds import Feed, rows


def chained(source: Source) -> DataFrame:
    inner = source("a").withWatermark("t", "10 minutes").groupBy(F.window("t", "5 minutes"), "k").count()
    outer = inner.groupBy(F.window(F.window_time("window"), "30 minutes"))
    return outer.agg(F.sum("count").alias("n"), F.count("*").alias("c"))


QUERIES = (window, session, chained, left_join, deduplicated)


class Job:
    """Two inputs of an hour, read in two batches each."""

    def __init__(
        self, spark: SparkSession, files: HadoopFiles, home: Path, query: Callable[[Source], DataFrame]
    ):
        self.spark, self.home, self.query = spark, home, query
        self.inputs = {name: Feed(home / name) for name in ("a", "b")}
        for name, step in (("a", 1), ("b", 6)):
            self.inputs[name].minutes(0, 40, step)
            self.inputs[name].minutes(40, 60, step)
        self.directory = CheckpointDir(files, files.qualify(str(home / "checkpoint")))

    def start(self, **trigger: object) -> StreamingQuery:
        writer = self.query(lambda name: self.inputs[name].stream(self.spark)).writeStream
        writer = writer.option("checkpointLocation", self.directory.uri).format("json").outputMode("append")
        return writer.trigger(**trigger).start(str(self.home / "out"))  # type: ignore[call-overload]

    def run(self) -> None:
        """All that is there, as a plain run or resume."""
        self.start(availableNow=True).awaitTermination()

    def once(self, *settings: tuple[str, str]) -> StreamingQuery:
        with Settings(self.spark).in_force(*settings):
            return self.start(once=True)

    def drain(self, internals: Internals, before: int | None = None) -> DrainResult | None:
        return fire_timers(self.once, self.directory, internals, before)

    def output(self) -> list[tuple[object, ...]]:
        schema = self.query(lambda name: self.inputs[name].table(self.spark)).schema
        return rows(self.spark.read.schema(schema).json(str(self.home / "out")))

    def expected(self) -> list[tuple[object, ...]]:
        if (
            self.query is deduplicated
        ):  # a batch has no watermark to deduplicate within; k and v are unique here
            return rows(self.inputs["a"].table(self.spark))
        return rows(self.query(lambda name: self.inputs[name].table(self.spark)))


# The queries whose state and watermark differ most. The others need not run with each Spark in the gate.
EACH_SPARK = (window, left_join, chained)


@pytest.mark.parametrize(
    "query",
    [
        q if q in EACH_SPARK else pytest.param(q, marks=[pytest.mark.default_spark, pytest.mark.slow])
        for q in QUERIES
    ],
)
def test_row2_the_output_is_that_of_the_batch_query(
    spark: SparkSession,
    files: HadoopFiles,
    internals: Internals,
    tmp_path: Path,
    query: Callable[[Source], DataFrame],
) -> None:
    job = Job(spark, files, tmp_path, query)
    job.run()
    before = job.output()
    job.run()  # stopped and resumed: nothing comes out early
    assert job.output() == before
    if query is not deduplicated:
        assert len(before) < len(job.expected())
    drained = job.drain(internals)
    assert drained is not None
    assert (drained.batches, drained.state_rows_left, drained.timers_left) == (1, 0, False)
    assert job.output() == job.expected()
    assert job.directory.is_drained()
    assert job.directory.boundary() == drained.batch
    again = job.drain(internals)
    if internals.traits.describes_operators:
        assert again == DrainResult(drained.batch, 1, None, 0.0, None, timers_left=False)
    else:  # its operators might have timers, so another batch looks
        assert again is not None
        assert (again.batch, again.timers_left) == (drained.batch + 1, False)
    assert job.output() == job.expected()


@pytest.mark.usefixtures("rocksdb")
@pytest.mark.slow
def test_with_rocksdb(spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path) -> None:
    job = Job(spark, files, tmp_path, window)
    job.run()
    assert job.drain(internals) is not None
    assert job.output() == job.expected()


def each_key_once(source: Source) -> DataFrame:
    """Its state stays for ever."""
    return source("a").dropDuplicates(["k"])


@pytest.mark.usefixtures("rocksdb")
@pytest.mark.parametrize("query", gate.slow_but([window], [window, each_key_once]))
def test_what_is_left_is_told_without_counting_it(
    spark: SparkSession,
    files: HadoopFiles,
    internals: Internals,
    tmp_path: Path,
    query: Callable[[Source], DataFrame],
) -> None:
    """RocksDB counts nothing in the batch: its progress has no rows, and what it stores has no number."""
    job = Job(spark, files, tmp_path, query)
    job.run()
    ran = job.start(availableNow=True)
    ran.awaitTermination()
    assert state_rows(job.directory, (None, ran)) is None, "it ran no batch of its own"
    job.inputs["a"].minutes(60, 61, 1)
    ran = job.start(availableNow=True)
    ran.awaitTermination()
    before = state_rows(job.directory, (None, ran))
    assert before is not None
    assert before > 0
    drained = job.drain(internals, before)
    assert drained is not None
    keys = job.inputs["a"].table(spark).select("k").distinct().count()
    assert drained.state_rows_left == (0 if query is window else keys)
    if query is window:
        assert job.output() == job.expected()
    assert set(numbers_of_keys(Path(job.directory.uri.removeprefix("file:")), drained.batch + 1)) == {-1}


@pytest.mark.parametrize("query", gate.slow_but([chained], [chained, left_join, session]))
def test_what_does_not_follow_is_counted(
    spark: SparkSession,
    files: HadoopFiles,
    tmp_path: Path,
    query: Callable[[Source], DataFrame],
) -> None:
    job = Job(spark, files, tmp_path, query)
    ran = job.start(availableNow=True)
    ran.awaitTermination()
    assert state_rows(job.directory, (ran,)) is None


def numbers_of_keys(checkpoint: Path, version: int) -> list[int]:
    """The number of keys that RocksDB has noted in each snapshot of the state of this version."""
    snapshots = [f for f in checkpoint.glob("state/0/*/*.zip") if f.name.split(".")[0] == str(version)]
    assert snapshots
    texts = [zipfile.ZipFile(f).read("metadata").decode().partition("\n")[2] for f in snapshots]
    return [int(json.loads(text)["numKeys"]) for text in texts]


def test_a_crash_between_planning_and_running(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path
) -> None:
    job = Job(spark, files, tmp_path, window)
    job.run()
    boundary = job.directory.boundary()
    assert boundary is not None
    batch = write_max_watermark(job.directory, internals)
    assert batch == boundary + 1
    assert job.directory.is_drained()
    assert job.directory.watermark(batch) == MAX_WATERMARK_MS
    assert job.directory.source_offsets(batch) == job.directory.source_offsets(boundary)
    job.inputs["a"].minutes(60, 70)  # what comes after the last batch was planned is not the drain's
    assert write_max_watermark(job.directory, internals) == batch
    result = run_max_watermark_batch(job.once, job.directory, batch, internals)
    assert result.batch == batch == job.directory.boundary()
    assert sum(r[-2] for r in job.output()) == 60


def test_nothing_to_fire(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path
) -> None:
    job = Job(spark, files, tmp_path, lambda source: source("a"))
    assert write_max_watermark(job.directory, internals) is None  # no batch yet
    job.run()
    assert write_max_watermark(job.directory, internals) is None  # no state
    assert not job.directory.is_drained()


def test_a_batch_is_pending(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path
) -> None:
    job = Job(spark, files, tmp_path, window)
    job.run()
    latest = job.directory.latest_commit()
    files.delete(f"{job.directory.uri}/commits/{latest}")
    with pytest.raises(NotAtBoundary, match=f"batch {latest} is planned"):
        write_max_watermark(job.directory, internals)


def test_a_batch_that_fails_stays_planned(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path
) -> None:
    job = Job(spark, files, tmp_path, window)
    job.run()
    batch = write_max_watermark(job.directory, internals)
    assert batch is not None
    aside = (tmp_path / "out").rename(tmp_path / "aside")
    (tmp_path / "out").write_text("a file where the sink has its folder")
    with pytest.raises(QueryFailed, match="could not be run"):
        run_max_watermark_batch(job.once, job.directory, batch, internals)
    (tmp_path / "out").unlink()
    aside.rename(tmp_path / "out")
    assert run_max_watermark_batch(job.once, job.directory, batch, internals).batch == batch
    assert job.output() == job.expected()


@pytest.mark.default_spark
def test_a_query_that_writes_elsewhere_is_noticed(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path
) -> None:
    job, other = Job(spark, files, tmp_path / "job", window), Job(spark, files, tmp_path / "other", window)
    job.run()
    batch = write_max_watermark(job.directory, internals)
    assert batch is not None
    with pytest.raises(QueryFailed, match="should have fired all timers"):
        run_max_watermark_batch(other.once, job.directory, batch, internals)
