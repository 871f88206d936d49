"""Pending checkpoints: triggered and not completed (FLIP-147, "support checkpointing with finished tasks").

A checkpoint is a consistent snapshot of all tasks of the job. Running tasks take a snapshot when the barrier
arrives; tasks whose data has ended stand at their last batch. The set of finished tasks is fixed when the
checkpoint is triggered. A task that ends between the trigger and its snapshot makes the checkpoint void, and
the coordinator triggers it again.

A checkpoint is in flight until its record is durable. It then waits to be committed to the index and holds
nothing up: that notification may be late, lost, or overtaken by a later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from ...graph import Graph
from ...lifecycle import Scenario, TaskState
from ..effects import Effect, Snapshot, StoreCheckpoint
from ..task import Task
from .barriers import Barriers


class Kind(Enum):
    PERIODIC = "periodic"
    SAVEPOINT = "savepoint"  # on demand, while the job keeps running
    CLOSING = "closing"  # a run has ended and the script continues
    FINAL = "final"  # the end of the job


@dataclass(frozen=True)
class Checkpointing:
    """Settings; times are in seconds. `max_concurrent` and `min_pause` delay only periodic checkpoints. The
    interval is not here: the driver's timer keeps it.

    :param max_concurrent: maximum number of periodic checkpoints in flight.
    :param timeout: time for a periodic checkpoint or a savepoint to become durable; None: unlimited. Closing
        and final checkpoints have no timeout: the job waits for the final one, and whoever requested the end
        has a deadline.
    :param min_pause: time from the end (durable or aborted) of a periodic checkpoint or savepoint to the next
        periodic one.
    """

    max_concurrent: int = 1
    timeout: float | None = None
    min_pause: float = 0.0

    def __post_init__(self) -> None:
        if self.max_concurrent < 1 or self.min_pause < 0 or (self.timeout is not None and self.timeout <= 0):
            raise ValueError(f"no such checkpointing: {self}")


@dataclass(frozen=True)
class CheckpointRequest:
    """Why a checkpoint is taken.

    :param request_id: id of the termination or savepoint request, if there is one.
    :param savepoint: the savepoint URI of that request.
    :param timeout: of a savepoint request: seconds from its first trigger, over all attempts. None: as for
        periodic checkpoints.
    """

    kind: Kind
    request_id: str | None = None
    savepoint: str | None = None
    timeout: float | None = None


@dataclass
class Checkpoint:
    """A pending checkpoint.

    :param finished: the tasks that it flags as finished: their operators had finished when it was triggered,
        and an epoch may begin with that flag (see `_flagged`).
    :param live: the runs that take part: those that ran, and those that waited for their final checkpoint.
    :param failed: tasks whose run had failed and whose sink commits. The record also has what their sinks
        hold of committed batches.
    :param ended: the runs whose data had ended and that have no final checkpoint yet.
    :param pre_commit: see `StoreCheckpoint`.
    :param exhausted: see `StoreCheckpoint`.
    :param scenario: what the checkpoint ends; None unless it is the final one.
    """

    number: int
    request: CheckpointRequest
    graph: Graph = field(repr=False)
    finished: frozenset[str]
    batches: dict[str, int | None]
    live: dict[str, Task]
    failed: tuple[str, ...]
    ended: dict[str, Task]
    pre_commit: dict[str, int]
    exhausted: frozenset[str]
    barriers: Barriers = field(repr=False)
    scenario: Scenario | None
    durable: bool = False

    @classmethod
    def triggered(
        cls,
        number: int,
        request: CheckpointRequest,
        graph: Graph,
        tasks: Mapping[str, Task],
        requested: Scenario | None = None,
        *,
        cut_short: bool = False,
    ) -> Checkpoint:
        """Create the checkpoint. Sets `flagged` and `last_transaction` of the tasks that stand at their end.

        :param requested: how the job is asked to end, None if it is not.
        :param cut_short: a stop was requested before the script had ended.
        """
        running = [n for n, t in tasks.items() if t.state is TaskState.RUNNING]
        scenario: Scenario | None = None
        if request.kind is Kind.FINAL:
            scenario = Scenario.STOP if cut_short else _ended_by(tasks.values(), requested)
        stand = {n: t for n, t in tasks.items() if t.at_its_end}
        pre_commit: dict[str, int] = {}
        for name, task in stand.items():
            if not task.has_final_checkpoint:
                pre_commit[name] = task.last_transaction = task.last_transaction or number
        failed = tuple(n for n, t in tasks.items() if t.state is TaskState.FAILED and t.commits)
        for name in failed:
            pre_commit[name] = tasks[name].last_transaction = tasks[name].last_transaction or number
        over = scenario is Scenario.DRAIN  # no epoch resumes from it
        done = frozenset(n for n, t in stand.items() if t.operators_finished)
        finished = done if over else _flagged(done, graph, tasks)
        for name in finished:
            tasks[name].flagged = True
        return cls(
            number=number,
            request=request,
            graph=graph,
            finished=finished,
            batches={n: t.batch for n, t in stand.items()},
            live={
                n: t
                for n, t in tasks.items()
                if t.state in (TaskState.RUNNING, TaskState.WAITING_FOR_FINAL_CP)
            },
            failed=failed,
            ended={n: t for n, t in stand.items() if t.ended and not t.has_final_checkpoint},
            pre_commit=pre_commit,
            exhausted=frozenset(n for n, t in stand.items() if t.consumed),
            barriers=Barriers(graph, running),
            scenario=scenario,
        )

    @property
    def kind(self) -> Kind:
        return self.request.kind

    @property
    def complete(self) -> bool:
        """Whether all snapshots have been taken."""
        return self.barriers.all_passed

    def begin(self) -> list[Effect]:
        return self._go_on(self.barriers.roots())

    def snapshot_taken(self, task: str, batch: int | None) -> list[Effect]:
        if not self.barriers.is_aligned(task) or not self.live[task].can_snapshot:
            return []
        self.batches[task] = batch
        return self._go_on(self.barriers.passed(task))

    def _go_on(self, aligned: list[str]) -> list[Effect]:
        """The barrier has arrived at these stages: ask for their snapshots, and store the checkpoint once it
        is complete.

        A task that is being flushed is not asked: it ends before it could take a snapshot.
        """
        effects: list[Effect] = []
        for uid in aligned:
            sources = [t for stage in self.graph.upstream(uid) for t in stage.tasks]
            # A failed task has no batch here.
            upstream = {t: self.batches[t] for t in sources if t in self.batches}
            effects += [
                Snapshot(name, self.number, upstream)
                for name in self.graph.stages[uid].tasks
                if self.barriers.waits_for(name) and self.live[name].can_snapshot
            ]
        if self.complete:
            effects.append(
                StoreCheckpoint(
                    self.number,
                    self.finished,
                    self.batches,
                    self.pre_commit,
                    self.exhausted,
                    self.scenario,
                    self.request.request_id,
                    self.request.savepoint,
                )
            )
        return effects


def _flagged(done: frozenset[str], graph: Graph, tasks: Mapping[str, Task]) -> frozenset[str]:
    """Which of the finished tasks get their flag: an epoch must be able to begin with a task and everything
    upstream of it finished (row 10).

    That fails if a drain, in this epoch or an earlier one, fired a task's max watermark before its upstream
    had ended or behind one that the script had stopped, and with it for everything downstream. What is
    upstream of a task that an earlier epoch drained may have yet to start.
    """
    flagged: set[str] = set()
    whole: set[str] = set()  # stages of which every task has its flag
    for uid in graph.upstream_first():
        stage = graph.stages[uid]
        started = {u for u in stage.named if u in graph.stages and graph.stages[u].tasks}
        for name in done.intersection(stage.tasks):
            task = tasks[name]
            known = not task.drained_before or len(started) == len(stage.named)
            if task.flagged or (known and started <= whole):
                flagged.add(name)
        if stage.tasks and flagged.issuperset(stage.tasks):
            whole.add(uid)
    return frozenset(flagged)


def _ended_by(tasks: Iterable[Task], requested: Scenario | None) -> Scenario:
    """The scenario of the final checkpoint: a stop if anything can be resumed, unless a drain was requested.
    A drain leaves stages that the script itself stopped as they are. It becomes a stop if a task may have
    left something unread.
    """
    tasks = list(tasks)
    if requested is Scenario.DRAIN and not any(t.leaves_rest for t in tasks):
        return Scenario.DRAIN
    return Scenario.END_OF_INPUT if all(t.operators_finished for t in tasks) else Scenario.STOP
