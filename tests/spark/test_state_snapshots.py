"""A stopped query's states get snapshots, from which alone it goes on as if it had not been stopped."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streamjob.protocol.messages.commands import Mode
from streamjob.runtime.spark.boundary import stop_at_boundary
from streamjob.runtime.spark.internals import Internals
from streamjob.runtime.spark.session_conf import Settings
from streamjob.runtime.spark.state import snapshots
from streamjob.runtime.spark.state.snapshots import long_changelogs, upload_snapshots
from streamjob.runtime.spark.state.stores import Stores
from streamjob.storage.hadoop import HadoopFiles

from .apps.states import CHANGELOG, Source, deduplicated, left_join, session, window
from .scripts import Script, await_batch
from .stores import PROVIDER, ROCKSDB
from .test_drain import Job, chained


@pytest.fixture(autouse=True)
def every_changelog_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "LONG", 0)


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(PROVIDER, ROCKSDB)
    spark.conf.set(CHANGELOG, "true")
    yield
    spark.conf.unset(PROVIDER)
    spark.conf.unset(CHANGELOG)


@pytest.fixture
def job(spark: SparkSession, files: HadoopFiles, tmp_path: Path) -> Job:
    return Job(spark, files, tmp_path, window)


def stopped(job: Job, internals: Internals) -> StreamingQuery:
    query = job.start(processingTime="0 seconds")
    query.processAllAvailable()
    stop_at_boundary(query, job.directory.files, internals)
    return query


def state(job: Job, ending: str) -> list[Path]:
    return sorted((job.home / "checkpoint/state").glob(f"*/[0-9]*/**/*.{ending}"))


@pytest.mark.usefixtures("rocksdb")
@pytest.mark.parametrize(
    "query",
    [
        pytest.param(window, marks=pytest.mark.slow),
        left_join,
        *(
            pytest.param(q, marks=[pytest.mark.default_spark, pytest.mark.slow])
            for q in (chained, session, deduplicated)
        ),
    ],
)
def test_a_query_goes_on_from_its_snapshots_alone(
    spark: SparkSession,
    files: HadoopFiles,
    internals: Internals,
    tmp_path: Path,
    query: Callable[[Source], DataFrame],
) -> None:
    job = Job(spark, files, tmp_path / "job", query)
    ran = stopped(job, internals)
    versions = {file.parent: int(file.stem) for file in state(job, "changelog")}
    assert versions
    assert not state(job, "zip")
    upload_snapshots(ran, job.directory, internals)
    if not internals.traits.snapshots_at_rest:
        assert not state(job, "zip")
        return
    assert {file.parent: int(file.stem) for file in state(job, "zip")} == versions
    assert not long_changelogs(job.directory)
    for file in state(job, "changelog"):
        file.unlink()
    for feed in job.inputs.values():
        feed.minutes(60, 80, 3)
    job.run()
    job.drain(internals)
    assert job.output() == job.expected()


@pytest.mark.default_spark
@pytest.mark.usefixtures("rocksdb")
@pytest.mark.slow
def test_it_is_in_no_way_of_a_query_that_goes_on(job: Job, internals: Internals) -> None:
    """Maintenance begins again with the next batch; it deletes what nobody needs any more."""
    for last in range(60, 72, 3):
        upload_snapshots(stopped(job, internals), job.directory, internals)
        job.inputs["a"].minutes(last, last + 3)
    if internals.traits.snapshots_at_rest:
        assert len(state(job, "zip")) >= 4
    job.run()
    job.drain(internals)
    assert job.output() == job.expected()


@pytest.mark.default_spark
def test_other_stores_are_left_alone(job: Job, internals: Internals) -> None:
    query = stopped(job, internals)
    before = sorted(job.home.rglob("*"))
    upload_snapshots(query, job.directory, internals)
    assert sorted(job.home.rglob("*")) == before


@pytest.mark.default_spark
@pytest.mark.usefixtures("rocksdb")
def test_a_run_that_did_not_commit_the_last_batch_gives_none(job: Job, internals: Internals) -> None:
    first = stopped(job, internals)
    job.inputs["a"].minutes(60, 62)
    second = stopped(job, internals)
    upload_snapshots(first, job.directory, internals)
    assert not state(job, "zip")
    upload_snapshots(second, job.directory, internals)
    assert bool(state(job, "zip")) is internals.traits.snapshots_at_rest


@pytest.mark.default_spark
@pytest.mark.usefixtures("rocksdb")
def test_a_short_changelog_needs_none(
    job: Job,
    internals: Internals,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    upload_snapshots(stopped(job, internals), job.directory, internals)
    assert not state(job, "zip")


@pytest.mark.default_spark
@pytest.mark.usefixtures("rocksdb")
def test_a_failure_is_told_and_costs_nothing_else(
    job: Job,
    internals: Internals,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if not internals.traits.snapshots_at_rest:
        pytest.skip("this Spark has no snapshots at rest")
    query = stopped(job, internals)
    for folder in {file.parent for file in state(job, "changelog")}:
        (folder / "SSTs").write_text("no folder")
    with caplog.at_level(logging.WARNING, "streamjob"):
        upload_snapshots(query, job.directory, internals)
    assert "no snapshot of the state, the next start takes longer" in caplog.text
    assert not state(job, "zip")
    for folder in {file.parent for file in state(job, "changelog")}:
        (folder / "SSTs").unlink()
    job.run()
    job.drain(internals)
    assert job.output() == job.expected()


@pytest.mark.default_spark
@pytest.mark.usefixtures("rocksdb")
@pytest.mark.slow
def test_maintenance_that_runs_is_waited_for(
    spark: SparkSession,
    files: HadoopFiles,
    internals: Internals,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is not ended under the lock that it needs to end: both would then wait for minutes."""
    often = (
        ("spark.sql.streaming.stateStore.maintenanceInterval", "20ms"),
        ("spark.sql.streaming.stateStore.minDeltasForSnapshot", "1"),
        ("spark.sql.shuffle.partitions", "4"),
    )
    with Settings(spark).in_force(*often), caplog.at_level(logging.WARNING, "streamjob"):
        for number in range(3):
            job = Job(spark, files, tmp_path / str(number), window)
            ran = stopped(job, internals)
            for file in state(job, "zip"):
                file.unlink()
            upload_snapshots(ran, job.directory, internals)
    assert "takes too long" not in caplog.text


@pytest.mark.default_spark
@pytest.mark.usefixtures("rocksdb")
def test_storage_that_hangs_is_not_waited_for(
    job: Job,
    internals: Internals,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if not internals.traits.snapshots_at_rest:
        pytest.skip("this Spark has no snapshots at rest")
    query = stopped(job, internals)
    released = threading.Event()
    monkeypatch.setattr(Stores, "end_maintenance", lambda _: released.wait(60))
    begun = time.monotonic()
    with caplog.at_level(logging.WARNING, "streamjob"):
        upload_snapshots(query, job.directory, internals, seconds=0.5)
    assert time.monotonic() - begun < 30
    assert "takes too long" in caplog.text
    released.set()


MANY = """
    rows = spark.readStream.schema("t timestamp, k string").parquet(f"{home}/rows")
    counts = rows.withWatermark("t", "10 minutes").groupBy(F.window("t", "5 minutes"), "k").count()
    writer = counts.select("k", "count").writeStream.queryName("many").outputMode("append")
    writer.format("json").start(f"{home}/out").awaitTermination()
    """
SETTINGS = {PROVIDER: ROCKSDB, CHANGELOG: "true", "spark.sql.shuffle.partitions": "1"}


def test_a_job_that_is_stopped_leaves_a_snapshot_and_one_that_is_drained_none(
    spark: SparkSession, internals: Internals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    keys = 40_000
    rows = spark.range(keys).selectExpr("timestamp'2026-01-01 00:00:00' AS t", "sha1(string(id)) AS k")
    rows.coalesce(1).write.parquet(str(tmp_path / "rows"))
    script = Script(tmp_path, MANY)
    folder = tmp_path / "checkpoints/many/0/state/0/0"
    with script.driver(spark_conf=SETTINGS) as first:
        await_batch(first, "many", 0)
        first.finish(Mode.STOP, f"file:{tmp_path}/savepoint")
    zips = [file.name for file in folder.glob("*.zip")]
    if internals.traits.snapshots_at_rest:
        assert zips == ["1.zip"]
        (folder / "1.changelog").unlink()
    with script.next(first, spark_conf=SETTINGS) as second:
        second.finish(Mode.DRAIN)
    assert [file.name for file in folder.glob("*.zip")] == zips
    out = spark.read.schema("k string, count long").json(str(tmp_path / "out"))
    assert out.filter("count = 1").select("k").distinct().count() == out.count() == keys
