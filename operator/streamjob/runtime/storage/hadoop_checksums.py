"""What Hadoop's ChecksumFileSystem keeps beside a local file: a CRC-32 of each chunk of it, 512 bytes by default.

Two million chunks in a GB, one call for each and all of them under Python's one lock, would cost as much as the rest of a copy.
So a buffer is checked at once, by what a CRC is: the register after all bytes, inverted, where each byte is xor-ed into it before
it goes on. If the first four bytes of a chunk are xor-ed with the CRC of the chunk before, the register is back at its
start, all ones, provided that this CRC was right; if it was not, the difference is carried on to the end and never vanishes by
itself. The CRC of a buffer that was changed in this way is then that of its last chunk. So a change within one chunk is found
exactly as by a CRC of that chunk alone. Independent changes of several chunks of a buffer hide each other once in 2^32.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from typing import BinaryIO

MAGIC = b"crc\0"
HEADER = 8  # bytes: magic, big-endian length of a chunk
WORD = 4  # bytes of a CRC; of an "I" on every machine that Spark runs on


class ChecksumMismatch(OSError):
    """The disk does not give back what was written."""


class Checksums:
    """Of one file, checked from its beginning on. `chunk`: bytes of what each CRC is of."""

    def __init__(self, file: BinaryIO, chunk: int) -> None:
        """:param file: behind the header."""
        self.chunk = chunk
        self._file = file
        self._checked = 0  # chunks

    @staticmethod
    def of(file: BinaryIO) -> Checksums | None:
        """None where Hadoop ignores it too: it has no such header."""
        header = file.read(HEADER)
        if len(header) < HEADER or not header.startswith(MAGIC):
            return None
        chunk = struct.unpack_from(">i", header, len(MAGIC))[0]
        return Checksums(file, chunk) if chunk > 0 else None

    def check(self, buffer: bytearray, count: int) -> None:
        """The first `count` bytes of `buffer` come next in the file; they are changed. All but the file's last chunk are whole.

        :raises ChecksumMismatch: it says what Hadoop has another CRC of.
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
        """Find the first one that differs."""
        for n, at in enumerate(range(0, count, self.chunk)):
            found = zlib.crc32(buffer[at : min(at + self.chunk, count)])
            if 4 * n >= len(known) or found != _number(known, n):
                self._refuse(n)
        raise AssertionError("every CRC is right, and all of them together are not")

    def _refuse(self, number: int) -> None:
        where = (self._checked + number) * self.chunk
        raise ChecksumMismatch(0, f"its checksum says that byte {where} or one after it changed")


def _are(buffer: bytearray, chunks: int, chunk: int, known: bytes) -> bool:
    """Whether these are the CRCs of whole chunks at the buffer's beginning. If not, the buffer is as it was."""
    if chunks < 2 or chunk % WORD:
        return all(
            zlib.crc32(buffer[n * chunk : (n + 1) * chunk]) == _number(known, n) for n in range(chunks)
        )
    _chain(buffer, chunks, chunk, known)
    with memoryview(buffer) as view:
        if zlib.crc32(view[: chunks * chunk]) == _number(known, chunks - 1):
            return True
    _chain(buffer, chunks, chunk, known)  # takes itself back
    return False


def _chain(buffer: bytearray, chunks: int, chunk: int, known: bytes) -> None:
    """Xor each chunk's first four bytes with the CRC of the one before, whose lowest byte comes first."""
    crcs = array("I", known[: WORD * (chunks - 1)])
    crcs.byteswap()
    with memoryview(buffer) as view, view[: chunks * chunk].cast("I") as words:
        place = slice(chunk // WORD, None, chunk // WORD)
        found = int.from_bytes(words[place].tobytes(), "little") ^ int.from_bytes(crcs.tobytes(), "little")
        words[place] = array("I", found.to_bytes(WORD * len(crcs), "little"))


def _number(known: bytes, n: int) -> int:
    return int.from_bytes(known[4 * n : 4 * n + 4], "big")
