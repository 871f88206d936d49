"""What lies at a savepoint's URI; `protocol/manifest.py` says where its files are."""

from __future__ import annotations

from typing import ClassVar

from ...protocol import manifest as manifests
from ...protocol.errors import FormatError, StreamJobError
from ...protocol.manifest import Begun, FileEntry, Manifest
from ...protocol.records import CheckpointRecord, JobRef
from ..storage.clock import now
from ..storage.hadoop import HadoopFiles, NotFound, StorageError
from ..storage.parallel import THREADS, Counter, Progress, each


class SavepointExists(StreamJobError):
    """The place is taken by another savepoint, and savepoints are never overwritten."""

    reason: ClassVar[str] = "SavepointExists"


class SavepointIncomplete(StreamJobError):
    """No manifest: it was never finished, or it is none."""

    reason = "SavepointIncomplete"


class SavepointBroken(StreamJobError):
    """A file is missing or is not what was written."""

    reason = "SavepointBroken"


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


def read_begun(files: HadoopFiles, savepoint: str) -> Begun | None:
    """Who began it; None if nobody did, or that cannot be read."""
    where = f"{savepoint}/{manifests.BEGUN}"
    try:
        return manifests.load_begun(files.read_bytes(where), where)
    except (NotFound, FormatError):
        return None


def write_begun(
    files: HadoopFiles, savepoint: str, attempt: str, job: JobRef, checkpoint: CheckpointRecord
) -> None:
    """:raises FileExists: somebody has begun it already."""
    document = manifests.begun(attempt, job, checkpoint, now())
    files.write_new(f"{savepoint}/{manifests.BEGUN}", manifests.dump_begun(document))


def verify_savepoint(
    files: HadoopFiles, savepoint: str, *, threads: int = THREADS, progress: Progress | None = None
) -> list[str]:
    """What is wrong with it, a sentence for each file; empty if every file is what was written.

    :raises SavepointIncomplete, FormatError, UnknownVersion: the manifest is missing or cannot be read.
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


def copy_entry(files: HadoopFiles, savepoint: str, entry: FileEntry, target: str) -> str | None:
    """Copy one file of a savepoint; what is wrong with it, None if it is what was written."""
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
