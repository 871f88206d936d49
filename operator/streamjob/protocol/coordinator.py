"""The engine: it decides what a driver does next. Events in, effects out; no I/O, no clock, no threads.

The finishing protocol (FLIP-147) for the tasks of one job. What it guarantees, whatever order events come in:

- A task ends only by a completed checkpoint that was triggered after its data ended (row 5 of docs/design.md).
- That final checkpoint is triggered when the data of every task has ended, so it is one and the same for all (V3).
- A stop or drain waits for exactly its own checkpoint; another one that completes meanwhile does not end it (row 6).
- The max watermark comes only when draining or at the end of the input, never on a stop (row 2).
- A checkpoint completes when the index has it, not when it was written; only then are tasks closed (V2).
- The same request again changes nothing; another request while one is under way is refused (V8).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .effects import (
    AnnounceCheckpoint,
    Close,
    Effect,
    Finish,
    FireMaxWatermark,
    NotifyComplete,
    RetryLater,
    StopAtBoundary,
    StoreCheckpoint,
    Terminated,
)
from .errors import StreamJobError
from .lifecycle import Event, OperatorState, Scenario, TaskState, next_operator_state, next_task_state
from .messages import Mode, Step, TerminationRequest

SCENARIO = {Mode.STOP: Scenario.STOP, Mode.DRAIN: Scenario.DRAIN}


class TerminationConflict(StreamJobError):
    """Another termination is under way."""

    reason = "TerminationInProgress"


@dataclass
class Task:
    """One query. `step` is None until its end begins; `finishing`: the max watermark fired, finish() is asked for."""

    state: TaskState = TaskState.RUNNING
    operator: OperatorState = OperatorState.RUNNING
    step: Step | None = None
    scenario: Scenario | None = None
    batch: int | None = None
    finishing: bool = False

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


@dataclass
class Checkpoint:
    """The final checkpoint while it is under way."""

    number: int
    durable: bool = False


@dataclass
class Coordinator:
    """All tasks of a job, by id.

    Each method is an event; it returns the effects to carry out, in order. Effects may be carried out late, twice or
    never (the driver dies): an event that has been taken already returns no effect again.
    """

    next_checkpoint: int = 1
    tasks: dict[str, Task] = field(default_factory=dict)
    request: TerminationRequest | None = None
    pending: Checkpoint | None = None
    final_checkpoint: int | None = None

    # --- events ---------------------------------------------------------------------------------------------

    def task_started(self, task: str) -> list[Effect]:
        """A query runs. One that starts while a termination is under way ends at its first boundary.

        A final checkpoint under way was triggered before the end of this task, so it is given up.
        """
        known = self.tasks.get(task)
        if known is not None and not known.can_start_again:
            return []
        self.tasks[task] = Task()
        self._give_up_checkpoint()
        return self._end(task, SCENARIO[self.request.mode]) if self.request else []

    def termination_requested(self, request: TerminationRequest) -> list[Effect]:
        """Tasks that are ending already go on the way they began; their checkpoint becomes that of the request.

        :raises TerminationConflict: another one is under way or done.
        """
        if self.request is not None:
            if self.request.request_id == request.request_id:
                return []
            raise TerminationConflict(
                f"termination {self.request.request_id} ({self.request.mode.value}) is under way",
                remedy="Wait for it, or cancel the job",
            )
        self.request = request
        self._give_up_checkpoint()
        effects: list[Effect] = []
        for name in self.tasks:
            effects += self._end(name, SCENARIO[request.mode])
        return effects + self._trigger_if_all_ended()

    def input_ended(self, task: str) -> list[Effect]:
        """All sources of the task ran out: the query stands at a boundary."""
        return self._end(task, Scenario.END_OF_INPUT)

    def script_stopped(self, task: str) -> list[Effect]:
        """The script called query.stop() or spark.stop(). It may start the query again, so nothing is flushed."""
        return self._end(task, Scenario.STOP)

    def boundary_reached(self, task: str, batch: int | None) -> list[Effect]:
        """The query has ended with offsets.latest == commits.latest == `batch`."""
        t = self.tasks[task]
        if not _runs_at(t, Step.BOUNDARY):
            return []
        assert t.scenario is not None
        t.batch = batch
        if t.scenario.is_drain:
            t.step = Step.MAX_WATERMARK
            return [FireMaxWatermark(task)]
        return self._end_of_data(t)

    def max_watermark_fired(self, task: str, batch: int | None) -> list[Effect]:
        """Every event-time timer of the task has fired and what came out is committed as `batch`."""
        t = self.tasks[task]
        if not _runs_at(t, Step.MAX_WATERMARK) or t.finishing:
            return []
        t.batch = batch
        t.finishing = True
        return [Finish(task)]

    def finished(self, task: str) -> list[Effect]:
        """endInput() and finish() of all operators have returned."""
        t = self.tasks[task]
        if not _runs_at(t, Step.MAX_WATERMARK) or not t.finishing:
            return []
        return self._end_of_data(t)

    def checkpoint_durable(self, number: int) -> list[Effect]:
        """Its record (and the savepoint's manifest, where one is written) can no longer be lost."""
        if self.pending is None or self.pending.number != number or self.pending.durable:
            return []
        self.pending.durable = True
        for task in self._waiting().values():
            task.step = Step.COMPLETING
        return [AnnounceCheckpoint(number)]

    def checkpoint_failed(self, number: int) -> list[Effect]:
        """It could not be written. Nothing has ended: another one is triggered when `retry` comes."""
        if self.pending is not None and self.pending.number == number and not self.pending.durable:
            self._give_up_checkpoint()
            return [RetryLater()]
        return []

    def retry(self) -> list[Effect]:
        """The wait after `checkpoint_failed` is over."""
        return self._trigger_if_all_ended()

    def checkpoint_completed(self, number: int) -> list[Effect]:
        """The index has it: notifyCheckpointComplete. Late, repeated and unknown numbers are fine."""
        if self.pending is None or self.pending.number != number or not self.pending.durable:
            return []
        self.pending = None
        effects: list[Effect] = []
        for name, task in self._waiting().items():
            task.state = next_task_state(task.state, Event.FINAL_CHECKPOINT)
            effects += [NotifyComplete(name, number), Close(name)]
        return effects

    def closed(self, task: str) -> list[Effect]:
        """close() of all operators has returned."""
        t = self.tasks[task]
        if t.state is not TaskState.FINISHED:
            return []
        assert t.scenario is not None
        t.state = next_task_state(t.state, Event.CLOSE)
        t.operator = next_operator_state(t.scenario, t.operator, Event.CLOSE)
        t.step = Step.CLOSED
        return [Terminated()] if self.terminated else []

    def task_failed(self, task: str) -> list[Effect]:
        """The query died, or a step of its end cannot be had. The job fails; what is durable stays.

        After its final checkpoint a task has nothing left to lose: a close() that throws has closed it all the same.
        """
        t = self.tasks[task]
        if t.state in (TaskState.RUNNING, TaskState.WAITING_FOR_FINAL_CP):
            t.state = next_task_state(t.state, Event.FAIL)
            self._give_up_checkpoint()
        return self.closed(task)

    # --- what can be asked ------------------------------------------------------------------------------------

    @property
    def terminated(self) -> bool:
        return bool(self.tasks) and all(t.state is TaskState.CLOSED for t in self.tasks.values())

    @property
    def terminating(self) -> bool:
        """The job is asked to end, or all of its tasks are ending; and it has not come to its end."""
        ending = bool(self.tasks) and all(t.step for t in self.tasks.values())
        return (self.request is not None or ending) and not self.terminated

    # --- rules ------------------------------------------------------------------------------------------------

    def _waiting(self) -> dict[str, Task]:
        return {n: t for n, t in self.tasks.items() if t.state is TaskState.WAITING_FOR_FINAL_CP}

    def _end(self, name: str, scenario: Scenario) -> list[Effect]:
        task = self.tasks[name]
        if task.state is not TaskState.RUNNING or task.step is not None:
            return []
        task.scenario = scenario
        task.step = Step.BOUNDARY
        return [StopAtBoundary(name)]

    def _end_of_data(self, task: Task) -> list[Effect]:
        """endInput and finish are behind the task (or not due: a stop). From here a checkpoint may be its final one."""
        assert task.scenario is not None
        task.state = next_task_state(task.state, Event.END_OF_DATA)
        task.operator = next_operator_state(task.scenario, task.operator, Event.END_OF_DATA)
        task.step = Step.SNAPSHOT
        return self._trigger_if_all_ended()

    def _trigger_if_all_ended(self) -> list[Effect]:
        """Trigger the final checkpoint once every task's data has ended. A failed task never ends."""
        ended = (TaskState.WAITING_FOR_FINAL_CP, TaskState.FINISHED, TaskState.CLOSED)
        if self.pending or not self._waiting() or any(t.state not in ended for t in self.tasks.values()):
            return []
        number = self.next_checkpoint
        self.next_checkpoint += 1
        self.pending = Checkpoint(number)
        self.final_checkpoint = number
        return [StoreCheckpoint(number, frozenset(n for n, t in self.tasks.items() if t.operators_finished))]

    def _give_up_checkpoint(self) -> None:
        """Its number is not used again: should it complete later, it is valid and ends nothing."""
        if self.pending is None:
            return
        self.pending = self.final_checkpoint = None
        for task in self._waiting().values():
            task.step = Step.SNAPSHOT


def _runs_at(task: Task, step: Step) -> bool:
    return task.state is TaskState.RUNNING and task.step is step
