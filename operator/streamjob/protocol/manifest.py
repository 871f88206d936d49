"""The manifest of a savepoint: written last and only once, so a savepoint without one does not exist.

Version 1 is a bare Structured Streaming checkpoint directory, which has no manifest. This is version 2: it adds
`finished` per operator (FLIP-147 changes the checkpoint metadata the same way) and a hash for every file. Paths are
relative to the savepoint's root, so that the root can be moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from reprlib import repr as short_repr
from typing import Any
from urllib.parse import quote

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
    plain = check_version(data, FORMAT, VERSION, where, SIZE_LIMIT)
    try:
        manifest = codec.from_plain(Manifest, plain)
        for stage in manifest.checkpoint.stages:
            stage_root(stage.uid, 0)
        for entry in manifest.files:
            check_path(entry.path)
    except FormatError as e:
        raise FormatError(f"{where}: {e.message}", remedy="Restore from another savepoint") from None
    if len({f.path for f in manifest.files}) != len(manifest.files):
        raise FormatError(f"{where}: a file is listed twice", remedy="Restore from another savepoint")
    return manifest


def stage_root(stage: str, task: int) -> str:
    """Where the checkpoint directory of a task lies below the savepoint's root: a query may have any name.

    :raises FormatError: the stage is named `..`, `.` or nothing.
    """
    root = f"stages/{quote(stage, safe=' ', errors='replace')}/{task}"
    check_path(root)
    return root


def check_path(path: str) -> None:
    """:raises FormatError: absolute, with a scheme, `..`, an empty part, a backslash, a control character or what no
    file system can encode."""
    parts = path.split("/")
    bad = any(p in ("", ".", "..") for p in parts) or ":" in parts[0] or "\\" in path
    if bad or any(ord(c) < 32 or 0xD800 <= ord(c) <= 0xDFFF for c in path):
        raise FormatError(f"path {short_repr(path)} does not stay inside the savepoint")


def check_version(data: bytes | str, fmt: str, version: int, where: str, limit: int) -> dict[str, Any]:
    """Refuse what is not `fmt` at `version` before looking at anything else in it: a newer one has other fields.

    Returns the parsed document.

    :raises FormatError: not JSON or another format. :raises UnknownVersion: a newer version.
    """
    plain = codec.parse(data, where, limit)
    if not isinstance(plain, dict) or plain.get("format") != fmt:
        raise FormatError(f"{where}: not a {fmt} document")
    found = plain.get("version")
    if not isinstance(found, int) or isinstance(found, bool) or found < version:
        raise FormatError(f"{where}: {fmt} has no version {short_repr(found)}")
    if found > version:
        raise UnknownVersion(
            f"{where}: {fmt} version {short_repr(found)}, this StreamJob reads {version}",
            remedy="Upgrade StreamJob first",
        )
    return plain
