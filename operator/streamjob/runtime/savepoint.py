"""Savepoints: copies of checkpoint directories at their boundaries that nothing ever changes.

    SAVEPOINT/manifest.json             written last: without it there is no savepoint
    SAVEPOINT/stages/STAGE/TASK/…       the files of a checkpoint directory, as they were

The user owns the files (FLIP-147): they are read and copied here, never changed or deleted once the manifest is there.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, TypeVar

from ..protocol import manifest as manifests
from ..protocol.errors import FormatError, StreamJobError
from ..protocol.manifest import FileEntry, Manifest
from ..protocol.records import CheckpointRecord, JobRef
from .checkpointdir import CheckpointDir, NotAtBoundary
from .files import FileInfo, HadoopFiles, NotFound, StorageError

THREADS = 8
SAY_EVERY = 1.0  # seconds between two lines of progress
METADATA = "metadata"  # the query's id; Spark takes a directory without it for a new one
MARKER = "streamjob-restore.json"  # in a directory that restore() filled: from where, and the query's new id

Progress = Callable[[str], None]
In = TypeVar("In")
Out = TypeVar("Out")


class SavepointExists(StreamJobError):
    """The place is taken by another savepoint, and savepoints are never overwritten."""

    reason: ClassVar[str] = "SavepointExists"


class SavepointIncomplete(StreamJobError):
    """No manifest: it was never finished, or it is none."""

    reason = "SavepointIncomplete"


class SavepointBroken(StreamJobError):
    """A file is missing or is not what was written."""

    reason = "SavepointBroken"


class TargetNotEmpty(StreamJobError):
    """A restore would overwrite a checkpoint or files of somebody else."""

    reason = "RestoreTargetNotEmpty"


def write_savepoint(
    files: HadoopFiles,
    job: JobRef,
    checkpoint: CheckpointRecord,
    directories: Mapping[tuple[str, int], CheckpointDir],
    target: str,
    *,
    threads: int = THREADS,
    progress: Progress | None = None,
) -> Manifest:
    """Copy the checkpoint directories of all tasks, `(stage uid, task index) → directory`, at the batches of `checkpoint`.

    May be repeated after a crash. If an attempt for the same request had written the manifest for the same batches,
    that savepoint stands and its manifest is returned; if the job went on after that attempt, it is written anew,
    for nobody was ever told of it.

    :raises SavepointExists: another job's or another request's savepoint is there.
    :raises NotAtBoundary: a directory is not, or no longer, at its batch. :raises StorageError: a copy failed.
    """
    standing = _standing(files, job, checkpoint, target)
    if standing is not None:
        return standing
    batches = {(s.uid, t.index): t.batch for s in checkpoint.stages for t in s.tasks}
    copies: list[tuple[str, str]] = []
    for (stage, task), directory in directories.items():
        _check_boundary(directory, batches[stage, task])
        root = manifests.stage_root(stage, task)
        copies += [(f"{directory.uri}/{f.path}", f"{root}/{f.path}") for f in _content(files, directory.uri)]

    def copy(pair: tuple[str, str]) -> FileEntry:
        source, path = pair
        done = files.copy(source, f"{target}/{path}")
        return FileEntry(path, done.size, done.sha256)

    entries = tuple(_each(copy, copies, threads, _Counter("copied", len(copies), progress)))
    for (stage, task), directory in directories.items():
        _check_boundary(directory, batches[stage, task])
    written = manifests.new(job, files.spark.version, checkpoint, entries)
    files.write_new(f"{target}/{manifests.NAME}", manifests.dumps(written))
    return written


def read_manifest(files: HadoopFiles, savepoint: str) -> Manifest:
    """:raises SavepointIncomplete: there is none. :raises FormatError, UnknownVersion: it cannot be read."""
    where = f"{savepoint.rstrip('/')}/{manifests.NAME}"
    try:
        data = files.read_bytes(where, manifests.SIZE_LIMIT)
    except NotFound:
        raise SavepointIncomplete(
            f"{savepoint} has no {manifests.NAME}: it was never finished, or is no savepoint",
            remedy="Take another savepoint",
        ) from None
    return manifests.loads(data, where)


def verify_savepoint(
    files: HadoopFiles, savepoint: str, *, threads: int = THREADS, progress: Progress | None = None
) -> list[str]:
    """What is wrong with it, a sentence for each file; empty if every file is what was written.

    :raises SavepointIncomplete, FormatError, UnknownVersion: the manifest is missing or cannot be read.
    """
    manifest = read_manifest(files, savepoint)

    def check(entry: FileEntry) -> str | None:
        try:
            found = files.sha256(f"{savepoint.rstrip('/')}/{entry.path}")
        except NotFound:
            return f"{entry.path} is missing"
        except StorageError as e:
            return f"{entry.path} cannot be read: {e.cause}"
        return None if found == entry.sha256 else f"{entry.path} is not what was written"

    counter = _Counter("checked", len(manifest.files), progress)
    return [p for p in _each(check, manifest.files, threads, counter) if p is not None]


def restore(
    files: HadoopFiles,
    savepoint: str,
    stage: str,
    task: int,
    target: str,
    *,
    amend: Callable[[CheckpointDir], None] | None = None,
    threads: int = THREADS,
    progress: Progress | None = None,
) -> str:
    """Make `target` the checkpoint directory of one task, as it was; the query's new id.

    A savepoint can be restored many times: each gets an id of its own, for two queries of one id stop each other. May
    be repeated: what this savepoint was restored to already is left alone, also when the query has run since; what a
    crash left half restored is wiped and done again.

    :param amend: changes the files that were restored, before a query can start from them.
    :raises TargetNotEmpty: it holds anything else; nothing was changed.
    :raises SavepointBroken: a file is missing or changed; nothing can start from `target`.
    :raises SavepointIncomplete, FormatError, UnknownVersion: the manifest is missing or cannot be read.
    """
    savepoint, target = files.qualify(savepoint).rstrip("/"), target.rstrip("/")
    source = {"savepoint": savepoint, "stage": stage, "task": task}
    done = _restored(files, source, target)
    if done is not None:
        return done
    root = manifests.stage_root(stage, task) + "/"
    manifest = read_manifest(files, savepoint)
    if (stage, task) not in {(s.uid, t.index) for s in manifest.checkpoint.stages for t in s.tasks}:
        raise FormatError(f"{savepoint} holds no task {task} of stage {stage}")
    # The order is what makes a crash harmless: the marker before any file, the metadata after all others.
    query_id = str(uuid.uuid4())
    files.write_new(f"{target}/{MARKER}", json.dumps({**source, "queryId": query_id}).encode())

    def copy(entry: FileEntry) -> str | None:
        path = entry.path[len(root) :]
        try:
            if path == METADATA:
                found = files.sha256(f"{savepoint}/{entry.path}")
            else:
                found = files.copy(f"{savepoint}/{entry.path}", f"{target}/{path}").sha256
        except NotFound:
            return f"{entry.path} is missing"
        return None if found == entry.sha256 else f"{entry.path} is not what was written"

    entries = [f for f in manifest.files if f.path.startswith(root)]
    problems = [p for p in _each(copy, entries, threads, _Counter("restored", len(entries), progress)) if p]
    if problems:
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise SavepointBroken(f"{savepoint}: {problems[0]}{more}", remedy="Restore another savepoint")
    if amend is not None:
        amend(CheckpointDir(files, target))
    files.write_new(f"{target}/{METADATA}", json.dumps({"id": query_id}, separators=(",", ":")).encode())
    return query_id


def _standing(files: HadoopFiles, job: JobRef, checkpoint: CheckpointRecord, target: str) -> Manifest | None:
    """The manifest that an earlier attempt for the same checkpoint left."""
    try:
        found = read_manifest(files, target)
    except SavepointIncomplete:
        return None
    same_request = (
        found.job == job
        and checkpoint.request_id is not None
        and found.checkpoint.request_id == checkpoint.request_id
    )
    same = same_request or (found.job == job and found.checkpoint.checkpoint == checkpoint.checkpoint)
    if not same:
        raise SavepointExists(
            f"{target} holds savepoint {found.checkpoint.checkpoint} of {found.job.namespace}/{found.job.name}",
            remedy="Choose another location",
        )
    if found.checkpoint.committed.stages == checkpoint.committed.stages:
        return found
    files.delete(f"{target}/{manifests.NAME}")
    return None


def _restored(files: HadoopFiles, source: dict[str, object], target: str) -> str | None:
    """The query id if `source` was restored to `target` before. Otherwise `target` is empty afterwards.

    :raises TargetNotEmpty: what is in it was not left by a restore.
    """
    try:
        found = [f.path for f in files.list(target)]
    except NotFound:
        return None
    if MARKER not in found:
        strange = [f.path for f in files.list(target, recursive=True) if not _is_temporary(f.path)]
        if strange:
            raise TargetNotEmpty(
                f"{target} is not empty: it holds {strange[0]}", remedy="Restore into a new directory"
            )
        return None
    marker = json.loads(files.read_bytes(f"{target}/{MARKER}"))
    query_id = str(marker.pop("queryId"))
    if METADATA in found:
        if marker != source or CheckpointDir(files, target).query_id() != query_id:
            raise TargetNotEmpty(
                f"{target} holds what was restored from {marker['savepoint']}",
                remedy="Restore into a new directory",
            )
        return query_id
    for path in found:
        if path != MARKER:  # while it is there, what is left is known to be ours
            files.delete(f"{target}/{path}")
    files.delete(f"{target}/{MARKER}")
    return None


def _content(files: HadoopFiles, root: str) -> list[FileInfo]:
    """Files of a checkpoint directory that belong to it. `.NAME.crc` are the local file system's own, which writes
    them beside the copy again; `NAME.crc` (since Spark 4.1) belong to the state store."""
    try:
        found = files.list(root, recursive=True)
    except NotFound:
        return []
    return [f for f in found if f.path != MARKER and not _is_temporary(f.path)]


def _is_temporary(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return name.startswith(".") and name.endswith((".tmp", ".crc"))


def _check_boundary(directory: CheckpointDir, batch: int | None) -> None:
    found = directory.boundary()
    if found != batch:
        raise NotAtBoundary(
            f"{directory.uri} is at batch {found}, the checkpoint at batch {batch}",
            remedy="Take the checkpoint again",
        )


class _Counter:
    """Says how far a number of files has come, now and then."""

    def __init__(self, verb: str, total: int, say: Progress | None) -> None:
        self._verb, self._total, self._say = verb, total, say
        self._done = 0
        self._said = time.monotonic()

    def one_more(self) -> None:
        self._done += 1
        if self._say and time.monotonic() - self._said >= SAY_EVERY:
            self._said = time.monotonic()
            self._say(f"{self._verb} {self._done} of {self._total} files")


def _each(work: Callable[[In], Out], items: Iterable[In], threads: int, counter: _Counter) -> list[Out]:
    """All results in order; at the first error what has not begun is dropped."""
    results = []
    with ThreadPoolExecutor(threads, thread_name_prefix="streamjob-files") as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            for future in futures:
                results.append(future.result())
                counter.one_more()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return results
