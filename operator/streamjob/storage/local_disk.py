"""Files of a volume, without the JVM: calls into it would cost more than copying most of Spark's files.

Hadoop's LocalFileSystem keeps a checksum file, `.NAME.crc`, next to each file. Such a file is checked when
its file is copied, deleted when its file is written, and never listed. All functions raise OSError.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

from .hadoop_checksums import Checksums

BUFFER = 1 << 20  # bytes: what each thread needs in memory, besides the buffers of open files
WRITE_BACK = 4 << 20  # bytes between two calls of `_write_back`


class LinkFound(OSError):
    """There is a symbolic link. Spark makes none, so somebody wants another file to be read in its place."""


def path_of(uri: str) -> Path:
    """The path of a URI such as `file:/a`, `file:///a` or `/a`. Nothing is percent-decoded."""
    scheme, _, rest = uri.partition(":")
    path = rest if scheme.lower() == "file" else uri
    return Path(f"/{path[2:].partition('/')[2]}" if path.startswith("//") else path)


def uri_of(path: Path) -> str:
    """The URI of an absolute path, as `path_of` and Hadoop read it.

    `Path.as_uri` percent-encodes: Hadoop would take `%20` for three characters of the name.
    """
    return f"file://{path}"


def entries(folder: Path, *, links: bool = True) -> Iterator[tuple[str, bool, os.stat_result]]:
    """The entries of a folder without checksum files: name, whether it is a directory, and its status.

    :param links: whether links are allowed.
    :raises LinkFound: there is a link, and `links` is false.
    """
    with os.scandir(folder) as found:
        for entry in found:
            if not (entry.name.startswith(".") and entry.name.endswith(".crc")):
                if not links and entry.is_symlink():
                    raise LinkFound(0, f"{entry.name} is a link, which may lead anywhere")
                try:
                    yield entry.name, entry.is_dir(), entry.stat()
                except FileNotFoundError:  # deleted since
                    continue


def write_new(path: Path, data: bytes) -> None:
    """Write a new file, atomically and durably.

    :raises FileExistsError: the file exists already.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        forget_checksum(path)
        try:
            os.link(temporary, path)  # unlike a rename, it never replaces a file
        except FileExistsError:
            if not path.samefile(temporary):  # the same: NFS repeated a request whose answer was lost
                raise
        except OSError:  # a volume without hard links
            temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
    _settle_names(path.parent)


def read(path: Path, limit: int) -> bytes:
    """Read a file, but at most `limit` bytes of it.

    :raises FileNotFoundError: it is missing, or a folder.
    :raises ChecksumMismatch: the whole file was read, and does not match its checksum file.
    """
    if path.is_dir():
        raise FileNotFoundError(0, "it is a folder")
    with path.open("rb") as file, _checksums(path) as checksums:
        data = file.read(limit)
        if checksums is not None and len(data) < limit:
            checksums.check(bytearray(data), len(data))
        return data


def copy(source: Path, target: Path) -> tuple[int, str]:
    """Copy one file durably, replacing whatever is at `target`.

    Each copy waits for the disk by itself, instead of one wait for all files at the end: other threads hash
    meanwhile.

    :returns: bytes and SHA-256 of what was read.
    :raises ChecksumMismatch: the source does not match its checksum file.
    """
    with source.open("rb", buffering=0) as read, _checksums(source) as checksums:
        forget_checksum(target)
        with _opened(target) as written:
            found = _pour(read, written, checksums)
            os.fsync(written.fileno())
            return found


def replace(source: Path, target: Path, scratch: Path) -> tuple[int, str]:
    """As `copy`, but `target` never holds a partial file, even if several processes do this at once.

    :param scratch: a temporary path in the folder of `target`, which each process has to itself.
    """
    found = copy(source, scratch)
    forget_checksum(target)
    scratch.replace(target)
    _settle_names(target.parent)
    return found


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb", buffering=0) as read:
        return _pour(read, None, None)[1]


def settle(path: Path) -> None:
    """Make a file durable that another writer has written."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _settle_names(folder: Path) -> None:
    """Make the names in a folder durable, if its file system supports that."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def delete(path: Path) -> None:
    """Delete a file, or a directory with its contents. Does nothing if it does not exist."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, onerror=_unless_gone)
    else:
        path.unlink(missing_ok=True)
        forget_checksum(path)


def forget_checksum(path: Path) -> None:
    """Delete the `.crc` of a file that is replaced: Hadoop would check the new file against it."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _opened(path: Path) -> FileIO:
    """Open a file for writing. Its folder is missing only for the first of the few hundred files in it."""
    try:
        return path.open("wb", buffering=0)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("wb", buffering=0)


def _pour(read: FileIO, written: FileIO | None, checksums: Checksums | None) -> tuple[int, str]:
    chunk = checksums.chunk if checksums else 1
    # Most of Spark's files are small: a large buffer for each would cost more than copying it.
    length = min(BUFFER, os.fstat(read.fileno()).st_size)
    buffer = bytearray((length // chunk + 1) * chunk)
    view = memoryview(buffer)
    digest, size, begun = hashlib.sha256(), 0, 0
    while count := _fill(read, view):
        digest.update(view[:count])
        if written is not None:
            _write(written, view[:count])
        if checksums is not None:
            checksums.check(buffer, count)
        size += count
        if written is not None and size - begun >= WRITE_BACK:
            _write_back(written, begun, size)
            begun = size
    return size, digest.hexdigest()


def _fill(read: FileIO, view: memoryview) -> int:
    """Fill `view` from the file.

    :returns: bytes read; fewer than there is room for only at the end of the file.
    """
    filled = read.readinto(view) or 0
    while 0 < filled < len(view) and (more := read.readinto(view[filled:])):
        filled += more
    return filled


def _write(written: FileIO, view: memoryview) -> None:
    """Write all of `view`. A single call may write less, for example on a disk that is nearly full."""
    done = written.write(view) or 0
    while done < len(view):
        done += written.write(view[done:]) or 0


def _write_back(written: FileIO, start: int, end: int) -> None:
    """Let the disk start to write this range now, so that `fsync` has less to wait for.

    Linux does that when it is advised that nobody will read the range soon.
    """
    with suppress(OSError, AttributeError):  # a file system or an operating system without this call
        os.posix_fadvise(written.fileno(), start, end - start, os.POSIX_FADV_DONTNEED)


@contextmanager
def _checksums(path: Path) -> Iterator[Checksums | None]:
    try:
        file = path.with_name(f".{path.name}.crc").open("rb")
    except OSError:  # Hadoop reads a file whose checksums it cannot open, too
        yield None
        return
    with file:
        yield Checksums.of(file)


def _unless_gone(_function: object, _path: str, error: tuple[Any, BaseException, Any]) -> None:
    """Ignore files that another process deleted first. Raise every other error."""
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]
