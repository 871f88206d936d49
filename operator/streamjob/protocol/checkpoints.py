"""Checkpoints that have been triggered and have not completed (FLIP-147, "support checkpointing with finished tasks").

A checkpoint is a cut through all tasks of the job: those that run take a snapshot when the barrier comes, those whose data has
ended stand at their last batch. Which ones have finished is fixed when it is triggered; a task that ends between the
trigger and its snapshot makes the checkpoint void (the coordinator triggers it again).

It is in flight until its record is durable. Then it waits for the index, and holds nothing up while it does: that notification
may be late, or lost, or overtaken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from .barriers import Barriers
from .effects import Effect, Snapshot, StoreCheckpoint
from .graph import Graph
from .lifecycle import Scenario, TaskState
from .task import Task


class Kind(Enum):
    PERIODIC = "periodic"
    SAVEPOINT = "savepoint"  # on request, the job runs on
    FINAL = "final"  # every task has ended


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
    :param ended: the runs whose data had ended and of which no completed checkpoint says so.
    :param scenario: what it ends, None if a task ran on.
    :param last: every task had ended, so that it can be the last one.
    """

    number: int
    order: Order
    graph: Graph = field(repr=False)
    finished: frozenset[str]
    batches: dict[str, int | None]
    live: dict[str, Task]
    ended: dict[str, Task]
    barriers: Barriers = field(repr=False)
    scenario: Scenario | None
    last: bool
    durable: bool = False

    @classmethod
    def triggered(cls, number: int, order: Order, graph: Graph, tasks: Mapping[str, Task]) -> Checkpoint:
        running = [n for n, t in tasks.items() if t.state is TaskState.RUNNING]
        scenarios = {t.scenario for t in tasks.values()}
        ended = {n: t for n, t in tasks.items() if t.ended and not t.covered}
        for task in ended.values():
            task.last_transaction = task.last_transaction or number
        return cls(
            number=number,
            order=order,
            graph=graph,
            finished=frozenset(n for n, t in tasks.items() if t.operators_finished),
            batches={n: t.batch for n, t in tasks.items() if t.ended},
            live={
                n: t
                for n, t in tasks.items()
                if t.state in (TaskState.RUNNING, TaskState.WAITING_FOR_FINAL_CP)
            },
            ended=ended,
            barriers=Barriers(graph, running),
            scenario=None if running else _ended_by(scenarios),
            last=not running,
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
            upstream = {t: self.batches[t] for stage in self.graph.upstream(uid) for t in stage.tasks}
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
                    {n: t.last_transaction for n, t in self.ended.items() if t.last_transaction is not None},
                    self.scenario,
                    self.order.request_id,
                    self.order.savepoint,
                )
            )
        return effects


def _ended_by(scenarios: set[Scenario | None]) -> Scenario:
    """Of a job all of whose tasks have ended: a stop if anything was stopped, since that can be resumed."""
    for scenario in (Scenario.STOP, Scenario.DRAIN):
        if scenario in scenarios:
            return scenario
    return Scenario.END_OF_INPUT
