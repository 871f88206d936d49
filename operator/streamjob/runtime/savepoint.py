"""Savepoints on storage: written so that a half one is never taken for whole, and read back only if every byte is right."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ..protocol import manifest as mf
from ..protocol.errors import StreamJobError
from ..protocol.manifest import FileEntry, Manifest
from ..protocol.records import CheckpointRecord, JobRef
from .checkpointdir import CheckpointDir
from .files import FileExists, FileMissing, HadoopFiles

THREADS = 8  # copies at once, each a few buffers of memory
NAMESPACE = uuid.UUID("6f1a4a3e-5b1f-4d0e-9a53-0a1b7f5f7c11")

Progress = Callable[[str], None]
A = TypeVar("A")
B = TypeVar("B")


class NoSavepoint(StreamJobError):
    """There is no manifest: nothing was ever completed there."""

    reason = "SavepointIncomplete"


class BrokenSavepoint(StreamJobError):
    """A file is missing, or is not the one that was saved."""

    reason = "SavepointBroken"


class TargetNotEmpty(StreamJobError):
    """Another query's checkpoint is where a savepoint should go."""

    reason = "CheckpointLocationInUse"


def write_savepoint(
    files: HadoopFiles,
    job: JobRef,
    spark: str,
    checkpoint: CheckpointRecord,
    directories: Mapping[tuple[str, int], CheckpointDir],
    progress: Progress = lambda _: None,
) -> Manifest:
    """Copy the directories, whose queries stand at their boundaries, to `checkpoint.savepoint`; the manifest last.

    A savepoint that is there already with the same request is returned as it is: an attempt before this one completed it
    and died. Half-written files of such an attempt are overwritten, ones that it left beside them removed.

    :raises FileExists: another savepoint is there. :raises StorageError: as the storage says.
    """
    target = checkpoint.savepoint
    assert target is not None
    if files.exists(f"{target}/{mf.NAME}"):
        there = read_manifest(files, target)
        if there.job == job and there.checkpoint.request_id == checkpoint.request_id:
            return there
        raise FileExists(target, "write", "another savepoint is there", remedy="Choose another location")
    files.delete(f"{target}/stages")
    work = [
        (f"{directory.uri}/{path}", f"{mf.stage_root(stage, task)}/{path}")
        for (stage, task), directory in directories.items()
        for path in files.walk(directory.uri)
    ]
    entries = _copy_all(
        files, [(source, path, f"{target}/{path}") for source, path in work], progress, "saving"
    )
    manifest = mf.new(job, spark, checkpoint, tuple(entries))
    files.write_new(f"{target}/{mf.NAME}", mf.dumps(manifest))
    return manifest


def read_manifest(files: HadoopFiles, savepoint: str) -> Manifest:
    """:raises NoSavepoint: there is none. :raises FormatError, UnknownVersion: it cannot be read."""
    uri = f"{savepoint.rstrip('/')}/{mf.NAME}"
    try:
        data = files.read_bytes(uri, mf.SIZE_LIMIT)
    except FileMissing:
        raise NoSavepoint(
            f"{savepoint} is no complete savepoint: it has no {mf.NAME}, which is written last",
            remedy="Name another one in spec.restoreFrom.savepoint",
        ) from None
    return mf.loads(data, uri)


def verify_savepoint(files: HadoopFiles, savepoint: str, progress: Progress = lambda _: None) -> list[str]:
    """Read every file; one sentence for each that is not as the manifest says, [] if all are."""
    manifest = read_manifest(files, savepoint)

    def check(entry: FileEntry) -> str | None:
        uri = f"{savepoint}/{entry.path}"
        try:
            found = files.sha256(uri)
        except FileMissing:
            return f"{uri} is missing"
        except StreamJobError as e:
            # A file system with checksums of its own (HDFS, a volume) may notice before we do.
            return f"{uri} cannot be read: {e.message}"
        return (
            None
            if found.sha256 == entry.sha256
            else f"{uri} is not the file that was saved (its hash differs)"
        )

    return [problem for problem in _parallel(check, manifest.files, progress, "verifying") if problem]


def restore(
    files: HadoopFiles, savepoint: str, stage: str, task: int, directory: CheckpointDir, job: JobRef
) -> Manifest:
    """Fill a checkpoint directory from a savepoint, which stays untouched.

    The restored query has an id of its own (two queries with one id in a driver stop each other), derived from job,
    savepoint and stage. `metadata`, which holds it, is written last: without it the directory is a half-done restore and is
    made anew; with exactly this id the restore was done by an earlier epoch and nothing happens.

    :raises TargetNotEmpty: the directory is another query's.
    :raises BrokenSavepoint: names the first file that is not as it was saved; no query can start from what was copied.
    """
    manifest = read_manifest(files, savepoint)
    query_id = str(uuid.uuid5(NAMESPACE, f"{job.uid} {savepoint} {stage} {task}"))
    there = directory.query_id()
    if there == query_id:
        return manifest
    if there is not None:
        raise TargetNotEmpty(
            f"{directory.uri} holds the checkpoint of another query",
            remedy="Let the script use a fresh checkpointLocation, or start without restoreFrom",
        )
    files.delete(directory.uri)
    root = mf.stage_root(stage, task) + "/"
    wanted = [e for e in manifest.files if e.path.startswith(root) and e.path != f"{root}metadata"]
    expected = {e.path: e for e in wanted}
    work = [(f"{savepoint}/{e.path}", e.path, f"{directory.uri}/{e.path[len(root) :]}") for e in wanted]
    try:
        for copied in _copy_all(files, work, lambda _: None, "restoring"):
            if copied != expected[copied.path]:
                raise BrokenSavepoint(
                    f"{savepoint}/{copied.path} is not the file that was saved: its hash differs",
                    remedy="Restore another savepoint",
                )
    except StreamJobError as e:
        files.delete(directory.uri)
        if isinstance(e, FileMissing):
            raise BrokenSavepoint(f"{e.uri} is missing", remedy="Restore another savepoint") from None
        raise
    files.write_new(f"{directory.uri}/metadata", json.dumps({"id": query_id}).encode())
    return manifest


def _copy_all(
    files: HadoopFiles, work: list[tuple[str, str, str]], progress: Progress, what: str
) -> list[FileEntry]:
    def copy(item: tuple[str, str, str]) -> FileEntry:
        source, path, target = item
        copied = files.copy(source, target)
        return FileEntry(path, copied.size, copied.sha256)

    return _parallel(copy, work, progress, what)


def _parallel(call: Callable[[A], B], items: Sequence[A], progress: Progress, what: str) -> list[B]:
    """In order. The first error ends it: copies that run are awaited, those that wait are given up."""
    results: list[B] = []
    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(call, item) for item in items]
        try:
            for future in futures:
                results.append(future.result())
                if len(results) % 50 == 0 or len(results) == len(items):
                    progress(f"{what}: {len(results)} of {len(items)} files")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return results
