"""Files of any Hadoop file system (volume, S3A, HDFS), through the driver's JVM.

A URI is what `org.apache.hadoop.fs.Path(String)` takes: nothing in it is percent-decoded. The contents of what is copied or
hashed enter Python only on a local disk (`local_disk`), and not all at once. Safe to use from many threads: py4j gives each its
own connection.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from ..jvm.errors import java_causes
from ..jvm.standalone import SmallJvm
from . import local_disk
from .errors import (
    REMEDY,
    AccessDenied,
    FileExists,
    NoConnector,
    NotADirectory,
    NotFound,
    StorageError,
    StorageFull,
    storage_error,
    translated,
)
from .local_disk import path_of
from .s3_copy import StoreCopies

__all__ = [
    "AccessDenied",
    "CopiedFile",
    "FileExists",
    "FileInfo",
    "HadoopFiles",
    "NoConnector",
    "NotADirectory",
    "NotFound",
    "StorageError",
    "StorageFull",
    "storage_error",
    "translated",
]

# Their files appear when they are closed, whole or not at all; their rename copies.
OBJECT_STORES = frozenset({"s3a", "s3", "s3n", "gs", "wasb", "wasbs", "oss", "cos", "cosn", "obs", "swift"})
BUFFER = 1 << 17  # bytes
OBJECT_LIMIT = 256 << 20  # bytes of a file that is written as one
# Of two that write an object at once, the store refuses one (If-None-Match). Hadoop before 3.4.2 ignores it.
CONDITIONAL = "fs.option.create.conditional.overwrite"

# org.apache.hadoop.fs.FileStatus.toString: a directory of thousands of files is two calls instead of four for each file.
_STATUS = re.compile(
    r"\w*\{path=(.+?); isDirectory="
    r"(?:(true); modification_time|false; length=(\d+); replication=\d+; blocksize=\d+; modification_time=(\d+))"
)


@dataclass(frozen=True)
class FileInfo:
    """`path` relative to what was listed; `size` in bytes, 0 for a directory; `modified` in milliseconds since 1970, by the
    storage's clock (S3's has seconds only), 0 for a directory."""

    path: str
    size: int
    is_dir: bool
    modified: int = 0


@dataclass(frozen=True)
class CopiedFile:
    """`size` in bytes, `sha256` in hexadecimal."""

    size: int
    sha256: str


FileInfos = list[FileInfo]  # inside the class, `list` is the method


class HadoopFiles:
    """All methods raise StorageError, or the subclass of it that says more. `spark` is there if it was made with a session."""

    spark: SparkSession
    _gateway: Any
    _conf: Any

    def __init__(self, spark: SparkSession | SmallJvm) -> None:
        if isinstance(spark, SmallJvm):
            self._gateway, self._conf = spark.gateway, spark.hadoop_conf()
        else:
            self.spark = spark
            self._gateway = spark.sparkContext._gateway
            self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        jvm: Any = self._gateway.jvm
        # Looked up once: py4j asks the JVM about every part of a dotted name, each time.
        self._path: Any = jvm.org.apache.hadoop.fs.Path
        self._contexts: Any = jvm.org.apache.hadoop.fs.FileContext
        self._rename_options: Any = getattr(jvm.org.apache.hadoop.fs, "Options$Rename")
        self._copy_bytes: Any = jvm.org.apache.hadoop.io.IOUtils.copyBytes
        self._local_stream: Any = jvm.java.io.FileOutputStream
        self._digests: Any = jvm.java.security.MessageDigest
        self._digest_stream: Any = jvm.java.security.DigestInputStream
        self._sha256_hex: Any = jvm.org.apache.commons.codec.digest.DigestUtils.sha256Hex
        self._iterators: Any = jvm.org.apache.hadoop.util.functional.RemoteIterators
        self._text: Any = jvm.scala.runtime.ScalaRunTime.stringOf
        self._systems: dict[tuple[str, str], Any] = {}
        self._stores: dict[str, StoreCopies] = {}  # by bucket
        self._lock = threading.Lock()

    def exists(self, uri: str) -> bool:
        with translated(uri, "look up"):
            if self._is_local(uri):
                return path_of(uri).exists()
            return bool(self._system(uri).exists(self._path(uri)))

    def list(self, uri: str, recursive: bool = False) -> FileInfos:
        """What lies directly in a directory, or (recursive) every file below it and no directory; unordered.

        :raises NotFound: there is no such directory. :raises LinkFound: (recursive) there is a link below it.
        """
        if not recursive:
            return self._list(uri, links=True)
        if not self._is_local(uri):
            return self._list_all(uri)
        found = self._list(uri, links=False)
        files = [f for f in found if not f.is_dir]
        for directory in (f for f in found if f.is_dir):
            below = self.list(f"{uri.rstrip('/')}/{directory.path}", recursive=True)
            files += [replace(f, path=f"{directory.path}/{f.path}") for f in below]
        return files

    def read_bytes(self, uri: str, limit: int = 1 << 20) -> bytes:
        """The whole file. :raises StorageError: it is longer than `limit` bytes."""
        with translated(uri, "read"):
            stream = self._system(uri).open(self._path(uri))
            try:
                data = bytes(stream.readNBytes(limit + 1))
            finally:
                stream.close()
        if len(data) > limit:
            raise StorageError(uri, "read", f"longer than {limit} bytes")
        return data

    def write_new(self, uri: str, data: bytes) -> None:
        """Write a small file that is there whole or not at all. :raises FileExists: it is there already."""
        with translated(uri, "write"):
            if self.exists(uri):
                raise FileExists(uri, "write", "it exists")
            if self._is_local(uri):
                local_disk.write_new(path_of(uri), data)
                return
            system, path = self._system(uri), self._path(uri)
            if self._scheme(uri) in OBJECT_STORES:
                self._write_object(uri, data)
                return
            folder, name = uri.rsplit("/", 1)
            temporary = self._path(f"{folder}/.{name}.{uuid.uuid4().hex}.tmp")
            try:
                self._write(uri, temporary, data)
                self._rename(system, temporary, path)
            except Exception:
                system.delete(temporary, False)
                raise

    def copy(self, source: str, target: str) -> CopiedFile:
        """Copy one file over whatever is at `target`, hashing what is read. It survives the machine.
        Within a bucket on S3 the server copies and hashes, if it can."""
        if self._is_local(source) and self._is_local(target):
            with translated(source, f"copy to {target}"):
                return CopiedFile(*local_disk.copy(path_of(source), path_of(target)))
        with translated(source, "read"):
            if (copied := self._copied_by_store(source, target)) is not None:
                return copied
            read = self._system(source).open(self._path(source))
        with translated(source, f"copy to {target}"):
            digest = self._digests.getInstance("SHA-256")
            hashed = self._digest_stream(read, digest)
            try:
                size = (
                    self._pour_local(hashed, target) if self._is_local(target) else self._pour(hashed, target)
                )
            finally:
                hashed.close()
            return CopiedFile(size, bytes(digest.digest()).hex())

    def move(self, source: str, target: str) -> None:
        """Within one file system, to a name that nothing else has; nothing if that has been done. Where a rename copies and then
        deletes, one that was killed may have left both: objects appear whole, so the copy is the file."""
        with translated(source, f"move to {target}"):
            system, at, to = self._system(source), self._path(source), self._path(target)
            if system.exists(to):
                system.delete(at, False)
            elif not system.rename(at, to):
                raise StorageError(source, f"move to {target}", "the file system refused it", remedy=REMEDY)

    def sha256(self, uri: str) -> str:
        """In hexadecimal."""
        with translated(uri, "read"):
            if self._is_local(uri):
                return local_disk.sha256(path_of(uri))
            stream = self._system(uri).open(self._path(uri))
            try:
                return str(self._sha256_hex(stream))
            finally:
                stream.close()

    def make_directory(self, uri: str, what: str = "directory") -> None:
        """With all above it; nothing if it is there. `what` it is for stands in the error."""
        with translated(uri, f"make the {what}"):
            if self._is_local(uri):
                path_of(uri).mkdir(parents=True, exist_ok=True)  # Java's own says only that it failed
            elif not self._system(uri).mkdirs(self._path(uri)):
                raise StorageError(uri, f"make the {what}", "the file system refused it", remedy=REMEDY)

    def delete(self, uri: str) -> None:
        """A file, or a directory with all in it; nothing if it is not there."""
        with translated(uri, "delete"):
            if self._is_local(uri):
                local_disk.delete(path_of(uri))  # Java's own says only that it failed
                return
            system, path = self._system(uri), self._path(uri)
            if not system.delete(path, True) and system.exists(path):
                raise StorageError(uri, "delete", "the file system refused it", remedy=REMEDY)

    def qualify(self, uri: str) -> str:
        """The same place with scheme and authority."""
        with translated(uri, "resolve"):
            return str(self._system(uri).makeQualified(self._path(uri)).toString())

    def _copied_by_store(self, source: str, target: str) -> CopiedFile | None:
        at, to = urlsplit(source), urlsplit(target)
        if at.scheme != "s3a" or (at.scheme, at.netloc) != (to.scheme, to.netloc):
            return None
        with self._lock:
            if at.netloc not in self._stores:
                self._stores[at.netloc] = StoreCopies(self._system(source), self._sha256_hex)
        copied = self._stores[at.netloc].copy(self._path(source), self._path(target))
        return None if copied is None else CopiedFile(*copied)

    def _system(self, uri: str) -> Any:
        parts = urlsplit(uri)
        key = (parts.scheme, parts.netloc)
        if key not in self._systems:
            self._systems[key] = self._path(uri).getFileSystem(self._conf)
        return self._systems[key]

    def _scheme(self, uri: str) -> str:
        return urlsplit(uri).scheme or str(self._system(uri).getUri().getScheme())

    def _is_local(self, uri: str) -> bool:
        return self._scheme(uri) == "file"

    def _list(self, uri: str, links: bool) -> FileInfos:
        with translated(uri, "list"):
            if self._is_local(uri):
                return [
                    FileInfo(name, 0, True)
                    if is_dir
                    else FileInfo(name, stat.st_size, False, stat.st_mtime_ns // 1_000_000)
                    for name, is_dir, stat in local_disk.entries(path_of(uri), links=links)
                ]
            statuses = self._system(uri).listStatus(self._path(uri))
            folder = "/" + uri.rstrip("/").rsplit("/", 1)[-1]
            found = self._parsed(statuses)
            if found is None or not all(p.rpartition("/")[0].endswith(folder) for p, *_ in found):
                # A file system whose status has another text, such as viewfs, which says null.
                return [_file_info(status, str(status.getPath().getName())) for status in statuses]
        return [
            FileInfo(p.rsplit("/", 1)[-1], int(size or 0), bool(is_dir), int(modified or 0))
            for p, is_dir, size, modified in found
        ]

    def _list_all(self, uri: str) -> FileInfos:
        """Every file below a directory. An object store gives a thousand of them in one answer, whatever folders they are in."""
        with translated(uri, "list"):
            root = f"{self._system(uri).makeQualified(self._path(uri)).toString()}".rstrip("/") + "/"
            statuses = self._iterators.toList(self._system(uri).listFiles(self._path(uri), True))
            found = self._parsed(statuses)
            if found is None or not all(p.startswith(root) for p, *_ in found):
                return [_file_info(s, str(s.getPath().toString())[len(root) :]) for s in statuses]
        return [
            FileInfo(p[len(root) :], int(size or 0), False, int(modified or 0))
            for p, _, size, modified in found
        ]

    def _parsed(self, statuses: Any) -> Sequence[tuple[str, str, str, str]] | None:
        """Path, whether it is a directory, size, time of each; None if the text of one is not what it should be."""
        expected = len(statuses)
        found = _STATUS.findall(str(self._text(statuses))) if expected else []
        return found if len(found) == expected else None

    def _write_object(self, uri: str, data: bytes) -> None:
        builder = self._system(uri).createFile(self._path(uri)).overwrite(False).recursive()
        stream = builder.opt(CONDITIONAL, "true").build()
        try:
            with self._published(uri, stream):
                stream.write(data)
        except Py4JJavaError as e:
            if not any(c.getClass().getSimpleName() == "RemoteFileChangedException" for c in java_causes(e)):
                raise
            # Somebody was faster; or the answer to this very request was lost, and it was sent again.
            if self.read_bytes(uri, OBJECT_LIMIT) != data:
                raise FileExists(uri, "write", "it exists") from None

    def _write(self, uri: str, path: Any, data: bytes) -> None:
        stream = self._system(uri).create(path, False)
        with self._published(uri, stream):
            stream.write(data)

    def _pour(self, stream: Any, target: str) -> int:
        written = self._system(target).create(self._path(target), True)
        with self._published(target, written):
            self._copy_bytes(stream, written, BUFFER, False)
        return int(written.getPos())

    def _pour_local(self, stream: Any, target: str) -> int:
        """Without Hadoop's FileSystem, which runs a chmod process for every file on a disk and another for its .crc."""
        path = path_of(target)
        path.parent.mkdir(parents=True, exist_ok=True)
        local_disk.forget_checksum(path)
        written = self._local_stream(str(path))
        try:
            self._copy_bytes(stream, written, BUFFER, False)
        finally:
            written.close()
        local_disk.settle(path)
        return path.stat().st_size

    @contextmanager
    def _published(self, uri: str, stream: Any) -> Iterator[None]:
        """What the block writes becomes a file when all is written, never before: closing publishes, on an object store also
        half a file."""
        objects = self._scheme(uri) in OBJECT_STORES
        try:
            yield
            if not objects:
                stream.hsync()  # what a manifest lists has to survive the node
            stream.close()
        except BaseException:
            if objects:
                with suppress(Py4JError):
                    stream.abort()  # parts of a large file that were sent would be kept, and paid for
            raise

    def _rename(self, system: Any, source: Any, target: Any) -> None:
        """Unlike FileSystem.rename on a local disk, FileContext's refuses a target that exists."""
        options = self._gateway.new_array(self._rename_options, 1)
        options[0] = self._rename_options.NONE
        context = self._contexts.getFileContext(system.getUri(), self._conf)
        context.rename(source, target, options)


def _file_info(status: Any, name: str) -> FileInfo:
    if status.isDirectory():
        return FileInfo(name, 0, True)
    return FileInfo(name, int(status.getLen()), False, int(status.getModificationTime()))
