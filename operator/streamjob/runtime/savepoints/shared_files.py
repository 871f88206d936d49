"""State files that several savepoints of one root share (ADR 10).

Any number of savepoints may be written and deleted in one root at the same time. Three rules make that safe:
- The name of a shared file contains the id of the attempt that writes it. Each name is used once and never
  reused.
- A savepoint reuses only files from another savepoint's manifest, and reads that manifest after writing its
  own `begun.json`.
- A deletion removes the manifest first, then lists the shared files, then all savepoints. If any savepoint
  has a `begun.json` and no manifest, no shared file is deleted, because that savepoint may be reusing them. A
  savepoint that begins later no longer sees the deleted manifest, and the files that it writes are not in the
  listing.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...protocol.errors import FormatError
from ...protocol.formats import manifest as manifests
from ...protocol.formats.manifest import FileEntry, Manifest
from ...protocol.formats.records import CheckpointRecord, JobRef
from ...storage.hadoop import FileInfo, HadoopFiles, NotFound
from ...storage.parallel import THREADS, each
from ..spark.checkpoint_dir import METADATA
from .layout import SavepointExists, SavepointIncomplete, missing, read_begun, read_manifest, write_begun

# Milliseconds. If a file was modified longer ago, any file that replaces it from now on has another time.
GRAIN, COARSE_GRAIN = 100, 2000


class Attempt:
    """One attempt to write a savepoint."""

    def __init__(self, files: HadoopFiles, target: str) -> None:
        self._files, self._target = files, target
        self.id = uuid.uuid4().hex
        self._earlier: Manifest | None = None
        self._named = 0

    def begin(self, job: JobRef, checkpoint: CheckpointRecord) -> None:
        """Claim the target. An earlier attempt for the same savepoint loses it.

        In that case, unused shared files of the root are deleted.

        :raises SavepointExists: another job or another request has begun a savepoint there.
        """
        before = read_begun(self._files, self._target)
        if before is not None:
            same = before.job == job and (
                (before.request_id is not None and before.request_id == checkpoint.request_id)
                or before.checkpoint == checkpoint.checkpoint
            )
            if not same:
                raise SavepointExists(
                    f"{self._target} was begun by {before.job.namespace}/{before.job.name} for "
                    f"{before.request_id or f'checkpoint {before.checkpoint}'} and is not complete",
                    remedy="Choose another location, or delete what is there if nobody writes it any more",
                )
            # Delete `begun.json` first: if that attempt is still alive, it finds that it lost the target.
            # Then delete its shared files, which may be what filled a full disk.
            self._files.delete(f"{self._target}/{manifests.BEGUN}")
            sweep(self._files, self._target.rpartition("/")[0])
        write_begun(self._files, self._target, self.id, job, checkpoint)
        self._earlier = _newest(self._files, self._target, job)

    def new_name(self) -> str:
        """A name for a shared file, which is never used twice."""
        self._named += 1
        return f"{self.id}-{self._named}"

    def known(self, copied: Iterable[FileEntry], locations: Mapping[str, str]) -> dict[FileKey, FileEntry]:
        """The shared files of the newest savepoint that need not be read again.

        Only those of tasks that have the same query id and the same checkpoint directory as then.

        :param copied: files of this savepoint, including the `metadata` files with the query ids.
        :param locations: root of each task in the savepoint → URI of its checkpoint directory.
        """
        if self._earlier is None:
            return {}
        before = {e.path: e.sha256 for e in self._earlier.files}
        same_id = {e.path for e in copied if before.get(e.path) == e.sha256}
        stages = self._earlier.checkpoint.stages
        at = {manifests.stage_root(s.uid, t.index): t.location for s in stages for t in s.tasks}
        same = tuple(
            f"{root}/"
            for root, uri in locations.items()
            if f"{root}/{METADATA}" in same_id and at.get(root) == uri
        )
        there = shared_sizes(self._files, manifests.shared_root(self._target))
        return {
            FileKey.of(e): e
            for e in self._earlier.files
            if e.modified is not None and e.path.startswith(same) and there.get(e.shared or "") == e.size
        }

    def check(self, entries: Iterable[FileEntry]) -> None:
        """Check, just before the manifest is written, that the savepoint is still whole.

        :raises SavepointExists: another attempt claimed the target.
        :raises NotFound: a shared file is missing. Somebody deleted it manually: `sweep` never deletes it.
        """
        begun = read_begun(self._files, self._target)
        if begun is None or begun.attempt != self.id:
            raise SavepointExists(
                f"{self._target} was taken over by another attempt, or deleted",
                remedy="See who else runs this job",
            )
        if lost := lost_shared(entries, shared_sizes(self._files, manifests.shared_root(self._target))):
            raise NotFound(self._target, "complete", missing(lost[0]), remedy="Take the savepoint again")


@dataclass(frozen=True)
class FileKey:
    """Identifies a file of a query among all files that were ever at its path."""

    path: str
    size: int
    modified: int | None

    @classmethod
    def of(cls, entry: FileEntry) -> FileKey:
        return cls(entry.path, entry.size, entry.modified)


def is_state(path: str) -> bool:
    """Whether a path relative to a checkpoint directory is a file of a state store's partition.

    The files of `state/I/_metadata`, which describe the operator, are not.
    """
    parts = path.split("/")
    return len(parts) > 3 and parts[0] == "state" and parts[1].isdigit() and parts[2].isdigit()


def settled(info: FileInfo) -> int | None:
    """The modification time, None if it is too recent to identify the file."""
    # S3 and old volumes keep whole seconds only.
    grain = GRAIN if info.modified % 1000 else COARSE_GRAIN
    return info.modified if info.modified and info.modified < time.time() * 1000 - grain else None


@dataclass(frozen=True)
class Swept:
    """The shared files that were deleted.

    :param files: their number.
    :param size: their bytes.
    :param kept_for: why none was deleted although some may be unused; None if all unused ones were deleted.
    """

    files: int
    size: int
    kept_for: str | None = None


def sweep(files: HadoopFiles, root: str) -> Swept:
    """Delete the shared files that no savepoint of the root has.

    The order is what makes this safe (see the module's docstring): list the shared files first, then the
    savepoints.
    """
    folder = f"{root}/{manifests.SHARED}"
    there = shared_sizes(files, folder)
    used: set[str] = set()
    for name in _folders(files, root):
        savepoint = f"{root}/{name}"
        inside = names_in(files, savepoint)
        if manifests.NAME in inside:
            try:
                used.update(e.shared for e in read_manifest(files, savepoint).files if e.shared)
            except FormatError as e:
                return Swept(0, 0, f"the manifest of {name} cannot be read ({e.message})")
            except SavepointIncomplete:
                return Swept(0, 0, f"{name} is being deleted")
        elif manifests.BEGUN in inside:
            return Swept(
                0, 0, f"{name} is not complete: it is being written, or was left half written or half deleted"
            )
    garbage = [name for name in there if name not in used]
    each(lambda name: files.delete(f"{folder}/{name}"), garbage, THREADS)
    return Swept(len(garbage), sum(there[name] for name in garbage))


def _newest(files: HadoopFiles, target: str, job: JobRef) -> Manifest | None:
    """The most recently written manifest of the job's savepoints in the root of `target`."""
    root = target.rpartition("/")[0]

    def written(name: str) -> tuple[int, str] | None:
        try:
            inside = files.list(f"{root}/{name}")
        except NotFound:  # deleted since
            return None
        return next(((f.modified, name) for f in inside if f.path == manifests.NAME), None)

    for _, name in sorted(filter(None, each(written, _folders(files, root), THREADS)), reverse=True):
        try:
            found = read_manifest(files, f"{root}/{name}")
        except (FormatError, SavepointIncomplete):
            continue  # a newer version's, broken, or deleted since: its files cannot be reused
        if found.job == job:
            return found
    return None


def _folders(files: HadoopFiles, root: str) -> list[str]:
    return [f.path for f in files.list(root) if f.is_dir and f.path != manifests.SHARED]


def shared_sizes(files: HadoopFiles, folder: str) -> dict[str, int]:
    """List the shared files, in one call.

    :param folder: `manifests.shared_root` of a savepoint.
    :returns: name → bytes; empty if there is no such folder.
    """
    try:
        return {f.path: f.size for f in files.list(folder) if manifests.is_shared_name(f.path)}
    except NotFound:
        return {}


def lost_shared(entries: Iterable[FileEntry], there: Mapping[str, int]) -> list[FileEntry]:
    """The entries whose shared file is not `there`, or has another size."""
    return [e for e in entries if e.shared is not None and there.get(e.shared) != e.size]


def names_in(files: HadoopFiles, folder: str) -> set[str]:
    """The names in a folder; empty if there is no such folder."""
    try:
        return {f.path for f in files.list(folder)}
    except NotFound:
        return set()
