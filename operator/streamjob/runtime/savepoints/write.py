"""Writes savepoints, which are copies of checkpoint directories at their boundaries.

The user owns the files of a savepoint (FLIP-147). Once its manifest is announced, nothing in this module
changes or deletes them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from ...protocol.formats import manifest as manifests
from ...protocol.formats.manifest import FileEntry, Manifest, TableVersion
from ...protocol.formats.records import CheckpointRecord, JobRef
from ...storage import executor_copy
from ...storage.hadoop import CopiedFile, HadoopFiles, NotFound
from ...storage.parallel import THREADS, Counter, Progress, each
from ..spark.checkpoint_dir import CheckpointDir, NotAtBoundary
from . import batch_files
from .layout import SavepointExists, SavepointIncomplete, content, read_manifest
from .shared_files import Attempt, FileKey, is_state, lost_shared, settled, shared_sizes


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
    tables: Callable[[], tuple[TableVersion, ...]] = tuple,
    threads: int = THREADS,
    progress: Progress | None = None,
) -> Manifest:
    """Copy the checkpoint directories of all tasks at the batches of `checkpoint`; write the manifest last.

    Of the logs, only what the next batch needs is copied (see `batch_files`).
    State files that the job's newest savepoint in the same root already has are not copied again but shared
    with it (see `shared_files`).

    May be repeated after a crash. If an earlier attempt for the same request wrote the manifest for the same
    batches, and its shared files still exist, that savepoint is kept under the number of `checkpoint`;
    another checkpoint may have its old number by now. If the job has committed more batches since, the
    savepoint is written again: the earlier attempt was never announced. A live savepoint is always written
    again.

    :param directories: (stage uid, task index) → checkpoint directory.
    :param target: URI of the savepoint.
    :param live: the queries keep running, so the files of later batches are left out.
    :param unsettled: tasks that do not run but may have an uncommitted batch; copied as if they ran.
    :param spark: Spark's version, None for that of the session.
    :param check: called before each file; an exception from it ends the copy.
    :param tables: reads the versions of the tables that the tasks write to.
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
            inside = batch_files.files_of(directory, batch, [content(files, directory.uri) for _ in range(2)])
        else:
            _check_boundary(directory, batch)
            inside = batch_files.without_old_entries(directory, content(files, directory.uri))
        root = manifests.stage_root(stage, task)
        for found in inside:
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
            return None  # purged since the listing, see `batch_files`
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
            batch_files.refuse_outrun(directory, batches[stage, task], paths)
        else:
            _check_boundary(directory, batches[stage, task])
    check()
    written = manifests.new(job, spark or files.spark_version, checkpoint, tuple(entries), tables())
    attempt.check(entries)
    files.write_new(f"{target}/{manifests.NAME}", manifests.dumps(written))
    return written


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
            f"{target} holds savepoint {found.checkpoint.checkpoint} of "
            f"{found.job.namespace}/{found.job.name}",
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
