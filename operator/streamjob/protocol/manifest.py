"""The manifest of a savepoint: written last and only once, so a savepoint without one does not exist.

Version 1 is a bare Structured Streaming checkpoint directory, which has no manifest. This is version 2: it adds
`finished` per operator (FLIP-147 changes the checkpoint metadata the same way) and a hash for every file. Paths are
relative to the savepoint's root, so that the root can be moved.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from . import codec
from .errors import FormatError, UnknownVersion
from .records import CheckpointRecord, JobRef

NAME = "manifest.json"
FORMAT = "streamjob.savepoint"
VERSION = 2
SIZE_LIMIT = 256 << 20  # bytes; about a million files


@dataclass(frozen=True)
class FileEntry:
    """`path` relative to the savepoint's root, `size` in bytes, `sha256` in hexadecimal."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a savepoint holds: whose it is, which checkpoint it copies, and every file of it."""

    format: str
    version: int
    job: JobRef
    spark: str
    checkpoint: CheckpointRecord
    files: tuple[FileEntry, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(f.size for f in self.files)


def new(job: JobRef, spark: str, checkpoint: CheckpointRecord, files: tuple[FileEntry, ...]) -> Manifest:
    """A manifest of the current version, its files sorted by path."""
    for entry in files:
        check_path(entry.path)
    return Manifest(FORMAT, VERSION, job, spark, checkpoint, tuple(sorted(files, key=lambda f: f.path)))


def dumps(manifest: Manifest) -> bytes:
    return codec.dumps(manifest, indent=1).encode() + b"\n"


def loads(data: bytes, where: str) -> Manifest:
    """Read a manifest found at `where` (for the messages only).

    :raises UnknownVersion: written by a newer StreamJob.
    :raises FormatError: cut off, foreign or malformed, or a path in it leaves the savepoint.
    """
    check_version(data, FORMAT, VERSION, where, SIZE_LIMIT)
    try:
        manifest = codec.loads(Manifest, data, limit=SIZE_LIMIT)
    except FormatError as e:
        raise FormatError(f"{where}: {e.message}", remedy="Restore from another savepoint") from None
    paths = [f.path for f in manifest.files]
    for path in paths:
        check_path(path)
    if len(set(paths)) != len(paths):
        raise FormatError(f"{where}: a file is listed twice", remedy="Restore from another savepoint")
    return manifest


def stage_root(stage: str, task: int) -> str:
    """Where the checkpoint directory of a task lies below the savepoint's root."""
    return f"stages/{stage}/{task}"


def check_path(path: str) -> None:
    """:raises FormatError: absolute, with a scheme, `..`, an empty part, a backslash or a control character."""
    parts = path.split("/")
    bad = any(p in ("", ".", "..") for p in parts) or ":" in parts[0] or "\\" in path
    if bad or any(ord(c) < 32 for c in path):
        raise FormatError(f"path {path!r} does not stay inside the savepoint")


def check_version(data: bytes | str, fmt: str, version: int, where: str, limit: int) -> None:
    """Refuse what is not `fmt` at `version` before looking at anything else in it: a newer one has other fields.

    :raises FormatError: not JSON or another format. :raises UnknownVersion: a newer version.
    """
    if len(data) > limit:
        raise FormatError(f"{where}: {len(data)} bytes, at most {limit} are read")
    try:
        head = json.loads(data)
    except (ValueError, RecursionError):
        raise FormatError(f"{where}: cut off or not JSON") from None
    if not isinstance(head, dict) or head.get("format") != fmt:
        raise FormatError(f"{where}: not a {fmt} document")
    found = head.get("version")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise FormatError(f"{where}: version {found!r} is no version")
    if found != version:
        raise UnknownVersion(
            f"{where}: {fmt} version {found}, this StreamJob reads {version}",
            remedy="Upgrade StreamJob first",
        )
