"""Files of any Hadoop file system (volume, S3A, HDFS), through the driver's JVM.

A URI is what `org.apache.hadoop.fs.Path(String)` takes: nothing in it is percent-decoded. The contents of files that are
copied or hashed never enter Python. Safe to use from many threads: py4j gives each its own connection.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlsplit

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from ..protocol.errors import StreamJobError

# Their files appear when they are closed, whole or not at all; their rename copies.
OBJECT_STORES = frozenset({"s3a", "s3", "s3n", "gs", "wasb", "wasbs", "oss", "cos", "cosn", "obs", "swift"})
BUFFER = 1 << 17  # bytes

# org.apache.hadoop.fs.FileStatus.toString: a directory of thousands of files is two calls instead of four for each file.
_STATUS = re.compile(r"\w*\{path=(.+?); isDirectory=(?:(true)|false; length=(\d+));")


class StorageError(StreamJobError):
    """A file system refused or broke off. `uri`: the file; `what`: what was tried; `cause`: its words, one line."""

    reason: ClassVar[str] = "StorageFailed"
    retryable: ClassVar[bool] = True

    def __init__(self, uri: str, what: str, cause: str, *, remedy: str = "") -> None:
        super().__init__(f"cannot {what} {uri}: {cause}", remedy=remedy)
        self.uri = uri
        self.what = what
        self.cause = cause


class NotFound(StorageError):
    reason = "FileNotFound"
    retryable = False


class AccessDenied(StorageError):
    reason = "StorageAccessDenied"
    retryable = False


class StorageFull(StorageError):
    reason = "StorageFull"


class FileExists(StorageError):
    reason = "FileExists"
    retryable = False


@dataclass(frozen=True)
class FileInfo:
    """`path` relative to what was listed; `size` in bytes, 0 for a directory."""

    path: str
    size: int
    is_dir: bool


@dataclass(frozen=True)
class CopiedFile:
    """`size` in bytes, `sha256` in hexadecimal."""

    size: int
    sha256: str


FileInfos = list[FileInfo]  # inside the class, `list` is the method


class HadoopFiles:
    """All methods raise StorageError, or the subclass of it that says more."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsparkSession.sessionState().newHadoopConf()
        self._systems: dict[tuple[str, str], Any] = {}

    def exists(self, uri: str) -> bool:
        with translated(uri, "look up"):
            return bool(self._system(uri).exists(self._path(uri)))

    def list(self, uri: str, recursive: bool = False) -> FileInfos:
        """What lies directly in a directory, or (recursive) every file below it and no directory; unordered.

        :raises NotFound: there is no such directory.
        """
        found = self._list(uri)
        if not recursive:
            return found
        files = [f for f in found if not f.is_dir]
        for directory in (f for f in found if f.is_dir):
            below = self.list(f"{uri.rstrip('/')}/{directory.path}", recursive=True)
            files += [FileInfo(f"{directory.path}/{f.path}", f.size, False) for f in below]
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
            system, path = self._system(uri), self._path(uri)
            if system.exists(path):
                raise FileExists(uri, "write", "it exists")
            if urlsplit(uri).scheme in OBJECT_STORES:
                self._write(system, path, data)
                return
            folder, name = uri.rsplit("/", 1)
            temporary = self._path(f"{folder}/.{name}.{uuid.uuid4().hex}.tmp")
            try:
                self._write(system, temporary, data)
                self._rename(system, temporary, path)
            except Exception:
                system.delete(temporary, False)
                raise

    def copy(self, source: str, target: str) -> CopiedFile:
        """Copy one file over whatever is at `target`, hashing what is read."""
        with translated(source, "read"):
            read = self._system(source).open(self._path(source))
        with translated(source, f"copy to {target}"):
            digest = self._jvm.java.security.MessageDigest.getInstance("SHA-256")
            hashed = self._jvm.java.security.DigestInputStream(read, digest)
            try:
                written = self._system(target).create(self._path(target), True)
                # Closes both, also when it fails.
                self._jvm.org.apache.hadoop.io.IOUtils.copyBytes(hashed, written, BUFFER, True)
            finally:
                hashed.close()
            return CopiedFile(int(written.getPos()), bytes(digest.digest()).hex())

    def sha256(self, uri: str) -> str:
        """In hexadecimal."""
        with translated(uri, "read"):
            stream = self._system(uri).open(self._path(uri))
            try:
                return str(self._jvm.org.apache.commons.codec.digest.DigestUtils.sha256Hex(stream))
            finally:
                stream.close()

    def delete(self, uri: str) -> None:
        """A file, or a directory with all in it; nothing if it is not there."""
        with translated(uri, "delete"):
            self._system(uri).delete(self._path(uri), True)

    def qualify(self, uri: str) -> str:
        """The same place with scheme and authority."""
        with translated(uri, "resolve"):
            return str(self._system(uri).makeQualified(self._path(uri)).toString())

    def _path(self, uri: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(uri)

    def _system(self, uri: str) -> Any:
        parts = urlsplit(uri)
        key = (parts.scheme, parts.netloc)
        if key not in self._systems:
            self._systems[key] = self._path(uri).getFileSystem(self._conf)
        return self._systems[key]

    def _list(self, uri: str) -> FileInfos:
        with translated(uri, "list"):
            statuses = self._system(uri).listStatus(self._path(uri))
            expected = len(statuses)
            text = str(self._jvm.scala.runtime.ScalaRunTime.stringOf(statuses)) if expected else ""
            found = _STATUS.findall(text)
            if len(found) != expected:
                raise StorageError(uri, "list", f"{expected} entries, of which {len(found)} could be read")
        return [FileInfo(p.rsplit("/", 1)[-1], int(size or 0), bool(is_dir)) for p, is_dir, size in found]

    def _write(self, system: Any, path: Any, data: bytes) -> None:
        stream = system.create(path, False)
        stream.write(data)
        stream.close()  # not in a finally: on an object store, closing would publish what was half written

    def _rename(self, system: Any, source: Any, target: Any) -> None:
        """Unlike FileSystem.rename on a local disk, FileContext's refuses a target that exists."""
        options = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        array = self.spark._sc._gateway.new_array(options, 1)  # type: ignore[union-attr]
        array[0] = options.NONE
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(system.getUri(), self._conf)
        context.rename(source, target, array)


_KINDS = (
    (FileExists, ("FileAlreadyExistsException",), ()),
    (NotFound, ("FileNotFoundException", "NoSuchFileException", "UnknownStoreException"), ()),
    (
        AccessDenied,
        ("AccessDeniedException", "AccessControlException"),
        ("Permission denied", "Operation not permitted"),
    ),
    (
        StorageFull,
        ("DSQuotaExceededException", "NSQuotaExceededException"),
        ("No space left", "quota exceeded"),
    ),
)


@contextmanager
def translated(uri: str, what: str) -> Iterator[None]:
    """What the JVM throws about `uri` in the block becomes a StorageError of one sentence."""
    try:
        yield
    except Py4JJavaError as e:
        thrown = e.java_exception
        name = str(thrown.getClass().getSimpleName())
        raise _error(uri, what, name, str(thrown.getMessage() or "")) from None
    except CapturedException as e:
        raise _error(uri, what, type(e).__name__, str(e)) from None
    except Py4JError as e:
        raise StorageError(uri, what, f"the driver's JVM did not answer ({_one_line(str(e))})") from None


def _error(uri: str, what: str, name: str, message: str) -> StorageError:
    text = _one_line(message)
    for kind, names, words in _KINDS:
        if name in names or any(w.lower() in message.lower() for w in words):
            return kind(uri, what, text or name)
    return StorageError(uri, what, f"{name}: {text}" if text else name)


def _one_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0][:300] if lines else ""
