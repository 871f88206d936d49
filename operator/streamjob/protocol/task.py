"""One task while the engine has it: where it is in the life cycle, and what follows from that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .lifecycle import OperatorState, Scenario, TaskState
from .messages import Step


class Tally(NamedTuple):
    """What one task adds to the counts of its stage and of the job. Sums of it answer in one step what a walk over all
    tasks would."""

    running: int = 0
    failed: int = 0
    expected: int = 0  # in the restored checkpoint, not started yet
    open: int = 0  # has not sent EndOfData: more may come from it
    unclosed: int = 0  # has not sent EndOfPartition
    stopped: int = 0  # sent EndOfData[isDrain = false]
    draining: int = 0  # will end, or has ended, with EndOfData[isDrain = true]
    finished: int = 0  # its operators' finish() has returned
    uncovered: int = 0  # ended, and no checkpoint that was triggered after that has completed
    begun: int = 0  # its end has begun

    def plus(self, other: Tally, sign: int = 1) -> Tally:
        return Tally(*(a + sign * b for a, b in zip(self, other, strict=True)))


NOTHING = Tally()
EXPECTED = Tally(expected=1, open=1, unclosed=1)

_ENDED = (TaskState.WAITING_FOR_FINAL_CP, TaskState.FINISHED, TaskState.CLOSED)


@dataclass
class Task:
    """One query.

    :param step: None until its end begins.
    :param finishing: the max watermark fired, finish() is asked for.
    :param commits: its sink has something to commit when a checkpoint completes.
    :param covered: a checkpoint that was triggered after its end has completed.
    :param closing: close() is asked for.
    :param last_transaction: the number of the first checkpoint that was triggered after its end. What its sink has
        left is pre-committed for that one, so that whichever later one completes first commits it.
    """

    state: TaskState = TaskState.RUNNING
    operator: OperatorState = OperatorState.RUNNING
    step: Step | None = None
    scenario: Scenario | None = None
    batch: int | None = None
    finishing: bool = False
    commits: bool = True
    covered: bool = False
    closing: bool = False
    last_transaction: int | None = None

    @property
    def ended(self) -> bool:
        """It has sent EndOfData: its `batch` is its last."""
        return self.state in _ENDED

    @property
    def operators_finished(self) -> bool:
        """finish() has returned: also true of a closed task, for the flag never goes back (V6)."""
        ended = self.operator is not OperatorState.RUNNING
        return ended and self.scenario is not None and self.scenario.is_drain

    @property
    def can_start_again(self) -> bool:
        """It failed, or was stopped with its operators unfinished. What has finished stays finished."""
        if self.state is TaskState.FAILED:
            return True
        return self.state is not TaskState.RUNNING and not self.operators_finished

    @property
    def can_snapshot(self) -> bool:
        """From the max watermark to the end of finish() there is no state that one could go on from."""
        return self.state is TaskState.RUNNING and self.step is not Step.MAX_WATERMARK

    def runs_at(self, step: Step) -> bool:
        return self.state is TaskState.RUNNING and self.step is step

    def tally(self) -> Tally:
        failed, drains = self.state is TaskState.FAILED, self.scenario is not None and self.scenario.is_drain
        return Tally(
            running=self.state is TaskState.RUNNING,
            failed=failed,
            open=self.state is TaskState.RUNNING or failed,
            unclosed=self.state is not TaskState.CLOSED,
            stopped=self.ended and not drains,
            draining=drains and not failed,
            finished=self.operators_finished and not failed,
            uncovered=self.ended and not self.covered,
            begun=self.step is not None,
        )


def restored_finished(batch: int | None = None) -> Task:
    """A task that the restored checkpoint says has finished: it is never started, and counts as ended and closed."""
    return Task(
        TaskState.CLOSED,
        OperatorState.CLOSED,
        Step.CLOSED,
        Scenario.END_OF_INPUT,
        batch,
        finishing=True,
        covered=True,
        closing=True,
    )
