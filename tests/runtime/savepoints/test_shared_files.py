"""Savepoints that share files: each is whole as long as it is there, whatever happens to
the others and when.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamjob.protocol.errors import StreamJobError
from streamjob.protocol.formats import manifest as manifests
from streamjob.runtime.savepoints.catalog import delete_savepoint, export, list_savepoints
from streamjob.runtime.savepoints.layout import (
    SavepointBroken,
    SavepointExists,
    read_begun,
    read_manifest,
    verify_savepoint,
)
from streamjob.runtime.savepoints.shared_files import settled
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.storage.hadoop import FileExists, FileInfo, NotFound

from ..localfiles import LocalFiles
from ..moments import Interrupted, Killed, each_moment, kill
from ..queries import Query, contents


def two(home: Path) -> tuple[Query, Any]:
    """A query with one savepoint, and a batch since."""
    files: Any = Interrupted()
    made = Query(files, home)
    made.batch()
    made.save("one")
    made.batch()
    return made, files


@pytest.fixture
def query(tmp_path: Path) -> Query:
    made = Query(LocalFiles(), tmp_path)
    made.batch()
    made.batch()
    return made


def good(query: Query, *names: str) -> None:
    for name in names:
        assert verify_savepoint(query.files, query.uri(name)) == []


def test_what_the_savepoint_before_has_is_not_copied_again(query: Query) -> None:
    query.save("one")
    first = query.shared()
    assert len(first) == 4
    query.batch()
    source = contents(query.folder)
    query.save("two")
    assert first < query.shared()
    assert len(query.shared()) == 6
    good(query, "one", "two")
    assert query.restored(query.uri("two"), "again") == source
    query.save("three")
    assert len(query.shared()) == 6


def test_each_is_deleted_without_harm_to_the_others(query: Query) -> None:
    for name in ("one", "two", "three"):
        query.save(name)
        query.batch()
    for name, left in (("one", ["two", "three"]), ("three", ["two"]), ("two", [])):
        delete_savepoint(query.files, query.uri(name))
        good(query, *left)
        assert {s.uri for s in list_savepoints(query.files, f"file:{query.root}")} == {
            query.uri(n) for n in left
        }
    assert query.shared() == set()
    assert [p.name for p in query.root.iterdir()] == ["shared"]


def rewritten(query: Query) -> None:
    query.write("state/0/0/1.delta", os.urandom(1000), age=30)


def another_query(query: Query) -> None:
    query.write("metadata", '{"id":"another"}')


def by_hand(query: Query) -> None:
    for name in query.shared():
        (query.root / "shared" / name).unlink()


@pytest.mark.parametrize(("change", "again"), [(rewritten, 1), (another_query, 4), (by_hand, 4)])
def test_what_may_be_another_file_is_copied(
    query: Query, change: Callable[[Query], None], again: int
) -> None:
    query.save("one")
    before = query.shared()
    change(query)
    query.save("two")
    assert len(query.shared() - before) == again
    good(query, "two")
    assert query.restored(query.uri("two"), "again") == contents(query.folder)


def test_a_file_that_was_just_written_identifies_nothing(query: Query) -> None:
    """Its time could be that of another one, written in its place within the clock's grain."""
    query.write("state/0/0/1.delta", b"a" * 1000, age=-5)
    query.save("one")
    before = query.shared()
    when = (query.folder / "state/0/0/1.delta").stat().st_mtime
    query.write("state/0/0/1.delta", b"b" * 1000)
    os.utime(query.folder / "state/0/0/1.delta", (when, when))
    query.save("two")
    assert len(query.shared() - before) == 1
    assert query.restored(query.uri("two"), "again") == contents(query.folder)


def test_when_a_time_identifies_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 10_000.5)

    def identifies(modified: int) -> bool:
        return settled(FileInfo("x", 1, False, modified)) == modified

    assert [identifies(t) for t in (10_000_399, 10_000_401, 10_005_000, 10_005_001)] == [
        True,
        False,
        False,
        False,
    ]
    assert [identifies(t) for t in (10_000_000, 9_999_000, 9_998_000)] == [False, False, True]  # seconds only


def test_a_copy_of_the_directory_is_another_directory(query: Query) -> None:
    query.save("one")
    before = query.shared()
    shutil.copytree(query.folder, query.home / "fork")
    query.save("two", directory=CheckpointDir(query.files, f"file:{query.home}/fork"))
    assert len(query.shared() - before) == 4


def used(query: Query, name: str) -> set[str | None]:
    return {e.shared for e in read_manifest(query.files, query.uri(name)).files if e.shared}


def test_s1_a_killed_savepoint_leaves_nothing_good_and_is_repeated(tmp_path: Path) -> None:
    """At every operation: the one before stays whole, none is listed as good, the repeat succeeds and leaves
    no litter.
    """

    def run(at: int) -> bool:
        query, files = two(tmp_path / str(at))
        files.arm(at, kill)
        with contextlib.suppress(Killed):
            query.save("two")
        if killed := files.disarm():
            listed = {s.uri: s.problem for s in list_savepoints(files, f"file:{query.root}")}
            assert listed.pop(query.uri("one")) is None
            assert set(listed.values()) <= {"incomplete"}
            good(query, "one")
            query.save("two")
        good(query, "one", "two")
        assert query.shared() == used(query, "one") | used(query, "two")
        return killed

    assert each_moment(run) > 20


def test_a_killed_deletion_is_finished_by_the_next(tmp_path: Path) -> None:
    def run(at: int) -> bool:
        query, files = two(tmp_path / str(at))
        query.save("two")
        files.arm(at, kill)
        with contextlib.suppress(Killed):
            delete_savepoint(files, query.uri("one"))
        if killed := files.disarm():
            good(query, "two")
            delete_savepoint(files, query.uri("one"))
        good(query, "two")
        assert not (query.root / "one").exists()
        assert query.shared() == used(query, "two")
        return killed

    assert each_moment(run) > 5


def test_a_deletion_at_any_moment_of_a_savepoint(tmp_path: Path) -> None:
    def run(at: int) -> bool:
        query, files = two(tmp_path / str(at))
        files.arm(at, lambda: delete_savepoint(LocalFiles(), query.uri("one")))  # type: ignore[arg-type]
        query.save("two")
        deleted = files.disarm()
        good(query, "two")
        delete_savepoint(files, query.uri("one"))
        good(query, "two")
        assert query.shared() == used(query, "two")
        return deleted

    assert each_moment(run) > 20


def test_a_savepoint_at_any_moment_of_a_deletion(tmp_path: Path) -> None:
    def run(at: int) -> bool:
        query, files = two(tmp_path / str(at))
        query.files = query.directory.files = LocalFiles()  # type: ignore[assignment]
        files.arm(at, lambda: query.save("two"))
        delete_savepoint(files, query.uri("one"))
        if saved := files.disarm():
            good(query, "two")
            delete_savepoint(files, query.uri("one"))
            good(query, "two")
            assert query.shared() == used(query, "two")
        return saved

    assert each_moment(run) > 5


def test_a_manifest_that_cannot_be_read_keeps_all_shared_files(query: Query) -> None:
    query.save("one")
    query.save("two")
    place = query.root / "two" / manifests.NAME
    whole = place.read_bytes()
    place.write_bytes(whole[:-10])
    done = delete_savepoint(query.files, query.uri("one"))
    assert "manifest of two cannot be read" in str(done.shared.kept_for)
    place.write_bytes(whole)
    good(query, "two")


def test_s7_two_savepoints_to_one_target(tmp_path: Path) -> None:
    """Whoever comes second is refused, at any moment of the first, which is whole."""

    def run(at: int) -> bool:
        query, files = two(tmp_path / str(at))
        other = Query(LocalFiles(), tmp_path / str(at) / "other", storage=query.storage)
        other.batch()
        other.root = query.root
        outcome: list[str] = []

        def second() -> None:
            try:
                other.save("two", request="another")
                outcome.append("second")
            except (SavepointExists, FileExists):
                outcome.append("first")

        files.arm(at, second)
        try:
            query.save("two", request="one of them")
        except (SavepointExists, FileExists):
            assert outcome == ["second"]
        happened = files.disarm()
        good(query, "two")
        if outcome == ["first"]:
            assert read_manifest(LocalFiles(), query.uri("two")).checkpoint.request_id == "one of them"  # type: ignore[arg-type]
        return happened

    assert each_moment(run) > 20


def test_an_attempt_that_was_thought_dead_changes_nothing(tmp_path: Path) -> None:
    """V12: the next epoch's driver takes the place for the same request, at any moment."""

    def run(at: int) -> bool:
        query, files = two(tmp_path / str(at))
        mine = CheckpointDir(LocalFiles(), query.directory.uri)  # type: ignore[arg-type]

        def next_epoch() -> None:
            query.files = LocalFiles()
            query.save("two", directory=mine)

        files.arm(at, next_epoch)
        with contextlib.suppress(StreamJobError):
            query.save("two")
        happened = files.disarm()
        query.files = files
        good(query, "two")
        return happened

    assert each_moment(run) > 20


class DiesAtItsFirstCopy(LocalFiles):
    def copy(self, source: str, target: str) -> Any:
        raise Killed


def test_an_attempt_whose_place_was_taken_completes_nothing(tmp_path: Path) -> None:
    """The next epoch begins there, and dies.

    In the moment between its last look and its manifest the older attempt cannot see that; what it leaves
    then is not listed as good, and not taken for a savepoint by the repeat.
    """

    seen: set[bool] = set()

    def run(at: int) -> bool:
        query, files = two(tmp_path / str(at))
        plain: Any = LocalFiles()
        dies: Any = DiesAtItsFirstCopy()

        def next_epoch(files: Any) -> None:
            query.files = files
            query.save("two", directory=CheckpointDir(files, query.directory.uri))

        def begins_and_dies() -> None:
            with contextlib.suppress(Killed):
                next_epoch(dies)

        files.arm(at, begins_and_dies)
        with contextlib.suppress(StreamJobError):
            query.save("two")
        happened = files.disarm()
        complete = (query.root / "two" / manifests.NAME).exists()
        if complete and files.happened_before != "write_new":
            holder = read_begun(plain, query.uri("two"))
            new = {str(name).partition("-")[0] for name in used(query, "two") - used(query, "one")}
            assert holder is not None
            assert new == {holder.attempt}
        if complete:
            listed = {s.uri: s.problem for s in list_savepoints(plain, f"file:{query.root}")}
            whole = verify_savepoint(plain, query.uri("two")) == []
            assert (listed[query.uri("two")] is None) == whole
            seen.add(whole)
        next_epoch(plain)
        good(query, "two")
        return happened

    assert each_moment(run) > 20
    assert seen == {True, False}


def test_shared_files_deleted_by_hand_meanwhile_are_no_savepoint(tmp_path: Path) -> None:
    """At any moment but the last: between the look at them and the manifest."""

    def run(at: int) -> bool:
        query, files = two(tmp_path / str(at))
        files.arm(at, lambda: by_hand(query))
        with contextlib.suppress(NotFound):
            query.save("two")
        happened = files.disarm()
        there = (query.root / "two" / manifests.NAME).exists()
        if there and files.happened_before != "write_new":
            good(query, "two")
        return happened

    assert each_moment(run) > 20


def test_a_broken_savepoint_is_not_exported(query: Query) -> None:
    query.save("one")
    place = query.root / "shared" / min(query.shared())
    content = place.read_bytes()
    place.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(SavepointBroken):
        export(query.files, query.uri("one"), query.at("copy"))
    assert not (query.home / "copy" / manifests.NAME).exists()


def test_an_export_stands_alone(query: Query, tmp_path: Path) -> None:
    query.save("one")
    query.batch()
    source = contents(query.folder)
    query.save("two")
    target = tmp_path / "elsewhere" / "copy"
    export(query.files, query.uri("two"), f"file:{target}")
    assert export(query.files, query.uri("two"), f"file:{target}").files  # repeated
    for name in ("one", "two"):
        delete_savepoint(query.files, query.uri(name))
    target.rename(tmp_path / "moved")
    assert query.restored(f"file:{tmp_path}/moved", "again") == source
    with pytest.raises(SavepointExists):
        export(query.files, f"file:{tmp_path}/moved", f"file:{query.folder}")
