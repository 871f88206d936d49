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
    unclosed: int = 0  # has not sent EndOfPartition; a run that failed never will
    stopped: int = 0  # its run has ended and its operators have not: the script may start it again
    draining: int = 0  # will end, or has ended, with EndOfData[isDrain = true]
    finished: int = 0  # its operators' finish() has returned
    uncovered: int = 0  # ended, and no checkpoint that was triggered after that has completed
    begun: int = 0  # its end has begun
    ending: int = 0  # its end has begun and is not over
    flushing: int = 0  # the same, and its max watermark fires: no snapshot can be taken
    behind_paused: int = 0  # flushed by a drain, behind a stage that the script had stopped

    def plus(self, other: Tally, sign: int = 1) -> Tally:
        return Tally(*(a + sign * b for a, b in zip(self, other, strict=True)))


NOTHING = Tally()
EXPECTED = Tally(expected=1, open=1)

_ENDED = (TaskState.WAITING_FOR_FINAL_CP, TaskState.FINISHED, TaskState.CLOSED)


@dataclass
class Task:
    """One run of one query: a query that the script starts again is another run, and takes the place of this one.

    :param step: None until its end begins.
    :param own_sources: it reads something that no stage of the job writes.
    :param own_ended: what it reads of its own has ended, as the script has declared or its trigger says.
    :param rest: what its own sources hold has still to be processed.
    :param exhausted: its run ended because its trigger (availableNow, once) had taken all there was. The script may start it
        again; if it does not, that was the end of its input.
    :param drained_before: an earlier epoch has fired its max watermark, which cannot be taken back.
    :param restored: the restored checkpoint says that it has finished.
    :param behind_paused: a drain flushed it behind a stage that the script had stopped. Only the final checkpoint flags it as
        finished: of any other one an epoch could begin in which that stage goes on.
    :param flagged: a checkpoint flags it as finished, and so do all that follow (V6).
    :param awaits_flush: it is exhausted, no other run of it follows, and it is flushed when everything upstream has ended.
    :param catching_up: its end has begun with `CatchUp`, and it has not reached the boundary.
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
    own_sources: bool = True
    own_ended: bool = False
    rest: bool = False
    exhausted: bool = False
    drained_before: bool = False
    restored: bool = False
    behind_paused: bool = False
    flagged: bool = False
    awaits_flush: bool = False
    catching_up: bool = False

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
    def stands(self) -> bool:
        """Its `batch` is its last: it has ended, or its run failed behind finish()."""
        return self.ended or (self.state is TaskState.FAILED and self.operators_finished)

    @property
    def can_start_again(self) -> bool:
        """Its run failed, or ended with its operators unfinished. What has finished stays finished (V6)."""
        return self.state is not TaskState.RUNNING and not self.operators_finished

    @property
    def can_fail(self) -> bool:
        """Something of it is in no checkpoint that its end waits for."""
        return self.state in (TaskState.RUNNING, TaskState.WAITING_FOR_FINAL_CP)

    @property
    def paused(self) -> bool:
        """Its run has ended and its operators have not: they go on in another run, or in another epoch."""
        return self.ended and not self.operators_finished

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
            open=self.state is TaskState.RUNNING or failed or self.awaits_flush,
            unclosed=self.state in (TaskState.RUNNING, TaskState.WAITING_FOR_FINAL_CP, TaskState.FINISHED),
            stopped=self.ended and not drains,
            draining=drains and not failed,
            finished=self.operators_finished and not failed,
            uncovered=self.ended and not self.covered,
            begun=self.step is not None,
            ending=self.state is TaskState.RUNNING and self.step is not None,
            flushing=self.runs_at(Step.MAX_WATERMARK),
            behind_paused=self.behind_paused and drains and not failed,
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
        restored=True,
        flagged=True,
    )
