"""Lists, exports and deletes savepoints on storage. No job has to run.

Plain functions: `files` is a `HadoopFiles` of a session or of a `SmallJvm`. URIs are absolute, without a
trailing slash (`HadoopFiles.qualify`). The command `python -m streamjob.runtime savepoint` uses them.
"""

from __future__ import annotations

import uuid
from collections import Counter as Multiset
from dataclasses import dataclass, replace

from ...protocol.errors import FormatError
from ...protocol.formats import manifest as manifests
from ...protocol.formats.manifest import FileEntry, Manifest
from ...protocol.formats.records import JobRef
from ...protocol.formats.savepoint_cause import why
from ...storage.hadoop import FileInfo, HadoopFiles, NotFound
from ...storage.parallel import THREADS, Counter, Progress, each
from .layout import (
    SavepointExists,
    SavepointIncomplete,
    broken,
    copy_entry,
    read_begun,
    read_manifest,
    write_begun,
)
from .shared_files import Swept, lost_shared, names_in, shared_sizes, sweep

DEPTH = 2  # the root is a folder of one job's savepoints, or a folder of such folders


@dataclass(frozen=True)
class Listed:
    """A savepoint in a listing.

    A savepoint with a `problem` cannot be restored: it is incomplete, its manifest cannot be read, or shared
    files that it needs are missing. A listing does not read the files' contents; `verify_savepoint` does.

    :param at: when it was completed, or when an incomplete one was begun; RFC 3339.
    :param scenario: how the savepoint ended the job, None if it did not.
    :param drained: the job was drained, so it is not expected to resume.
    :param files: number of its files.
    :param size: bytes of all its files.
    :param own: bytes of the files that no other savepoint has; its deletion frees them.
    :param why: why it was taken, in one word.
    """

    uri: str
    problem: str | None
    job: JobRef | None
    request_id: str | None
    at: str | None
    scenario: str | None = None
    drained: bool | None = None
    files: int | None = None
    size: int | None = None
    own: int | None = None
    why: str | None = None


@dataclass(frozen=True)
class Deleted:
    """The result of a deletion.

    :param files: number of files in the savepoint's own folder, 0 if the folder no longer existed.
    :param shared: the shared files of the root that no savepoint used.
    """

    uri: str
    files: int
    shared: Swept


def list_savepoints(files: HadoopFiles, root: str) -> list[Listed]:
    """The savepoints in a folder and up to `DEPTH` levels below it, complete or not, newest first.

    :raises NotFound: there is no such folder.
    """
    manifests_of: dict[str, Manifest] = {}
    found: list[Listed] = []
    for uri in _savepoints(files, root, files.list(root), DEPTH):
        try:
            manifests_of[uri] = read_manifest(files, uri)
        except (SavepointIncomplete, FormatError) as e:
            begun = read_begun(files, uri)
            problem = "incomplete" if isinstance(e, SavepointIncomplete) else e.message
            job, request, at = (
                (begun.job, begun.request_id, begun.started_at) if begun else (None, None, None)
            )
            found.append(Listed(uri, problem, job, request, at))
    holders = Multiset(
        place for uri, m in manifests_of.items() for place in {manifests.place(uri, e) for e in m.files}
    )
    # List the shared files after reading the manifests: a savepoint that is being written has its shared
    # files before its manifest.
    there = {f: shared_sizes(files, f) for f in {manifests.shared_root(uri) for uri in manifests_of}}
    for uri, manifest in manifests_of.items():
        record = manifest.checkpoint
        lost = lost_shared(manifest.files, there[manifests.shared_root(uri)])
        own = sum(e.size for e in manifest.files if holders[manifests.place(uri, e)] == 1)
        found.append(
            Listed(
                uri,
                f"{len(lost)} of its shared files are gone, the first: {lost[0].path}" if lost else None,
                manifest.job,
                record.request_id,
                record.completed_at,
                record.scenario.value if record.scenario else None,
                record.leaves_nothing,
                len(manifest.files),
                manifest.size,
                own,
                why(record),
            )
        )
    return sorted(found, key=lambda s: (s.at or "", s.uri), reverse=True)


def export(
    files: HadoopFiles,
    savepoint: str,
    target: str,
    *,
    threads: int = THREADS,
    progress: Progress | None = None,
) -> Manifest:
    """Copy a savepoint so that the copy shares no files.

    The copy can be moved and does not depend on the original. Every file is verified while it is copied. The
    manifest is written last. May be repeated.

    :returns: the manifest of the copy.
    :raises SavepointExists: `target` holds something else.
    :raises SavepointBroken: a file is missing or changed; the copy has no manifest.
    :raises SavepointIncomplete: there is no savepoint to copy.
    :raises FormatError: its manifest cannot be read.
    """
    manifest = read_manifest(files, savepoint)
    alone = tuple(replace(e, shared=None, modified=None) for e in manifest.files)
    copy = replace(manifest, files=alone, checkpoint=replace(manifest.checkpoint, savepoint=target))
    if _take_for_export(files, target, copy):
        return copy

    def one(entry: FileEntry) -> str | None:
        return copy_entry(files, savepoint, entry, f"{target}/{entry.path}")

    problems = each(one, manifest.files, threads, Counter("copied", len(manifest.files), progress))
    if found := [p for p in problems if p is not None]:
        raise broken(savepoint, found)
    files.write_new(f"{target}/{manifests.NAME}", manifests.dumps(copy))
    return copy


def _take_for_export(files: HadoopFiles, target: str, copy: Manifest) -> bool:
    """Claim `target` for the copy with `begun.json`, unless the complete copy is already there.

    :returns: whether the complete copy is already there.
    :raises SavepointExists: something else is there.
    """
    inside = names_in(files, target)
    if manifests.NAME in inside and read_manifest(files, target) == copy:
        return True
    begun = read_begun(files, target)
    ours = begun is not None and (begun.job, begun.checkpoint) == (copy.job, copy.checkpoint.checkpoint)
    if manifests.NAME in inside or (inside and not ours):
        raise SavepointExists(
            f"{target} is not empty: it holds {min(inside)}", remedy="Choose another location, or delete it"
        )
    if begun is None:
        write_begun(files, target, uuid.uuid4().hex, copy.job, copy.checkpoint)
    return False


def delete_savepoint(files: HadoopFiles, savepoint: str) -> Deleted:
    """Delete a savepoint, complete or not, and then the shared files of its root that no other one has.

    If a deletion was interrupted, repeat it, even if the savepoint's folder is already deleted.

    :raises SavepointIncomplete: the folder is not a savepoint; nothing was deleted.
    """
    inside = names_in(files, savepoint)
    if inside and not inside & {manifests.NAME, manifests.BEGUN}:
        raise SavepointIncomplete(
            f"{savepoint} holds neither {manifests.NAME} nor {manifests.BEGUN}: it is no savepoint",
            remedy="Name the folder of one savepoint; delete other files by other means",
        )
    # Without the manifest it is no longer a savepoint, even if this process dies now. `begun.json` marks it
    # as incomplete until everything else is deleted.
    files.delete(f"{savepoint}/{manifests.NAME}")
    own = files.list(savepoint, recursive=True) if inside else []
    each(lambda name: files.delete(f"{savepoint}/{name}"), inside - {manifests.BEGUN}, THREADS)
    files.delete(savepoint)
    root = savepoint.rpartition("/")[0]
    return Deleted(savepoint, len(own), sweep(files, root) if files.exists(root) else Swept(0, 0))


def _savepoints(files: HadoopFiles, folder: str, inside: list[FileInfo], depth: int) -> list[str]:
    """The URIs of the savepoints, complete or not, at `folder` or below it."""
    if {manifests.NAME, manifests.BEGUN} & {f.path for f in inside}:
        return [folder]
    if depth == 0:
        return []

    def below(name: str) -> list[str]:
        try:
            content = files.list(f"{folder}/{name}")
        except NotFound:  # deleted since
            return []
        return _savepoints(files, f"{folder}/{name}", content, depth - 1)

    folders = [f.path for f in inside if f.is_dir and f.path != manifests.SHARED]
    return [uri for found in each(below, folders, THREADS) for uri in found]
