"""The checkpoint events: a checkpoint becomes durable, fails to be written, or completes and ends tasks."""

from __future__ import annotations

from ..lifecycle import TaskState
from ..messages.driver_status import TerminationStep
from . import events as ev
from .answers import Answers
from .checkpoints.checkpoint import Checkpoint, Kind
from .effects import AbortTransactions, AnnounceCheckpoint, Effect, NotifyComplete, Terminated, Timer
from .events import CheckpointEvent
from .task import Task


class CheckpointEvents(Answers):
    """Handles the events of checkpoints, see `Coordinator.handle`."""

    _terminated_sent = False

    def _handle_checkpoint(self, event: CheckpointEvent) -> list[Effect]:
        match event:
            case ev.CheckpointDue():
                return self._checkpoints.due()
            case ev.SnapshotTaken(task, number, batch):
                return self._checkpoints.snapshot_taken(task, number, batch)
            case ev.CheckpointDurable(number):
                return self._checkpoint_durable(number)
            case ev.CheckpointFailed(number):
                return self._checkpoints.failed(number)
            case ev.RetryDue():
                self._checkpoints.backing_off = False
                return self._checkpoints.trigger()
            case ev.CheckpointCompleted(number):
                return self._checkpoint_completed(number)
            case ev.TimerFired(timer, number):
                return self._timer_fired(timer, number)

    def _checkpoint_durable(self, number: int) -> list[Effect]:
        c, effects = self._checkpoints.durable(number)
        if c is None:
            return []
        for name, run in c.ended.items():
            if (
                c.kind is Kind.FINAL
                and self.tasks[name] is run
                and run.state is TaskState.WAITING_FOR_FINAL_CP
            ):
                run.step = TerminationStep.COMPLETING
        return [AnnounceCheckpoint(number), *effects, *self._checkpoints.trigger(), *self._terminated()]

    def _checkpoint_completed(self, number: int) -> list[Effect]:
        c = self._checkpoints.completed(number)
        if c is None:
            return []
        effects: list[Effect] = [NotifyComplete(name, number) for name in c.failed]
        for name, run in c.live.items():
            # Also notify a run that has since failed or been replaced: its transactions are in the record.
            now = self.tasks[name]
            if now.state not in (TaskState.CANCELED, TaskState.CLOSED) and not (
                now is run and run.has_final_checkpoint
            ):
                effects += [NotifyComplete(name, number), *self._complete(c, name, run)]
        for name, run in c.ended.items():
            effects += self._complete(c, name, run)
        return effects + self._checkpoints.trigger() + self._terminated()

    def _timer_fired(self, timer: Timer, number: int) -> list[Effect]:
        if timer is Timer.MIN_PAUSE:
            return self._checkpoints.pause_over(number)
        return self._checkpoints.expired(number) + self._terminated()

    # --- rules ----------------------------------------------------------------------------------------------

    def _ends(self, c: Checkpoint, name: str, run: Task) -> bool:
        """Rows 5 and 6: whether the checkpoint ends this run. The run's data had ended when the checkpoint
        was triggered, no other run has replaced it, and the checkpoint counts.
        """
        return c.ended.get(name) is run and self.tasks[name] is run and self._checkpoints.ends_tasks(c)

    def _complete(self, c: Checkpoint, name: str, run: Task) -> list[Effect]:
        if run.has_final_checkpoint or not self._ends(c, name, run):
            return []
        self._job.complete(name)
        later = any(o.number > c.number and name in o.live for o in self._checkpoints.pending.values())
        aborted = [AbortTransactions(name, c.number)] if later else []
        return [*aborted, *self._job.close_if_due(name)]

    def _terminated(self) -> list[Effect]:
        if self._terminated_sent or not self.terminated:
            return []
        self._terminated_sent = True
        return [Terminated()]
