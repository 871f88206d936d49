"""The life cycle of tasks and operators (FLIP-147, "the detailed life cycle"), as tables.

A state changes only through these tables. A pair that is not listed is an error that names the state and the
event. The exception is `TaskTermination.take_place_again`: a run that has failed behind its `finish()` takes
the place of the one that had finished. The diagram in docs/concepts.md is generated from here
(`python -m streamjob.protocol.lifecycle`).

A *task* runs one query. It is RUNNING until its data has ended: the sources ran out, the job is drained, or
it is stopped. It then waits for a checkpoint that was triggered after that. When that checkpoint has
completed, the task is FINISHED. When everything downstream has taken all that the task sent, it is CLOSED.

An *operator* is FINISHED only when its `finish()` ran, so never by a plain stop: the job will resume, and its
operators continue. This is the only difference between the scenarios.
"""

from __future__ import annotations

from enum import Enum

from .errors import IllegalTransition


class Scenario(str, Enum):
    """Why the data of a task ended."""

    END_OF_INPUT = "EndOfInput"  # all sources ran out
    DRAIN = "Drain"  # stop with savepoint --drain
    STOP = "Stop"  # stop with savepoint

    @property
    def is_drain(self) -> bool:
        """The flag of `EndOfData[isDrain]`: true also when the sources ran out."""
        return self is not Scenario.STOP


class TaskState(str, Enum):
    RUNNING = "Running"
    WAITING_FOR_FINAL_CP = "WaitingForFinalCheckpoint"
    FINISHED = "Finished"
    CLOSED = "Closed"
    FAILED = "Failed"
    CANCELED = "Canceled"


class OperatorState(str, Enum):
    RUNNING = "Running"
    FINISHED = "Finished"
    CLOSED = "Closed"


class LifecycleEvent(str, Enum):
    """The events of a task or an operator."""

    END_OF_DATA = "end of data"  # endInput() and finish() ran if isDrain; EndOfData[isDrain] went downstream
    FINAL_CHECKPOINT = "final checkpoint completed"  # one that was triggered after END_OF_DATA
    NOTHING_TO_COMMIT = "nothing to commit"  # skips the wait (FLIP-147, "skip waiting … if possible")
    CLOSE = "close"  # close() ran, EndOfPartition went downstream
    FAIL = "fail"
    CANCEL = "cancel"


TASK: dict[TaskState, dict[LifecycleEvent, TaskState]] = {
    TaskState.RUNNING: {
        LifecycleEvent.END_OF_DATA: TaskState.WAITING_FOR_FINAL_CP,
        LifecycleEvent.FAIL: TaskState.FAILED,
        LifecycleEvent.CANCEL: TaskState.CANCELED,
    },
    TaskState.WAITING_FOR_FINAL_CP: {
        LifecycleEvent.FINAL_CHECKPOINT: TaskState.FINISHED,
        LifecycleEvent.NOTHING_TO_COMMIT: TaskState.FINISHED,
        LifecycleEvent.FAIL: TaskState.FAILED,
        LifecycleEvent.CANCEL: TaskState.CANCELED,
    },
    # Everything is durable here: a failure comes after the end and undoes nothing.
    TaskState.FINISHED: {LifecycleEvent.CLOSE: TaskState.CLOSED, LifecycleEvent.CANCEL: TaskState.CLOSED},
    TaskState.CLOSED: {},
    TaskState.FAILED: {},
    TaskState.CANCELED: {},
}

_OPERATOR_DRAINED: dict[OperatorState, dict[LifecycleEvent, OperatorState]] = {
    OperatorState.RUNNING: {LifecycleEvent.END_OF_DATA: OperatorState.FINISHED},
    OperatorState.FINISHED: {LifecycleEvent.CLOSE: OperatorState.CLOSED},
    OperatorState.CLOSED: {},
}
_OPERATOR_STOPPED: dict[OperatorState, dict[LifecycleEvent, OperatorState]] = {
    OperatorState.RUNNING: {
        LifecycleEvent.END_OF_DATA: OperatorState.RUNNING,
        LifecycleEvent.CLOSE: OperatorState.CLOSED,
    },
    OperatorState.FINISHED: {LifecycleEvent.CLOSE: OperatorState.CLOSED},
    OperatorState.CLOSED: {},
}
OPERATOR: dict[Scenario, dict[OperatorState, dict[LifecycleEvent, OperatorState]]] = {
    Scenario.END_OF_INPUT: _OPERATOR_DRAINED,
    Scenario.DRAIN: _OPERATOR_DRAINED,
    Scenario.STOP: _OPERATOR_STOPPED,
}


def next_task_state(state: TaskState, event: LifecycleEvent) -> TaskState:
    """The state of a task after the event.

    :raises IllegalTransition: the table does not list the pair.
    """
    try:
        return TASK[state][event]
    except KeyError:
        raise IllegalTransition(f"a task that is {state.value} cannot take '{event.value}'") from None


def next_operator_state(scenario: Scenario, state: OperatorState, event: LifecycleEvent) -> OperatorState:
    """The state of an operator after the event.

    :raises IllegalTransition: the table does not list the pair.
    """
    try:
        return OPERATOR[scenario][state][event]
    except KeyError:
        raise IllegalTransition(
            f"an operator that is {state.value} cannot take '{event.value}' in scenario {scenario.value}"
        ) from None


def mermaid() -> str:
    """The task table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> Running"]
    for state, row in TASK.items():
        lines += [f"    {state.value} --> {target.value}: {event.value}" for event, target in row.items()]
        if not row:
            lines.append(f"    {state.value} --> [*]")
    return "\n".join(lines)


if __name__ == "__main__":
    print(mermaid())
