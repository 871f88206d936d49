"""A driver deletes what it is told to, of its own job's live savepoints, and nothing else whatever
it is told.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamjob.protocol.errors import StreamJobError
from streamjob.protocol.formats.records import CheckpointRecord, JobRef, StageRecord, TaskRecord
from streamjob.runtime.savepoints.expired import NotRetired, delete_retired
from streamjob.runtime.savepoints.incomplete import delete_half_written
from streamjob.runtime.savepoints.layout import verify_savepoint
from streamjob.runtime.savepoints.write import write_savepoint

from ..localfiles import LocalFiles
from ..queries import JOB, OPERATORS, STAGE, Query

OTHER = JobRef("shop", "orders", "uid-2")


@pytest.fixture
def query(tmp_path: Path) -> Query:
    files: Any = LocalFiles()
    made = Query(files, tmp_path)
    made.batch()
    made.batch()
    return made


def beside(query: Query, name: str, job: JobRef = JOB, request: str | None = None) -> str:
    stage = StageRecord(STAGE, (TaskRecord(0, query.directory.uri, 1),), OPERATORS)
    uri = query.uri(name)
    record = CheckpointRecord(len(name), 1, None, request or name, uri, "2026-01-01T00:00:00Z", (stage,))
    write_savepoint(query.files, job, record, {(STAGE, 0): query.directory}, uri, live=True)
    return uri


def test_it_goes_and_what_others_share_stays(query: Query) -> None:
    first, second = beside(query, "savepoint-1"), beside(query, "savepoint-2")
    delete_retired(query.files, JOB, first)
    assert not query.files.exists(first)
    assert verify_savepoint(query.files, second) == []
    delete_retired(query.files, JOB, first)  # again
    delete_retired(query.files, JOB, second)
    assert query.shared() == set()


def test_one_that_was_cut_off_is_finished(query: Query) -> None:
    uri = beside(query, "savepoint-1")
    query.files.delete(f"{uri}/manifest.json")
    delete_retired(query.files, JOB, uri)
    assert not query.files.exists(uri)


def test_a_stop_is_never_deleted(query: Query) -> None:
    query.save("savepoint-1")
    query.save("stop-1-1")
    for name in ("savepoint-1", "stop-1-1"):
        with pytest.raises(NotRetired):
            delete_retired(query.files, JOB, query.uri(name))
        assert verify_savepoint(query.files, query.uri(name)) == []


def test_nor_another_jobs_nor_one_under_another_name(query: Query) -> None:
    for uri in (beside(query, "savepoint-1", OTHER), beside(query, "savepoint-22", request="savepoint-3")):
        with pytest.raises(NotRetired):
            delete_retired(query.files, JOB, uri)
        assert verify_savepoint(query.files, uri) == []


def test_nor_a_folder_that_is_none(query: Query) -> None:
    query.write("../savepoints/savepoint-1/notes.txt", "mine")
    with pytest.raises(NotRetired):
        delete_retired(query.files, JOB, query.uri("savepoint-1"))


def test_nor_one_whose_manifest_cannot_be_read(query: Query) -> None:
    uri = beside(query, "savepoint-1")
    (query.root / "savepoint-1" / "manifest.json").write_text("{")
    with pytest.raises(StreamJobError):
        delete_retired(query.files, JOB, uri)
    assert query.files.exists(uri)


def test_half_written_ones_beside_the_run_are_swept_and_no_others(query: Query) -> None:
    whole = beside(query, "savepoint-1")
    left = {
        "savepoint-2": beside(query, "savepoint-2"),
        "savepoint-33": beside(query, "savepoint-33", OTHER),
        "savepoint-444": beside(query, "savepoint-444"),
        "stop-1-1": query.uri("stop-1-1"),
    }
    query.save("stop-1-1")
    for uri in left.values():
        query.files.delete(f"{uri}/manifest.json")
    delete_half_written(query.files, JOB, query.uri("savepoint-444"))
    there = {name for name, uri in left.items() if query.files.exists(uri)}
    assert there == {"savepoint-33", "savepoint-444", "stop-1-1"}, (
        "another job's, the one that is wanted, a stop's"
    )
    assert verify_savepoint(query.files, whole) == []


def test_where_there_is_nothing_yet(query: Query) -> None:
    delete_half_written(query.files, JOB, query.uri("savepoint-1"))
