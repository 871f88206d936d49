"""Rows 10 and 14: what starts from a checkpoint, and what is refused before anything does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
from streamjob.protocol.graph import Graph
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.restore import finished, recovery
from tests.protocol.formats.documents import record as some_record

KINDS = {
    "k": OperatorKind.STATE,
    "l": OperatorKind.LIST,
    "u": OperatorKind.UNION,
    "b": OperatorKind.BROADCAST,
}


def graph(text: str) -> Graph:
    """`A B*2<A C<A,B`: stages, parallelism, upstream."""
    g = Graph()
    for word in text.split():
        name, _, upstream = word.partition("<")
        uid, _, parallelism = name.partition("*")
        g.add_stage(uid, int(parallelism or 1), [u for u in upstream.split(",") if u])
    return g


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


def starts(plan: recovery.Plan) -> dict[str, str]:
    return {t.task: t.start.value for s in plan.stages for t in s.tasks}


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
    # A stage that continues, so that the record is not that of a drain.
    plan = recovery.plan(graph(declared), _record(saved + " Z::."), allow_non_restored_state=True)
    assert starts(plan) == dict(p.split("=") for p in expected.split())
    assert {t.task for t in plan.finished} == {p.split("=")[0] for p in expected.split() if "Finished" in p}
    assert set(plan.expected) == {p.split("=")[0] for p in expected.split() if not p.endswith("New")}
    assert [s.started for s in plan.stages] == [
        any(t.start is not recovery.Start.FINISHED for t in s.tasks) for s in plan.stages
    ]


REFUSED = [
    pytest.param(
        "N A<N",
        "A::F B::.",
        {"allow_non_restored_state": True},
        "UnfinishedBeforeFinished",
        "stage 'N' before it is new",
        id="row10-a new stage before a finished one names both",
    ),
    pytest.param(
        "B A<B",
        "A::F B::.",
        {},
        "UnfinishedBeforeFinished",
        "stage 'A' has finished, and stage 'B'",
        id="row10-an unfinished stage that is put before a finished one",
    ),
    pytest.param(
        "B*2 A<B",
        "A::F B::F.",
        {},
        "UnfinishedBeforeFinished",
        "not finished",
        id="row10-a partly finished stage before a finished one",
    ),
    pytest.param(
        "A",
        "A::. B::.",
        {},
        "StateWithoutStage",
        "'B'",
        id="row10-state that no stage of the graph has",
    ),
    pytest.param(
        "A",
        "A::. B::F",
        {},
        "StateWithoutStage",
        "'B'",
        id="row10-a finished stage that is gone is missed too",
    ),
    pytest.param(
        "A*2",
        "A:k:.",
        {},
        "ParallelismChanged",
        "k is in Spark",
        id="row10-keyed state cannot move to other tasks",
    ),
    pytest.param(
        "A*2",
        "A:kl:.",
        {},
        "ParallelismChanged",
        "k is in Spark",
        id="row10-keyed state cannot move though its splits could",
    ),
    pytest.param(
        "A*2",
        "A::.",
        {},
        "ParallelismChanged",
        "position",
        id="row10-without list state there is nothing to deal out",
    ),
    pytest.param(
        "A*3",
        "A:lu:.F",
        {},
        "UnionStatePartlyFinished",
        "operator u",
        id="row9-a record with partly finished union state",
    ),
    pytest.param(
        "A B<A",
        "A::F B::F",
        {},
        "AlreadyDrained",
        "drained",
        id="row14-a drained checkpoint is not resumed",
    ),
    pytest.param(
        "A",
        "A::F B::F",
        {"allow_non_restored_state": True},
        "AlreadyDrained",
        "drained",
        id="row14-leaving stages out does not get around it",
    ),
]


@pytest.mark.parametrize(("declared", "saved", "options", "reason", "text"), REFUSED)
def test_refused(declared: str, saved: str, options: dict[str, Any], reason: str, text: str) -> None:
    with pytest.raises(StreamJobError) as e:
        recovery.plan(graph(declared), _record(saved), **options)
    assert e.value.reason == reason
    assert text in e.value.message
    assert e.value.remedy


def test_row10_state_is_left_behind_only_if_that_is_allowed() -> None:
    plan = recovery.plan(graph("A"), _record("A::. B::."), allow_non_restored_state=True)
    assert starts(plan) == {"A": "Resume"}
    assert plan.dropped == ("B",)


def test_row14_after_a_stop_what_has_finished_stays_so_and_what_is_new_starts() -> None:
    plan = recovery.plan(graph("A B"), _record("A::F", Scenario.STOP))
    assert starts(plan) == {"A": "Finished", "B": "New"}


def test_row14_a_drained_checkpoint_resumes_as_a_whole_if_that_is_allowed() -> None:
    plan = recovery.plan(graph("A B<A"), _record("A::F B::F"), allow_drained=True)
    assert starts(plan) == {"A": "Resume", "B": "Resume"}
    assert plan.finished == ()


def test_row14_allow_drained_does_not_start_a_finished_stage_of_a_job_that_goes_on() -> None:
    plan = recovery.plan(graph("A B<A"), _record("A::F B::."), allow_drained=True)
    assert starts(plan) == {"A": "Finished", "B": "Resume"}


def test_row10_a_task_resumes_in_its_own_directory_with_its_own_state() -> None:
    plan = recovery.plan(graph("A*2"), _record("A:l:.."))
    (stage_plan,) = plan.stages
    assert [t.record.location for t in stage_plan.tasks if t.record] == ["file:/cp/A/0", "file:/cp/A/1"]
    assert [t.state for t in stage_plan.tasks] == [{"l": ("l0", "l0'")}, {"l": ("l1", "l1'")}]


def test_row9_redistribution_by_kind_of_state() -> None:
    (stage_plan,) = recovery.plan(graph("A"), _record("A:lb:F..")).stages
    assert stage_plan.tasks[0].state == {"l": ("l1", "l1'", "l2", "l2'"), "b": ("b1", "b1'")}
    (stage_plan,) = recovery.plan(graph("A*3"), _record("A:lu:..")).stages
    assert [t.state["l"] for t in stage_plan.tasks] == [("l0", "l0'"), ("l1",), ("l1'",)]
    assert {t.state["u"] for t in stage_plan.tasks} == {("u0", "u0'", "u1", "u1'")}


@given(st.lists(st.booleans(), min_size=1, max_size=5), st.integers(1, 6))
def test_row9_no_entry_is_lost_or_dealt_out_twice(done: list[bool], parallelism: int) -> None:
    if all(done):
        return
    saved = _record("A:l:" + "".join("F" if d else "." for d in done))
    (stage_plan,) = recovery.plan(graph(f"A*{parallelism}"), saved).stages
    resumed = [t for t in stage_plan.tasks if t.start is not recovery.Start.FINISHED]
    left = sorted(e for t in saved.stages[0].tasks if not t.finished for e in t.state["l"])
    assert sorted(e for t in resumed for e in t.state["l"]) == left
