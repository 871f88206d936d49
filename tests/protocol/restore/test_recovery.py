"""Rows 10 and 14: what starts from a checkpoint, and what is refused before anything does."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob.protocol.errors import StreamJobError
from streamjob.protocol.formats.records import (
    CheckpointRecord,
    OperatorKind,
    OperatorRecord,
    StageRecord,
    TaskRecord,
)
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.driver_config import Restore
from streamjob.protocol.restore import finished, recovery
from tests.protocol.formats.documents import record as some_record

KINDS = {
    "k": OperatorKind.STATE,
    "l": OperatorKind.LIST,
    "u": OperatorKind.UNION,
    "b": OperatorKind.BROADCAST,
}


def plans(declared: str, record: CheckpointRecord) -> list[recovery.StagePlan]:
    """Those of the stages `A B*2`, with their parallelism."""
    known, found = {s.uid: s for s in record.stages}, []
    for word in declared.split():
        uid, _, parallelism = word.partition("*")
        found.append(recovery.stage_plan(uid, int(parallelism or 1), known.get(uid)))
    return found


def stage(text: str) -> StageRecord:
    """`A:lu:.F.`: operators by kind, and a task for each sign, F if it has finished."""
    uid, kinds, tasks = text.split(":")
    records = tuple(
        TaskRecord(
            i, f"file:/cp/{uid}/{i}", 10 + i, state={k: (f"{k}{i}", f"{k}{i}'") for k in kinds if k != "k"}
        )
        for i, _ in enumerate(tasks)
    )
    operators = [OperatorRecord("sink", OperatorKind.SINK, "sink", False)]
    operators += [OperatorRecord(k, KINDS[k], k, False) for k in kinds]
    return finished.flagged(
        StageRecord(uid, records, tuple(operators)), [i for i, sign in enumerate(tasks) if sign == "F"]
    )


def _record(text: str, scenario: Scenario = Scenario.DRAIN) -> CheckpointRecord:
    return replace(some_record(3), scenario=scenario, stages=tuple(stage(word) for word in text.split()))


def starts(stages: list[recovery.StagePlan]) -> dict[str, str]:
    return {t.task: t.start.value for s in stages for t in s.tasks}


PLANS = [
    pytest.param(
        "A B<A",
        "A::F B::.",
        "A=Finished B=Resume",
        id="row10-a fully finished stage is not started",
    ),
    pytest.param("A B<A", "A::. B::.", "A=Resume B=Resume", id="row10-unfinished stages resume"),
    pytest.param("A B", "A::.", "A=Resume B=New", id="row10-a stage that is new starts from nothing"),
    pytest.param(
        "A B<A C<B",
        "A::F B::F C::.",
        "A=Finished B=Finished C=Resume",
        id="row10-a finished chain before a running one",
    ),
    pytest.param("A B<A", "A::F", "A=Finished B=New", id="row10-a new stage after a finished one"),
    pytest.param(
        "B A",
        "A::F B::.",
        "B=Resume A=Finished",
        id="row10-stages are matched by uid, not by order",
    ),
    pytest.param(
        "A*3",
        "A::.F.",
        "A/0=Resume A/1=Finished A/2=Resume",
        id="row10-of a partly finished stage the rest resumes",
    ),
    pytest.param(
        "A*2 B<A",
        "A::FF B::.",
        "A/0=Finished A/1=Finished B=Resume",
        id="row10-a stage whose shards have all finished",
    ),
    pytest.param(
        "A*3",
        "A:l:..",
        "A/0=Redistributed A/1=Redistributed A/2=Redistributed",
        id="row10-more tasks share what is left",
    ),
    pytest.param("A", "A:l:.F.", "A=Redistributed", id="row10-one task takes what several had left"),
    pytest.param(
        "A*2",
        "A:u:.F",
        "A/0=Resume A/1=Finished",
        id="row9-partly finished union state with the parallelism as it was",
    ),
    pytest.param(
        "A*3",
        "A:l:FF",
        "A/0=Finished A/1=Finished A/2=Finished",
        id="row10-another parallelism starts nothing that has finished",
    ),
]


@pytest.mark.parametrize(("declared", "saved", "expected"), PLANS)
def test_plan(declared: str, saved: str, expected: str) -> None:
    stages = plans(re.sub("<[A-Z,]+", "", declared), _record(saved))
    assert starts(stages) == dict(p.split("=") for p in expected.split())
    assert [s.started for s in stages] == [
        any(t.start is not recovery.Start.FINISHED for t in s.tasks) for s in stages
    ]


REFUSED = [
    pytest.param(
        "A*2",
        "A:k:.",
        "ParallelismChanged",
        "k is in Spark",
        id="row10-keyed state cannot move to other tasks",
    ),
    pytest.param(
        "A*2",
        "A:kl:.",
        "ParallelismChanged",
        "k is in Spark",
        id="row10-keyed state cannot move though its splits could",
    ),
    pytest.param(
        "A*2",
        "A::.",
        "ParallelismChanged",
        "position",
        id="row10-without list state there is nothing to deal out",
    ),
    pytest.param(
        "A*3",
        "A:lu:.F",
        "UnionStatePartlyFinished",
        "operator u",
        id="row9-a record with partly finished union state",
    ),
]


@pytest.mark.parametrize(("declared", "saved", "reason", "text"), REFUSED)
def test_refused(declared: str, saved: str, reason: str, text: str) -> None:
    with pytest.raises(StreamJobError) as e:
        plans(declared, _record(saved))
    assert e.value.reason == reason
    assert text in e.value.message
    assert e.value.remedy


def test_row14_a_drained_checkpoint_is_not_resumed() -> None:
    restore = Restore(latest=_record("A::F B::F"))
    with pytest.raises(recovery.AlreadyDrained):
        recovery.refuse_if_over(restore)
    recovery.refuse_if_over(replace(restore, allow_drained=True))
    recovery.refuse_if_over(Restore(latest=_record("A::F", Scenario.STOP)))


# --- the recorded graph -------------------------------------------------------------------------------------


def read_by(record: CheckpointRecord, edges: str) -> CheckpointRecord:
    """The record with these edges: `B<A C<A,B`."""
    upstream = {r: tuple(w.split(",")) for r, _, w in (edge.partition("<") for edge in edges.split())}
    return replace(record, stages=tuple(replace(s, upstream=upstream.get(s.uid, ())) for s in record.stages))


def test_w2_the_coordinator_is_told_what_has_not_finished_and_who_reads_what() -> None:
    record = read_by(_record("A::. B:l:F.. C::F"), "B<A,gone C<B")
    assert recovery.unfinished_tasks(record) == ("A", "B/1", "B/2")
    assert recovery.recorded_edges(record) == (("A", "B"), ("B", "C"))
    assert (recovery.unfinished_tasks(None), recovery.recorded_edges(None)) == ((), ())


@pytest.mark.parametrize(
    ("saved", "edges", "expected"),
    [
        pytest.param("A::. B::.", "", "A", id="it has no state"),
        pytest.param("A:k:. B::.", "", "", id="it has state"),
        pytest.param("A::. C::F", "A<C", "A", id="behind what has finished"),
        pytest.param("B::. A::.", "A<B", "", id="behind what runs on"),
        pytest.param("A::. C::. B::.", "C<A", "A C", id="behind one of them"),
        pytest.param("B::. A::. C::.", "A<B C<A", "", id="far behind what runs on"),
    ],
)
def test_w2_nothing_more_comes_from_what_is_exhausted_and_what_it_reads(
    saved: str, edges: str, expected: str
) -> None:
    """B runs on; all others had consumed their input."""
    record = read_by(_record(saved), edges)
    stages = [
        s if s.uid == "B" else replace(s, tasks=tuple(replace(t, exhausted=True) for t in s.tasks))
        for s in record.stages
    ]
    assert recovery.spent(stages) == set(expected.split())


def test_a_script_need_not_start_what_has_finished() -> None:
    record = _record("A::. B:k:. C::F D::F")
    a, b, c, d = (replace(s, tasks=tuple(replace(t, exhausted=True) for t in s.tasks)) for s in record.stages)
    owes = replace(d, tasks=(replace(d.tasks[0], transactions=("t",)),))
    assert recovery.left_behind((a, c, d), exact=True) == []
    assert recovery.left_behind((a, b, c, owes), exact=True) == ["B", "D"]
    assert recovery.left_behind((a, c), exact=False) == ["A"], "another run may have read on"


def test_row10_a_task_resumes_in_its_own_directory_with_its_own_state() -> None:
    (stage_plan,) = plans("A*2", _record("A:l:.."))
    assert [t.record.location for t in stage_plan.tasks if t.record] == ["file:/cp/A/0", "file:/cp/A/1"]
    assert [t.state for t in stage_plan.tasks] == [{"l": ("l0", "l0'")}, {"l": ("l1", "l1'")}]


def test_row9_redistribution_by_kind_of_state() -> None:
    (stage_plan,) = plans("A", _record("A:lb:F.."))
    assert stage_plan.tasks[0].state == {"l": ("l1", "l1'", "l2", "l2'"), "b": ("b1", "b1'")}
    (stage_plan,) = plans("A*3", _record("A:lu:.."))
    assert [t.state["l"] for t in stage_plan.tasks] == [("l0", "l0'"), ("l1",), ("l1'",)]
    assert {t.state["u"] for t in stage_plan.tasks} == {("u0", "u0'", "u1", "u1'")}


@given(st.lists(st.booleans(), min_size=1, max_size=5), st.integers(1, 6))
def test_row9_no_entry_is_lost_or_dealt_out_twice(done: list[bool], parallelism: int) -> None:
    if all(done):
        return
    saved = _record("A:l:" + "".join("F" if d else "." for d in done))
    (stage_plan,) = plans(f"A*{parallelism}", saved)
    resumed = [t for t in stage_plan.tasks if t.start is not recovery.Start.FINISHED]
    left = sorted(e for t in saved.stages[0].tasks if not t.finished for e in t.state["l"])
    assert sorted(e for t in resumed for e in t.state["l"]) == left
