"""Restores checkpoint directories from savepoints, and adopts those that no StreamJob has run.

Both copy into a directory that the job has to itself. What they copy from is only read.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import ClassVar

from ...protocol.errors import FormatError, StreamJobError
from ...protocol.formats import manifest as manifests
from ...protocol.formats.manifest import FileEntry
from ...storage.hadoop import HadoopFiles, NotFound
from ...storage.parallel import THREADS, Counter, Progress, each
from ..spark.checkpoint_dir import METADATA, CheckpointDir, NotAtBoundary, is_temporary
from .layout import MARKER, broken, changed, content, copy_entry, missing, read_manifest


class TargetNotEmpty(StreamJobError):
    """A restore would overwrite another checkpoint or foreign files."""

    reason: ClassVar[str] = "RestoreTargetNotEmpty"


def restore(
    files: HadoopFiles,
    savepoint: str,
    stage: str,
    task: int,
    target: str,
    *,
    amend: Callable[[CheckpointDir], None] | None = None,
    needed: Callable[[str], bool] = lambda path: True,
    threads: int = THREADS,
    progress: Progress | None = None,
) -> str:
    """Restore the checkpoint directory of one task into `target`.

    A savepoint can be restored many times. Each restore gets a new query id, because two queries with the
    same id stop each other.

    May be repeated. A completed restore of this savepoint is left alone, even if the query has run since. A
    restore that a crash interrupted is deleted and done again.

    :param amend: changes the restored files before a query can start from them.
    :param needed: whether a file of the directory is to be copied. A query needs all.
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
        entries = [f for f in manifest.files if f.path.startswith(root) and needed(f.path[len(root) :])]
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
    needed: Callable[[str], bool] = lambda path: True,
    threads: int = THREADS,
) -> str:
    """Copy into `target` the checkpoint directory of a query that no StreamJob has run.

    Works as `restore`, but cannot verify the files: nobody recorded their hashes. The copy keeps the query
    id, so that a Delta or Iceberg table skips a batch that it has and Spark's commit log has not.

    :param amend: changes the copied files before a query can start from them.
    :returns: the query's id.
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
        paths = [f.path for f in content(files, directory.uri) if f.path != METADATA and needed(f.path)]
        each(copy, paths, threads, Counter("copied", len(paths), None))
        if before != (directory.latest_offset(), directory.latest_commit()):
            raise NotAtBoundary(
                f"{directory.uri} has changed while it was copied", remedy="Stop the query that runs from it"
            )

    return _fill(files, source, target, copy_all, amend, directory.query_id())


def _fill(
    files: HadoopFiles,
    source: dict[str, object],
    target: str,
    copy_all: Callable[[], None],
    amend: Callable[[CheckpointDir], None] | None,
    query_id: str | None = None,
) -> str:
    """Fill `target`: first the marker, then the files, then Spark's `metadata`.

    The order makes a crash harmless: the marker identifies the files as ours, and without `metadata` no
    restore counts as complete.

    :param query_id: None for a new one.
    :returns: the query's id.
    """
    query_id = query_id or str(uuid.uuid4())
    files.write_new(f"{target}/{MARKER}", json.dumps({**source, "queryId": query_id}).encode())
    copy_all()
    if amend is not None:
        amend(CheckpointDir(files, target))
    CheckpointDir(files, target).begin_as(query_id)
    return query_id


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
