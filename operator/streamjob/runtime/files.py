"""Hadoop's FileSystem, for any URI that Spark itself can use: a volume, S3A, HDFS. Bytes never pass through Python."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ..protocol.errors import StreamJobError

BUFFER = 128 << 10  # bytes
# A PUT is atomic there and a rename is none: what is created becomes visible whole, when it is closed.
OBJECT_STORES = ("s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "oss", "cosn", "obs")


class StorageError(StreamJobError):
    """A file operation failed. `uri` says on which object."""

    reason = "StorageUnavailable"
    retryable = True

    def __init__(self, uri: str, what: str, cause: str, *, remedy: str) -> None:
        super().__init__(f"{uri}: cannot {what}: {cause}", remedy=remedy)
        self.uri = uri


class FileMissing(StorageError):
    reason = "FileMissing"


class FileExists(StorageError):
    reason = "FileExists"
    retryable = False


class AccessDenied(StorageError):
    reason = "StorageAccessDenied"


class StorageFull(StorageError):
    reason = "StorageFull"


@dataclass(frozen=True)
class CopiedFile:
    """`size` in bytes, `sha256` in hexadecimal, of what was read from the source while it was copied."""

    size: int
    sha256: str


class HadoopFiles:
    """Thread-safe: py4j gives each Python thread a connection of its own.

    Every method raises StorageError (or a more telling subclass) and nothing else for what the storage does.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._path = jvm.org.apache.hadoop.fs.Path
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()

    def qualify(self, uri: str) -> str:
        """The URI with scheme and, for the default file system, authority, without a slash at its end."""
        with _told(uri, "reach"):
            fs = self._fs(uri)
            return str(
                self._path(uri).makeQualified(fs.getUri(), fs.getWorkingDirectory()).toString()
            ).rstrip("/")

    def exists(self, uri: str) -> bool:
        with _told(uri, "look at"):
            return bool(self._fs(uri).exists(self._path(uri)))

    def numbers(self, uri: str) -> list[int]:
        """Ascending numbers that are names of files in the folder, as in Spark's logs; [] if there is no folder.

        Two calls into the JVM however many files there are: it is on the way of every stop.
        """
        with _told(uri, "list"):
            try:
                found = self._fs(uri).listStatus(self._path(uri))
            except Py4JJavaError as e:
                if _is(e, "FileNotFoundException"):
                    return []
                raise
            paths = self._jvm.org.apache.hadoop.fs.FileUtil.stat2Paths(found)
            text = str(self._jvm.java.util.Arrays.toString(paths))
        return sorted(int(n) for n in re.findall(r"/(\d+)(?=, |\]$)", text))

    def names(self, uri: str) -> list[str]:
        """Names in the folder, sorted; [] if there is no folder."""
        with _told(uri, "list"):
            try:
                found = self._fs(uri).listStatus(self._path(uri))
            except Py4JJavaError as e:
                if _is(e, "FileNotFoundException"):
                    return []
                raise
            return sorted(str(s.getPath().getName()) for s in found)

    def walk(self, uri: str) -> list[str]:
        """Paths of all files below the folder, relative to it, sorted; [] if there is no folder."""
        root = self.qualify(uri)
        with _told(uri, "list"):
            try:
                found = self._fs(uri).listFiles(self._path(root), True)
            except Py4JJavaError as e:
                if _is(e, "FileNotFoundException"):
                    return []
                raise
            paths = []
            while found.hasNext():
                paths.append(str(found.next().getPath().toString())[len(root) + 1 :])
        return sorted(paths)

    def read_bytes(self, uri: str, limit: int) -> bytes:
        """:raises StorageError: also if it is larger than `limit` bytes."""
        with _told(uri, "read"):
            stream = self._fs(uri).open(self._path(uri))
            try:
                data = bytes(stream.readNBytes(limit + 1))
            finally:
                stream.close()
        if len(data) > limit:
            raise StorageError(
                uri, "read", f"it is larger than {limit} bytes", remedy="Check that it is the right file"
            )
        return data

    def write_new(self, uri: str, data: bytes) -> None:
        """Create a file whole or not at all. :raises FileExists: it is there already."""
        with _told(uri, "write"):
            fs, path = self._fs(uri), self._path(uri)
            if fs.exists(path):
                raise FileExists(uri, "write", "it exists already", remedy="Choose another name")
            if str(fs.getScheme()) in OBJECT_STORES:
                self._create(fs, path, data)
                return
            temporary = self._path(path.getParent(), f".{path.getName()}.{uuid.uuid4().hex}.tmp")
            self._create(fs, temporary, data)
            no_options = self._gateway.new_array(self._jvm.org.apache.hadoop.fs.Options.Rename, 0)
            try:
                context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(fs.getUri(), self._conf)
                # Without options it refuses to overwrite; FileSystem.rename of the same name would not.
                context.rename(fs.makeQualified(temporary), fs.makeQualified(path), no_options)
            finally:
                fs.delete(temporary, False)

    def copy(self, source: str, target: str) -> CopiedFile:
        """Copy one file over whatever is at the target; folders are made."""
        with _told(source, f"copy to {target}"):
            out = self._fs(target).create(self._path(target), True)
            return self._digest(source, out)

    def sha256(self, uri: str) -> CopiedFile:
        """Read a file to its end."""
        with _told(uri, "read"):
            return self._digest(uri, self._jvm.java.io.OutputStream.nullOutputStream())

    def delete(self, uri: str) -> None:
        """Remove a file, or a folder with all that is in it; nothing happens if there is none."""
        with _told(uri, "delete"):
            self._fs(uri).delete(self._path(uri), True)

    def _fs(self, uri: str) -> Any:
        return self._path(uri).getFileSystem(self._conf)

    def _create(self, fs: Any, path: Any, data: bytes) -> None:
        out = fs.create(path, False)
        try:
            out.write(bytearray(data))
            if fs.getScheme() not in OBJECT_STORES:
                out.hsync()
        finally:
            out.close()

    def _digest(self, source: str, out: Any) -> CopiedFile:
        """Pass the file through SHA-256 into `out` and close both."""
        sha = self._jvm.java.security.MessageDigest.getInstance("SHA-256")
        try:
            opened = self._fs(source).open(self._path(source))
        except BaseException:
            out.close()
            raise
        counted = self._jvm.java.security.DigestInputStream(opened, sha)
        self._jvm.org.apache.hadoop.io.IOUtils.copyBytes(counted, out, BUFFER, True)
        return CopiedFile(
            int(self._fs(source).getFileStatus(self._path(source)).getLen()), bytes(sha.digest()).hex()
        )


@contextmanager
def _told(uri: str, what: str) -> Iterator[None]:
    """Turn what the JVM throws into one sentence that names the object."""
    try:
        yield
    except Py4JJavaError as e:
        raise _explain(uri, what, e) from None


def _explain(uri: str, what: str, error: Py4JJavaError) -> StorageError:
    text = str(error.java_exception.getMessage() or error.java_exception.getClass().getName()).splitlines()[
        0
    ][:500]
    if _is(error, "FileNotFoundException", "NoSuchFileException"):
        return FileMissing(
            uri, what, "it does not exist", remedy="Check the location and that its volume is mounted"
        )
    if _is(error, "FileAlreadyExistsException"):
        return FileExists(uri, what, "it exists already", remedy="Choose another name")
    if _is(error, "AccessControlException", "AccessDeniedException") or "Permission denied" in text:
        return AccessDenied(uri, what, "access is denied", remedy="Give the driver's user the right to it")
    if "No space left" in text or "Quota" in text:
        return StorageFull(uri, what, "the storage is full", remedy="Free some room; it is tried again")
    return StorageError(uri, what, text, remedy="Check the location and the driver's access to it")


def _is(error: Py4JJavaError, *names: str) -> bool:
    cause = error.java_exception
    while cause is not None:
        if str(cause.getClass().getSimpleName()) in names:
            return True
        cause = cause.getCause()
    return False
