"""The tables: what they list happens, what they do not list is an error that names both sides."""

from __future__ import annotations

import itertools

import pytest

from streamjob.protocol import lifecycle
from streamjob.protocol.errors import IllegalTransition
from streamjob.protocol.lifecycle import LifecycleEvent, OperatorState, Scenario, TaskState

RUNNING, WAITING, FINISHED, CLOSED = (
    TaskState.RUNNING,
    TaskState.WAITING_FOR_FINAL_CP,
    TaskState.FINISHED,
    TaskState.CLOSED,
)
# Written down a second time on purpose: FLIP-147's own words, not a copy of the table.
TASKS = {
    (RUNNING, LifecycleEvent.END_OF_DATA): WAITING,
    (RUNNING, LifecycleEvent.FAIL): TaskState.FAILED,
    (RUNNING, LifecycleEvent.CANCEL): TaskState.CANCELED,
    (WAITING, LifecycleEvent.FINAL_CHECKPOINT): FINISHED,
    (WAITING, LifecycleEvent.NOTHING_TO_COMMIT): FINISHED,
    (WAITING, LifecycleEvent.FAIL): TaskState.FAILED,
    (WAITING, LifecycleEvent.CANCEL): TaskState.CANCELED,
    (FINISHED, LifecycleEvent.CLOSE): CLOSED,
    (FINISHED, LifecycleEvent.CANCEL): CLOSED,
}
DRAINED = {
    (OperatorState.RUNNING, LifecycleEvent.END_OF_DATA): OperatorState.FINISHED,
    (OperatorState.FINISHED, LifecycleEvent.CLOSE): OperatorState.CLOSED,
}
STOPPED = {
    (OperatorState.RUNNING, LifecycleEvent.END_OF_DATA): OperatorState.RUNNING,
    (OperatorState.RUNNING, LifecycleEvent.CLOSE): OperatorState.CLOSED,
    (OperatorState.FINISHED, LifecycleEvent.CLOSE): OperatorState.CLOSED,
}
OPERATORS = {Scenario.DRAIN: DRAINED, Scenario.END_OF_INPUT: DRAINED, Scenario.STOP: STOPPED}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(TaskState, LifecycleEvent)))
def test_task(state: TaskState, event: LifecycleEvent) -> None:
    if (state, event) in TASKS:
        assert lifecycle.next_task_state(state, event) is TASKS[state, event]
        return
    with pytest.raises(IllegalTransition) as e:
        lifecycle.next_task_state(state, event)
    assert state.value in str(e.value)
    assert event.value in str(e.value)


EVERY = list(itertools.product(Scenario, OperatorState, LifecycleEvent))


@pytest.mark.parametrize(("scenario", "state", "event"), EVERY)
def test_operator(scenario: Scenario, state: OperatorState, event: LifecycleEvent) -> None:
    listed = OPERATORS[scenario]
    if (state, event) in listed:
        assert lifecycle.next_operator_state(scenario, state, event) is listed[state, event]
        return
    with pytest.raises(IllegalTransition) as e:
        lifecycle.next_operator_state(scenario, state, event)
    assert all(word in str(e.value) for word in (scenario.value, state.value, event.value))


@pytest.mark.parametrize("scenario", Scenario)
def test_operators_finish_only_when_the_data_is_drained(scenario: Scenario) -> None:
    table = lifecycle.OPERATOR[scenario]
    finishing = {s for s, row in table.items() for target in row.values() if target is OperatorState.FINISHED}
    assert finishing == ({OperatorState.RUNNING} if scenario.is_drain else set())


def test_no_row_is_missing_and_ends_are_ends() -> None:
    assert set(lifecycle.TASK) == set(TaskState)
    assert {s for s, row in lifecycle.TASK.items() if not row} == {
        CLOSED,
        TaskState.FAILED,
        TaskState.CANCELED,
    }
    for scenario in Scenario:
        assert set(lifecycle.OPERATOR[scenario]) == set(OperatorState)


def test_nothing_is_finished_without_waiting() -> None:
    into = {s for s, row in lifecycle.TASK.items() for target in row.values() if target is FINISHED}
    assert into == {WAITING}


def test_is_drain() -> None:
    assert [s for s in Scenario if s.is_drain] == [Scenario.END_OF_INPUT, Scenario.DRAIN]


def test_mermaid_lists_every_transition_and_no_other() -> None:
    lines = lifecycle.mermaid().splitlines()
    assert lines[:2] == ["stateDiagram-v2", "    [*] --> Running"]
    arrows = {f"    {s.value} --> {t.value}: {e.value}" for (s, e), t in TASKS.items()}
    ends = {f"    {s.value} --> [*]" for s in (CLOSED, TaskState.FAILED, TaskState.CANCELED)}
    assert sorted(lines[2:]) == sorted(arrows | ends)
