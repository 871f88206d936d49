"""Files of a volume that are copied beside the JVM: what Hadoop's checksums say of them is heeded."""

from __future__ import annotations

import hashlib
import struct
import zlib
from pathlib import Path

import pytest

from streamjob.runtime.localdisk import BUFFER, ChecksumMismatch, copy

CHUNK = 512
SIZE = 2 * BUFFER + 3 * CHUNK + 7  # several buffers, and neither chunk nor buffer is whole at the end


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """With a .crc beside it, as ChecksumFileSystem writes them."""
    data = bytes(n * 7 % 251 for n in range(SIZE))
    crcs = [zlib.crc32(data[at : at + CHUNK]) for at in range(0, SIZE, CHUNK)]
    (tmp_path / "a").write_bytes(data)
    (tmp_path / ".a.crc").write_bytes(b"crc\0" + struct.pack(f">i{len(crcs)}I", CHUNK, *crcs))
    return tmp_path / "a"


def test_a_copy_is_what_was_read(source: Path, tmp_path: Path) -> None:
    data = source.read_bytes()
    assert copy(source, tmp_path / "b") == (SIZE, hashlib.sha256(data).hexdigest())
    assert (tmp_path / "b").read_bytes() == data


@pytest.mark.parametrize("at", [0, CHUNK, BUFFER - 1, BUFFER + 5 * CHUNK, SIZE - 1])
def test_a_changed_byte_is_found_and_where(source: Path, tmp_path: Path, at: int) -> None:
    data = bytearray(source.read_bytes())
    data[at] ^= 1
    source.write_bytes(data)
    with pytest.raises(ChecksumMismatch, match=f"byte {at // CHUNK * CHUNK} or one after"):
        copy(source, tmp_path / "b")


def test_so_is_a_file_that_has_grown(source: Path, tmp_path: Path) -> None:
    with source.open("ab") as file:
        file.write(b"x" * CHUNK)
    with pytest.raises(ChecksumMismatch):
        copy(source, tmp_path / "b")
