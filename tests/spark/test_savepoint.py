"""Savepoints: written whole or not at all, checked file by file, restored as often as one likes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streamjob.protocol.errors import FormatError
from streamjob.protocol.formats import manifest as manifests
from streamjob.protocol.formats.manifest import FileEntry, Manifest
from streamjob.protocol.formats.records import CheckpointRecord, JobRef, StageRecord, TaskRecord
from streamjob.runtime.savepoints import batch_files
from streamjob.runtime.savepoints.catalog import delete_savepoint
from streamjob.runtime.savepoints.layout import (
    MARKER,
    SavepointBroken,
    SavepointExists,
    SavepointIncomplete,
    read_manifest,
    verify_savepoint,
)
from streamjob.runtime.savepoints.restore import TargetNotEmpty, restore
from streamjob.runtime.savepoints.write import write_savepoint
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir, NotAtBoundary
from streamjob.runtime.spark.internals import Internals
from streamjob.runtime.spark.max_watermark.batch import run_max_watermark_batch, write_max_watermark
from streamjob.storage.hadoop import HadoopFiles
from tests import gate
from tests.runtime.disks import Storage

from .feeds import Feed, rows

PROVIDERS = {
    "hdfs": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "rocksdb, format 2": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
# Spark's checkpoint files come about by a rename, which copies on S3; or, with spark-hadoop-cloud, by an
# upload that can be aborted.
ABORTABLE = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
WITHOUT_RENAME = "S3 without rename"
JOB = JobRef("shop", "orders", "uid-1")
STAGE = "per minute/eu"  # a query may have any name


class Job:
    """A windowed query, stopped after two of its batches."""

    def __init__(self, spark: SparkSession, files: HadoopFiles, home: Path, storage: Storage) -> None:
        self.spark, self.files, self.home, self.storage = spark, files, home, storage
        self.feed = Feed(home / "in")
        self.feed.minutes(0, 40)
        self.feed.minutes(40, 60)
        self.directory = CheckpointDir(files, self.at("checkpoint"))
        self.root = storage.folder / "savepoints"
        self.target = self.at("savepoints/stop-1")
        self.run(self.directory, "out")

    def at(self, name: str) -> str:
        """A place of the storage."""
        return self.storage.uri(self.storage.folder / name)

    def run(self, directory: CheckpointDir, out: str, **trigger: object) -> None:
        frame = self.feed.stream(self.spark).withWatermark("t", "10 minutes")
        counted = frame.groupBy(F.window("t", "5 minutes"), "k").count()
        writer = counted.writeStream.option("checkpointLocation", directory.uri).format("json")
        writer.trigger(**(trigger or {"availableNow": True})).start(self.at(out)).awaitTermination()  # type: ignore[call-overload]

    def finish(self, directory: CheckpointDir, out: str, internals: Internals) -> list[tuple[object, ...]]:
        """Go on with more input to the last window; all that comes out from here on."""
        self.run(directory, out)
        batch = write_max_watermark(directory, internals)
        assert batch is not None
        run_max_watermark_batch(lambda: self._once(directory, out), directory, batch, internals)
        schema = "window struct<start timestamp, end timestamp>, k string, count long"
        # Not as a stream's output: its log begins with the batch after the savepoint's, which Spark does not
        # read.
        found = self.spark.read.schema(schema).json(
            [self.storage.uri(p) for p in (self.storage.folder / out).glob("part-*")]
        )
        return rows(found.select("window.start", "k", "count"))

    def _once(self, directory: CheckpointDir, out: str):  # type: ignore[no-untyped-def]
        frame = self.feed.stream(self.spark).withWatermark("t", "10 minutes")
        counted = frame.groupBy(F.window("t", "5 minutes"), "k").count()
        writer = counted.writeStream.option("checkpointLocation", directory.uri).format("json")
        return writer.trigger(once=True).start(self.at(out))

    def record(self, request: str | None = "stop-1", number: int = 1) -> CheckpointRecord:
        task = TaskRecord(0, self.directory.uri, self.directory.boundary())
        stage = StageRecord(STAGE, (task,), ())
        return CheckpointRecord(number, 1, None, request, self.target, "2026-01-01T00:00:00Z", (stage,))

    def save(
        self, request: str | None = "stop-1", number: int = 1, job: JobRef = JOB, target: str | None = None
    ) -> Manifest:
        directories = {(STAGE, 0): self.directory}
        record = self.record(request, number)
        return write_savepoint(self.files, job, record, directories, target or self.target)

    def restored(self, name: str) -> CheckpointDir:
        directory = CheckpointDir(self.files, self.at(name))
        restore(self.files, self.target, STAGE, 0, directory.uri)
        return directory

    def age(self) -> None:
        """As if the query had stood for a minute: what is younger than the storage's clock can tell is not
        shared.
        """
        for file in (self.storage.folder / "checkpoint").rglob("*"):
            when = file.stat().st_mtime - 60
            os.utime(file, (when, when))

    def saved(self, pattern: str) -> Path:
        """The place of a file of the savepoint."""
        manifest = read_manifest(self.files, self.target)
        found = [e for e in manifest.files if PurePath(e.path).match(f"stages/*/0/{pattern}")]
        return self.place_of(found[0])

    def place_of(self, entry: FileEntry) -> Path:
        return self.storage.path(manifests.place(self.target, entry))


@pytest.fixture(params=["hdfs"])
def job(
    spark: SparkSession, files: HadoopFiles, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Job]:
    provider, *where = request.param.split(" on ")
    settings = {
        "spark.sql.streaming.stateStore.providerClass": PROVIDERS[provider],
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    if "format 2" in provider:
        settings["spark.sql.streaming.stateStore.checkpointFormatVersion"] = "2"
    storage = Storage.of_volume(tmp_path)
    if where:
        storage = request.getfixturevalue("bucket")
    if where == [WITHOUT_RENAME]:
        settings["spark.sql.streaming.checkpointFileManagerClass"] = ABORTABLE
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield Job(spark, files, tmp_path, storage)
    finally:
        for key in settings:
            spark.conf.unset(key)


@pytest.mark.parametrize(
    "job",
    [
        f"rocksdb on {WITHOUT_RENAME}",
        *(
            pytest.param(of, marks=pytest.mark.slow)
            for of in ("hdfs", "rocksdb", "rocksdb, format 2", "hdfs on S3")
        ),
    ],
    indirect=True,
)
def test_two_restores_go_on_as_the_original_does(
    job: Job, files: HadoopFiles, internals: Internals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_files, "ENTRIES", 2)
    written = job.save()
    logged = [e.path for e in written.files if "/offsets/" in e.path]
    assert len(logged) == 2 < len(job.directory.batches("offsets"))
    assert verify_savepoint(files, job.target) == []
    assert read_manifest(files, job.target) == written
    assert written.size == sum(job.place_of(f).stat().st_size for f in written.files)
    batch = job.directory.boundary()
    job.feed.minutes(60, 80)
    first, second = job.restored("first"), job.restored("second")
    assert first.boundary() == second.boundary() == batch
    assert len({job.directory.query_id(), first.query_id(), second.query_id()}) == 3
    job.run(job.directory, "out-original")
    original = job.finish(job.directory, "out-original", internals)
    assert original
    assert job.finish(first, "out-first", internals) == original
    assert job.finish(second, "out-second", internals) == original
    assert verify_savepoint(files, job.target) == []


@pytest.mark.parametrize(
    "job", ["rocksdb", pytest.param("rocksdb on S3", marks=pytest.mark.slow)], indirect=True
)
def test_the_next_savepoint_shares_what_spark_has_not_changed(job: Job, files: HadoopFiles) -> None:
    job.age()
    first = job.save()
    job.feed.minutes(60, 70)
    job.run(job.directory, "out")
    second = job.save("stop-2", 2, target=f"{job.target}-second")
    names = {e.shared for e in first.files if e.shared} & {e.shared for e in second.files if e.shared}
    assert names
    delete_savepoint(files, job.target)
    assert verify_savepoint(files, f"{job.target}-second") == []
    new = job.at("new")
    restore(files, f"{job.target}-second", STAGE, 0, new)
    job.feed.minutes(70, 80)
    for directory in (CheckpointDir(files, new), job.directory):
        job.run(directory, directory.uri.rpartition("/")[2])
    assert CheckpointDir(files, new).boundary() == job.directory.boundary()


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", gate.slow_but([flip_a_bit], [flip_a_bit, truncate, Path.unlink]))
def test_every_broken_file_is_named(job: Job, files: HadoopFiles, damage: object) -> None:
    job.save()
    for path in [job.saved("offsets/*"), job.saved("state/0/0/*.delta")]:
        damage(path)  # type: ignore[operator]
    problems = verify_savepoint(files, job.target)
    assert len(problems) == 2
    assert "/0/offsets/0 " in problems[0]
    assert "/0/state/0/0/1.delta " in problems[1]
    with pytest.raises(SavepointBroken, match="and 1 more"):
        job.restored("new")
    assert not (job.home / "new" / "metadata").exists()


def test_without_a_manifest_there_is_no_savepoint(job: Job, files: HadoopFiles) -> None:
    job.save()
    (job.root / "stop-1" / manifests.NAME).unlink()
    for attempt in (read_manifest, verify_savepoint):
        with pytest.raises(SavepointIncomplete, match="never finished"):
            attempt(files, job.target)
    with pytest.raises(SavepointIncomplete):
        job.restored("new")
    assert not (job.home / "new").exists()
    job.save()  # the attempt that died is done again
    assert verify_savepoint(files, job.target) == []


PATHS = ("../../x", "/etc/passwd", "file:///etc/passwd", "a/../b", "a\0b", "")


@pytest.mark.parametrize("path", gate.slow_but(PATHS[:1], PATHS))
def test_a_manifest_that_points_elsewhere_is_refused(job: Job, files: HadoopFiles, path: str) -> None:
    job.save()
    place = job.root / "stop-1" / manifests.NAME
    plain = json.loads(place.read_text())
    plain["files"][0]["path"] = path
    place.write_text(json.dumps(plain))
    with pytest.raises(FormatError, match="does not stay inside"):
        job.restored("new")
    assert not (job.home / "new").exists()


def test_what_is_written_again(job: Job, files: HadoopFiles) -> None:
    first = job.save()
    # The same request by the next driver: the savepoint stands. Under another number it is that checkpoint's,
    # for a periodic one may have taken the first: the index would have two of one number.
    assert job.save() == first
    again = job.save(number=2)
    assert (again.checkpoint.checkpoint, again.files) == (2, first.files)
    assert read_manifest(files, job.target) == again
    assert verify_savepoint(files, job.target) == []
    with pytest.raises(SavepointExists, match="savepoint 2 of shop/orders"):
        job.save(request="stop-2", number=3)
    with pytest.raises(SavepointExists):
        job.save(job=JobRef("shop", "returns", "uid-2"))
    # The job went on after an attempt that nobody was told of.
    job.feed.minutes(60, 70)
    job.run(job.directory, "out")
    second = job.save(number=4)
    assert second.checkpoint.stages[0].tasks[0].batch == job.directory.boundary()
    assert verify_savepoint(files, job.target) == []


def test_only_at_the_batch_of_the_checkpoint(job: Job, files: HadoopFiles) -> None:
    record = job.record()
    job.feed.minutes(60, 70)
    job.run(job.directory, "out")
    with pytest.raises(NotAtBoundary, match="the checkpoint at batch"):
        write_savepoint(files, JOB, record, {(STAGE, 0): job.directory}, job.target)
    assert not files.exists(f"{job.target}/{manifests.NAME}")


def test_a_restore_is_repeated_and_redone(job: Job, files: HadoopFiles) -> None:
    job.save()
    new = job.restored("new")
    query_id = new.query_id()
    job.feed.minutes(60, 70)
    job.run(new, "out-new")
    moved_on = new.boundary()
    assert job.restored("new").query_id() == query_id  # nothing is thrown away
    assert new.boundary() == moved_on
    # A crash left files but no metadata.
    (job.home / "new" / "metadata").unlink()
    shutil.rmtree(job.home / "new" / "state")
    (job.home / "new" / "offsets" / "99").write_text("half")
    again = job.restored("new")
    assert again.boundary() == job.directory.boundary()
    assert again.query_id() not in (None, query_id)
    assert (job.home / "new" / "state").exists()


def test_a_target_that_holds_something_is_refused(job: Job, files: HadoopFiles) -> None:
    job.save()
    (job.home / "photos").mkdir()
    (job.home / "photos" / "cat.jpg").write_text("meow")
    with pytest.raises(TargetNotEmpty, match=r"cat\.jpg"):
        job.restored("photos")
    assert (job.home / "photos" / "cat.jpg").read_text() == "meow"
    with pytest.raises(TargetNotEmpty):
        job.restored("checkpoint")
    other = files.qualify(str(job.root / "copied"))
    shutil.copytree(job.root / "stop-1", job.root / "copied")
    job.restored("new")
    with pytest.raises(TargetNotEmpty, match="was restored from"):
        restore(files, other, STAGE, 0, files.qualify(str(job.home / "new")))


def test_the_folder_of_a_jobs_savepoints_can_be_moved(job: Job, files: HadoopFiles) -> None:
    job.save()
    job.root.rename(job.home / "elsewhere")
    moved = str(job.home / "elsewhere" / "stop-1")
    target = files.qualify(str(job.home / "new"))
    restore(files, moved, STAGE, 0, target)
    new = CheckpointDir(files, target)
    assert new.boundary() == job.directory.boundary()
    assert (job.home / "new" / MARKER).exists()
    with pytest.raises(FormatError, match="no task 1"):
        restore(files, moved, STAGE, 1, files.qualify(str(job.home / "other")))
