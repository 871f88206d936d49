"""Checks the checksums that Hadoop's ChecksumFileSystem keeps next to a local file.

Hadoop stores a CRC-32 of each chunk, 512 bytes by default. One GB has two million chunks: one call per chunk,
all under Python's global lock, would cost as much as the rest of a copy. So a whole buffer is checked with
one call.

A CRC is the inverted register after all bytes, and each byte is xor-ed into the register before the register
advances. If the first four bytes of a chunk are xor-ed with the CRC of the previous chunk, the register
returns to its initial value, all ones, provided that this CRC is right. If it is wrong, the difference is
carried to the end and never vanishes by itself. The CRC of the buffer changed in this way is then the CRC of
its last chunk. A change within one chunk is therefore found exactly as by the CRC of that chunk alone.
Independent changes in several chunks of a buffer hide each other once in 2^32 cases.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from typing import BinaryIO

MAGIC = b"crc\0"
HEADER = 8  # bytes: magic, big-endian length of a chunk
WORD = 4  # bytes of a CRC, and of the array type "I" on every machine that Spark runs on


class ChecksumMismatch(OSError):
    """The disk does not return what was written."""


class Checksums:
    """The checksums of one file, checked from its beginning."""

    def __init__(self, file: BinaryIO, chunk: int) -> None:
        """:param file: the checksum file, positioned after its header.
        :param chunk: bytes that each CRC covers.
        """
        self.chunk = chunk
        self._file = file
        self._checked = 0  # chunks

    @staticmethod
    def of(file: BinaryIO) -> Checksums | None:
        """The checksums in a `.crc` file; None if its header is not Hadoop's, as Hadoop ignores it, too."""
        header = file.read(HEADER)
        if len(header) < HEADER or not header.startswith(MAGIC):
            return None
        chunk = struct.unpack_from(">i", header, len(MAGIC))[0]
        return Checksums(file, chunk) if chunk > 0 else None

    def check(self, buffer: bytearray, count: int) -> None:
        """Check the next part of the file.

        :param buffer: overwritten by the check. All its chunks are whole, except the last chunk of the file.
        :param count: the first `count` bytes of `buffer` are the part.
        :raises ChecksumMismatch: Hadoop has another CRC; the message names the position.
        """
        chunk = self.chunk
        chunks = -(-count // chunk)
        known = self._file.read(4 * chunks)
        whole = count // chunk  # the last chunk of a file may be too short to be chained
        if len(known) < 4 * chunks or not _are(buffer, whole, chunk, known):
            self._complain(buffer, count, known)
        if whole < chunks and zlib.crc32(buffer[whole * chunk : count]) != _number(known, whole):
            self._refuse(whole)
        self._checked += chunks

    def _complain(self, buffer: bytearray, count: int, known: bytes) -> None:
        """Find the first chunk whose CRC differs.

        :raises ChecksumMismatch: always.
        """
        for n, at in enumerate(range(0, count, self.chunk)):
            found = zlib.crc32(buffer[at : min(at + self.chunk, count)])
            if 4 * n >= len(known) or found != _number(known, n):
                self._refuse(n)
        raise AssertionError("every CRC is right, and all of them together are not")

    def _refuse(self, number: int) -> None:
        where = (self._checked + number) * self.chunk
        raise ChecksumMismatch(0, f"its checksum says that byte {where} or one after it changed")


def _are(buffer: bytearray, chunks: int, chunk: int, known: bytes) -> bool:
    """Whether `known` has the CRCs of the first `chunks` whole chunks. If not, the buffer is unchanged."""
    if chunks < 2 or chunk % WORD:
        return all(
            zlib.crc32(buffer[n * chunk : (n + 1) * chunk]) == _number(known, n) for n in range(chunks)
        )
    _chain(buffer, chunks, chunk, known)
    with memoryview(buffer) as view:
        if zlib.crc32(view[: chunks * chunk]) == _number(known, chunks - 1):
            return True
    _chain(buffer, chunks, chunk, known)  # a second time: undoes the first
    return False


def _chain(buffer: bytearray, chunks: int, chunk: int, known: bytes) -> None:
    """Xor the first four bytes of each chunk with the CRC of the chunk before, lowest byte first."""
    crcs = array("I", known[: WORD * (chunks - 1)])
    crcs.byteswap()
    with memoryview(buffer) as view, view[: chunks * chunk].cast("I") as words:
        place = slice(chunk // WORD, None, chunk // WORD)
        found = int.from_bytes(words[place].tobytes(), "little") ^ int.from_bytes(crcs.tobytes(), "little")
        words[place] = array("I", found.to_bytes(WORD * len(crcs), "little"))


def _number(known: bytes, n: int) -> int:
    return int.from_bytes(known[4 * n : 4 * n + 4], "big")
