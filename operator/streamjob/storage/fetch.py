"""Fetches single files from anywhere (a disk, HTTP, Hadoop's file systems) to the local disk.

HTTP goes through the JVM's URLs: Hadoop's own file system for it knows no time-out. And the first look at any
of Hadoop's file systems fixes which of them there are, so what is fetched by HTTP may still be a connector.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ..jvm.standalone import Jvm
from . import local_disk
from .errors import AccessDenied, NotFound, StorageError, translated
from .hadoop import BUFFER, CopiedFile

CONNECT, READ = 10_000, 60_000  # milliseconds
OK, UNAVAILABLE = 200, 500
DENIED, MAYBE_LATER = (401, 403, 407), (408, 425, 429)
# A restart of the driver tries again. By themselves these clients would do so for minutes.
FEW_ATTEMPTS = {
    "fs.s3a.attempts.maximum": "2",
    "fs.s3a.retry.limit": "2",
    "fs.s3a.connection.establish.timeout": "15s",  # the least that it takes
    "ipc.client.connect.max.retries": "3",
    "ipc.client.connect.max.retries.on.timeouts": "1",
}


class TooLarge(StorageError):
    retryable = False


def scheme(uri: str) -> str:
    """The scheme of a URI; of a path, whatever its characters, the empty string."""
    found = re.match(r"([a-z][a-z0-9+.-]*):/", uri, re.IGNORECASE)
    return found[1].lower() if found else ""


def is_local(uri: str) -> bool:
    """Whether the file is in the container: a path, `file:` or Spark's `local:`."""
    return scheme(uri) in ("", "file", "local")


def is_http(uri: str) -> bool:
    return scheme(uri) in ("http", "https")


def local_path(uri: str) -> str:
    """The path of a local file."""
    return unquote(urlsplit(uri).path) if scheme(uri) else uri


def present(uri: str) -> Path:
    """The path of a local file.

    :raises NotFound: there is no file.
    """
    path = Path(local_path(uri))
    with translated(uri, "read"):
        if not path.is_file():
            cause = "it is a folder" if path.is_dir() else "there is no such file"
            raise NotFound(uri, "read", cause, remedy="Check the location<mounted>")
    return path


def fetch(jvm: Jvm, uri: str, target: Path, limit: int | None = None) -> CopiedFile:
    """Copy a file to the local disk, and hash it.

    :param limit: bytes that it may have.
    :raises StorageError: it cannot be read.
    :raises TooLarge: it is longer than `limit`.
    """
    with translated(uri, "fetch"):
        if is_local(uri):
            copied = CopiedFile(*local_disk.copy(present(uri), target))
        else:
            opened = _opened_http(jvm, uri) if is_http(uri) else _opened_hadoop(jvm, uri)
            with opened as (stream, length):
                copied = _pour(jvm, stream, target, limit)
            if copied.size < length and (limit is None or copied.size <= limit):
                raise StorageError(uri, "fetch", f"it broke off after {copied.size} of {length} bytes")
    if limit is not None and copied.size > limit:
        raise TooLarge(uri, "fetch", f"it has more than {limit} bytes", remedy="Name another file")
    return copied


def unreachable(jvm: Jvm, url: str) -> str | None:
    """Why a web server cannot be reached, None if it answers.

    What it answers does not matter, unless it is an error of its own.
    """
    try:
        with translated(url, "reach"):
            connection = _connection(jvm, url)
            connection.setRequestMethod("HEAD")
            connection.setReadTimeout(CONNECT)
            code = int(connection.getResponseCode())
            connection.disconnect()
    except StorageError as e:
        return e.cause
    return f"it answers {code}" if code >= UNAVAILABLE else None


def _pour(jvm: Jvm, stream: Any, target: Path, limit: int | None) -> CopiedFile:
    java, copy = jvm.jvm.java, jvm.jvm.org.apache.hadoop.io.IOUtils.copyBytes
    digest = java.security.MessageDigest.getInstance("SHA-256")
    hashed = java.security.DigestInputStream(stream, digest)
    written = java.io.FileOutputStream(str(target))
    try:
        if limit is None:
            copy(hashed, written, BUFFER, False)
        else:
            copy(hashed, written, limit + 1, False)
    finally:
        written.close()
    return CopiedFile(target.stat().st_size, bytes(digest.digest()).hex())


@contextmanager
def _opened_http(jvm: Jvm, url: str) -> Iterator[tuple[Any, int]]:
    connection = _connection(jvm, url)
    code = int(connection.getResponseCode())
    if code != OK:
        raise _refused(url, code, connection.getHeaderField("Location"))
    stream = connection.getInputStream()
    try:
        yield stream, int(connection.getContentLengthLong())  # -1: the server does not say
    finally:
        stream.close()


def _refused(url: str, code: int, location: str | None) -> StorageError:
    if code in DENIED:
        return AccessDenied(url, "fetch", f"the server answers {code}", remedy="Give the driver access to it")
    if code >= UNAVAILABLE or code in MAYBE_LATER:
        return StorageError(url, "fetch", f"the server answers {code}", remedy="See the server")
    # Java follows within one protocol by itself. The query of a signed location is a credential.
    moved = f" and names {location.partition('?')[0]}" if location else ""
    return NotFound(url, "fetch", f"the server answers {code}{moved}", remedy="Correct the location")


def _connection(jvm: Jvm, url: str) -> Any:
    connection = jvm.jvm.java.net.URL(url).openConnection()
    connection.setConnectTimeout(CONNECT)
    connection.setReadTimeout(READ)
    return connection


@contextmanager
def _opened_hadoop(jvm: Jvm, uri: str) -> Iterator[tuple[Any, int]]:
    conf = jvm.hadoop_conf()
    for key, value in FEW_ATTEMPTS.items():
        conf.set(key, value)
    hadoop = jvm.jvm.org.apache.hadoop.fs
    path = hadoop.Path(uri)
    # One of its own: `FileSystem.get` would keep it for the script, with these settings.
    system = hadoop.FileSystem.newInstance(path.toUri(), conf)
    try:
        stream = system.open(path)
        try:
            yield stream, -1
        finally:
            stream.close()
    finally:
        system.close()
