"""Lists directories of Hadoop file systems, thousands of files in a few calls into the JVM."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import local_disk
from .errors import translated
from .file_systems import FileSystems
from .local_disk import path_of

# org.apache.hadoop.fs.FileStatus.toString: two calls list thousands of files, instead of four calls for each
# file.
_STATUS = re.compile(
    r"\w*\{path=(.+?); isDirectory="
    r"(?:(true); modification_time"
    r"|false; length=(\d+); replication=\d+; blocksize=\d+; modification_time=(\d+))"
)


@dataclass(frozen=True)
class FileInfo:
    """An entry of a listing.

    :param path: relative to the listed directory.
    :param size: bytes, 0 for a directory.
    :param modified: milliseconds since 1970 by the storage's clock, in whole seconds on S3; 0 for a
        directory.
    """

    path: str
    size: int
    is_dir: bool
    modified: int = 0


class Listing:
    """Thread-safe. Raises `StorageError` or a subclass of it."""

    def __init__(self, systems: FileSystems) -> None:
        self._systems = systems
        jvm = systems.gateway.jvm
        self._iterators: Any = jvm.org.apache.hadoop.util.functional.RemoteIterators
        self._text: Any = jvm.scala.runtime.ScalaRunTime.stringOf

    def of(self, uri: str, recursive: bool = False) -> list[FileInfo]:
        """List a directory, in no particular order.

        :param recursive: false: what lies directly in the directory; true: every file below it, and no
            directory.
        :raises NotFound: there is no such directory.
        :raises LinkFound: there is a link below it, on a local disk with `recursive`.
        """
        if not recursive:
            return self._inside(uri, links=True)
        if not self._systems.is_local(uri):
            return self._all_below(uri)
        found = self._inside(uri, links=False)
        files = [f for f in found if not f.is_dir]
        for directory in (f for f in found if f.is_dir):
            below = self.of(f"{uri.rstrip('/')}/{directory.path}", recursive=True)
            files += [replace(f, path=f"{directory.path}/{f.path}") for f in below]
        return files

    def _inside(self, uri: str, links: bool) -> list[FileInfo]:
        with translated(uri, "list"):
            if self._systems.is_local(uri):
                return [
                    FileInfo(name, 0, True)
                    if is_dir
                    else FileInfo(name, stat.st_size, False, stat.st_mtime_ns // 1_000_000)
                    for name, is_dir, stat in local_disk.entries(path_of(uri), links=links)
                ]
            statuses = self._systems.of(uri).listStatus(self._systems.path(uri))
            folder = "/" + uri.rstrip("/").rsplit("/", 1)[-1]
            found = self._parsed(statuses)
            if found is None or not all(p.rpartition("/")[0].endswith(folder) for p, *_ in found):
                # A file system formats its status differently, such as viewfs, which returns null.
                return [_file_info(status, str(status.getPath().getName())) for status in statuses]
        return [
            FileInfo(p.rsplit("/", 1)[-1], int(size or 0), bool(is_dir), int(modified or 0))
            for p, is_dir, size, modified in found
        ]

    def _all_below(self, uri: str) -> list[FileInfo]:
        """Every file below a directory. An object store returns a thousand per response, in all folders."""
        with translated(uri, "list"):
            root = (
                f"{self._systems.of(uri).makeQualified(self._systems.path(uri)).toString()}".rstrip("/") + "/"
            )
            statuses = self._iterators.toList(self._systems.of(uri).listFiles(self._systems.path(uri), True))
            found = self._parsed(statuses)
            if found is None or not all(p.startswith(root) for p, *_ in found):
                return [_file_info(s, str(s.getPath().toString())[len(root) :]) for s in statuses]
        return [
            FileInfo(p[len(root) :], int(size or 0), False, int(modified or 0))
            for p, _, size, modified in found
        ]

    def _parsed(self, statuses: Any) -> Sequence[tuple[str, str, str, str]] | None:
        """Parse the statuses from their text.

        :returns: path, directory flag, size and time of each; None if a status has another format.
        """
        expected = len(statuses)
        found = _STATUS.findall(str(self._text(statuses))) if expected else []
        return found if len(found) == expected else None


def _file_info(status: Any, name: str) -> FileInfo:
    if status.isDirectory():
        return FileInfo(name, 0, True)
    return FileInfo(name, int(status.getLen()), False, int(status.getModificationTime()))
