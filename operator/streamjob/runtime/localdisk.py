"""Files of a volume, without the JVM: the calls into it cost more than most of Spark's files take to copy.

What Hadoop's LocalFileSystem keeps beside its files (`.NAME.crc`, checksums) is honoured when a file is copied, forgotten
when one is written, and not listed. All functions raise OSError.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

BUFFER = 1 << 20  # bytes
CRC_MAGIC = b"crc\0"


class ChecksumMismatch(OSError):
    """The disk does not give back what was written."""


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
            raise
        except OSError:  # a volume without hard links
            temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


def copy(source: Path, target: Path) -> tuple[int, str]:
    """Over whatever is at `target`; bytes and SHA-256 of what was read. Durable only after `settle`.

    :raises ChecksumMismatch: Hadoop has a checksum of the source, and this is another file.
    """
    with source.open("rb") as read:
        target.parent.mkdir(parents=True, exist_ok=True)
        forget_checksum(target)
        with target.open("wb") as written:
            return _pour(read, written, _checksum_file(source))


def sha256(path: Path) -> str:
    """In hexadecimal."""
    with path.open("rb") as read:
        return _pour(read, None, None)[1]


def settle(path: Path) -> None:
    """A file that was copied survives the machine."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


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


def _pour(read: BinaryIO, written: BinaryIO | None, checksums: bytes | None) -> tuple[int, str]:
    chunk = struct.unpack_from(">i", checksums, 4)[0] if checksums else 1
    # Most of Spark's files are small: a large buffer for each would cost more than they do.
    length = min(BUFFER, os.fstat(read.fileno()).st_size)
    buffer = memoryview(bytearray((length // chunk + 1) * chunk))
    digest, size = hashlib.sha256(), 0
    while count := read.readinto(buffer):  # type: ignore[attr-defined]
        data = buffer[:count]
        digest.update(data)
        if written is not None:
            written.write(data)
        if checksums is not None:
            _check(data, checksums, size // chunk, chunk)
        size += count
    return size, digest.hexdigest()


def _check(data: memoryview, checksums: bytes, first: int, chunk: int) -> None:
    """:param first: which chunk of the file `data` begins with. :raises ChecksumMismatch:"""
    # Two million chunks in a GB, under Python's one lock: all of a buffer at once, and one by one only where it differs.
    found = [zlib.crc32(data[at : at + chunk]) for at in range(0, len(data), chunk)]
    known = checksums[8 + 4 * first : 8 + 4 * (first + len(found))]
    if struct.pack(f">{len(found)}I", *found) == known:
        return
    for n, crc in enumerate(found):
        if crc.to_bytes(4, "big") != known[4 * n : 4 * n + 4]:
            where = (first + n) * chunk
            raise ChecksumMismatch(0, f"its checksum says that byte {where} or one after it changed")


def _checksum_file(path: Path) -> bytes | None:
    """ChecksumFileSystem's: magic, big-endian length of a chunk, a CRC-32 of each chunk. It ignores one that is none, too."""
    try:
        found = path.with_name(f".{path.name}.crc").read_bytes()
    except FileNotFoundError:
        return None
    good = found[:4] == CRC_MAGIC and len(found) >= 8 and struct.unpack_from(">i", found, 4)[0] > 0
    return found if good else None


def _unless_gone(_function: object, _path: str, error: tuple[Any, BaseException, Any]) -> None:
    """Of several that delete, each may find that another was faster."""
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]
