"""What is restored is whole, or no query can start from it, also after a kill."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from streamjob.runtime.savepoints.layout import SavepointBroken
from streamjob.runtime.savepoints.restore import TargetNotEmpty, adopt, restore
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir

from ..localfiles import LocalFiles
from ..moments import Interrupted, Killed, each_moment, kill
from ..queries import STAGE, Query, contents


@pytest.fixture
def query(tmp_path: Path) -> Query:
    made = Query(LocalFiles(), tmp_path)
    made.batch()
    made.batch()
    return made


def id_of(folder: Path) -> str | None:
    """Of the query that Spark would start from there; None: it would begin a new one."""
    place = folder / "metadata"
    return json.loads(place.read_text())["id"] if place.exists() else None


def test_each_restored_query_has_an_id_of_its_own(query: Query) -> None:
    query.save("one")
    for name in ("first", "second"):
        assert query.restored(query.uri("one"), name) == contents(query.folder)
    assert len({id_of(query.home / name) for name in ("checkpoint", "first", "second")}) == 3


def test_s1_a_killed_restore_leaves_nothing_that_a_query_starts_from_and_is_repeated(tmp_path: Path) -> None:
    """In the middle of a file too."""
    home = tmp_path / "saved"
    saved = Query(LocalFiles(), home)
    saved.batch()
    saved.save("one")

    def run(at: int) -> bool:
        files: Any = Interrupted()
        target = tmp_path / str(at)

        def attempt() -> str:
            return restore(files, saved.uri("one"), STAGE, 0, f"file:{target}")

        files.arm(at, kill)
        with contextlib.suppress(Killed):
            attempt()
        if killed := files.disarm():
            assert id_of(target) is None or contents(target) == contents(saved.folder)
            attempt()
        assert contents(target) == contents(saved.folder)
        assert attempt() == id_of(target)  # what is done is done
        return killed

    assert each_moment(run) > 15


@pytest.mark.parametrize("wrong", ["state/0/1/2.delta", "offsets/1"])
@pytest.mark.parametrize("how", ["changed", "gone"])
def test_s2_s3_nothing_starts_from_a_savepoint_with_a_broken_file(query: Query, wrong: str, how: str) -> None:
    saved = query.save("one")
    (entry,) = [e for e in saved.files if e.path.endswith(wrong)]
    place = query.root / "shared" / entry.shared if entry.shared else query.root / "one" / entry.path
    if how == "gone":
        place.unlink()
    else:
        place.write_bytes(place.read_bytes()[:-1] + b"?")
    with pytest.raises(SavepointBroken, match=wrong):
        query.restored(query.uri("one"), "again")
    assert id_of(query.home / "again") is None


def test_a_restore_changes_nothing_that_is_somebody_elses(query: Query) -> None:
    query.save("one")
    before = contents(query.folder)
    with pytest.raises(TargetNotEmpty, match="is not empty"):
        query.restored(query.uri("one"), "checkpoint")
    query.save("two")
    query.restored(query.uri("one"), "again")
    with pytest.raises(TargetNotEmpty, match="what was restored from"):
        query.restored(query.uri("two"), "again")
    assert contents(query.folder) == before


def test_a_killed_adoption_is_repeated_and_the_directory_stays_as_it_is(tmp_path: Path) -> None:
    other = Query(LocalFiles(), tmp_path / "other")
    other.batch()
    before = {p: p.read_bytes() for p in other.folder.rglob("*") if p.is_file()}

    def run(at: int) -> bool:
        files: Any = Interrupted()
        target = tmp_path / str(at)
        directory = CheckpointDir(files, other.directory.uri)
        files.arm(at, kill)
        with contextlib.suppress(Killed):
            adopt(files, directory, f"file:{target}")
        if killed := files.disarm():
            assert id_of(target) is None or contents(target) == contents(other.folder)
            adopt(files, directory, f"file:{target}")
        assert contents(target) == contents(other.folder)
        assert id_of(target) == id_of(other.folder) is not None
        return killed

    assert each_moment(run) > 15
    assert {p: p.read_bytes() for p in other.folder.rglob("*") if p.is_file()} == before
