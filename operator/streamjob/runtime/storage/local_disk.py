"""Files of a volume, without the JVM: the calls into it cost more than most of Spark's files take to copy.

What Hadoop's LocalFileSystem keeps beside its files (`.NAME.crc`, checksums) is honoured when a file is copied, forgotten
when one is written, and not listed. All functions raise OSError.
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

BUFFER = 1 << 20  # bytes: with the buffers of open files, what each thread needs in memory
WRITE_BACK = 4 << 20  # bytes


class LinkFound(OSError):
    """Spark makes no symbolic links: whoever made this one wants something else to be read in its place."""


def path_of(uri: str) -> Path:
    """Of `file:/a`, `file:///a`, `/a`; nothing is percent-decoded."""
    path = uri.removeprefix("file:")
    return Path(f"/{path[2:].partition('/')[2]}" if path.startswith("//") else path)


def entries(folder: Path, *, links: bool = True) -> Iterator[tuple[str, bool, os.stat_result]]:
    """Name, whether it is a directory, and what else is known. :raises LinkFound: there is a link, and `links` are not wanted."""
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
    """Whole or not at all, and durable. :raises FileExistsError: it is there already."""
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
            if not path.samefile(temporary):  # NFS repeats a request whose answer was lost
                raise
        except OSError:  # a volume without hard links
            temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
    _settle_names(path.parent)


def copy(source: Path, target: Path) -> tuple[int, str]:
    """Over whatever is at `target`, and durable; bytes and SHA-256 of what was read. The disk is waited for here, and not for all
    files at the end: other threads hash meanwhile.

    :raises ChecksumMismatch: Hadoop has a checksum of the source, and this is another file.
    """
    with source.open("rb", buffering=0) as read, _checksums(source) as checksums:
        forget_checksum(target)
        with _opened(target) as written:
            found = _pour(read, written, checksums)
            os.fsync(written.fileno())
            return found


def replace(source: Path, target: Path, scratch: Path) -> tuple[int, str]:
    """As `copy`; at `target` there is never half a file, however many do this at once, each with its `scratch`."""
    found = copy(source, scratch)
    forget_checksum(target)
    scratch.replace(target)
    _settle_names(target.parent)
    return found


def sha256(path: Path) -> str:
    """In hexadecimal."""
    with path.open("rb", buffering=0) as read:
        return _pour(read, None, None)[1]


def settle(path: Path) -> None:
    """A file that somebody else has written survives the machine."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _settle_names(folder: Path) -> None:
    """So do the names in a folder, where its file system has this."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def delete(path: Path) -> None:
    """A file, or a directory with all in it; nothing if it is not there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, onerror=_unless_gone)
    else:
        path.unlink(missing_ok=True)
        forget_checksum(path)


def forget_checksum(path: Path) -> None:
    """Hadoop would read the file with the .crc of the one that was there before."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _opened(path: Path) -> FileIO:
    """To write. Nearly always the folder is there: of a few hundred files one is the first in it."""
    try:
        return path.open("wb", buffering=0)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("wb", buffering=0)


def _pour(read: FileIO, written: FileIO | None, checksums: Checksums | None) -> tuple[int, str]:
    chunk = checksums.chunk if checksums else 1
    # Most of Spark's files are small: a large buffer for each would cost more than they do.
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
    """Bytes read: as many as there is room for, but at the end of the file."""
    filled = read.readinto(view) or 0
    while 0 < filled < len(view) and (more := read.readinto(view[filled:])):
        filled += more
    return filled


def _write(written: FileIO, view: memoryview) -> None:
    """All of it: one call may write less, as on a disk that is nearly full."""
    done = written.write(view) or 0
    while done < len(view):
        done += written.write(view[done:]) or 0


def _write_back(written: FileIO, start: int, end: int) -> None:
    """The disk shall begin to write what was just written, while the processor goes on: `fsync` has less to wait for then. Linux
    does that when it is told that nobody will read it soon."""
    with suppress(OSError, AttributeError):  # a file system, or a machine, that does not know it
        os.posix_fadvise(written.fileno(), start, end - start, os.POSIX_FADV_DONTNEED)


@contextmanager
def _checksums(path: Path) -> Iterator[Checksums | None]:
    try:
        file = path.with_name(f".{path.name}.crc").open("rb")
    except FileNotFoundError:
        yield None
        return
    with file:
        yield Checksums.of(file)


def _unless_gone(_function: object, _path: str, error: tuple[Any, BaseException, Any]) -> None:
    """Of several that delete, each may find that another was faster."""
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]
