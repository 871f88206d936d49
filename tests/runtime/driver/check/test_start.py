"""What a check reads of a query that restores a savepoint: a copy without the state, beside everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamjob.protocol.graph import TaskName
from streamjob.protocol.messages.driver_config import Restore
from streamjob.runtime.driver.check.start import CheckedStart
from streamjob.runtime.savepoints.layout import read_manifest
from streamjob.runtime.startup.admission import bring_directory_to_its_batch, look_where_it_begins
from streamjob.runtime.startup.query_start import QueryStart
from streamjob.runtime.startup.restore_point import CheckpointLost

from ...queries import STAGE, Query, contents
from ...startup.test_admission import Files, Job, query


@pytest.fixture
def saved(tmp_path: Path) -> Query:
    made = Query(Files(), tmp_path / "old")
    made.batch()
    made.write("state/0/0/_metadata/schema", "v2")
    made.batch()
    made.save("one")
    return made


def starting(home: Path, restore: Restore, files: Files) -> QueryStart:
    start = query(home, Job(home, restore=restore), files=files)
    start.name = TaskName(STAGE, STAGE)
    return start


def checked(home: Path, restore: Restore, files: Files) -> CheckedStart:
    return CheckedStart.of(starting(home, restore, files), f"file:{home}/scratch")


def test_of_a_savepoint_only_what_describes_the_state_is_copied(saved: Query, tmp_path: Path) -> None:
    files = Files()
    start = checked(tmp_path, Restore(savepoint=saved.uri("one")), files)
    look_where_it_begins(start)
    assert (start.directory.uri, start.directory.latest_commit()) == (f"file:{tmp_path}/scratch", 1)
    copied = {path for path in contents(tmp_path / "scratch") if path.startswith("state/")}
    assert copied == {"state/0/_metadata/metadata", "state/0/0/_metadata/schema"}
    assert start.place.latest_offset() is None
    assert all(uri.startswith(f"file:{tmp_path}/scratch/") for uri in files.written)
    assert start.origin.startswith(saved.uri("one"))


def test_what_was_restored_before_is_read_where_it_is(saved: Query, tmp_path: Path) -> None:
    files, restore = Files(), Restore(savepoint=saved.uri("one"))
    bring_directory_to_its_batch(starting(tmp_path, restore, files))
    files.written.clear()
    start = checked(tmp_path, restore, files)
    assert start.directory.uri == start.place.uri
    look_where_it_begins(start)
    assert not files.written


@pytest.mark.parametrize("exact", [True, False])
def test_a_directory_that_is_gone_is_read_from_the_savepoint_with_which_the_job_ended(
    saved: Query, tmp_path: Path, exact: bool
) -> None:
    """As a start restores it; otherwise nothing is there to go on from."""
    latest = read_manifest(saved.files, saved.uri("one")).checkpoint
    start = checked(tmp_path, Restore(latest=latest, exact=exact), Files())
    if exact:
        look_where_it_begins(start)
        assert (start.directory.latest_commit(), start.directory.uri) == (1, f"file:{tmp_path}/scratch")
    else:
        with pytest.raises(CheckpointLost):
            look_where_it_begins(start)
