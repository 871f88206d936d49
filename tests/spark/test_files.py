"""Files through Hadoop, and what a checkpoint directory says."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamjob.protocol.formats.records import OperatorKind
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir, MalformedCheckpoint, NotAtBoundary
from streamjob.storage.hadoop import (
    AccessDenied,
    FileExists,
    FileInfo,
    HadoopFiles,
    NotFound,
    StorageError,
    StorageFull,
    storage_error,
)

pytestmark = pytest.mark.any_spark
NAMES = [
    "plain",
    "with space",
    "pct%2Fslash",
    "a, b; length=3; isDirectory=true",
    "ümlaut",
    "x=1",
    "#hash",
    "q?q",
]


def test_names_are_taken_as_they_are(files: HadoopFiles, tmp_path: Path) -> None:
    for i, name in enumerate(NAMES):
        files.write_new(f"{tmp_path}/in/{name}", b"x" * i)
    expected = {(n, i) for i, n in enumerate(NAMES)}
    assert {(f.path, f.size) for f in files.list(f"file:{tmp_path}/in")} == expected
    assert {p.name for p in (tmp_path / "in").iterdir()} == set(NAMES)
    assert files.list(str(tmp_path)) == [FileInfo("in", 0, True)]
    assert {f.path for f in files.list(str(tmp_path), recursive=True)} == {f"in/{n}" for n in NAMES}
    for name in NAMES:
        files.copy(f"{tmp_path}/in/{name}", f"file://{tmp_path}/out/deep/{name}")
    assert {(f.path, f.size) for f in files.list(f"{tmp_path}/out/deep")} == expected


def test_a_copy_has_the_hash_of_what_was_read(files: HadoopFiles, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "big").write_bytes(data)
    (tmp_path / "copy").write_bytes(b"something longer was here" * 200_000)
    copied = files.copy(f"{tmp_path}/big", f"{tmp_path}/copy")
    assert (copied.size, copied.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert (tmp_path / "copy").read_bytes() == data
    assert files.sha256(f"{tmp_path}/copy") == copied.sha256
    assert files.read_bytes(f"{tmp_path}/copy", len(data)) == data
    with pytest.raises(StorageError, match="longer than 10 bytes"):
        files.read_bytes(f"{tmp_path}/copy", 10)


def test_a_file_that_the_disk_has_changed_is_not_copied(
    spark: SparkSession, files: HadoopFiles, tmp_path: Path
) -> None:
    """Spark writes through Hadoop, which keeps a checksum of each chunk beside a local file."""
    for size in (0, 1, 512, 513, 1_000_000, 3_000_000):
        data = os.urandom(size)
        place = tmp_path / str(size)
        path = spark._jvm.org.apache.hadoop.fs.Path(str(place))  # type: ignore[union-attr]
        conf = spark.sparkContext._jsc.hadoopConfiguration()
        stream = path.getFileSystem(conf).create(path)
        stream.write(data)
        stream.close()
        assert (tmp_path / f".{size}.crc").exists()
        assert files.copy(str(place), f"{tmp_path}/copy").sha256 == hashlib.sha256(data).hexdigest()
        assert (tmp_path / "copy").read_bytes() == data
        if size:
            place.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
            with pytest.raises(StorageError, match=r"(?i)checksum"):
                files.copy(str(place), f"{tmp_path}/copy")


def test_a_new_file_replaces_nothing_and_leaves_nothing(files: HadoopFiles, tmp_path: Path) -> None:
    files.write_new(f"{tmp_path}/deep/m", b"one")
    with pytest.raises(FileExists, match=r"cannot write .*/deep/m: it exists"):
        files.write_new(f"{tmp_path}/deep/m", b"two")
    assert [(p.name, p.read_bytes()) for p in (tmp_path / "deep").iterdir()] == [("m", b"one")]
    files.delete(f"{tmp_path}/deep")
    files.delete(f"{tmp_path}/deep")
    assert not files.exists(f"{tmp_path}/deep")


def test_a_deletion_that_fails_says_so(files: HadoopFiles) -> None:
    with pytest.raises(StorageError, match="cannot delete file:/proc/self/status: "):
        files.delete("file:/proc/self/status")


def test_a_file_system_that_is_not_the_local_disk(spark: SparkSession, tmp_path: Path) -> None:
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set("fs.viewfs.mounttable.streamjob.link./data", f"file:{tmp_path}")
    files = HadoopFiles(spark)
    root = "viewfs://streamjob/data"
    files.write_new(f"{root}/deep/m", b"one")
    with pytest.raises(FileExists):
        files.write_new(f"{root}/deep/m", b"two")
    copied = files.copy(f"{root}/deep/m", f"{root}/copies/of m")
    assert (copied.size, copied.sha256) == (3, files.sha256(f"{root}/copies/of m"))
    assert {f.path for f in files.list(root, recursive=True)} == {"deep/m", "copies/of m"}
    assert files.qualify(f"{root}/x") == f"{root}/x"
    files.delete(f"{root}/deep")
    with pytest.raises(NotFound):
        files.list(f"{root}/deep")


def test_what_cannot_be_done_is_one_sentence(files: HadoopFiles, tmp_path: Path) -> None:
    with pytest.raises(NotFound) as missing:
        files.read_bytes(f"{tmp_path}/none")
    with pytest.raises(NotFound):
        files.list(f"{tmp_path}/none")
    with pytest.raises(StorageError, match="No FileSystem for scheme") as scheme:
        files.exists("nosuch://bucket/x")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError) as below:
        files.write_new(f"{tmp_path}/file/x", b"")
    for caught in (missing, scheme, below):
        assert len(str(caught.value).splitlines()) == 1
        assert caught.value.remedy


@pytest.mark.parametrize(
    ("names", "message", "kind", "retryable"),
    [
        (["IOException"], "No space left on device", StorageFull, True),
        (["AWSBadRequestException", "AccessDeniedException"], "s3a://b/k: 403", AccessDenied, False),
        # Of Ceph and of MinIO, which have quotas.
        (
            ["AccessDeniedException"],
            "s3a://b/k: (Service: S3, Status Code: 403):QuotaExceeded",
            StorageFull,
            True,
        ),
        (
            ["AWSServiceIOException"],
            "s3a://b/k: (Service: S3, Status Code: 507):XMinioStorageFull",
            StorageFull,
            True,
        ),
        (["FileNotFoundException"], "", NotFound, False),
        (["SocketTimeoutException"], "read timed out\n\tat java", StorageError, True),
    ],
)
def test_kinds_of_failure(names: list[str], message: str, kind: type[StorageError], retryable: bool) -> None:
    error = storage_error("s3a://b/k", "read", names, message)
    assert (type(error), error.retryable) == (kind, retryable)
    assert "\n" not in error.message


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A directory at batch 10, with what else Spark leaves there."""
    for folder in ("offsets", "commits", "state/0/_metadata", "state/1/_metadata/v2", "sources/0"):
        (tmp_path / folder).mkdir(parents=True)
    for batch in (8, 9, 10):
        entry = ["v1", json.dumps({"batchWatermarkMs": batch, "conf": {}}), '{"logOffset":3}', "-"]
        (tmp_path / "offsets" / str(batch)).write_text("\n".join(entry))
        (tmp_path / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    for litter in (
        "offsets/.11.tmp",
        "offsets/.10.crc",
        "offsets/99.tmp",
        "commits/11.compact",
        "offsets/12.delete",
    ):
        (tmp_path / litter).write_text("")
    (tmp_path / "metadata").write_text('{"id":"c0ffee"}')
    one = {"operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"}}
    (tmp_path / "state/0/_metadata/metadata").write_text("v1\n" + json.dumps(one))
    for version, name in (("0", "old"), ("3", "transformWithState")):
        two = {"operatorInfo": {"operatorId": 1, "operatorName": name}}
        (tmp_path / "state/1/_metadata/v2" / version).write_text("v2\n" + json.dumps(two))
    return tmp_path


def test_a_checkpoint_directory(files: HadoopFiles, checkpoint: Path) -> None:
    directory = CheckpointDir(files, f"{checkpoint}/")
    assert (directory.latest_offset(), directory.latest_commit(), directory.boundary()) == (10, 10, 10)
    assert (directory.watermark(9), directory.query_id(), directory.is_drained()) == (9, "c0ffee", False)
    assert directory.source_offsets(10) == {"0": '{"logOffset":3}', "1": None}
    assert [(o.uid, o.name, o.kind) for o in directory.operators()] == [
        ("source-0", "source-0", OperatorKind.SOURCE),
        ("source-1", "source-1", OperatorKind.SOURCE),
        ("state-0", "stateStoreSave", OperatorKind.STATE),
        ("state-1", "transformWithState", OperatorKind.STATE),
        ("sink", "sink", OperatorKind.SINK),
    ]
    (checkpoint / "commits" / "10").unlink()
    with pytest.raises(NotAtBoundary, match="batch 10 is planned, batch 9 is the last committed"):
        directory.boundary()


def test_a_directory_where_nothing_ran(files: HadoopFiles, tmp_path: Path) -> None:
    directory = CheckpointDir(files, str(tmp_path / "none"))
    assert (directory.boundary(), directory.query_id(), directory.is_drained()) == (None, None, False)
    assert not directory.has_state()
    assert [o.uid for o in directory.operators()] == ["source-0", "sink"]


@pytest.mark.parametrize("entry", ["", "v1", "v3\n{}\n", "v1\n{", "v1\n[]\n-", "v1\n{}\n-"])
def test_an_entry_that_is_none(files: HadoopFiles, checkpoint: Path, entry: str) -> None:
    (checkpoint / "offsets" / "10").write_text(entry)
    (checkpoint / "offsets" / ".10.crc").unlink()
    with pytest.raises(MalformedCheckpoint, match="offsets/10"):
        CheckpointDir(files, str(checkpoint)).is_drained()
