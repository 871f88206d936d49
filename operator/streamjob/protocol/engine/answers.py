"""Queries about a job, allowed at any time. Nothing here changes anything."""

from __future__ import annotations

from ..lifecycle import TaskState
from ..messages.commands import TerminationRequest
from .pending_checkpoints import Flight
from .task import Task
from .termination import Ending


class Answers:
    """Answers questions about the state of a job.

    :param tasks: by id, each in its current run.
    """

    def __init__(self, tasks: dict[str, Task], ending: Ending, flight: Flight) -> None:
        self.tasks = tasks
        self._ending = ending
        self._flight = flight

    @property
    def request(self) -> TerminationRequest | None:
        """The termination request that is pending or completed, None if there is none."""
        return self._flight.request

    @property
    def canceled(self) -> bool:
        return self._flight.canceled

    @property
    def next_checkpoint(self) -> int:
        """The number that the next checkpoint gets."""
        return self._flight.next_number

    @property
    def final_checkpoint(self) -> int | None:
        """The number of the final checkpoint. None until it is triggered, and again if it is aborted."""
        return self._flight.final

    def awaits_commit(self, task: str) -> bool:
        """Whether the task's sink has transactions in a durable checkpoint that has not completed."""
        return self._flight.awaits_commit(task)

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
    def awaits_tasks(self) -> bool:
        """Whether a task of the restored checkpoint, or a declared one, has yet to start."""
        return bool(self._ending.expected)

    @property
    def terminated(self) -> bool:
        """Whether every task is closed and the final checkpoint has completed. No savepoint request may be
        pending.

        If no task has run in this epoch, because the restored checkpoint was final, the end of the script is
        enough.
        """
        if not self.tasks or self._ending.flow.total.unclosed or self._flight.owes_savepoints:
            return False
        if self._ending.fresh:
            return self._flight.ended
        return self._ending.script_ended

    @property
    def terminating(self) -> bool:
        """Whether the job is ending and has not terminated: it is asked to end, or its script has ended and
        all of its tasks are ending. False after a cancel.
        """
        ending = bool(self.tasks) and self._ending.flow.total.begun == len(self.tasks)
        asked = self.request is not None or (ending and self._ending.script_ended)
        return asked and not self.terminated and not self.canceled
