"""Files of a volume that are copied beside the JVM: what Hadoop's checksums say of them is heeded."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import struct
import zlib
from pathlib import Path

import pytest

from streamjob.storage.hadoop_checksums import ChecksumMismatch
from streamjob.storage.local_disk import BUFFER, copy, path_of, read, replace, write_new

CHUNK = 512
SIZE = 2 * BUFFER + 3 * CHUNK + 7  # several buffers, and neither chunk nor buffer is whole at the end


def with_checksums(path: Path, data: bytes, chunk: int = CHUNK) -> Path:
    """As ChecksumFileSystem writes it."""
    crcs = [zlib.crc32(data[at : at + chunk]) for at in range(0, len(data), chunk)]
    path.write_bytes(data)
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0" + struct.pack(f">i{len(crcs)}I", chunk, *crcs))
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return with_checksums(tmp_path / "a", bytes(n * 7 % 251 for n in range(SIZE)))


def test_a_copy_is_what_was_read(source: Path, tmp_path: Path) -> None:
    data = source.read_bytes()
    assert copy(source, tmp_path / "b") == (SIZE, hashlib.sha256(data).hexdigest())
    assert (tmp_path / "b").read_bytes() == data


@pytest.mark.parametrize("at", [0, CHUNK, BUFFER - 1, BUFFER + 5 * CHUNK, SIZE - 8, SIZE - 1])
def test_a_changed_byte_is_found_and_where(source: Path, tmp_path: Path, at: int) -> None:
    data = bytearray(source.read_bytes())
    data[at] ^= 1
    source.write_bytes(data)
    with pytest.raises(ChecksumMismatch, match=f"byte {at // CHUNK * CHUNK} or one after"):
        copy(source, tmp_path / "b")


@pytest.mark.parametrize("limit", [SIZE + 1, 2 * SIZE])
def test_a_file_that_is_read_is_checked_too(source: Path, limit: int) -> None:
    data = source.read_bytes()
    assert read(source, limit) == data
    source.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ChecksumMismatch, match="or one after"):
        read(source, limit)


@pytest.mark.parametrize("limit", [1, CHUNK, SIZE - 1, SIZE])
def test_the_first_bytes_of_a_file_are_read(source: Path, limit: int) -> None:
    assert read(source, limit) == source.read_bytes()[:limit]


@pytest.mark.parametrize("data", [b"", b"x", b"x" * CHUNK, b"x" * (3 * CHUNK)])
def test_small_files_are_read(tmp_path: Path, data: bytes) -> None:
    assert read(with_checksums(tmp_path / "a", data), 1 << 20) == data


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path, 1 << 20)


def test_a_file_whose_checksums_cannot_be_opened_is_read_as_hadoop_does(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / ".a.crc").mkdir()
    assert read(tmp_path / "a", 1 << 20) == b"x"


@pytest.mark.parametrize("uri", ["/a/b", "file:/a/b", "file:///a/b", "file://host/a/b", "FILE:///a/b"])
def test_the_path_of_a_uri(uri: str) -> None:
    assert path_of(uri) == Path("/a/b")


def test_so_is_a_file_that_has_grown(source: Path, tmp_path: Path) -> None:
    with source.open("ab") as file:
        file.write(b"x" * CHUNK)
    with pytest.raises(ChecksumMismatch):
        copy(source, tmp_path / "b")


def test_so_are_two_chunks_in_each_others_place(source: Path, tmp_path: Path) -> None:
    """Their CRCs are changed in the same way, at different places."""
    data = source.read_bytes()
    one, two = data[:CHUNK], data[CHUNK : 2 * CHUNK]
    assert one != two
    source.write_bytes(two + one + data[2 * CHUNK :])
    with pytest.raises(ChecksumMismatch, match="byte 0 "):
        copy(source, tmp_path / "b")


def test_so_is_a_changed_checksum(source: Path, tmp_path: Path) -> None:
    crc = source.with_name(".a.crc")
    found = bytearray(crc.read_bytes())
    found[8 + 4 * 9 + 2] ^= 0x40
    crc.write_bytes(found)
    with pytest.raises(ChecksumMismatch, match=f"byte {9 * CHUNK} or"):
        copy(source, tmp_path / "b")


@pytest.mark.parametrize("cut", [8, 10, 12, 8 + 4 * 7, -1])
def test_so_are_checksums_that_are_cut_off(source: Path, tmp_path: Path, cut: int) -> None:
    crc = source.with_name(".a.crc")
    crc.write_bytes(crc.read_bytes()[:cut])
    with pytest.raises(ChecksumMismatch):
        copy(source, tmp_path / "b")


@pytest.mark.parametrize("content", [b"", b"crc", b"crc\0\0\0\2", b"CRC\0\0\0\2\0", b"crc\0\0\0\0\0"])
def test_what_is_no_file_of_checksums_is_ignored(source: Path, tmp_path: Path, content: bytes) -> None:
    """As Hadoop does."""
    source.with_name(".a.crc").write_bytes(content)
    assert copy(source, tmp_path / "b")[0] == SIZE


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 5, 511, 512, 4096, 100_000])
def test_any_size_and_any_chunk(tmp_path: Path, chunk: int) -> None:
    """With every single bit of some bytes turned, and many at once."""
    random.seed(chunk)
    for size in (0, 1, 3, 4, chunk - 1, chunk, chunk + 1, chunk + 3, 2 * chunk, 9 * chunk + 2):
        data = random.randbytes(size)
        source = with_checksums(tmp_path / "a", data, chunk)
        assert copy(source, tmp_path / "b") == (size, hashlib.sha256(data).hexdigest())
        for _ in range(6 if size else 0):
            changed = bytearray(data)
            for _ in range(random.choice((1, 1, 2, 50))):
                changed[random.randrange(size)] ^= 1 << random.randrange(8)
            source.write_bytes(changed)
            first = next((n for n in range(size) if changed[n] != data[n]), None)
            if first is None:
                continue
            with pytest.raises(ChecksumMismatch, match=f"byte {first // chunk * chunk} or"):
                copy(source, tmp_path / "b")


def test_a_file_is_replaced_whole(source: Path, tmp_path: Path) -> None:
    target = with_checksums(tmp_path / "b", b"before")
    assert replace(source, target, tmp_path / "scratch") == (
        SIZE,
        hashlib.sha256(source.read_bytes()).hexdigest(),
    )
    assert target.read_bytes() == source.read_bytes()
    assert {p.name for p in tmp_path.iterdir()} == {
        "a",
        ".a.crc",
        "b",
    }  # its checksums were of the one before
    source.write_bytes(b"changed")
    with pytest.raises(ChecksumMismatch):
        replace(source, target, tmp_path / "scratch")
    assert target.stat().st_size == SIZE


@pytest.fixture
def synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, int]]]:
    """What was made durable, and what there was then, with its size."""
    found: list[tuple[str, dict[str, int]]] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        there = {p.name: p.stat().st_size for p in tmp_path.iterdir() if p.is_file()}
        found.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, there))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    return found


def test_a_copy_is_durable_when_all_of_it_is_written(
    source: Path, tmp_path: Path, synced: list[tuple[str, dict[str, int]]]
) -> None:
    copy(source, tmp_path / "b")
    ((name, there),) = synced
    assert (name, there["b"]) == ("b", SIZE)


def test_so_is_one_that_replaces_another_and_its_name(
    source: Path, tmp_path: Path, synced: list[tuple[str, dict[str, int]]]
) -> None:
    replace(source, tmp_path / "b", tmp_path / "scratch")
    assert [name for name, _ in synced] == ["scratch", tmp_path.name]
    assert synced[0][1]["scratch"] == synced[1][1]["b"] == SIZE


def test_a_write_that_is_cut_short_is_no_copy(source: Path, tmp_path: Path) -> None:
    """The system writes what there is room for, and says so; only the next call fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE - 1, before[1]))  # no other write follows by itself
    try:
        with pytest.raises(OSError, match="too large"):
            copy(source, tmp_path / "b")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "b").stat().st_size == SIZE - 1


def test_the_folders_of_a_copy_are_made(source: Path, tmp_path: Path) -> None:
    copy(source, tmp_path / "one" / "two" / "b")
    assert (tmp_path / "one" / "two" / "b").read_bytes() == source.read_bytes()


def test_a_new_file_is_durable_under_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest whose contents are on the disk and whose name is not would be no savepoint after the machine
    has lost power.
    """
    synced: list[tuple[str, bool]] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        synced.append((str(Path(f"/proc/self/fd/{descriptor}").readlink()), (tmp_path / "new").exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    write_new(tmp_path / "new", b"content")
    assert [there for _, there in synced] == [False, True]
    assert synced[1][0] == str(tmp_path)
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "new", b"other")
    assert {p.name for p in tmp_path.iterdir()} == {"new"}
