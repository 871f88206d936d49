"""Rows 8 and 9: finished flags in records, and what becomes of driver-side state."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob.protocol.errors import StreamJobError
from streamjob.protocol.formats.records import (
    FinishedStatus,
    OperatorKind,
    OperatorRecord,
    StageRecord,
    TaskRecord,
)
from streamjob.protocol.restore import finished

entries = st.lists(st.lists(st.integers(), max_size=6), max_size=6)


def stage(tasks: int) -> StageRecord:
    return StageRecord(
        "A",
        tuple(TaskRecord(i, f"file:/cp/A/{i}", i) for i in range(tasks)),
        tuple(
            OperatorRecord(f"A/{k.value}", k, k.value, False)
            for k in (OperatorKind.SOURCE, OperatorKind.SINK)
        ),
    )


STATUS = [
    pytest.param(3, [], FinishedStatus.NOT, id="row9-no task has finished"),
    pytest.param(3, [1], FinishedStatus.PARTIALLY, id="row9-one of three has"),
    pytest.param(3, [0, 2], FinishedStatus.PARTIALLY, id="row9-all but one have"),
    pytest.param(3, [0, 1, 2], FinishedStatus.FULLY, id="row9-all have"),
    pytest.param(1, [0], FinishedStatus.FULLY, id="row9-the only one has"),
]


@pytest.mark.parametrize(("tasks", "done", "status"), STATUS)
def test_status(tasks: int, done: list[int], status: FinishedStatus) -> None:
    record = finished.flagged(stage(tasks), done)
    assert record.status is status
    assert [t.index for t in record.tasks if t.finished] == done
    assert all(o.finished == (status is FinishedStatus.FULLY) for o in record.operators)
    assert record.finished == (status is FinishedStatus.FULLY)


def test_a_stage_without_tasks_or_operators_has_not_finished() -> None:
    assert StageRecord("A", (), ()).status is FinishedStatus.NOT
    assert finished.flagged(StageRecord("A", (), ()), []).status is FinishedStatus.NOT


def test_flags_can_be_taken_off() -> None:
    """For restoreFrom.allowDrained."""
    assert finished.flagged(finished.flagged(stage(2), [0, 1]), []) == stage(2)


@given(entries, st.integers(1, 8))
def test_list_state_is_dealt_out_evenly_and_nothing_is_lost_or_there_twice(
    held: list[list[int]], parallelism: int
) -> None:
    dealt = finished.redistribute(held, parallelism)
    assert len(dealt) == parallelism
    assert [e for part in dealt for e in part] == [e for part in held for e in part]
    sizes = [len(part) for part in dealt]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


@given(st.dictionaries(st.integers(0, 9), st.lists(st.integers(), max_size=3), min_size=1), st.integers(1, 4))
def test_union_state_goes_to_every_task_whole(held: dict[int, list[int]], parallelism: int) -> None:
    dealt = finished.union("u", held, (), parallelism)
    assert dealt == (tuple(e for i in sorted(held) for e in held[i]),) * parallelism


UNION = [
    pytest.param([0], True, id="row9-union state of a partly finished operator is refused"),
    pytest.param([0, 1], False, id="row9-union state of a fully finished one is whole"),
    pytest.param([], False, id="row9-union state of an unfinished one is whole"),
]


@pytest.mark.parametrize(("done", "is_refused"), UNION)
def test_union(done: list[int], is_refused: bool) -> None:
    held = {0: ["a"], 1: ["b"]}
    if is_refused:
        assert "operator u " in refused(finished.union, "u", held, done, 2)
    else:
        assert finished.union("u", held, done, 2) == (("a", "b"), ("a", "b"))


BROADCAST = [
    pytest.param({0: ["x"], 1: ["x"]}, [], ("x",), id="row9-broadcast state comes from the first task"),
    pytest.param(
        {0: [], 1: ["x"]}, [0], ("x",), id="row9-broadcast state comes from a task that has not finished"
    ),
    pytest.param(
        {0: ["old"], 2: ["x"]}, [0, 1], ("x",), id="row9-broadcast state of finished tasks is not used"
    ),
]


@pytest.mark.parametrize(("held", "done", "expected"), BROADCAST)
def test_broadcast(held: dict[int, list[str]], done: list[int], expected: tuple[str, ...]) -> None:
    assert finished.broadcast("b", held, done, 3) == (expected,) * 3


def test_row9_broadcast_state_that_only_finished_tasks_gave_is_refused() -> None:
    assert "operator b " in refused(finished.broadcast, "b", {0: ["x"]}, [0], 2)


def refused(function: Any, *args: Any) -> str:
    with pytest.raises(StreamJobError) as e:
        function(*args)
    assert e.value.remedy
    return e.value.message
