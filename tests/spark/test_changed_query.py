"""A query that does not fit the state it should go on with is refused before Spark writes
anything (ADR 14).
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import Restore
from streamjob.protocol.messages.driver_status import DriverPhase
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.runtime.spark.internals import Internals
from streamjob.runtime.startup.checks.dry_run import refuse_changed
from streamjob.runtime.startup.checks.sources import QueryChanged
from streamjob.storage.hadoop import HadoopFiles

from .apps.states import Source, deduplicated, left_join, window
from .feeds import eventually
from .job import APP
from .job import Feed as Input
from .stores import ROCKSDB
from .test_drain import QUERIES, Job, chained

ONLY_COUNTED = "Spark 3.5 describes no operators: they are only counted"


def filtered(source: Source) -> DataFrame:
    """As `window`, with what does not touch state."""
    return window(lambda name: source(name).filter("v >= 0")).select("n", "s", F.upper("k").alias("name"))


def operator_before(source: Source) -> DataFrame:
    return window(lambda name: source(name).withWatermark("t", "10 minutes").dropDuplicates(["k", "v", "t"]))


def without_state(source: Source) -> DataFrame:
    return source("a")


def another_operator(source: Source) -> DataFrame:
    return deduplicated(source)


def another_key(source: Source) -> DataFrame:
    frame = source("a").withWatermark("t", "10 minutes")
    return frame.groupBy(F.window("t", "5 minutes"), "v").agg(F.count("*").alias("n"), F.sum("v").alias("s"))


def another_value(source: Source) -> DataFrame:
    frame = source("a").withWatermark("t", "10 minutes")
    return frame.groupBy(F.window("t", "5 minutes"), "k").agg(F.count("*").alias("n"), F.max("k").alias("s"))


def another_source(source: Source) -> DataFrame:
    return window(lambda name: source(name).union(source("b")))


def with_itself(source: Source) -> DataFrame:
    frame = source("a")
    return window(lambda _: frame.union(frame).union(source("a").withColumn("v", F.col("v") + 1000)))


def rate(source: Source) -> DataFrame:
    spark = source("a").sparkSession
    rows = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "t")
    return window(lambda _: rows.select("t", F.lit("k").alias("k"), F.col("value").alias("v")))


@pytest.fixture
def job(spark: SparkSession, files: HadoopFiles, tmp_path: Path) -> Job:
    """Stopped after two batches."""
    made = Job(spark, files, tmp_path, window)
    made.run()
    return made


def writer(job: Job, query: Callable[[Source], DataFrame]) -> DataStreamWriter:
    return query(lambda name: job.inputs[name].stream(job.spark)).writeStream


def digest(directory: CheckpointDir) -> dict[str, str]:
    folder = Path(directory.uri.removeprefix("file:"))
    return {
        str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest()
        for f in folder.rglob("*")
        if f.is_file()
    }


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (operator_before, "dedupe"),
        pytest.param(
            *(without_state, "not found|OpStateMetadata|operator"),
            marks=[pytest.mark.default_spark, pytest.mark.slow],
        ),
        pytest.param(another_operator, "dedupeWithinWatermark", marks=pytest.mark.default_spark),
        (another_key, "key: .* is (new|gone)"),
        pytest.param(another_value, "value: .* is (new|gone)", marks=pytest.mark.default_spark),
        (another_source, "had 1 sources and has 2"),
        pytest.param(rate, "source 0 was files .* and is rate", marks=pytest.mark.default_spark),
    ],
)
def test_a_query_that_does_not_fit_is_refused(
    job: Job, internals: Internals, query: Callable[[Source], DataFrame], words: str
) -> None:
    if not internals.traits.describes_operators:
        if query in (another_operator, another_key, another_value):
            pytest.skip(ONLY_COUNTED)
        words = words if query in (another_source, rate) else "had 1 stateful operators and has"
    before, at = digest(job.directory), job.directory.boundary()
    with pytest.raises(QueryChanged, match=words) as refused:
        refuse_changed(writer(job, query), "append", job.directory, internals)
    assert job.directory.uri in refused.value.message
    assert len(str(refused.value).splitlines()) == 1
    assert digest(job.directory) == before
    refuse_changed(writer(job, window), "append", job.directory, internals)
    job.inputs["a"].minutes(60, 70)
    job.run()
    assert (job.directory.boundary() or 0) > (at or 0)


@pytest.mark.skipif(pyspark.__version__ < "4", reason="Spark 3.5 has other words for it")
def test_spark_itself_says_it_when_the_batch_stands_in_the_log(job: Job) -> None:
    """Which is what the rehearsal is for."""
    batch = job.directory.boundary()
    assert batch is not None
    job.inputs["a"].minutes(60, 70)
    job.query = operator_before
    with pytest.raises(StreamingQueryException, match="STREAMING_STATEFUL_OPERATOR_NOT_MATCH"):
        job.run()
    assert (job.directory.latest_offset(), job.directory.latest_commit()) == (batch + 1, batch)


def test_a_first_batch_that_was_only_begun_says_nothing_of_operators(job: Job, internals: Internals) -> None:
    """A driver that dies in batch 0 may leave its offsets, and of the state nothing."""
    folder = Path(job.directory.uri.removeprefix("file:"))
    for log in ("commits", "state"):
        shutil.rmtree(folder / log)
    for entry in (folder / "offsets").iterdir():
        if entry.name not in ("0", ".0.crc"):
            entry.unlink()
    assert (job.directory.latest_offset(), job.directory.latest_commit()) == (0, None)
    refuse_changed(writer(job, window), "append", job.directory, internals)
    assert not job.directory.has_state()


def test_state_where_there_was_none(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path
) -> None:
    job = Job(spark, files, tmp_path, without_state)
    job.run()
    refuse_changed(writer(job, without_state), None, job.directory, internals)
    with pytest.raises(QueryChanged, match="has a stateful operator, and had none"):
        refuse_changed(writer(job, window), None, job.directory, internals)


@pytest.mark.parametrize("provider", [pytest.param("hdfs", marks=pytest.mark.slow), "rocksdb"])
@pytest.mark.parametrize(
    "query",
    [
        q
        if q in (window, left_join)
        else pytest.param(q, marks=[pytest.mark.default_spark, pytest.mark.slow])
        for q in (*QUERIES, with_itself)
    ],
)
def test_a_query_that_fits_is_not(
    spark: SparkSession,
    files: HadoopFiles,
    internals: Internals,
    tmp_path: Path,
    query: Callable[[Source], DataFrame],
    provider: str,
) -> None:
    if provider == "rocksdb":
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    try:
        job = Job(spark, files, tmp_path, query)
        job.run()
        before = digest(job.directory)
        refuse_changed(writer(job, query), None, job.directory, internals)
        if query is window:
            refuse_changed(writer(job, filtered), None, job.directory, internals)
        elif query is not with_itself and (internals.traits.describes_operators or query is chained):
            other = window if query is not deduplicated else left_join
            with pytest.raises(QueryChanged):
                refuse_changed(writer(job, other), None, job.directory, internals)
        assert digest(job.directory) == before
    finally:
        spark.conf.unset("spark.sql.streaming.stateStore.providerClass")


def test_settings_of_the_session_are_those_of_before(job: Job, internals: Internals) -> None:
    """A resumed query keeps the settings of its offset log; the script's session keeps its own."""
    spark = job.spark
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    try:
        refuse_changed(writer(job, window), "append", job.directory, internals)
        assert spark.conf.get("spark.sql.shuffle.partitions") == "7"
        assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")


@pytest.mark.slow
@pytest.mark.any_spark
def test_a_job_with_the_wrong_script_leaves_its_state_to_the_right_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Input(tmp_path)
    feed.add(4)
    with LocalDriver(tmp_path, APP, *feed.arguments()) as first:
        first.running(3)
        stopped = first.finish(Mode.STOP)
    wrong = tmp_path / "wrong.py"
    deduplicated_first = 'events.withWatermark("t", "10 minutes").dropDuplicates(["t", "k", "v"])'
    text = APP.read_text().replace("writer = windows(events)", f"writer = windows({deduplicated_first})")
    assert deduplicated_first in text
    wrong.write_text(text)
    feed.add(2)
    at = first.boundary()
    # In place, and as another job from the savepoint.
    fork = tmp_path / "fork"
    restore = Restore(savepoint=stopped.savepoint)
    other = tuple(str(fork / "out") if i == 1 else a for i, a in enumerate(feed.arguments()))
    for driver in (
        first.next_epoch(wrong, *feed.arguments()),
        LocalDriver(fork, wrong, *other, restore=restore),
    ):
        with driver:
            assert driver.wait() == 1, driver.tail()
        problem = driver.report().problem
        assert problem is not None
        assert (problem.reason, problem.retryable) == ("QueryChanged", False)
        assert ("dedupe" if pyspark.__version__ >= "4" else "had 1 stateful operators") in problem.message
        assert driver.boundary() == at
    with LocalDriver(fork, APP, *other, epoch=2, restore=restore) as right:
        right.wait_for(lambda s: s.phase is DriverPhase.RUNNING)
        eventually(lambda: len(feed.read_files(fork / "checkpoints/main/0")) == 6, "all is read")
        right.finish(Mode.DRAIN)
    feed.sink = fork / "out"
    early = feed.expected(spark)
    assert set(feed.output(spark)) <= set(early)
    assert right.boundary()[0] > at[0]
