"""The engine: it decides what a driver does next. Events in, effects out; no I/O, no clock, no threads.

The finishing protocol (FLIP-147) for the tasks of one job. What it guarantees, whatever order events come in:

- A task ends only by a completed checkpoint that was triggered after its data ended (row 5 of docs/design.md).
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
    StopAtBoundary,
    StoreCheckpoint,
    Terminated,
)
from .errors import StreamJobError
from .lifecycle import (
    Event,
    OperatorState,
    Scenario,
    TaskState,
    next_operator_state,
    next_task_state,
)
from .messages import Mode, Step, TerminationRequest

SCENARIO = {Mode.STOP: Scenario.STOP, Mode.DRAIN: Scenario.DRAIN}


class TerminationConflict(StreamJobError):
    """Another termination is under way."""

    reason = "TerminationInProgress"


@dataclass
class Task:
    """One query. `ended_at` is the number of the newest checkpoint triggered before its data ended."""

    state: TaskState = TaskState.RUNNING
    operator: OperatorState = OperatorState.RUNNING
    step: Step | None = None
    scenario: Scenario | None = None
    batch: int | None = None
    ended_at: int = 0


@dataclass
class Checkpoint:
    """A checkpoint under way. `finished` are the tasks whose operators had finished when it was triggered."""

    number: int
    finished: frozenset[str]
    ended: frozenset[str]
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
    pending: dict[int, Checkpoint] = field(default_factory=dict)
    completed: set[int] = field(default_factory=set)
    final_checkpoint: int | None = None

    # --- events ---------------------------------------------------------------------------------------------

    def task_started(self, task: str) -> list[Effect]:
        """A query runs. One that starts while a termination is under way ends at its first boundary."""
        self.tasks[task] = Task()
        return self._end(task, SCENARIO[self.request.mode]) if self.request else []

    def termination_requested(self, request: TerminationRequest) -> list[Effect]:
        """:raises TerminationConflict: another one is under way or done."""
        if self.request is not None:
            if self.request.request_id == request.request_id:
                return []
            raise TerminationConflict(
                f"termination {self.request.request_id} ({self.request.mode.value}) is under way",
                remedy="Wait for it, or cancel the job",
            )
        self.request = request
        effects: list[Effect] = []
        for name, task in self.tasks.items():
            if task.state is TaskState.RUNNING and task.step is None:
                effects += self._end(name, SCENARIO[request.mode])
        return effects + self._trigger_if_all_ended()

    def input_ended(self, task: str) -> list[Effect]:
        """All sources of the task ran out, or its script ended the query: the query stands at a boundary."""
        if self.tasks[task].step is not None:
            return []
        return self._end(task, Scenario.END_OF_INPUT)

    def boundary_reached(self, task: str, batch: int | None) -> list[Effect]:
        """The query has ended with offsets.latest == commits.latest == `batch`."""
        t = self.tasks[task]
        if t.step is not Step.BOUNDARY:
            return []
        assert t.scenario is not None
        t.batch = batch
        if t.scenario.is_drain:
            t.step = Step.MAX_WATERMARK
            return [FireMaxWatermark(task)]
        return self._end_of_data(task)

    def max_watermark_fired(self, task: str, batch: int | None) -> list[Effect]:
        """Every event-time timer of the task has fired and what came out is committed as `batch`."""
        t = self.tasks[task]
        if t.step is not Step.MAX_WATERMARK:
            return []
        t.batch = batch
        return [Finish(task)]

    def finished(self, task: str) -> list[Effect]:
        """endInput() and finish() of all operators have returned."""
        if self.tasks[task].step is not Step.MAX_WATERMARK:
            return []
        return self._end_of_data(task)

    def checkpoint_durable(self, number: int) -> list[Effect]:
        """Its record (and the savepoint's manifest, where one is written) can no longer be lost."""
        checkpoint = self.pending.get(number)
        if checkpoint is None or checkpoint.durable:
            return []
        checkpoint.durable = True
        for name in checkpoint.ended:
            self.tasks[name].step = Step.COMPLETING
        return [AnnounceCheckpoint(number)]

    def checkpoint_failed(self, number: int) -> list[Effect]:
        """It could not be written. Nothing has ended: another one is triggered when `retry` comes."""
        self.pending.pop(number, None)
        return []

    def retry(self) -> list[Effect]:
        """Time to try again what failed (the driver's clock says so)."""
        return self._trigger_if_all_ended()

    def checkpoint_completed(self, number: int) -> list[Effect]:
        """The index has it: notifyCheckpointComplete. Late, repeated and unknown numbers are fine."""
        checkpoint = self.pending.pop(number, None)
        if checkpoint is None or not checkpoint.durable:
            if checkpoint is not None:
                self.pending[number] = checkpoint
            return []
        self.completed.add(number)
        effects: list[Effect] = []
        for name, task in self.tasks.items():
            if task.state is not TaskState.WAITING_FOR_FINAL_CP or name not in checkpoint.ended:
                continue
            if self.final_checkpoint is not None and number != self.final_checkpoint:
                continue
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
        """The query died, or a step of its end cannot be had. The job fails; what is durable stays."""
        t = self.tasks[task]
        if Event.FAIL in _listed(t.state):
            t.state = next_task_state(t.state, Event.FAIL)
        return []

    # --- what can be asked ------------------------------------------------------------------------------------

    @property
    def terminated(self) -> bool:
        return bool(self.tasks) and all(t.state is TaskState.CLOSED for t in self.tasks.values())

    @property
    def terminating(self) -> bool:
        """A termination has begun and has not come to its end."""
        begun = self.request is not None or any(t.step for t in self.tasks.values())
        return begun and not self.terminated

    # --- rules ------------------------------------------------------------------------------------------------

    def _end(self, name: str, scenario: Scenario) -> list[Effect]:
        task = self.tasks[name]
        task.scenario = scenario
        task.step = Step.BOUNDARY
        return [StopAtBoundary(name)]

    def _end_of_data(self, name: str) -> list[Effect]:
        """endInput and finish are behind the task (or not due: a stop). From here a checkpoint may be its final one."""
        task = self.tasks[name]
        assert task.scenario is not None
        task.state = next_task_state(task.state, Event.END_OF_DATA)
        task.operator = next_operator_state(task.scenario, task.operator, Event.END_OF_DATA)
        task.step = Step.SNAPSHOT
        task.ended_at = self.next_checkpoint - 1
        return self._trigger_if_all_ended()

    def _trigger_if_all_ended(self) -> list[Effect]:
        """Trigger the final checkpoint once every task's data has ended, so that it is the same for all (V3)."""
        waiting = [t for t in self.tasks.values() if t.state is not TaskState.CLOSED]
        if not waiting or any(t.state is not TaskState.WAITING_FOR_FINAL_CP for t in waiting):
            return []
        if any(c.ended for c in self.pending.values()):
            return []
        number = self.next_checkpoint
        self.next_checkpoint += 1
        ended = frozenset(self.tasks)
        finished = frozenset(n for n, t in self.tasks.items() if t.operator is OperatorState.FINISHED)
        self.pending[number] = Checkpoint(number, finished, ended)
        self.final_checkpoint = number
        return [StoreCheckpoint(number, finished)]


def _listed(state: TaskState) -> set[Event]:
    from .lifecycle import TASK

    return set(TASK[state])
