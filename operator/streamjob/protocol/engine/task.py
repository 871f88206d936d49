"""One task as the engine sees it: its state in the life cycle, and what follows from that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..lifecycle import OperatorState, Scenario, TaskState
from ..messages.driver_status import Step


class Tally(NamedTuple):
    """The contribution of one task to the counters of its stage and of the job. Sums of tallies answer in one
    step what would otherwise need a walk over all tasks.
    """

    running: int = 0
    failed: int = 0
    expected: int = 0  # restored, declared or named as upstream, but not started yet
    open: int = 0  # has not sent EndOfData: more may come from it
    unclosed: int = 0  # has not sent EndOfPartition; without failed runs, which never will
    stopped: int = 0  # its run has ended and its operators have not finished: the script may start it again
    draining: int = 0  # will end, or has ended, with EndOfData[isDrain = true]
    finished: int = 0  # its operators' finish() has returned
    uncovered: int = 0  # ended, and no checkpoint triggered after that has completed
    begun: int = 0  # its termination has begun
    ending: int = 0  # its termination has begun and is not over
    flushing: int = 0  # the same, and its max watermark fires: it can take no snapshot
    behind_paused: int = 0  # flushed by a drain, downstream of a stage that the script had stopped

    def plus(self, other: Tally, sign: int = 1) -> Tally:
        return Tally(*(a + sign * b for a, b in zip(self, other, strict=True)))


NOTHING = Tally()
EXPECTED = Tally(expected=1, open=1)

_ENDED = (TaskState.WAITING_FOR_FINAL_CP, TaskState.FINISHED, TaskState.CLOSED)


@dataclass
class Task:
    """One run of one query. If the script starts the query again, that is another run, and it replaces this
    one.

    :param step: None until its termination begins.
    :param own_sources: it reads something that no stage of the job writes.
    :param own_ended: its own sources have ended, as the script declared or as its trigger implies.
    :param rest: what its own sources hold has yet to be processed.
    :param exhausted: its run ended because its trigger (availableNow, once) had consumed all there was. The
        script may start it again; if it does not, that was the end of its input.
    :param consumed: the same, and it stays true when the task can no longer be flushed.
    :param drained_before: an earlier epoch has fired its max watermark, which cannot be undone.
    :param restored: the restored checkpoint says that it has finished.
    :param behind_paused: a drain flushed it downstream of a stage that the script had stopped. Only the final
        checkpoint flags it as finished: from any other checkpoint an epoch could begin in which that stage
        continues.
    :param flagged: a checkpoint flags it as finished, and so do all that follow (V6).
    :param awaits_flush: it is exhausted, no other run of it follows, and it is flushed when everything
        upstream has ended.
    :param catching_up: its termination has begun with `CatchUp`, and it has not reached the boundary.
    :param finishing: the max watermark has fired, and finish() is requested.
    :param commits: its sink has something to commit when a checkpoint completes.
    :param covered: it has its final checkpoint: one that was triggered after its end has completed.
    :param closing: close() is requested.
    :param last_transaction: the number of the first checkpoint that was triggered after its end. What its
        sink still holds is pre-committed for that number, so that whichever later checkpoint completes first
        commits it.
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
    consumed: bool = False
    drained_before: bool = False
    restored: bool = False
    behind_paused: bool = False
    flagged: bool = False
    awaits_flush: bool = False
    catching_up: bool = False

    @property
    def ended(self) -> bool:
        """Whether it has sent EndOfData: its `batch` is its last."""
        return self.state in _ENDED

    @property
    def operators_finished(self) -> bool:
        """Whether finish() has returned. Also true of a closed task, because the flag is never reset (V6)."""
        ended = self.operator is not OperatorState.RUNNING
        return ended and self.scenario is not None and self.scenario.is_drain

    @property
    def stands(self) -> bool:
        """Whether its `batch` is its last: it has ended, or its run failed after finish()."""
        return self.ended or (self.state is TaskState.FAILED and self.operators_finished)

    @property
    def can_start_again(self) -> bool:
        """Whether its run failed, or ended with unfinished operators. Finished ones stay finished (V6)."""
        return self.state is not TaskState.RUNNING and not self.operators_finished

    @property
    def can_fail(self) -> bool:
        """Whether it still has something that is in no checkpoint that its end waits for."""
        return self.state in (TaskState.RUNNING, TaskState.WAITING_FOR_FINAL_CP)

    @property
    def paused(self) -> bool:
        """Whether its run has ended with unfinished operators: they continue in another run or epoch."""
        return self.ended and not self.operators_finished

    @property
    def can_snapshot(self) -> bool:
        """Whether it can take a snapshot. From the max watermark to the end of finish() there is no state to
        resume from.
        """
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
    """A task that the restored checkpoint flags as finished: never started, counts as ended and closed."""
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
