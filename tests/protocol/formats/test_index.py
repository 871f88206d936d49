"""The index: bounded, ascending, the same thing once, and nothing else than an index is read as one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjob.protocol.errors import FormatError, UnknownVersion
from streamjob.protocol.formats import index
from streamjob.protocol.formats.index import Index
from streamjob.protocol.formats.records import CheckpointRecord, OperatorKind, OperatorRecord, StageRecord
from streamjob.protocol.lifecycle import Scenario
from tests.protocol.formats.documents import (
    JUNK,
    damaged,
    edited,
    only_format_errors,
    record,
    records,
    refused,
)

some = st.lists(records(st.integers(1, 30)), max_size=8, unique_by=lambda r: r.checkpoint)
GOOD = index.add(index.add(index.empty("uid"), record(1)), record(2, savepoint=None))
TEXT = index.dumps(GOOD)


def load(text: str) -> Index:
    return index.loads(text, "ConfigMap ns/orders-index")


def filled(records: list[CheckpointRecord]) -> Index:
    result = index.empty("uid")
    for r in records:
        result = index.add(result, r)
    return result


@given(some)
@settings(max_examples=50)
def test_round_trip(records: list[CheckpointRecord]) -> None:
    assert load(index.dumps(filled(records))) == filled(records)


@given(some, st.randoms())
@settings(max_examples=50)
def test_ascending_in_whatever_order_they_come(records: list[CheckpointRecord], random: object) -> None:
    expected = filled(sorted(records, key=lambda r: r.checkpoint))
    assert filled(records) == expected
    assert [c.checkpoint for c in expected.checkpoints] == sorted(r.checkpoint for r in records)


@given(some)
@settings(max_examples=50)
def test_add_again_is_the_same_index(records: list[CheckpointRecord]) -> None:
    once = filled(records)
    for r in records:
        assert index.add(once, r) is once


def test_a_request_that_a_later_epoch_has_done_again_is_there_once() -> None:
    """The first driver died between the index and the commit of its sinks. Its successor takes the same
    savepoint as its own, under the next number. Two records would say that the job has stopped twice.
    """
    (stage,) = record(1).stages
    pending = replace(stage, tasks=(replace(stage.tasks[0], transactions=("1-0",)),))
    first = replace(record(4), stages=(pending,))
    second = replace(first, checkpoint=5, epoch=first.epoch + 1, stages=(stage,))
    both = filled([record(2, savepoint=None), first, second])
    assert [c.checkpoint for c in both.checkpoints] == [2, 5]
    for other in (replace(second, request_id="another"), replace(second, savepoint="elsewhere")):
        assert len(filled([first, other]).checkpoints) == 2
    assert len(filled([replace(first, stages=(stage,)), second]).checkpoints) == 2, "it had been committed"


@pytest.mark.parametrize("first", [Scenario.STOP, Scenario.END_OF_INPUT])
@pytest.mark.parametrize("order", [(2, 3), (3, 2)])
def test_a_final_checkpoint_with_one_more_query_replaces_that_without_it(
    order: tuple[int, ...], first: Scenario
) -> None:
    """A query started while the first one was being taken. Both are of one request and one savepoint."""
    found = GOOD
    for number in order:
        final = record(number + 1, savepoint="s3a://b/sp/eviction-1")
        scenario = first if number == 2 else Scenario.STOP
        found = index.add(found, replace(final, scenario=scenario, request_id="eviction-1"))
    assert [c.checkpoint for c in found.checkpoints] == [1, 2, 4]


@pytest.mark.parametrize(
    "change", [{"epoch": 2}, {"savepoint": "elsewhere"}, {"scenario": Scenario.DRAIN}, {"request_id": None}]
)
def test_a_conflicting_record_is_refused(change: dict[str, Any]) -> None:
    for stages in (0, 1):
        with pytest.raises(ValueError, match=r"checkpoint 2 .*other contents"):
            index.add(GOOD, record(2, stages, **{"savepoint": None, **change}))


def test_other_stages_under_a_known_number_are_refused() -> None:
    with pytest.raises(ValueError, match="other contents"):
        index.add(GOOD, record(2, stages=2, savepoint=None))


def test_a_report_without_stages_is_the_same_checkpoint() -> None:
    """A final report is cut to 4 KiB; the controller may have taken the whole record before, or take it
    after.
    """
    full, bare = record(3), record(3, stages=0)
    known = index.add(GOOD, full)
    assert index.add(known, bare) is known
    assert index.add(index.add(GOOD, bare), full) == known


def test_latest_and_next() -> None:
    assert index.empty("uid").next_id == 1
    assert index.empty("uid").latest is None
    assert index.empty("uid").latest_savepoint is None
    assert GOOD.latest == record(2, savepoint=None)
    assert GOOD.latest_savepoint == record(1)
    assert GOOD.next_id == 3


def test_bounded_in_records() -> None:
    full = filled([record(n) for n in range(1, index.MAX_RECORDS + 11)])
    assert [c.checkpoint for c in full.checkpoints] == list(range(11, index.MAX_RECORDS + 11))
    assert index.add(full, record(1)) == full, "what fell out does not come back"


def test_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "SIZE_LIMIT", 5000)
    full = filled([record(n, stages=5) for n in range(1, 20)])
    assert len(index.dumps(full).encode()) <= 5000
    assert full.latest == record(19, stages=5)
    assert len(full.checkpoints) > 1


def test_the_bound_is_below_what_a_config_map_holds() -> None:
    full = filled([record(n, stages=1400) for n in range(1, 5)])
    assert len(index.dumps(full).encode()) <= index.SIZE_LIMIT < 1 << 20
    assert 1 < len(full.checkpoints) < 4
    assert load(index.dumps(full)) == full


def test_i1_hundreds_of_checkpoints_of_hundreds_of_operators() -> None:
    """It fills up, and continues: each new checkpoint is in it, whole, and every savepoint for which there is
    room.
    """
    full = index.empty("uid")
    for n in range(1, 13):
        full = index.add(full, record(n, stages=400, savepoint=f"file:/sp/{n}" if n % 5 == 0 else None))
        assert full.latest is not None
        assert full.latest.checkpoint == n
    assert len(full.checkpoints) < 12, "it is full"
    assert [c.checkpoint for c in full.checkpoints if c.savepoint] == [5, 10]
    assert len(index.dumps(full).encode()) <= index.SIZE_LIMIT
    assert load(index.dumps(full)) == full


def test_a_record_that_never_fits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "SIZE_LIMIT", 2000)
    with pytest.raises(FormatError, match="checkpoint 7 does not fit"):
        index.add(index.empty("uid"), record(7, stages=50))


@pytest.mark.parametrize("order", [(2, 1), (1, 1), (0,), (-1, 1), (1, 3, 2)])
def test_edited_by_hand_out_of_order(order: tuple[int, ...]) -> None:
    bad = replace(GOOD, checkpoints=tuple(record(n) for n in order))
    assert "do not ascend" in refused(load, index.dumps(bad))


@given(damaged(TEXT.encode()))
def test_damaged(data: bytes) -> None:
    only_format_errors(load, data.decode("utf-8", "replace"))


@given(edited(TEXT))
def test_edited(text: str) -> None:
    only_format_errors(load, text)


@pytest.mark.parametrize("junk", JUNK, ids=lambda j: repr(j[:12]))
def test_foreign(junk: bytes) -> None:
    assert "orders-index" in refused(load, junk.decode("latin-1"))


def test_every_error_says_where() -> None:
    document = json.loads(TEXT)
    del document["job_uid"]
    assert "orders-index" in refused(load, json.dumps(document))


def test_row8_a_record_without_the_newer_fields_is_read() -> None:
    """An index that was written before tasks had flags, query ids and state of their own."""
    document = json.loads(TEXT)
    for entry in document["checkpoints"]:
        for stage in entry["stages"]:
            for task in stage["tasks"]:
                del task["finished"], task["query_id"], task["state"]
    (task,) = load(json.dumps(document)).checkpoints[0].stages[0].tasks
    assert (task.batch, task.finished, task.query_id, task.state) == (41, False, None, {})


def test_row8_a_newer_version_is_refused() -> None:
    with pytest.raises(UnknownVersion, match="Upgrade"):
        load(json.dumps({"format": index.FORMAT, "version": 4, "shards": []}))


class TestDeletedSavepoints:
    FULL = filled([record(n, savepoint=f"file:/sp/{n}") for n in (1, 2, 3)])

    def test_what_is_to_go_is_no_savepoint_any_more_and_its_checkpoint_stays(self) -> None:
        found = index.retire(self.FULL, ["file:/sp/1"])
        assert [c.savepoint for c in found.checkpoints] == [None, "file:/sp/2", "file:/sp/3"]
        assert found.to_delete == ("file:/sp/1",)
        assert found.deleted == (index.DeletedSavepoint("file:/sp/1", 1, None),)
        assert load(index.dumps(found)) == found

    def test_then_it_is_gone(self) -> None:
        found = index.gone(
            index.retire(self.FULL, ["file:/sp/1", "file:/sp/2"]), ["file:/sp/2"], "2026-01-01T00:00:00Z"
        )
        assert found.to_delete == ("file:/sp/1",)
        assert index.gone(found, ["file:/sp/2"], "later") == found

    def test_a_driver_that_still_speaks_of_it_does_not_bring_it_back(self) -> None:
        found = index.retire(self.FULL, ["file:/sp/3"])
        assert index.add(found, record(3, savepoint="file:/sp/3")) is found

    def test_bounded(self) -> None:
        """What is gone is forgotten some day, what is not gone never."""
        many = [f"file:/sp/{n}" for n in range(1, 100)]
        full = index.retire(filled([record(n, savepoint=f"file:/sp/{n}") for n in range(1, 101)]), many)
        found = index.gone(full, many[5:], "2026-01-01T00:00:00Z")
        assert found.to_delete == tuple(many[:5])
        assert len(found.deleted) == 5 + index.MAX_DELETED
        assert found.deleted[-1].savepoint == many[-1]

    def test_row8_an_index_without_any_is_one_that_the_version_before_reads(self) -> None:
        assert json.loads(index.dumps(self.FULL))["version"] == 2
        assert "deleted" not in json.loads(index.dumps(self.FULL))
        assert json.loads(index.dumps(index.retire(self.FULL, ["file:/sp/1"])))["version"] == 3

    def test_savepoints_outlive_checkpoints_where_there_is_no_room(self) -> None:
        """A job with a checkpoint a minute and a savepoint a night: its savepoints can still be found, and
        retired.
        """
        nights = [record(n, savepoint=f"file:/sp/{n}") for n in (1, 150, 300)]
        periodic: dict[str, Any] = {"scenario": None, "request_id": None, "savepoint": None}
        others = [record(n, **periodic) for n in range(1, 400) if n not in (1, 150, 300)]
        full = filled(sorted([*nights, *others], key=lambda r: r.checkpoint))
        assert len(full.checkpoints) == index.MAX_RECORDS
        assert [c.checkpoint for c in full.checkpoints if c.savepoint] == [1, 150, 300]
        assert full.latest == record(399, **periodic)


def test_oversized() -> None:
    assert "at most" in refused(load, TEXT + " " * (1 << 20))


def test_finished_and_drained() -> None:
    done = OperatorRecord("a", OperatorKind.SINK, "a", True)
    flags = [(), (done,), (done, replace(done, finished=False))]
    assert [StageRecord("s", (), f).finished for f in flags] == [False, True, False]
    finished, open_ = StageRecord("s", (), (done,)), StageRecord("t", (), ())
    assert replace(record(), stages=(finished,)).drained
    assert not replace(record(), stages=(finished, open_)).drained
    assert not replace(record(), stages=()).drained
