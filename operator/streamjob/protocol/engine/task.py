"""One task as the engine sees it: its state in the life cycle, and what follows from that."""

from __future__ import annotations

from dataclasses import dataclass

from ..lifecycle import OperatorState, Scenario, TaskState
from ..messages.driver_status import TerminationStep
from .counters import Counters

_ENDED = (TaskState.WAITING_FOR_FINAL_CP, TaskState.FINISHED, TaskState.CLOSED)


@dataclass
class Task:
    """One run of one query. If the script starts the query again, that is another run, and it replaces this
    one.

    :param step: None until its termination begins.
    :param own_sources: it reads something that no stage of the job writes.
    :param own_ended: its own sources have ended, as the script declared or as its trigger implies.
    :param rest: what its own sources hold has yet to be processed.
    :param exhausted: its run ended because its trigger (availableNow, once) had consumed all there was, or a
        drain has ended it in front of a stage that the script has yet to start. The script may start it
        again; if it does not, that was the end of its input.
    :param consumed: that run is known to have left nothing. It stays true when the task can no longer be
        flushed.
    :param leaves_rest: it was to be flushed, and was stopped because its sources may hold more, or those of
        a task upstream.
    :param emits: its end may bring out rows of earlier epochs: it has state, or a batch to run again.
    :param drained_before: an earlier epoch has fired its max watermark, or that of a task that reads from it.
        That cannot be undone.
    :param restored: the restored checkpoint says that it has finished.
    :param flagged: a checkpoint flags it as finished, and so do all that follow (V6).
    :param awaits_flush: it is exhausted, no other run of it follows, and it is flushed when everything
        upstream has ended.
    :param held: a drain waits for the script, which has yet to start something upstream of it.
    :param catching_up: its termination has begun with `CatchUp`, and it has not reached the boundary.
    :param finishing: the max watermark has fired, and finish() is requested.
    :param commits: its sink has something to commit when a checkpoint completes.
    :param has_final_checkpoint: it has its final checkpoint: one that was triggered after its end has
        completed.
    :param closing: close() is requested.
    :param last_transaction: the number of the first checkpoint that was triggered after its end, or after its
        run had failed. What its sink still holds is pre-committed for that number, so that whichever later
        checkpoint completes first commits it.
    """

    state: TaskState = TaskState.RUNNING
    operator: OperatorState = OperatorState.RUNNING
    step: TerminationStep | None = None
    scenario: Scenario | None = None
    batch: int | None = None
    finishing: bool = False
    commits: bool = True
    has_final_checkpoint: bool = False
    closing: bool = False
    last_transaction: int | None = None
    own_sources: bool = True
    own_ended: bool = False
    rest: bool = False
    exhausted: bool = False
    consumed: bool = False
    leaves_rest: bool = False
    drained_before: bool = False
    emits: bool = True
    restored: bool = False
    flagged: bool = False
    awaits_flush: bool = False
    held: bool = False
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
    def drains(self) -> bool:
        """Whether it is being flushed, or was: it reads nothing more.

        A failure takes back what was not over.
        """
        drains = self.scenario is not None and self.scenario.is_drain
        over = self.state is not TaskState.FAILED or self.operators_finished
        return self.drained_before or (drains and over)

    @property
    def at_its_end(self) -> bool:
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
    def reads_elsewhere(self) -> bool:
        """Whether it reads on when all that it reads of the job has ended."""
        return self.own_sources and not self.own_ended

    @property
    def can_snapshot(self) -> bool:
        """Whether it can take a snapshot. From the max watermark to the end of finish() there is no state to
        resume from.
        """
        return self.state is TaskState.RUNNING and self.step is not TerminationStep.MAX_WATERMARK

    def runs_at(self, step: TerminationStep) -> bool:
        return self.state is TaskState.RUNNING and self.step is step

    def counters(self) -> Counters:
        failed, drains = self.state is TaskState.FAILED, self.scenario is not None and self.scenario.is_drain
        return Counters(
            running=self.state is TaskState.RUNNING,
            failed=failed,
            open=self.state is TaskState.RUNNING or failed or self.awaits_flush,
            unclosed=self.state in (TaskState.RUNNING, TaskState.WAITING_FOR_FINAL_CP, TaskState.FINISHED),
            stopped=self.ended and not drains,
            draining=self.drains,
            begun=self.step is not None,
            ending=self.state is TaskState.RUNNING and self.step is not None,
            flushing=self.runs_at(TerminationStep.MAX_WATERMARK),
        )


def restored_finished(batch: int | None = None) -> Task:
    """A task that the restored checkpoint flags as finished: never started, counts as ended and closed."""
    return Task(
        TaskState.CLOSED,
        OperatorState.CLOSED,
        TerminationStep.CLOSED,
        Scenario.END_OF_INPUT,
        batch,
        finishing=True,
        has_final_checkpoint=True,
        closing=True,
        restored=True,
        flagged=True,
    )
