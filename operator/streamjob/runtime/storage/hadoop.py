"""Files of any Hadoop file system (volume, S3A, HDFS), through the driver's JVM.

A URI is what `org.apache.hadoop.fs.Path(String)` accepts: nothing in it is percent-decoded. The contents of
copied or hashed files enter Python only for a local disk (`local_disk`), and never as a whole. Thread-safe:
py4j gives each thread its own connection.
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

# A file appears only when it is closed, complete or not at all. A rename copies.
OBJECT_STORES = frozenset({"s3a", "s3", "s3n", "gs", "wasb", "wasbs", "oss", "cos", "cosn", "obs", "swift"})
BUFFER = 1 << 17  # bytes
OBJECT_LIMIT = 256 << 20  # bytes of a file that is written in one piece
# If two clients write an object at once, the store refuses one (If-None-Match). Hadoop before 3.4.2 ignores
# the option.
CONDITIONAL = "fs.option.create.conditional.overwrite"

# org.apache.hadoop.fs.FileStatus.toString: two calls list thousands of files, instead of four calls for each
# file.
_STATUS = re.compile(
    r"\w*\{path=(.+?); isDirectory="
    r"(?:(true); modification_time|false; length=(\d+); replication=\d+; blocksize=\d+; modification_time=(\d+))"
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


@dataclass(frozen=True)
class CopiedFile:
    """The result of a copy.

    :param size: bytes.
    :param sha256: in hexadecimal.
    """

    size: int
    sha256: str


FileInfos = list[FileInfo]  # inside the class, `list` is the method


class HadoopFiles:
    """The files that a session, or a JVM without one, can reach.

    All methods raise `StorageError` or a subclass of it. `spark` is set only if the object was made with a
    session.
    """

    spark: SparkSession
    _gateway: Any
    _conf: Any

    def __init__(self, spark: SparkSession | SmallJvm) -> None:
        self.has_session = not isinstance(spark, SmallJvm)
        if isinstance(spark, SmallJvm):
            self._gateway, self._conf = spark.gateway, spark.hadoop_conf()
        else:
            self.spark = spark
            self._gateway = spark.sparkContext._gateway
            self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        jvm: Any = self._gateway.jvm
        # Look these up once: py4j asks the JVM about every part of a dotted name, each time.
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
        """List a directory, in no particular order.

        :param recursive: false: what lies directly in the directory; true: every file below it, and no
            directory.
        :raises NotFound: there is no such directory.
        :raises LinkFound: there is a link below it, on a local disk with `recursive`.
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
        """Read a whole file.

        :raises StorageError: the file is longer than `limit` bytes.
        """
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
        """Write a small new file atomically.

        :raises FileExists: the file exists already.
        """
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
        """Copy one file durably, replacing whatever is at `target`, and hash what is read.

        Within one S3 bucket the server copies and hashes, if it can.
        """
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
        """Move a file within one file system to a name that no other file has. May be repeated.

        A rename that copies and then deletes may leave both files if it is interrupted. Objects appear
        complete or not at all, so the copy is then the file, and the source is deleted.
        """
        with translated(source, f"move to {target}"):
            system, at, to = self._system(source), self._path(source), self._path(target)
            if system.exists(to):
                system.delete(at, False)
            elif not system.rename(at, to):
                raise StorageError(source, f"move to {target}", "the file system refused it", remedy=REMEDY)

    def sha256(self, uri: str) -> str:
        """The SHA-256 of a file, in hexadecimal."""
        with translated(uri, "read"):
            if self._is_local(uri):
                return local_disk.sha256(path_of(uri))
            stream = self._system(uri).open(self._path(uri))
            try:
                return str(self._sha256_hex(stream))
            finally:
                stream.close()

    def make_directory(self, uri: str, what: str = "directory") -> None:
        """Make a directory and its parents. Does nothing if it exists.

        :param what: what the directory is for, named in the error message.
        """
        with translated(uri, f"make the {what}"):
            if self._is_local(uri):
                # Java's call does not say why it failed. A relative path counts from the working directory of
                # the JVM, whatever the script has made of Python's.
                path_of(self.qualify(uri)).mkdir(parents=True, exist_ok=True)
            elif not self._system(uri).mkdirs(self._path(uri)):
                raise StorageError(uri, f"make the {what}", "the file system refused it", remedy=REMEDY)

    def delete(self, uri: str) -> None:
        """Delete a file, or a directory with its contents. Does nothing if it does not exist."""
        with translated(uri, "delete"):
            if self._is_local(uri):
                local_disk.delete(path_of(uri))  # Java's call does not say why it failed
                return
            system, path = self._system(uri), self._path(uri)
            if not system.delete(path, True) and system.exists(path):
                raise StorageError(uri, "delete", "the file system refused it", remedy=REMEDY)

    def qualify(self, uri: str) -> str:
        """The same URI with scheme and authority."""
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
                # A file system formats its status differently, such as viewfs, which returns null.
                return [_file_info(status, str(status.getPath().getName())) for status in statuses]
        return [
            FileInfo(p.rsplit("/", 1)[-1], int(size or 0), bool(is_dir), int(modified or 0))
            for p, is_dir, size, modified in found
        ]

    def _list_all(self, uri: str) -> FileInfos:
        """Every file below a directory. An object store returns a thousand per response, in all folders."""
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
        """Parse the statuses from their text.

        :returns: path, directory flag, size and time of each; None if a status has another format.
        """
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
            # Another client was faster; or the answer to this request was lost, and the request was sent
            # again.
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
        """Write to a local disk without Hadoop's FileSystem.

        Hadoop would start a chmod process for each file, and another one for its .crc.
        """
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
        """Close the stream only if the block succeeds.

        Closing publishes the file, on an object store even a partial one.
        """
        objects = self._scheme(uri) in OBJECT_STORES
        try:
            yield
            if not objects:
                stream.hsync()  # a file that a manifest lists must survive the loss of the node
            stream.close()
        except BaseException:
            if objects:
                with suppress(Py4JError):
                    stream.abort()  # the store would keep the parts already sent, and bill them
            raise

    def _rename(self, system: Any, source: Any, target: Any) -> None:
        """Rename a file, but never over another one.

        FileContext's rename refuses an existing target. On a local disk, `FileSystem.rename` does not.
        """
        options = self._gateway.new_array(self._rename_options, 1)
        options[0] = self._rename_options.NONE
        context = self._contexts.getFileContext(system.getUri(), self._conf)
        context.rename(source, target, options)


def _file_info(status: Any, name: str) -> FileInfo:
    if status.isDirectory():
        return FileInfo(name, 0, True)
    return FileInfo(name, int(status.getLen()), False, int(status.getModificationTime()))
