"""The manifest of a savepoint. It is written last and only once: a savepoint without a manifest does not
exist.

Version 1 is a bare Structured Streaming checkpoint directory, which has no manifest. This module defines
version 2, which adds `finished` per operator (FLIP-147 changes the checkpoint metadata the same way) and a
hash of every file.

    ROOT/SAVEPOINT/begun.json           written first and kept: who began the savepoint
    ROOT/SAVEPOINT/manifest.json        written last
    ROOT/SAVEPOINT/stages/STAGE/TASK/…  files of a checkpoint directory
    ROOT/shared/ATTEMPT-NUMBER          state files that several savepoints may share (ADR 10)

All paths are relative and none leaves ROOT, so ROOT can be moved as a whole. An export has no shared files
and can be moved alone.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from reprlib import repr as short_repr
from typing import Any
from urllib.parse import quote

from ..errors import FormatError, UnknownVersion
from . import codec
from .records import CheckpointRecord, JobRef

NAME = "manifest.json"
BEGUN = "begun.json"
SHARED = "shared"
DIGEST = "digest"  # in the document only: SHA-256 of its other fields as canonical JSON
FORMAT = "streamjob.savepoint"
BEGUN_FORMAT = "streamjob.savepoint.begun"
VERSION = 2
NAME_LIMIT = 255  # bytes of a name in a folder, on most file systems
SIZE_LIMIT = 256 << 20  # bytes; about a million files
_SHARED_NAME = re.compile(r"[0-9a-f]{32}-[0-9]{1,9}")  # never ROOT/shared/../…


@dataclass(frozen=True)
class FileEntry:
    """A file of a savepoint.

    :param path: relative to the savepoint.
    :param size: in bytes.
    :param sha256: in hexadecimal.
    :param shared: the file's name in ROOT/shared; None: the file is at `path`.
    :param modified: modification time of the file that was copied, in milliseconds since 1970. None: it had
        just been written, so a file that replaces it might have the same time.
    """

    path: str
    size: int
    sha256: str
    shared: str | None = None
    modified: int | None = None


@dataclass(frozen=True)
class Begun:
    """A savepoint that was begun.

    :param attempt: prefix of the names of the shared files that this savepoint writes.
    :param started_at: RFC 3339, UTC, seconds, as in the record.
    """

    format: str
    version: int
    attempt: str
    job: JobRef
    checkpoint: int
    request_id: str | None
    started_at: str


@dataclass(frozen=True)
class TableVersion:
    """The table in Delta or Iceberg that a task writes to, as of the task's batch.

    :param stage: uid of the task's stage.
    :param task: its index.
    :param format: `delta` or `iceberg`.
    :param name: as SQL takes it.
    :param version: since the commit of the batch: of Delta the version, of Iceberg the snapshot's id.
    """

    stage: str
    task: int
    format: str
    name: str
    version: int


@dataclass(frozen=True)
class Manifest:
    """The content of a savepoint: its job, the checkpoint that it copies, and every file.

    :param tables: what its queries had written to, as far as the tables could be read.
    """

    format: str
    version: int
    job: JobRef
    spark: str
    checkpoint: CheckpointRecord
    files: tuple[FileEntry, ...]
    tables: tuple[TableVersion, ...] = field(default=(), metadata=codec.NEW)

    @property
    def size(self) -> int:
        """Total size of all files, in bytes."""
        return sum(f.size for f in self.files)


def new(
    job: JobRef,
    spark: str,
    checkpoint: CheckpointRecord,
    files: tuple[FileEntry, ...],
    tables: tuple[TableVersion, ...] = (),
) -> Manifest:
    """A manifest of the current version, its files sorted by path.

    :raises FormatError: a path leaves the savepoint.
    """
    for entry in files:
        check_path(entry.path)
    ordered = tuple(sorted(files, key=lambda f: f.path))
    return Manifest(FORMAT, VERSION, job, spark, checkpoint, ordered, tables)


def dumps(manifest: Manifest) -> bytes:
    """Serialize the manifest, with a hash of all other fields: a batch number that a broken disk has changed
    looks like any other number.
    """
    plain = codec.to_plain(manifest)
    return codec.dumps({**plain, DIGEST: _digest(plain)}, indent=1).encode() + b"\n"


def loads(data: bytes, where: str) -> Manifest:
    """Parse the manifest found at `where` (for messages only).

    :raises UnknownVersion: written by a newer StreamJob.
    :raises FormatError: cut off, foreign or malformed, or a path in it leaves the savepoint.
    """
    plain = check_version(data, FORMAT, VERSION, where, SIZE_LIMIT)
    digest = plain.pop(DIGEST, None)
    try:
        manifest = codec.from_plain(Manifest, plain)
        for stage in manifest.checkpoint.stages:
            stage_root(stage.uid, 0)
        for entry in manifest.files:
            check_path(entry.path)
            if entry.shared is not None and not is_shared_name(entry.shared):
                raise FormatError(f"{short_repr(entry.shared)} is no name of a shared file")
    except FormatError as e:
        raise FormatError(f"{where}: {e.message}", remedy="Restore from another savepoint") from None
    if len({f.path for f in manifest.files}) != len(manifest.files):
        raise FormatError(f"{where}: a file is listed twice", remedy="Restore from another savepoint")
    if digest != _digest(plain):
        raise FormatError(f"{where}: not what was written", remedy="Restore from another savepoint")
    return manifest


def _digest(plain: dict[str, Any]) -> str:
    return hashlib.sha256(codec.dumps(plain).encode()).hexdigest()


def dump_begun(begun: Begun) -> bytes:
    return codec.dumps(begun, indent=1).encode() + b"\n"


def begun(attempt: str, job: JobRef, checkpoint: CheckpointRecord, started_at: str) -> Begun:
    return Begun(
        BEGUN_FORMAT, VERSION, attempt, job, checkpoint.checkpoint, checkpoint.request_id, started_at
    )


def load_begun(data: bytes, where: str) -> Begun:
    """Parse the file `begun.json` found at `where` (for messages only).

    :raises FormatError: as `loads`.
    """
    plain = check_version(data, BEGUN_FORMAT, VERSION, where, 1 << 16)
    try:
        return codec.from_plain(Begun, plain)
    except FormatError as e:
        raise FormatError(f"{where}: {e.message}") from None


def place(savepoint: str, entry: FileEntry) -> str:
    """The URI of a file of the savepoint at `savepoint`."""
    if entry.shared is None:
        return f"{savepoint}/{entry.path}"
    return f"{shared_root(savepoint)}/{entry.shared}"


def shared_root(savepoint: str) -> str:
    """The folder of a savepoint's shared files."""
    return f"{savepoint.rpartition('/')[0]}/{SHARED}"


def is_shared_name(name: str) -> bool:
    return _SHARED_NAME.fullmatch(name) is not None


def stage_root(stage: str, task: int) -> str:
    """The path of a task's checkpoint directory, relative to the savepoint. The stage's name is
    percent-encoded, because a query may have any name, and shortened if it is long.

    :raises FormatError: the stage's name is `..`, `.` or empty.
    """
    root = f"stages/{folder_name(quote(stage, safe=' ', errors='replace'), stage)}/{task}"
    check_path(root)
    return root


def folder_name(encoded: str, stage: str) -> str:
    """The name of a stage's folder: `encoded` itself if a file system can hold it, otherwise its beginning
    and a hash.

    :param encoded: the stage's name without slashes and with each percent sign encoded. So no other stage has
        a name with `%%`, which a shortened one has.
    :param stage: the stage's name.
    """
    data = encoded.encode(errors="replace")
    if len(data) <= NAME_LIMIT:
        return encoded
    digest = hashlib.sha256(stage.encode(errors="surrogatepass")).hexdigest()
    return f"{data[: NAME_LIMIT - len(digest) - 2].decode(errors='ignore')}%%{digest}"


def check_path(path: str) -> None:
    """Check that a path stays inside the savepoint.

    :raises FormatError: it is absolute, or has a scheme, a part `.` or `..`, an empty part, a backslash, a
        control character, or a character that no file system can encode.
    """
    parts = path.split("/")
    bad = any(p in ("", ".", "..") for p in parts) or ":" in parts[0] or "\\" in path
    if bad or any(ord(c) < 32 or 0xD800 <= ord(c) <= 0xDFFF for c in path):
        raise FormatError(f"path {short_repr(path)} does not stay inside the savepoint")


def check_version(
    data: bytes | str, fmt: str, version: int, where: str, limit: int, oldest: int | None = None
) -> dict[str, Any]:
    """Parse a document and check its format and version before anything else in it, because a newer version
    has other fields.

    :param version: the newest version that is accepted.
    :param oldest: the oldest version that is accepted; None: only `version` is.
    :returns: the parsed document.
    :raises FormatError: not JSON, another format, or a version that does not exist.
    :raises UnknownVersion: a newer version.
    """
    plain = codec.parse(data, where, limit)
    if not isinstance(plain, dict) or plain.get("format") != fmt:
        raise FormatError(f"{where}: not a {fmt} document")
    found = plain.get("version")
    if not isinstance(found, int) or isinstance(found, bool) or found < (oldest or version):
        raise FormatError(f"{where}: {fmt} has no version {short_repr(found)}")
    if found > version:
        raise UnknownVersion(
            f"{where}: {fmt} version {short_repr(found)}, this StreamJob reads {version}",
            remedy="Upgrade StreamJob first",
        )
    return plain
