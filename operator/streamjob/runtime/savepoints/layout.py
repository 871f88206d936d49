"""What lies at a savepoint's URI, and in the checkpoint directories that savepoints are made from.

`protocol/formats/manifest.py` defines where the files of a savepoint are.
"""

from __future__ import annotations

from typing import ClassVar

from ...protocol.errors import FormatError, StreamJobError
from ...protocol.formats import manifest as manifests
from ...protocol.formats.manifest import Begun, FileEntry, Manifest
from ...protocol.formats.records import CheckpointRecord, JobRef
from ...storage.clock import now
from ...storage.hadoop import FileInfo, HadoopFiles, NotADirectory, NotFound, StorageError
from ...storage.parallel import THREADS, Counter, Progress, each
from ..query.places.owner import NAME as OWNER
from ..spark.checkpoint_dir import NotAtBoundary, is_temporary

MARKER = "streamjob-restore.json"  # in a restored directory: what it was restored from, the query's new id


class SavepointExists(StreamJobError):
    """Another savepoint is at this location. Savepoints are never overwritten."""

    reason: ClassVar[str] = "SavepointExists"


class SavepointIncomplete(StreamJobError):
    """There is no manifest: the savepoint was never completed, or it is not a savepoint."""

    reason = "SavepointIncomplete"


class SavepointBroken(StreamJobError):
    """A file is missing or differs from what was written."""

    reason = "SavepointBroken"


def read_manifest(files: HadoopFiles, savepoint: str) -> Manifest:
    """Read the manifest of a savepoint.

    :raises SavepointIncomplete: there is none.
    :raises FormatError: it cannot be read.
    :raises UnknownVersion: a newer StreamJob wrote it.
    """
    where = f"{savepoint.rstrip('/')}/{manifests.NAME}"
    try:
        data = files.read_bytes(where, manifests.SIZE_LIMIT)
    except (NotFound, NotADirectory):  # the second: of a path that ends with the manifest
        raise SavepointIncomplete(
            f"{savepoint} has no {manifests.NAME}: it was never finished, or is no savepoint",
            remedy="Check the path; if it is right, take another savepoint",
        ) from None
    return manifests.loads(data, where)


def read_begun(files: HadoopFiles, savepoint: str) -> Begun | None:
    """Read `begun.json`, which names who began the savepoint; None if it does not exist or cannot be read."""
    where = f"{savepoint}/{manifests.BEGUN}"
    try:
        return manifests.load_begun(files.read_bytes(where), where)
    except (NotFound, FormatError):
        return None


def write_begun(
    files: HadoopFiles, savepoint: str, attempt: str, job: JobRef, checkpoint: CheckpointRecord
) -> None:
    """Write `begun.json`, which claims the location for this attempt.

    :raises FileExists: another attempt has claimed it.
    """
    document = manifests.begun(attempt, job, checkpoint, now())
    files.write_new(f"{savepoint}/{manifests.BEGUN}", manifests.dump_begun(document))


def verify_savepoint(
    files: HadoopFiles, savepoint: str, *, threads: int = THREADS, progress: Progress | None = None
) -> list[str]:
    """Read every file and compare it with its hash.

    :returns: one sentence for each file that is missing, changed or unreadable; empty if all are as written.
    :raises SavepointIncomplete: there is no manifest.
    :raises FormatError: the manifest cannot be read.
    :raises UnknownVersion: a newer StreamJob wrote the manifest.
    """
    savepoint = savepoint.rstrip("/")
    manifest = read_manifest(files, savepoint)

    def check(entry: FileEntry) -> str | None:
        try:
            found = files.sha256(manifests.place(savepoint, entry))
        except NotFound:
            return missing(entry)
        except StorageError as e:
            return f"{entry.path} cannot be read: {e.cause}"
        return None if found == entry.sha256 else changed(entry)

    counter = Counter("checked", len(manifest.files), progress)
    return [p for p in each(check, manifest.files, threads, counter) if p is not None]


def content(files: HadoopFiles, root: str) -> list[FileInfo]:
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
    return [f for f in found if f.path not in (MARKER, OWNER) and not is_temporary(f.path)]


def copy_entry(files: HadoopFiles, savepoint: str, entry: FileEntry, target: str) -> str | None:
    """Copy one file of a savepoint and compare it with its hash.

    :returns: what is wrong with the file, None if it is as written.
    """
    try:
        found = files.copy(manifests.place(savepoint, entry), target)
    except NotFound:
        return missing(entry)
    return None if found.sha256 == entry.sha256 else changed(entry)


def missing(entry: FileEntry) -> str:
    return f"{entry.path}{_shared(entry)} is missing"


def changed(entry: FileEntry) -> str:
    return f"{entry.path}{_shared(entry)} is not what was written"


def broken(savepoint: str, problems: list[str]) -> SavepointBroken:
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    return SavepointBroken(f"{savepoint}: {problems[0]}{more}", remedy="Restore another savepoint")


def _shared(entry: FileEntry) -> str:
    return f" ({manifests.SHARED}/{entry.shared})" if entry.shared else ""
