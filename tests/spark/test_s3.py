"""Files on S3, where it is another storage than a volume: no rename, no folders, objects that appear whole or
not at all, a server that refuses, is gone or does not answer. `test_savepoint.py` and
`test_savepoint_faults.py` have savepoints on it, `test_s3_job.py` has a job.
"""

from __future__ import annotations

import hashlib
import logging
import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dev.s3.server import S3, SECRET, denied
from streamjob.runtime.savepoints.catalog import list_savepoints
from streamjob.runtime.savepoints.layout import verify_savepoint
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.storage.hadoop import (
    AccessDenied,
    CopiedFile,
    FileExists,
    FileInfo,
    HadoopFiles,
    NoConnector,
    NotFound,
    StorageError,
    StorageFull,
)
from tests.runtime.disks import Storage, remount, small_disk
from tests.runtime.queries import Query

from .test_files import NAMES

ONCE = {"attempts.maximum": "1", "retry.limit": "1", "retry.interval": "10ms"}
IMPATIENT = {"connection.timeout": "1s", "connection.establish.timeout": "1s", **ONCE}


@pytest.fixture
def conf(spark: SparkSession) -> Iterator[dict[str, str]]:
    """Hadoop's settings of the session: what a test puts here, HadoopFiles made after it have."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()

    class Settings(dict[str, str]):
        def __setitem__(self, key: str, value: str) -> None:
            super().__setitem__(key, value)
            hadoop.set(key, value)

        def clear(self) -> None:
            for key in self:
                hadoop.unset(key)
            super().clear()

    settings = Settings()
    yield settings
    settings.clear()


def configure(conf: dict[str, str], bucket: Storage, **settings: str) -> None:
    name = bucket.root.removeprefix("s3a://")
    for key, value in settings.items():
        conf[f"fs.s3a.bucket.{name}.{key}"] = value


def test_names_are_taken_as_they_are(files: HadoopFiles, bucket: Storage) -> None:
    for i, name in enumerate(NAMES):
        files.write_new(f"{bucket.root}/in/{name}", b"x" * i)
    expected = {(n, i) for i, n in enumerate(NAMES)}
    assert {(f.path, f.size) for f in files.list(f"{bucket.root}/in")} == expected
    assert files.list(f"{bucket.root}/") == [FileInfo("in", 0, True)]
    for name in NAMES:
        copied = files.copy(f"{bucket.root}/in/{name}", f"{bucket.root}/out/deep/{name}")
        assert copied.size == len(files.read_bytes(f"{bucket.root}/out/deep/{name}"))
    below = {(f"{d}/{n}", i) for d in ("in", "out/deep") for i, n in enumerate(NAMES)}
    assert {(f.path, f.size) for f in files.list(bucket.root, recursive=True)} == below
    files.delete(f"{bucket.root}/out")
    assert {f.path for f in files.list(bucket.root, recursive=True)} == {f"in/{n}" for n in NAMES}


def test_a_folder_is_there_as_long_as_something_is_in_it(files: HadoopFiles, bucket: Storage) -> None:
    with pytest.raises(NotFound):
        files.list(f"{bucket.root}/none", recursive=True)
    assert not files.exists(f"{bucket.root}/none")
    files.make_directory(f"{bucket.root}/made")
    assert files.list(f"{bucket.root}/made", recursive=True) == []
    files.write_new(f"{bucket.root}/a/b/c", b"")
    assert files.exists(f"{bucket.root}/a/b")
    files.delete(f"{bucket.root}/a")
    files.delete(f"{bucket.root}/a")
    assert not files.exists(f"{bucket.root}/a/b/c")
    assert CheckpointDir(files, f"{bucket.root}/none").boundary() is None


@pytest.mark.parametrize("size", [0, 1, 3_000_000, 12_000_000])
def test_a_copy_has_the_hash_of_what_was_read(
    files: HadoopFiles, bucket: Storage, conf: dict[str, str], size: int
) -> None:
    """A large object is sent in parts."""
    configure(conf, bucket, **{"multipart.size": "5M"})
    data = os.urandom(size)
    (bucket.folder / "big").write_bytes(data)
    copied = files.copy(f"{bucket.root}/big", f"{bucket.root}/copy")
    assert copied == CopiedFile(size, hashlib.sha256(data).hexdigest())
    assert (bucket.folder / "copy").read_bytes() == data
    assert files.sha256(f"{bucket.root}/copy") == copied.sha256


class Watched(HadoopFiles):
    """Knows what has gone through the driver."""

    streamed = 0

    def _pour(self, stream: Any, target: str) -> int:
        self.streamed += 1
        return super()._pour(stream, target)


def test_within_a_bucket_the_server_copies_and_hashes(
    spark: SparkSession, s3: S3, bucket: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    files = Watched(spark)
    for number, size in enumerate((0, 1, 3_000_000)):
        data = os.urandom(size)
        (bucket.folder / "big").write_bytes(data)
        with caplog.at_level(logging.DEBUG, "streamjob"):
            copied = files.copy(f"{bucket.root}/big", f"{bucket.root}/deep/{number}")
        assert copied == CopiedFile(size, hashlib.sha256(data).hexdigest())
        assert (bucket.folder / "deep" / str(number)).read_bytes() == data
    assert (files.streamed, caplog.text) == (0, "")
    files.copy(f"{bucket.root}/big", f"{Storage.of_bucket(s3).root}/big")
    assert files.streamed == 1
    with pytest.raises(NotFound):
        files.copy(f"{bucket.root}/purged", f"{bucket.root}/deep/purged")


def test_what_was_uploaded_in_parts_goes_through_the_driver(
    spark: SparkSession, bucket: Storage, conf: dict[str, str], tmp_path: Path
) -> None:
    """The hash of its copy may be one of the parts' hashes."""
    configure(conf, bucket, **{"multipart.size": "5M"})
    files = Watched(spark)
    data = os.urandom(12_000_000)
    (tmp_path / "big").write_bytes(data)
    uploaded = files.copy(f"file:{tmp_path}/big", f"{bucket.root}/big")
    assert files.copy(f"{bucket.root}/big", f"{bucket.root}/copy") == uploaded
    assert files.streamed == 2
    assert (bucket.folder / "copy").read_bytes() == data


def test_times_have_whole_seconds(files: HadoopFiles, bucket: Storage) -> None:
    """Which is why what was modified in the last two seconds is not known by its time
    (`shared_files.settled`).
    """
    files.write_new(f"{bucket.root}/now", b"")
    (found,) = files.list(bucket.root)
    assert found.modified > 0
    assert found.modified % 1000 == 0


def test_of_many_writers_of_one_object_one_wins(files: HadoopFiles, bucket: Storage) -> None:
    contents = [uuid.uuid4().hex.encode() for _ in range(8)]
    conditional = files.spark.version >= "4.1"  # with Hadoop 3.4.1 two that look at the same time both write

    def write(data: bytes) -> bytes | None:
        try:
            files.write_new(f"{bucket.root}/manifest", data)
        except FileExists:
            return None
        return data

    with ThreadPoolExecutor(8) as pool:
        winners = [w for w in pool.map(write, contents) if w]
    assert files.read_bytes(f"{bucket.root}/manifest") in winners
    assert len(winners) == 1 or not conditional
    with pytest.raises(FileExists, match="it exists"):
        files.write_new(f"{bucket.root}/manifest", b"late")


def test_a_repeated_request_is_no_second_writer(
    files: HadoopFiles, bucket: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to a write may be lost: then it is sent again, and the store refuses it, for the object is
    there.
    """
    monkeypatch.setattr(files, "exists", lambda uri: False)
    files.write_new(f"{bucket.root}/marker", b"ours")
    if files.spark.version >= "4.1":
        written(files, f"{bucket.root}/marker", b"ours")
        with pytest.raises(FileExists):
            written(files, f"{bucket.root}/marker", b"another's")
    assert (bucket.folder / "marker").read_bytes() == b"ours"


def written(files: HadoopFiles, uri: str, data: bytes) -> None:
    """`write_new` from where it has seen that nothing is there."""
    files._write_object(uri, data)


def test_refused_credentials(spark: SparkSession, bucket: Storage, conf: dict[str, str]) -> None:
    wrong = "a-wrong-secret"
    configure(conf, bucket, **{"secret.key": wrong, **ONCE})
    files = HadoopFiles(spark)
    for attempt in (
        lambda: files.list(bucket.root),
        lambda: files.write_new(f"{bucket.root}/x", b""),
        lambda: files.make_directory(f"{bucket.root}/x"),
    ):
        with pytest.raises(AccessDenied) as refused:
            attempt()
        assert bucket.root in refused.value.message
        assert "keys" in refused.value.remedy
        assert len(str(refused.value).splitlines()) == 1
        assert wrong not in str(refused.value)
        assert SECRET not in str(refused.value)


def test_no_credentials(spark: SparkSession, bucket: Storage, conf: dict[str, str]) -> None:
    """As in a pod without any: none in the environment, and nobody answers for the pod's identity."""
    provider = "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
    configure(conf, bucket, **{"aws.credentials.provider": provider, **ONCE})
    with pytest.raises(AccessDenied, match=bucket.root):
        HadoopFiles(spark).list(bucket.root)


def test_a_bucket_that_is_not_there(files: HadoopFiles, s3: S3) -> None:
    with pytest.raises(NotFound, match=r"s3a://no-such-bucket.*does not exist"):
        files.write_new("s3a://no-such-bucket/x", b"")
    with pytest.raises(NotFound):
        files.make_directory("s3a://no-such-bucket/checkpoints")


def test_no_connector(files: HadoopFiles) -> None:
    for uri in ("gs://bucket/x", "nosuch://bucket/x"):
        with pytest.raises(NoConnector) as missing:
            files.exists(uri)
        assert "jars" in missing.value.remedy


@pytest.fixture
def impatient(spark: SparkSession, bucket: Storage, conf: dict[str, str]) -> HadoopFiles:
    """Its S3A waits for an answer no longer than a second; by itself S3A raises any such setting to 15.

    A busy server may take longer: all that has to succeed is done by others.
    """
    jvm: Any = spark._jvm
    client = jvm.org.apache.hadoop.fs.s3a.impl.AWSClientConfig
    client.setMinimumOperationDuration(jvm.java.time.Duration.ofMillis(1000))
    configure(conf, bucket, **IMPATIENT)
    conf["fs.s3a.impl.disable.cache"] = "true"  # a file system of its own
    files = HadoopFiles(spark)
    files.qualify(bucket.root)  # makes it, and asks the server nothing
    conf.clear()
    client.resetMinimumOperationDuration()
    return files


@contextmanager
def held(s3: S3) -> Iterator[None]:
    s3.hold()
    try:
        yield
    finally:
        s3.go_on()


@contextmanager
def gone(s3: S3) -> Iterator[None]:
    s3.stop()
    try:
        yield
    finally:
        s3.start()


@pytest.mark.parametrize("trouble", [held, gone])
def test_a_server_that_does_not_answer_in_the_middle_of_a_savepoint(
    spark: SparkSession, s3: S3, bucket: Storage, impatient: HadoopFiles, trouble: object
) -> None:
    """The savepoint fails with a reason that says retry, is no savepoint, and is written when the server is
    there again.
    """

    class Files(HadoopFiles):
        copies = 0
        armed = False

        def copy(self, source: str, target: str) -> CopiedFile:
            self.copies += 1
            if self.armed and self.copies == 3:
                with trouble(s3):  # type: ignore[operator]
                    return impatient.copy(source, target)
            return super().copy(source, target)

    files = Files(spark)
    query = Query(files, bucket.folder, storage=bucket)
    query.batch()
    query.batch()
    files.armed = True
    with pytest.raises(StorageError) as failed:
        query.save("one")
    assert failed.value.retryable
    assert failed.value.remedy
    assert not (bucket.folder / "savepoints" / "one" / "manifest.json").exists()
    files.armed = False
    query._saved -= 1
    query.save("one")
    assert verify_savepoint(files, query.uri("one")) == []


@pytest.fixture
def disk(bucket: Storage) -> Iterator[Path]:
    """Of 4 MiB, which is all that the bucket has."""
    with small_disk(bucket.folder, "4m"):
        yield bucket.folder


def test_s5_a_bucket_that_is_full_or_may_not_be_written(
    spark: SparkSession, s3: S3, bucket: Storage, disk: Path, conf: dict[str, str]
) -> None:
    configure(conf, bucket, **ONCE)
    files = HadoopFiles(spark)
    query = Query(files, bucket.folder, storage=bucket)
    query.batch()
    query.save("one")
    query.batch(size=1 << 20)  # of the two files, one can be copied
    with pytest.raises(StorageFull) as full:
        query.save("two")
    assert full.value.retryable
    assert "/2.delta" in full.value.message
    query._saved -= 1
    with denied(s3), pytest.raises(AccessDenied, match=bucket.root):
        query.save("two")
    listed = {s.uri: bool(s.problem) for s in list_savepoints(files, bucket.uri(query.root))}
    assert listed == {query.uri("one"): False, query.uri("two"): True}
    # What the first attempt has left takes the room of half of what fits now: the repeat takes it away.
    remount(disk, "size=6m")
    query._saved -= 1
    query.save("two")
    assert [verify_savepoint(files, query.uri(n)) for n in ("one", "two")] == [[], []]
