"""Files of any Hadoop file system (volume, S3A, HDFS), through the driver's JVM.

A URI is what `org.apache.hadoop.fs.Path(String)` accepts: nothing in it is percent-decoded. The contents of
copied or hashed files enter Python only for a local disk (`local_disk`), and never as a whole. Thread-safe:
py4j gives each thread its own connection.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from ..jvm.errors import java_causes
from ..jvm.standalone import Jvm
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
from .file_systems import FileSystems, canonical
from .listing import FileInfo, Listing
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

    def __init__(self, spark: SparkSession | Jvm) -> None:
        self.has_session = not isinstance(spark, Jvm)
        if isinstance(spark, Jvm):
            gateway, conf = spark.gateway, spark.hadoop_conf()
        else:
            self.spark = spark
            gateway = spark.sparkContext._gateway
            conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._systems = systems = FileSystems(gateway, conf)
        self._listing = Listing(systems)
        self._system, self._path = systems.of, systems.path
        self._scheme, self._is_local = systems.scheme, systems.is_local
        # Looked up once, as in `FileSystems`.
        jvm: Any = systems.gateway.jvm
        self._contexts: Any = jvm.org.apache.hadoop.fs.FileContext
        self._rename_options: Any = getattr(jvm.org.apache.hadoop.fs, "Options$Rename")
        self._copy_bytes: Any = jvm.org.apache.hadoop.io.IOUtils.copyBytes
        self._local_stream: Any = jvm.java.io.FileOutputStream
        self._digests: Any = jvm.java.security.MessageDigest
        self._digest_stream: Any = jvm.java.security.DigestInputStream
        self._sha256_hex: Any = jvm.org.apache.commons.codec.digest.DigestUtils.sha256Hex
        self._stores: dict[str, StoreCopies] = {}  # by bucket
        self._lock = threading.Lock()

    @property
    def spark_version(self) -> str:
        package: Any = getattr(self._systems.gateway.jvm.org.apache.spark, "package$")
        return str(package.__getattr__("MODULE$").SPARK_VERSION())

    def exists(self, uri: str) -> bool:
        with translated(uri, "look up"):
            if self._is_local(uri):
                return path_of(uri).exists()
            return bool(self._system(uri).exists(self._path(uri)))

    def list(self, uri: str, recursive: bool = False) -> FileInfos:
        """As `Listing.of`."""
        return self._listing.of(uri, recursive)

    def read_bytes(self, uri: str, limit: int = 1 << 20) -> bytes:
        """Read a whole file.

        :raises StorageError: the file is longer than `limit` bytes.
        """
        with translated(uri, "read"):
            # Java's error for a missing file costs 10 to 40 ms, and much of what is asked for is missing.
            data = (
                local_disk.read(path_of(uri), limit + 1)
                if self._is_local(uri)
                else self._read(uri, limit + 1)
            )
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

    def canonical(self, uri: str) -> str:
        """The form of a URI by which places are compared, see `canonical`. Files are read and written by
        their own URI.
        """
        return canonical(self.qualify(uri))

    def _read(self, uri: str, limit: int) -> bytes:
        stream = self._system(uri).open(self._path(uri))
        try:
            return bytes(stream.readNBytes(limit))
        finally:
            stream.close()

    def _copied_by_store(self, source: str, target: str) -> CopiedFile | None:
        at, to = urlsplit(source), urlsplit(target)
        if at.scheme != "s3a" or (at.scheme, at.netloc) != (to.scheme, to.netloc):
            return None
        with self._lock:
            if at.netloc not in self._stores:
                self._stores[at.netloc] = StoreCopies(self._system(source), self._sha256_hex)
        copied = self._stores[at.netloc].copy(self._path(source), self._path(target))
        return None if copied is None else CopiedFile(*copied)

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
        options = self._systems.gateway.new_array(self._rename_options, 1)
        options[0] = self._rename_options.NONE
        context = self._contexts.getFileContext(system.getUri(), self._systems.conf)
        context.rename(source, target, options)
