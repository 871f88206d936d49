"""What a driver can say of its job's checkpoints when the index is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamjob.protocol.formats.records import CheckpointRecord, JobRef
from streamjob.protocol.messages.driver_config import Application, DriverConfig, Restore
from streamjob.runtime.savepoints import recover_records
from streamjob.runtime.savepoints.recover_records import known, known_records

from ..localfiles import LocalFiles
from ..queries import JOB, Query


def config(query: Query, latest: CheckpointRecord | None = None) -> DriverConfig:
    return DriverConfig(
        job=JOB,
        epoch=3,
        application=Application(file="a.py"),
        checkpoints="file:/cp",
        restore=Restore(latest=latest),
        eviction_savepoint=query.uri("eviction-3"),
    )


@pytest.fixture
def query(tmp_path: Path) -> Query:
    files: Any = LocalFiles()
    made = Query(files, tmp_path)
    made.batch()
    return made


def periodic(number: int) -> CheckpointRecord:
    return CheckpointRecord(number, 3, None, None, None, "2026-01-01T00:00:00Z", ())


def test_savepoints_that_are_whole_and_the_jobs_own(query: Query) -> None:
    one = query.save("stop-1")
    query.save("foreign", job=JobRef("shop", "orders", "uid-2"))
    query.save("half")
    query.files.delete(query.uri("half") + "/manifest.json")
    query.save("broken")
    (query.root / "broken" / "manifest.json").write_text("{")
    query.batch()
    (lost,) = (e.shared for e in query.save("lost").files if e.shared and e.path.endswith("0/2.delta"))
    (query.root / "shared" / str(lost)).unlink()
    found = known_records(query.files, config(query, periodic(7)), 7, ())
    assert found.records == (one.checkpoint, periodic(7))


def test_what_it_began_with_and_what_it_took(query: Query) -> None:
    first = query.save("stop-1").checkpoint
    found = known_records(query.files, config(query, periodic(5)), 7, [periodic(6), periodic(7)])
    assert found.reached == 7
    assert found.records == (first, periodic(5), periodic(6), periodic(7))


def test_a_savepoint_that_its_epoch_died_with_never_was_in_the_index(query: Query) -> None:
    """The job has gone on from what was before it; put into the index now, it would turn the job back."""
    first = query.save("stop-1").checkpoint
    orphan = query.save("eviction-2").checkpoint
    assert orphan.checkpoint == 2
    assert known_records(query.files, config(query, first), 1, ()).records == (first,)
    own = replace(orphan, epoch=3)
    assert known_records(query.files, config(query, first), 1, [own]).records == (first, own)


def test_of_two_savepoints_with_one_number_the_later_epochs_was_in_the_index(query: Query) -> None:
    orphan = query.save("eviction-1").checkpoint
    again = replace(orphan, epoch=orphan.epoch + 1, request_id="stop-2")
    for savepoints in ([orphan, again], [again, orphan]):
        assert known(config(query, periodic(5)), savepoints, ())[orphan.checkpoint] == again


def test_without_any_savepoint(query: Query) -> None:
    assert known_records(query.files, config(query, periodic(5)), 5, ()).records == (periodic(5),)


def test_what_the_driver_says_itself_counts_before_a_manifest(query: Query) -> None:
    """An epoch that has ended for another one's savepoint stands in the record, not in the manifest."""
    later = replace(query.save("stop-1").checkpoint, epoch=4)
    assert known_records(query.files, config(query), 1, [later]).records == (later,)


def test_bounded_to_the_newest(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recover_records, "LIMIT", 1000)
    found = known_records(query.files, config(query), 99, [periodic(n) for n in range(100)])
    assert [r.checkpoint for r in found.records] == list(range(100 - len(found.records), 100))
    assert 1 < len(found.records) < 10
