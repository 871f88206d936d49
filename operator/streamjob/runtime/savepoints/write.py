"""Writes savepoints, which are copies of checkpoint directories at their boundaries, and restores them.

The user owns the files of a savepoint (FLIP-147). Once its manifest is announced, nothing in this module
changes or deletes them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import ClassVar

from ...protocol import manifest as manifests
from ...protocol.errors import FormatError, StreamJobError
from ...protocol.manifest import FileEntry, Manifest
from ...protocol.records import CheckpointRecord, JobRef
from ..spark.checkpoint_dir import METADATA, CheckpointDir, NotAtBoundary, is_temporary
from ..storage import executor_copy
from ..storage.hadoop import CopiedFile, FileInfo, HadoopFiles, NotFound
from ..storage.parallel import THREADS, Counter, Progress, each
from . import live_files
from .layout import SavepointExists, SavepointIncomplete, broken, changed, copy_entry, missing, read_manifest
from .shared_files import Attempt, FileKey, is_state, lost_shared, settled, shared_sizes

MARKER = "streamjob-restore.json"  # in a restored directory: what it was restored from, the query's new id


class TargetNotEmpty(StreamJobError):
    """A restore would overwrite another checkpoint or foreign files."""

    reason: ClassVar[str] = "RestoreTargetNotEmpty"


def write_savepoint(
    files: HadoopFiles,
    job: JobRef,
    checkpoint: CheckpointRecord,
    directories: Mapping[tuple[str, int], CheckpointDir],
    target: str,
    *,
    live: bool = False,
    unsettled: Collection[tuple[str, int]] = (),
    spark: str | None = None,
    check: Callable[[], None] = lambda: None,
    threads: int = THREADS,
    progress: Progress | None = None,
) -> Manifest:
    """Copy the checkpoint directories of all tasks at the batches of `checkpoint`; write the manifest last.

    State files that the job's newest savepoint in the same root already has are not copied again but shared
    with it (see `shared_files`).

    May be repeated after a crash. If an earlier attempt for the same request wrote the manifest for the same
    batches, and its shared files still exist, that savepoint is kept under the number of `checkpoint`;
    another checkpoint may have its old number by now. If the job has committed more batches since, the
    savepoint is written again: the earlier attempt was never announced. A live savepoint is always written
    again.

    :param directories: (stage uid, task index) → checkpoint directory.
    :param target: URI of the savepoint.
    :param live: the queries keep running, so only the files of their batches are copied (see `live_files`).
    :param unsettled: tasks that do not run but may have an uncommitted batch; copied as if they ran.
    :param spark: Spark's version, None for that of the session.
    :param check: called before each file; an exception from it ends the copy.
    :returns: the manifest.
    :raises SavepointExists: another job's or another request's savepoint is there, complete or not.
    :raises NotAtBoundary: a directory is not, or no longer, at its batch.
    :raises StorageError: a copy failed.
    :raises SavepointOutrun: a live or unsettled task no longer has its batch, because Spark purged it
        meanwhile.
    """
    target = target.rstrip("/")
    standing = _standing(files, job, checkpoint, target, live)
    if standing is not None:
        return standing
    batches = {(s.uid, t.index): t.batch for s in checkpoint.stages for t in s.tasks}
    attempt = Attempt(files, target)
    attempt.begin(job, checkpoint)
    listed: list[tuple[str, FileEntry]] = []  # URI in the checkpoint directory, entry without a hash
    for (stage, task), directory in directories.items():
        batch = batches[stage, task]
        if live or (stage, task) in unsettled:
            content = live_files.files_of(
                directory, batch, [_content(files, directory.uri) for _ in range(2)]
            )
        else:
            _check_boundary(directory, batch)
            content = _content(files, directory.uri)
        root = manifests.stage_root(stage, task)
        for found in content:
            entry = FileEntry(f"{root}/{found.path}", found.size, "", modified=settled(found))
            name = attempt.new_name() if is_state(found.path) else None
            listed.append((f"{directory.uri}/{found.path}", replace(entry, shared=name)))
    counter = Counter("copied", len(listed), progress)

    def copy(item: tuple[str, FileEntry]) -> FileEntry | None:
        source, entry = item
        check()
        try:
            done = files.copy(source, manifests.place(target, entry))
        except NotFound:
            if not live:
                raise
            return None  # purged since the listing, see `live_files`
        return _noted(entry, done)

    entries = _there(each(copy, [item for item in listed if not item[1].shared], threads, counter))
    known = attempt.known(entries, {manifests.stage_root(*task): d.uri for task, d in directories.items()})

    state = [item for item in listed if item[1].shared]
    wanted = {s: (manifests.place(target, e), e.size) for s, e in state if FileKey.of(e) not in known}
    # While queries run, the executors' slots belong to them.
    done = {} if live else executor_copy.copy(files, wanted, f"{target}/{manifests.BEGUN}", check, progress)

    def share(item: tuple[str, FileEntry]) -> FileEntry | None:
        source, entry = item
        return _noted(entry, done[source]) if source in done else known.get(FileKey.of(entry)) or copy(item)

    entries += _there(each(share, state, threads, counter))
    for (stage, task), directory in directories.items():
        if live or (stage, task) in unsettled:
            root = manifests.stage_root(stage, task) + "/"
            paths = {e.path.removeprefix(root) for _, e in listed if e.path.startswith(root)}
            live_files.refuse_outrun(directory, batches[stage, task], paths)
        else:
            _check_boundary(directory, batches[stage, task])
    check()
    written = manifests.new(job, spark or files.spark.version, checkpoint, tuple(entries))
    attempt.check(entries)
    files.write_new(f"{target}/{manifests.NAME}", manifests.dumps(written))
    return written


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
    """Restore the checkpoint directory of one task into `target`.

    A savepoint can be restored many times. Each restore gets a new query id, because two queries with the
    same id stop each other.

    May be repeated. A completed restore of this savepoint is left alone, even if the query has run since. A
    restore that a crash interrupted is deleted and done again.

    :param amend: changes the restored files before a query can start from them.
    :returns: the query's new id.
    :raises TargetNotEmpty: `target` holds anything else; nothing was changed.
    :raises SavepointBroken: a file is missing or changed; no query can start from `target`.
    :raises SavepointIncomplete: there is no manifest.
    :raises FormatError: the manifest cannot be read, or has no such task.
    :raises UnknownVersion: a newer StreamJob wrote the manifest.
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

    def copy(entry: FileEntry) -> str | None:
        path = entry.path[len(root) :]
        if path != METADATA:
            return copy_entry(files, savepoint, entry, f"{target}/{path}")
        try:
            found = files.sha256(manifests.place(savepoint, entry))
        except NotFound:
            return missing(entry)
        return None if found == entry.sha256 else changed(entry)

    def copy_all() -> None:
        entries = [f for f in manifest.files if f.path.startswith(root)]
        problems = [p for p in each(copy, entries, threads, Counter("restored", len(entries), progress)) if p]
        if problems:
            raise broken(savepoint, problems)

    return _fill(files, source, target, copy_all, amend)


def adopt(
    files: HadoopFiles,
    directory: CheckpointDir,
    target: str,
    *,
    amend: Callable[[CheckpointDir], None] | None = None,
    threads: int = THREADS,
) -> str:
    """Copy into `target` the checkpoint directory of a query that no StreamJob has run.

    Works as `restore`, but cannot verify the files: nobody recorded their hashes.

    :param amend: changes the copied files before a query can start from them.
    :returns: the query's new id.
    :raises TargetNotEmpty: as `restore`.
    :raises NotAtBoundary: a query is running from `directory`.
    """
    target = target.rstrip("/")
    source: dict[str, object] = {"directory": directory.uri}
    done = _restored(files, source, target)
    if done is not None:
        return done

    def copy(path: str) -> None:
        files.copy(f"{directory.uri}/{path}", f"{target}/{path}")

    def copy_all() -> None:
        before = directory.latest_offset(), directory.latest_commit()
        paths = [f.path for f in _content(files, directory.uri) if f.path != METADATA]
        each(copy, paths, threads, Counter("copied", len(paths), None))
        if before != (directory.latest_offset(), directory.latest_commit()):
            raise NotAtBoundary(
                f"{directory.uri} has changed while it was copied", remedy="Stop the query that runs from it"
            )

    return _fill(files, source, target, copy_all, amend)


def _fill(
    files: HadoopFiles,
    source: dict[str, object],
    target: str,
    copy_all: Callable[[], None],
    amend: Callable[[CheckpointDir], None] | None,
) -> str:
    """Fill `target`: first the marker, then the files, then Spark's `metadata`.

    The order makes a crash harmless: the marker identifies the files as ours, and without `metadata` no
    restore counts as complete.

    :returns: the query's new id.
    """
    query_id = str(uuid.uuid4())
    files.write_new(f"{target}/{MARKER}", json.dumps({**source, "queryId": query_id}).encode())
    copy_all()
    if amend is not None:
        amend(CheckpointDir(files, target))
    files.write_new(f"{target}/{METADATA}", json.dumps({"id": query_id}, separators=(",", ":")).encode())
    return query_id


def _standing(
    files: HadoopFiles, job: JobRef, checkpoint: CheckpointRecord, target: str, live: bool
) -> Manifest | None:
    """The manifest of an earlier attempt for the same request or checkpoint, renumbered to `checkpoint`.

    If that savepoint does not stand, its manifest is deleted.

    :returns: None if the savepoint must be written.
    :raises SavepointExists: the manifest is that of another savepoint.
    """
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
    # If an attempt lost the target at the moment it wrote its manifest, the attempt that took over deleted
    # its shared files.
    whole = not lost_shared(found.files, shared_sizes(files, manifests.shared_root(target)))
    stands = not live and whole and found.checkpoint.committed.stages == checkpoint.committed.stages
    if stands and found.checkpoint.checkpoint == checkpoint.checkpoint:
        return found
    files.delete(f"{target}/{manifests.NAME}")
    if not stands:
        return None
    # The previous driver died before the savepoint was committed to the index, and a periodic checkpoint of
    # this driver has used its number since.
    renumbered = replace(found, checkpoint=checkpoint)
    files.write_new(f"{target}/{manifests.NAME}", manifests.dumps(renumbered))
    return renumbered


def _restored(files: HadoopFiles, source: dict[str, object], target: str) -> str | None:
    """The query id if `source` was restored to `target` before. Otherwise `target` has no files afterwards.

    Temporary files that a writer left in a directory without a marker may stay.

    :raises TargetNotEmpty: `target` holds files that no restore left, or another completed restore.
    """
    try:
        found = [f.path for f in files.list(target)]
    except NotFound:
        return None
    if MARKER not in found:
        strange = [f.path for f in files.list(target, recursive=True) if not is_temporary(f.path)]
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
                f"{target} holds what was restored from {marker.get('savepoint') or marker.get('directory')}",
                remedy="Restore into a new directory",
            )
        return query_id
    for path in found:
        if path != MARKER:  # while the marker exists, the remaining files are known to be ours
            files.delete(f"{target}/{path}")
    files.delete(f"{target}/{MARKER}")
    return None


def _content(files: HadoopFiles, root: str) -> list[FileInfo]:
    """The files that belong to a checkpoint directory; empty if there is no such directory.

    `.NAME.crc` files belong to Hadoop's local file system and are left out: a copy has none. `NAME.crc` files
    (since Spark 4.1) belong to the state store.

    :raises NotAtBoundary: a folder in it vanished during the listing.
    """
    try:
        found = files.list(root, recursive=True)
    except NotFound as e:
        if files.exists(root):
            raise NotAtBoundary(
                f"{root} has changed while it was listed: {e.cause}", remedy="It is tried again"
            ) from e
        return []
    return [f for f in found if f.path != MARKER and not is_temporary(f.path)]


def _noted(entry: FileEntry, done: CopiedFile) -> FileEntry:
    # If the size is not the listed one, another file replaced it, with another time.
    modified = entry.modified if done.size == entry.size else None
    return replace(entry, size=done.size, sha256=done.sha256, modified=modified)


def _there(entries: list[FileEntry | None]) -> list[FileEntry]:
    return [e for e in entries if e is not None]


def _check_boundary(directory: CheckpointDir, batch: int | None) -> None:
    found = directory.boundary()
    if found != batch:
        raise NotAtBoundary(
            f"{directory.uri} is at batch {found}, the checkpoint at batch {batch}",
            remedy="Take the checkpoint again",
        )
