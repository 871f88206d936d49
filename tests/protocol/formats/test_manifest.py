"""The manifest of a savepoint: round trip, every kind of damage, and no path that leaves the savepoint."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob.protocol.errors import FormatError, UnknownVersion
from streamjob.protocol.formats import manifest
from streamjob.protocol.formats.manifest import FileEntry, Manifest
from streamjob.protocol.formats.records import CheckpointRecord, JobRef
from tests.protocol.formats.documents import (
    JUNK,
    damaged,
    edited,
    jobs,
    numbers,
    only_format_errors,
    record,
    records,
    refused,
)

parts = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\:"), min_size=1, max_size=6
)
paths = st.lists(parts.filter(lambda p: p not in (".", "..")), min_size=1, max_size=4).map("/".join)
shared = st.none() | st.builds("{:032x}-{}".format, st.integers(0, 2**128 - 1), st.integers(0, 10**9 - 1))
hashes = st.text("0123456789abcdef", min_size=64, max_size=64)
entries = st.builds(FileEntry, paths, numbers, hashes, shared, st.none() | numbers)
files = st.lists(entries, max_size=5, unique_by=lambda f: f.path).map(tuple)
FILES = (FileEntry("stages/b/0/offsets/0", 10, "00"), FileEntry("stages/a/0/metadata", 5, "ff"))
GOOD = manifest.new(JobRef("ns", "orders", "uid"), "4.1.4", record(), FILES)
TEXT = manifest.dumps(GOOD)


def load(data: bytes) -> Manifest:
    return manifest.loads(data, "s3a://bucket/savepoint/manifest.json")


@given(jobs, st.text(max_size=8), records(), files)
def test_round_trip(
    job: JobRef, spark: str, checkpoint: CheckpointRecord, entries: tuple[FileEntry, ...]
) -> None:
    written = manifest.new(job, spark, checkpoint, entries)
    assert load(manifest.dumps(written)) == written
    assert [f.path for f in written.files] == sorted(f.path for f in entries)
    assert written.size == sum(f.size for f in entries)


@given(damaged(TEXT))
def test_damaged(data: bytes) -> None:
    only_format_errors(load, data)


def test_cut_off_anywhere() -> None:
    for cut in range(len(TEXT.rstrip())):
        assert "s3a://bucket/savepoint" in refused(load, TEXT[:cut])


def test_s2_every_bit() -> None:
    """A bit that flips in a number would be another savepoint, and as well-formed."""
    for at in range(len(TEXT)):
        for bit in range(8):
            refused(load, TEXT[:at] + bytes([TEXT[at] ^ 1 << bit]) + TEXT[at + 1 :])


@given(edited(TEXT.decode()))
def test_edited(text: str) -> None:
    only_format_errors(load, text.encode())


@pytest.mark.parametrize("junk", JUNK, ids=lambda j: repr(j[:12]))
def test_foreign(junk: bytes) -> None:
    assert "s3a://bucket/savepoint" in refused(load, junk)


@pytest.mark.parametrize("version", [3, 4, 10**9])
def test_row8_a_newer_version_is_refused_before_anything_else_is_read(version: int) -> None:
    document = {"format": "streamjob.savepoint", "version": version, "entirely": "different"}
    with pytest.raises(UnknownVersion, match="Upgrade StreamJob"):
        load(json.dumps(document).encode())


@pytest.mark.parametrize("version", [1, 0, -1, True, None, "2", 2.0, [], {}])
def test_row8_what_never_was_a_version_is_malformed_not_newer(version: object) -> None:
    document = {**json.loads(TEXT), "version": version}
    with pytest.raises(FormatError) as e:
        load(json.dumps(document).encode())
    assert not isinstance(e.value, UnknownVersion)


def test_an_index_is_no_manifest() -> None:
    refused(load, json.dumps({**json.loads(TEXT), "format": "streamjob.index"}).encode())


def test_oversized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "SIZE_LIMIT", len(TEXT) - 1)
    assert "at most" in refused(load, TEXT)


BAD_PATHS = [
    "",
    "/",
    "/etc/passwd",
    "..",
    "../x",
    "a/../b",
    "a/..",
    ".",
    "./a",
    "a/./b",
    "a//b",
    "a/",
    "//host/a",
    "file:/a",
    "s3a://bucket/a",
    "C:",
    "C:a",
    "a\\b",
    "..\\a",
    "a\0b",
    "a\nb",
    "\x1f",
    "a/\ud800",
]


@pytest.mark.parametrize("path", BAD_PATHS, ids=ascii)
def test_paths_stay_inside(path: str) -> None:
    with pytest.raises(FormatError, match="does not stay inside"):
        manifest.check_path(path)
    with pytest.raises(FormatError):
        manifest.new(GOOD.job, "4.1.4", GOOD.checkpoint, (FileEntry(path, 1, "00"),))
    smuggled = replace(GOOD, files=(*GOOD.files, FileEntry(path, 1, "00")))
    assert "Restore from another savepoint" in refused(load, manifest.dumps(smuggled))


@pytest.mark.parametrize(
    "name", ["", "..", "../x", "x", "a" * 32, "a" * 32 + "-1/x", "A" * 32 + "-1", "a" * 32 + "-1\n"]
)
def test_shared_files_stay_in_their_folder(name: str) -> None:
    smuggled = replace(GOOD, files=(FileEntry("a", 1, "00", shared=name),))
    assert "no name of a shared file" in refused(load, manifest.dumps(smuggled))


def test_places() -> None:
    name = "0" * 32 + "-7"
    assert manifest.place("s3a://b/root/stop-1", FileEntry("a/b", 1, "00")) == "s3a://b/root/stop-1/a/b"
    assert (
        manifest.place("s3a://b/root/stop-1", FileEntry("a", 1, "0", name)) == f"s3a://b/root/shared/{name}"
    )


@given(jobs, records())
def test_begun(job: JobRef, checkpoint: CheckpointRecord) -> None:
    written = manifest.begun("ab", job, checkpoint, "2026-01-01T00:00:00Z")
    assert manifest.load_begun(manifest.dump_begun(written), "x") == written
    with pytest.raises(FormatError):
        manifest.load_begun(TEXT, "x")


@pytest.mark.parametrize(
    "path", ["a", "a/b", "..a", "a..", "...", ".crc", "a/b:c", "state/0/1/1.delta", "ä/日 x"]
)
def test_ordinary_paths(path: str) -> None:
    manifest.check_path(path)


def test_long_paths_make_short_errors() -> None:
    with pytest.raises(FormatError) as e:
        manifest.check_path("/" + "a" * 100_000)
    assert len(str(e.value)) < 1000


def test_a_file_listed_twice() -> None:
    twice = replace(GOOD, files=(*GOOD.files, GOOD.files[0]))
    assert "twice" in refused(load, manifest.dumps(twice))


@pytest.mark.parametrize("uid", ["", ".", ".."])
def test_a_stage_cannot_be_named_out_of_the_savepoint(uid: str) -> None:
    with pytest.raises(FormatError):
        manifest.stage_root(uid, 0)
    stage = replace(GOOD.checkpoint.stages[0], uid=uid)
    evil = replace(GOOD, checkpoint=replace(GOOD.checkpoint, stages=(stage,)))
    refused(load, manifest.dumps(evil))


def test_stage_roots() -> None:
    assert manifest.stage_root("orders", 2) == "stages/orders/2"
    assert manifest.stage_root("my query", 0) == "stages/my query/0"


@given(st.text(max_size=10), st.text(max_size=10), st.integers(0, 9), st.integers(0, 9))
def test_a_query_may_have_any_name(a: str, b: str, i: int, j: int) -> None:
    """No name leads out, and no root lies inside another."""
    try:
        one, two = manifest.stage_root(a, i), manifest.stage_root(b, j)
    except FormatError:
        assert "" in (a, b) or {".", ".."} & {a, b}
        return
    assert len(one.split("/")) == 3
    assert (one == two) == ((a, i) == (b, j))
    manifest.check_path(one)


@pytest.mark.parametrize("uid", ["a/b", "/a", "../..", "a\\b", "a:b", "a\0b", "\ud800", "%2e%2e"])
def test_odd_names_are_quoted(uid: str) -> None:
    assert len(manifest.stage_root(uid, 0).split("/")) == 3


@given(st.text(max_size=120), st.text(min_size=200, max_size=300), st.text(min_size=1, max_size=2))
def test_a_long_name_makes_a_folder_that_a_file_system_can_hold(short: str, long: str, more: str) -> None:
    roots = [manifest.stage_root(uid, 0) for uid in (f"q{short}", long, long + more)]
    assert len(set(roots)) == 3 - (f"q{short}" in (long, long + more))
    for root in roots:
        manifest.check_path(root)
        assert all(len(part.encode()) <= manifest.NAME_LIMIT for part in root.split("/"))


def test_a_name_that_fits_is_not_shortened() -> None:
    assert manifest.stage_root("a" * 255, 0) == f"stages/{'a' * 255}/0"
    assert manifest.stage_root("ü" * 42, 0) == f"stages/{'%C3%BC' * 42}/0"
    assert manifest.stage_root("a" * 256, 0).startswith(f"stages/{'a' * 189}%%")


def test_a_shortened_name_is_no_other_stages() -> None:
    shortened = manifest.stage_root("a" * 256, 0).split("/")[1]
    assert manifest.stage_root(shortened, 0).split("/")[1] != shortened
    assert manifest.folder_name(shortened.replace("%", "%25"), shortened) != shortened
    assert len(manifest.folder_name("aü" * 100, "aü" * 100).encode()) in (254, 255)
