"""Queries about a job, allowed at any time. Nothing here changes anything."""

from __future__ import annotations

from ..lifecycle import TaskState
from ..messages.commands import Mode, TerminationRequest
from .checkpoints.trigger import CheckpointTrigger
from .task import Task
from .termination import TaskTermination


class Answers:
    """Answers questions about the state of a job.

    :param tasks: by id, each in its current run.
    """

    def __init__(self, tasks: dict[str, Task], job: TaskTermination, checkpoints: CheckpointTrigger) -> None:
        self.tasks = tasks
        self._job = job
        self._checkpoints = checkpoints

    @property
    def request(self) -> TerminationRequest | None:
        """The termination request that is pending or completed, None if there is none."""
        return self._checkpoints.termination

    @property
    def stops(self) -> bool:
        """Whether a stop of the job is in progress or done."""
        return self.request is not None and self.request.mode is Mode.STOP

    @property
    def canceled(self) -> bool:
        return self._checkpoints.canceled

    @property
    def next_checkpoint(self) -> int:
        """The number that the next checkpoint gets."""
        return self._checkpoints.next_number

    @property
    def final_checkpoint(self) -> int | None:
        """The number of the final checkpoint. None until it is triggered, and again if it is aborted."""
        return self._checkpoints.final

    def is_pending(self, checkpoint: int) -> bool:
        """Whether the checkpoint has been triggered, and neither completed nor aborted."""
        return checkpoint in self._checkpoints.pending

    def awaits_commit(self, task: str) -> bool:
        """Whether the task's sink has transactions in a durable checkpoint that has not completed."""
        return self._checkpoints.awaits_commit(task)

    def has_finished(self, task: str) -> bool:
        """Whether the task's operators have finished: another run of it would have nothing to do."""
        return task in self.tasks and self.tasks[task].operators_finished

    def is_ending(self, task: str) -> bool:
        """Whether the task's last run is being ended, or was for good: another run of it changes nothing."""
        return task in self.tasks and not self.tasks[task].can_start_again

    @property
    def may_flush(self) -> bool:
        """Whether a query may still have to be flushed: the job is asked to end, or a task has exhausted its
        input and has no other run yet.
        """
        if self.canceled or self.terminated:
            return False
        return self.request is not None or any(t.paused and t.exhausted for t in self.tasks.values())

    @property
    def failed(self) -> list[str]:
        """Tasks whose last run failed."""
        return [name for name, task in self.tasks.items() if task.state is TaskState.FAILED]

    @property
    def script_ended(self) -> bool:
        """Whether the main thread and the other threads of the script have ended; its callbacks may go on."""
        return self._job.script_ended

    @property
    def has_tasks(self) -> bool:
        """Whether a query has started or was restored as finished, or a stop waits for none."""
        return self._job.has_tasks

    @property
    def awaits_tasks(self) -> bool:
        """Whether a task of the restored checkpoint, or a declared one, has yet to start."""
        return bool(self._job.expected)

    @property
    def terminated(self) -> bool:
        """Whether every task is closed and the final checkpoint has completed. No savepoint request may be
        pending.

        If the restored checkpoint was the end of the job and no task has run since, the end of the script is
        enough.
        """
        total = self._job.counters.total
        if not self.has_tasks or total.unclosed or self._checkpoints.has_pending_savepoints:
            return False
        if self._job.fresh:
            return self._checkpoints.ended
        return self._job.script_ended

    @property
    def terminating(self) -> bool:
        """Whether the job is ending and has not terminated: it is asked to end, or its script has ended and
        all of its tasks are ending. False after a cancel.
        """
        ending = bool(self.tasks) and self._job.counters.total.begun == len(self.tasks)
        asked = self.request is not None or (ending and self._job.script_ended)
        return asked and not self.terminated and not self.canceled
