"""What belongs to a batch while the query runs on, and that a savepoint of it is whole whatever Spark does
meanwhile.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from streamjob.protocol.formats.records import CheckpointRecord, StageRecord, TaskRecord
from streamjob.runtime.savepoints import batch_files
from streamjob.runtime.savepoints.batch_files import SavepointOutrun, number_of
from streamjob.runtime.savepoints.layout import read_manifest, verify_savepoint
from streamjob.runtime.savepoints.write import write_savepoint
from streamjob.runtime.spark.checkpoint_dir import MAX_WATERMARKS, CheckpointDir

from ..localfiles import LocalFiles
from ..queries import JOB, OPERATORS, STAGE, Query


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("offsets/12", ("batch", 12)),
        ("commits/0", ("batch", 0)),
        ("streamjob/state/7.json", ("batch", 7)),
        ("streamjob/drained/8", ("version", 8)),
        ("state/0/3/8.delta", ("version", 8)),
        ("state/0/3/8.snapshot", ("version", 8)),
        ("state/0/3/8.delta.crc", ("version", 8)),
        ("state/1/0/left-keyToNumValues/5.delta", ("version", 5)),
        ("state/0/3/8_3f2a-11.zip", ("version", 8)),
        ("state/0/3/8.changelog", ("version", 8)),
        ("state/0/3/SSTs/000008-3f2a11b0.sst", None),
        ("state/0/_metadata/metadata", None),
        ("state/0/_metadata/v2/3", None),
        ("sources/0/4", None),
        ("sources/0/9.compact", None),
        ("metadata", None),
    ],
)
def test_numbers(path: str, number: tuple[str, int] | None) -> None:
    assert number_of(path) == number


class Busy(LocalFiles):
    """Something happens each time before a file is copied, or before a listing."""

    def __init__(self) -> None:
        self.before_copy: Any = lambda: None
        self.before_list: Any = lambda uri: None

    def copy(self, source: str, target: str) -> Any:
        self.before_copy()
        return super().copy(source, target)

    def list(self, uri: str, recursive: bool = False) -> Any:
        self.before_list(uri)
        return super().list(uri, recursive)


@pytest.fixture
def files() -> Busy:
    return Busy()


@pytest.fixture
def query(files: Busy, tmp_path: Path) -> Query:
    made = Query(files, tmp_path)
    for _ in range(3):
        made.batch()
    return made


def save(query: Query, batch: int | None, name: str = "savepoint-1", **more: Any) -> dict[str, bytes]:
    """Beside the run, by default. Returns what is in it."""
    stage = StageRecord(STAGE, (TaskRecord(0, query.directory.uri, batch),), OPERATORS)
    record = CheckpointRecord(1, 1, None, name, query.uri(name), "2026-01-01T00:00:00Z", (stage,))
    directories = {(STAGE, 0): query.directory}
    write_savepoint(query.files, JOB, record, directories, query.uri(name), **{"live": True, **more})
    assert verify_savepoint(query.files, query.uri(name)) == []
    return query.restored(query.uri(name), f"from-{name}-{batch}")


def logs(found: dict[str, bytes]) -> set[str]:
    return {p for p in found if p.startswith(("offsets", "commits"))}


def test_later_batches_are_left_out(query: Query) -> None:
    query.write("offsets/3", "planned")
    query.write("state/0/0/4.delta", "being written")
    found = save(query, 1)
    assert logs(found) == {"offsets/0", "offsets/1", "commits/0", "commits/1"}
    assert {p for p in found if p.endswith(".delta")} == {
        f"state/0/{p}/{v}.delta" for p in (0, 1) for v in (1, 2)
    }


@pytest.mark.parametrize("live", [True, False])
def test_old_entries_of_the_logs_are_left_out(query: Query, live: bool) -> None:
    """By number, not by name: 2 comes before 10. What belongs to no log stays."""
    while query.directory.latest_commit() != 12:
        query.batch()
    query.write("offsets/.13.tmp", "a driver died")
    query.write("sources/0/1", "a file")
    found = save(query, 12, live=live)
    kept = range(13 - batch_files.ENTRIES, 13)
    assert logs(found) == {f"{log}/{n}" for log in ("offsets", "commits") for n in kept}
    assert "sources/0/1" in found
    assert {p for p in found if p.endswith(".delta")} == {
        f"state/0/{p}/{v}.delta" for p in (0, 1) for v in range(1, 14)
    }


def test_what_it_takes_to_go_on_after_a_drain_stays(query: Query) -> None:
    """The commit of the batch before the drain has the watermark with which a query continues."""
    for watermark in MAX_WATERMARKS[: batch_files.ENTRIES + 1]:
        query.batch()
        last = query.directory.latest_commit()
        query.write(f"offsets/{last}", f'v1\n{{"batchWatermarkMs":{watermark}}}\n{{}}')
    found = logs(save(query, last, live=False))
    assert found == {f"{log}/{n}" for log in ("offsets", "commits") for n in range(2, (last or 0) + 1)}


def test_before_the_first_batch_it_is_empty(tmp_path: Path) -> None:
    query = Query(Busy(), tmp_path)
    query.write("offsets/0", "planned")
    assert not logs(save(query, None))


def test_the_query_runs_on_while_it_is_copied(query: Query, files: Busy) -> None:
    files.before_copy = query.batch
    before = {p: (query.folder / p).read_bytes() for p in ("offsets/2", "state/0/1/3.delta")}
    found = save(query, 2)
    assert {p: found[p] for p in before} == before
    assert CheckpointDir(files, f"file:{query.home}/from-savepoint-1-2").boundary() == 2  # type: ignore[arg-type]
    assert (query.directory.latest_commit() or 0) > 2


def test_what_is_purged_meanwhile_is_no_loss(query: Query, files: Busy) -> None:
    """Spark deletes what is older than it needs, at any time."""

    def purge() -> None:
        for path in ("offsets/0", "commits/0", "state/0/0/1.delta"):
            (query.folder / path).unlink(missing_ok=True)

    files.before_copy = purge
    found = save(query, 2)
    assert {"offsets/1", "offsets/2", "commits/2"} <= logs(found)
    assert "state/0/0/1.delta" not in found


@pytest.mark.parametrize("purged", ["offsets/2", "commits/2", "offsets/1"])
def test_a_query_that_is_faster_than_the_copy(query: Query, files: Busy, purged: str) -> None:
    """No manifest is written: what is gone might be needed."""
    files.before_copy = lambda: (query.folder / purged).unlink(missing_ok=True)
    with pytest.raises(SavepointOutrun):
        save(query, 2)
    assert not (query.root / "savepoint-1" / "manifest.json").exists()


def test_a_batch_that_was_never_committed_is_no_cut(query: Query) -> None:
    with pytest.raises(SavepointOutrun):
        save(query, 3)


def test_a_snapshot_that_appears_between_the_listings_is_left_out(query: Query, files: Busy) -> None:
    """Its SST files may have come after they were listed, so it might not be whole.

    Nothing needs it: what it is made of is there.
    """
    seen: list[str] = []

    def upload(uri: str) -> None:
        if uri.endswith("checkpoint/state/0/0"):
            seen.append(uri)
            if len(seen) == 2:
                query.write("state/0/0/3.zip", os.urandom(10))

    files.before_list = upload
    found = save(query, 2)
    assert len(seen) == 2
    assert "state/0/0/3.zip" not in found
    assert "state/0/0/3.delta" in found


def test_files_of_a_snapshot_that_come_with_the_second_listing_are_taken(query: Query, files: Busy) -> None:
    query.write("state/0/0/2.zip", "names 000001-aa.sst")
    seen: list[str] = []

    def upload(uri: str) -> None:
        if uri.endswith("checkpoint"):
            seen.append(uri)
            if len(seen) == 2:
                query.write("state/0/0/SSTs/000001-aa.sst", "sst")

    files.before_list = upload
    assert "state/0/0/SSTs/000001-aa.sst" in save(query, 2)


def test_the_next_one_shares_what_has_not_changed(query: Query) -> None:
    save(query, 1, "savepoint-1")
    save(query, 2, "savepoint-2")
    names = [
        {e.path: e.shared for e in read_manifest(query.files, query.uri(f"savepoint-{n}")).files}
        for n in (1, 2)
    ]
    same = {p for p, shared in names[0].items() if shared and names[1].get(p) == shared}
    assert {Path(p).name for p in same} == {"1.delta", "2.delta"}


def test_a_check_that_raises_ends_it_before_the_manifest(query: Query) -> None:
    calls: list[None] = []

    def check() -> None:
        calls.append(None)
        if len(calls) == 4:
            raise RuntimeError("nobody waits for it")

    with pytest.raises(RuntimeError):
        save(query, 2, check=check)
    assert not (query.root / "savepoint-1" / "manifest.json").exists()


def test_it_is_written_anew_when_it_is_asked_for_again(query: Query) -> None:
    """The driver died with the manifest written and nobody told: by now its number may be another
    checkpoint's.
    """
    first = save(query, 2)
    query.batch()
    assert logs(save(query, 3)) - logs(first) == {"offsets/3", "commits/3"}
