"""Checkpoints that have been triggered and have not completed (FLIP-147, "support checkpointing with finished tasks").

A checkpoint is a cut through all tasks of the job: those that run take a snapshot when the barrier comes, those whose data has
ended stand at their last batch. Which ones have finished is fixed when it is triggered; a task that ends between the
trigger and its snapshot makes the checkpoint void (the coordinator triggers it again).

It is in flight until its record is durable. Then it waits for the index, and holds nothing up while it does: that notification
may be late, or lost, or overtaken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from .barriers import Barriers
from .effects import Effect, Snapshot, StoreCheckpoint
from .graph import Graph, parse_task_id
from .lifecycle import Scenario, TaskState
from .task import Task


class Kind(Enum):
    PERIODIC = "periodic"
    SAVEPOINT = "savepoint"  # on request, the job runs on
    CLOSING = "closing"  # a run has ended while the script goes on
    FINAL = "final"  # the job's end


@dataclass(frozen=True)
class Checkpointing:
    """Settings, in seconds. Only periodic checkpoints are held back by them; how often one is due, the driver's timer knows.

    :param max_concurrent: periodic checkpoints in flight at the same time.
    :param timeout: for a periodic checkpoint or a savepoint to become durable; None: for ever. The final one has none: the
        job waits for it, and whoever asked for the end has a deadline of his own.
    :param min_pause: from the end of one (durable or aborted) to the next periodic one.
    """

    max_concurrent: int = 1
    timeout: float | None = None
    min_pause: float = 0.0

    def __post_init__(self) -> None:
        if self.max_concurrent < 1 or self.min_pause < 0 or (self.timeout is not None and self.timeout <= 0):
            raise ValueError(f"no such checkpointing: {self}")


@dataclass(frozen=True)
class Order:
    """Why a checkpoint is taken: `request_id` and `savepoint` of the termination or savepoint request, if there is one.

    :param timeout: of a savepoint request, seconds from its first trigger, over all attempts. None: as a periodic one's.
    """

    kind: Kind
    request_id: str | None = None
    savepoint: str | None = None
    timeout: float | None = None


@dataclass
class Checkpoint:
    """One that is under way.

    :param finished: the tasks whose operators had finished when it was triggered.
    :param live: the runs that take part: those that ran, and those that waited for their final checkpoint.
    :param failed: tasks whose run had failed: what their sinks have of committed batches is in the record, too.
    :param ended: the runs whose data had ended and of which no completed checkpoint says so.
    :param pre_commit: see `StoreCheckpoint`.
    :param scenario: what it ends; None unless it is the final one.
    """

    number: int
    order: Order
    graph: Graph = field(repr=False)
    finished: frozenset[str]
    batches: dict[str, int | None]
    live: dict[str, Task]
    failed: tuple[str, ...]
    ended: dict[str, Task]
    pre_commit: dict[str, int]
    barriers: Barriers = field(repr=False)
    scenario: Scenario | None
    durable: bool = False

    @classmethod
    def triggered(
        cls,
        number: int,
        order: Order,
        graph: Graph,
        tasks: Mapping[str, Task],
        requested: Scenario | None = None,
    ) -> Checkpoint:
        """:param requested: how the job is asked to end."""
        running = [n for n, t in tasks.items() if t.state is TaskState.RUNNING]
        scenario = _ended_by(tasks.values(), requested) if order.kind is Kind.FINAL else None
        stand = {n: t for n, t in tasks.items() if t.stands}
        pre_commit: dict[str, int] = {}
        for name, task in stand.items():
            if not task.covered:
                pre_commit[name] = task.last_transaction = task.last_transaction or number
        failed = tuple(n for n, t in tasks.items() if t.state is TaskState.FAILED and t.commits)
        pre_commit = dict.fromkeys(failed, number) | pre_commit
        over = scenario is not None and scenario.is_drain  # nobody goes on from it
        finished = [
            n for n, t in stand.items() if t.operators_finished and (over or _flagged(n, t, graph, tasks))
        ]
        for name in finished:
            tasks[name].flagged = True
        return cls(
            number=number,
            order=order,
            graph=graph,
            finished=frozenset(finished),
            batches={n: t.batch for n, t in stand.items()},
            live={
                n: t
                for n, t in tasks.items()
                if t.state in (TaskState.RUNNING, TaskState.WAITING_FOR_FINAL_CP)
            },
            failed=failed,
            ended={n: t for n, t in stand.items() if t.ended and not t.covered},
            pre_commit=pre_commit,
            barriers=Barriers(graph, running),
            scenario=scenario,
        )

    @property
    def kind(self) -> Kind:
        return self.order.kind

    @property
    def complete(self) -> bool:
        """All snapshots are there."""
        return self.barriers.through

    def begin(self) -> list[Effect]:
        return self._go_on(self.barriers.roots())

    def snapshot_taken(self, task: str, batch: int | None) -> list[Effect]:
        if not self.barriers.asked(task) or not self.live[task].can_snapshot:
            return []
        self.batches[task] = batch
        return self._go_on(self.barriers.passed(task))

    def _go_on(self, aligned: list[str]) -> list[Effect]:
        """The barrier has come to these stages. A task that is being flushed ends before it could take a snapshot."""
        effects: list[Effect] = []
        for uid in aligned:
            sources = [t for stage in self.graph.upstream(uid) for t in stage.tasks]
            upstream = {
                t: self.batches[t] for t in sources if t in self.batches
            }  # no batch of what has failed
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
                    self.scenario,
                    self.order.request_id,
                    self.order.savepoint,
                )
            )
        return effects


def _flagged(name: str, task: Task, graph: Graph, tasks: Mapping[str, Task]) -> bool:
    """Of a task that has finished: an epoch can begin with it and all that is upstream of it (row 10), which is not so where a
    drain, in this epoch or an earlier one, has fired its max watermark before upstream has ended."""
    if task.flagged:
        return True
    if task.drained_before:
        stages = [graph.stages.get(uid) for uid in graph.stages[parse_task_id(name)[0]].named]
        if not all(s and s.tasks and all(tasks[t].operators_finished for t in s.tasks) for s in stages):
            return False
    return not task.behind_paused


def _ended_by(tasks: Iterable[Task], requested: Scenario | None) -> Scenario:
    """A stop if anything can be resumed, unless a drain was asked for: what its script has stopped itself, it leaves."""
    everything = list(tasks)
    if requested is not Scenario.DRAIN and not all(t.operators_finished for t in everything):
        return Scenario.STOP
    drained = any(t.scenario is Scenario.DRAIN or not t.operators_finished for t in everything)
    return Scenario.DRAIN if drained else Scenario.END_OF_INPUT
