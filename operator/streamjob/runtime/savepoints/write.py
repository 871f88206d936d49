"""Savepoints: copies of checkpoint directories at their boundaries that nothing ever changes.

The user owns the files (FLIP-147): they are read and copied here, never changed or deleted once the manifest is there.
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

MARKER = "streamjob-restore.json"  # in a directory that restore() filled: from where, and the query's new id


class TargetNotEmpty(StreamJobError):
    """A restore would overwrite a checkpoint or files of somebody else."""

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
    """Copy the checkpoint directories of all tasks, `(stage uid, task index) → directory`, at the batches of `checkpoint`.
    State files that the newest savepoint beside `target` has are not copied again, but shared with it (see `shared_files`).

    May be repeated after a crash. If an attempt for the same request had written the manifest for the same batches, and
    its files are there, that savepoint stands, under the number of `checkpoint`: its own may belong to another checkpoint by
    now. If the job went on after that attempt, it is written anew, for nobody was ever told of it. So is one beside the run.

    :param spark: its version, None: that of the session.
    :param live: the queries run on; what belongs to their batches is copied (see `live_files`).
    :param unsettled: tasks that do not run, and may have a batch that is planned and not committed: copied as if they ran.
    :param check: called before each file; what it raises ends the copy.
    :raises SavepointExists: another job's or another request's savepoint is there, complete or not.
    :raises NotAtBoundary: a directory is not, or no longer, at its batch. :raises StorageError: a copy failed.
    :raises SavepointOutrun: `live`, and a query was so fast that Spark has purged its batch meanwhile.
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
            return None  # purged since it was listed, see `live_files`
        return _noted(entry, done)

    entries = _there(each(copy, [item for item in listed if not item[1].shared], threads, counter))
    known = attempt.known(entries, {manifests.stage_root(*task): d.uri for task, d in directories.items()})

    state = [item for item in listed if item[1].shared]
    wanted = {s: (manifests.place(target, e), e.size) for s, e in state if FileKey.of(e) not in known}
    # Beside the run the executors' slots are the queries'.
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
    """Make `target` a copy of the checkpoint directory of a query that no StreamJob has run; the query's new id. As `restore`,
    but for hashes, which nobody has noted.

    :raises TargetNotEmpty: as `restore`. :raises NotAtBoundary: somebody runs a query from `directory`.
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
    """The order is what makes a crash harmless: the marker before any file, the metadata after all others."""
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
    """The manifest that an earlier attempt for the same checkpoint left, as this one's."""
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
    # An attempt that lost its place in the moment in which it wrote its manifest has lost its shared files to whoever took it.
    whole = not lost_shared(found.files, shared_sizes(files, manifests.shared_root(target)))
    stands = not live and whole and found.checkpoint.committed.stages == checkpoint.committed.stages
    if stands and found.checkpoint.checkpoint == checkpoint.checkpoint:
        return found
    files.delete(f"{target}/{manifests.NAME}")
    if not stands:
        return None
    # The driver before died before the index had it, and a periodic checkpoint of this one has taken its number since.
    renumbered = replace(found, checkpoint=checkpoint)
    files.write_new(f"{target}/{manifests.NAME}", manifests.dumps(renumbered))
    return renumbered


def _restored(files: HadoopFiles, source: dict[str, object], target: str) -> str | None:
    """The query id if `source` was restored to `target` before. Otherwise `target` is empty afterwards.

    :raises TargetNotEmpty: what is in it was not left by a restore.
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
        if path != MARKER:  # while it is there, what is left is known to be ours
            files.delete(f"{target}/{path}")
    files.delete(f"{target}/{MARKER}")
    return None


def _content(files: HadoopFiles, root: str) -> list[FileInfo]:
    """Files of a checkpoint directory that belong to it; none if there is no such directory. `.NAME.crc` are the local file
    system's own, which writes them beside the copy again; `NAME.crc` (since Spark 4.1) belong to the state store.

    :raises NotAtBoundary: a folder in it has vanished while it was listed.
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
    # If it is not of the listed length, another one came to its place, with another time.
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
