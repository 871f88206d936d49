"""A job with data in it: tasks that make, take and forward items, sinks with transactions, storage and an index that survive.

It carries the effects out truthfully, each task's in order, and notes what has to be answered. Sources make numbered items; every
other task takes those of its share from each task upstream and forwards them, so that no two items are ever equal; a
task that is flushed adds one more. V1 is then: what the sinks have committed is what was made, each item once.

A crash takes all that is not durable. What is restored is the newest record of the index: outputs are cut back to it,
transactions up to its number committed, later ones dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from streamjob.protocol import effects as fx
from streamjob.protocol import finished, recovery
from streamjob.protocol.graph import Graph, parse_task_id, task_id
from streamjob.protocol.records import CheckpointRecord, OperatorKind, OperatorRecord, StageRecord, TaskRecord

Item = tuple[Any, ...]


@dataclass(frozen=True)
class Shape:
    """A stage as the script declares it."""

    parallelism: int
    upstream: tuple[str, ...] = ()
    commits: bool = True


@dataclass
class Cut:
    """The state of a task at a snapshot."""

    batch: int
    taken: dict[str, int]
    made: int
    flushed: bool


@dataclass
class Actor:
    """One task: its output so far, how far it has taken each task upstream, and its sink."""

    log: list[Item] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)
    made: int = 0
    flushed: bool = False
    running: bool = True
    begun: list[Item] = field(default_factory=list)  # of the open transaction
    pending: dict[int, list[Item]] = field(default_factory=dict)  # pre-committed, by checkpoint
    committed: list[Item] = field(default_factory=list)
    cuts: dict[int, Cut] = field(default_factory=dict)

    def put(self, item: Item) -> None:
        self.log.append(item)
        self.begun.append(item)

    def cut(self) -> Cut:
        return Cut(len(self.log), dict(self.taken), self.made, self.flushed)

    def pre_commit(self, number: int) -> None:
        self.pending[number] = self.pending.get(number, []) + self.begun
        self.begun = []

    def commit(self, number: int) -> None:
        for n in sorted(n for n in self.pending if n <= number):
            self.committed += self.pending.pop(n)


class World:
    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        self.shapes = dict(shapes)
        self.graph = Graph()
        for uid, shape in shapes.items():
            self.graph.add_stage(uid, shape.parallelism, shape.upstream)
        self.tasks = [t for stage in self.graph.stages.values() for t in stage.tasks]
        self.actors = {t: Actor() for t in self.tasks}
        self.stored: dict[int, tuple[CheckpointRecord, dict[str, Cut]]] = {}
        self.index: dict[int, tuple[CheckpointRecord, dict[str, Cut]]] = {}
        self.dead: set[int] = set()  # aborted checkpoints hold back nobody
        self.target: dict[str, int] = {}

    def upstream(self, task: str) -> list[str]:
        return [t for s in self.graph.upstream(parse_task_id(task)[0]) for t in s.tasks]

    def is_source(self, task: str) -> bool:
        return not self.shapes[parse_task_id(task)[0]].upstream

    # --- data -------------------------------------------------------------------------------------------------

    def work(self, task: str, count: int) -> None:
        """The query runs for a while."""
        actor = self.actors[task]
        if self.is_source(task):
            for _ in range(count):
                actor.put((task, actor.made))
                actor.made += 1
        else:
            for source in self.upstream(task):
                self.take(task, source, min(actor.taken.get(source, 0) + count, self.limit(task, source)))

    def limit(self, task: str, source: str) -> int:
        """Behind the barrier of a checkpoint nothing is taken before the task's own snapshot for it."""
        barriers = [
            cut.batch
            for n, cut in self.actors[source].cuts.items()
            if n not in self.dead and n not in self.actors[task].cuts
        ]
        return min([len(self.actors[source].log), *barriers])

    def take(self, task: str, source: str, until: int) -> None:
        uid, index = parse_task_id(task)
        actor = self.actors[task]
        start = actor.taken.get(source, 0)
        for item in self.actors[source].log[start:until]:
            if crc32(repr(item).encode()) % self.shapes[uid].parallelism == index:
                actor.put((*item, uid))
        actor.taken[source] = max(start, until)

    # --- effects ----------------------------------------------------------------------------------------------

    def carry_out(self, effect: Any) -> tuple[Any, ...] | None:
        """Do it; the event that answers."""
        act = getattr(self, "_" + type(effect).__name__.lower(), None)
        return act(effect) if act else None

    def _stopatboundary(self, effect: fx.StopAtBoundary) -> tuple[Any, ...]:
        actor = self.actors[effect.task]
        actor.running = False
        return "boundary_reached", effect.task, len(actor.log)

    def _catchup(self, effect: fx.CatchUp) -> tuple[Any, ...]:
        for source, batch in effect.upstream.items():
            assert batch == len(self.actors[source].log), f"{source} went on after its end"
            self.take(effect.task, source, batch)
        return self._stopatboundary(fx.StopAtBoundary(effect.task))

    def _firemaxwatermark(self, effect: fx.FireMaxWatermark) -> tuple[Any, ...]:
        actor = self.actors[effect.task]
        assert not actor.flushed, "V4: flushed twice"
        actor.flushed = True
        actor.put((effect.task, "flushed"))
        return "max_watermark_fired", effect.task, len(actor.log)

    def _finish(self, effect: fx.Finish) -> tuple[Any, ...]:
        return "finished", effect.task

    def _close(self, effect: fx.Close) -> tuple[Any, ...]:
        return "closed", effect.task

    def _snapshot(self, effect: fx.Snapshot) -> tuple[Any, ...] | None:
        actor = self.actors[effect.task]
        if effect.number in self.dead or not actor.running:
            return None  # a task that is over has an end on its way, and that is what counts
        for source, batch in effect.upstream.items():
            assert batch is not None
            assert actor.taken.get(source, 0) <= batch, f"{effect.task} is beyond the barrier of {source}"
            self.take(effect.task, source, batch)
        actor.cuts[effect.number] = actor.cut()
        actor.pre_commit(effect.number)
        return "snapshot_taken", effect.task, effect.number, len(actor.log)

    def _storecheckpoint(self, effect: fx.StoreCheckpoint) -> tuple[Any, ...]:
        n = effect.number
        for task, number in effect.pre_commit.items():
            self.actors[task].pre_commit(number)
        cuts = {t: self.actors[t].cuts.get(n) or self.actors[t].cut() for t in effect.batches}
        assert {t: c.batch for t, c in cuts.items()} == dict(effect.batches)
        for task, cut in cuts.items():
            for source in self.upstream(task):
                assert cut.taken.get(source, 0) <= cuts[source].batch, "the cut is not consistent"
        self.stored[n] = (self._record(effect, cuts), cuts)
        return "checkpoint_durable", n

    def _record(self, effect: fx.StoreCheckpoint, cuts: dict[str, Cut]) -> CheckpointRecord:
        stages = []
        for uid, shape in self.shapes.items():
            tasks = [task_id(uid, i, shape.parallelism) for i in range(shape.parallelism)]
            record = StageRecord(
                uid,
                tuple(TaskRecord(i, t, cuts[t].batch) for i, t in enumerate(tasks)),
                (OperatorRecord(f"{uid}/sink", OperatorKind.SINK, "sink", False),),
            )
            stages.append(finished.flagged(record, [i for i, t in enumerate(tasks) if t in effect.finished]))
        return CheckpointRecord(
            checkpoint=effect.number,
            epoch=1,
            scenario=effect.scenario,
            request_id=effect.request_id,
            savepoint=effect.savepoint,
            completed_at="2026-01-01T00:00:00Z",
            stages=tuple(stages),
        )

    def _announcecheckpoint(self, effect: fx.AnnounceCheckpoint) -> tuple[Any, ...]:
        self.index[effect.number] = self.stored[effect.number]
        return "checkpoint_completed", effect.number

    def _abortcheckpoint(self, effect: fx.AbortCheckpoint) -> None:
        self.dead.add(effect.number)

    def _notifycomplete(self, effect: fx.NotifyComplete) -> None:
        self.actors[effect.task].commit(effect.number)

    def _aborttransactions(self, effect: fx.AbortTransactions) -> None:
        actor = self.actors[effect.task]
        for n in [n for n in actor.pending if n > effect.after]:
            assert not actor.pending.pop(n), "V1: data in a transaction that was begun after the end"

    def _cancel(self, effect: fx.Cancel) -> None:
        self.actors[effect.task].running = False

    # --- crash ------------------------------------------------------------------------------------------------

    def crash(self) -> recovery.Plan | None:
        """All that is not durable is gone; the plan for the next attempt, None if it starts from nothing."""
        newest = max(self.index, default=0)
        record, cuts = self.index.get(newest, (None, {}))
        for task, actor in self.actors.items():
            cut = cuts.get(task) or Cut(0, {}, 0, False)
            actor.log = actor.log[: cut.batch]
            actor.taken, actor.made, actor.flushed = dict(cut.taken), cut.made, cut.flushed
            actor.begun, actor.cuts, actor.running = [], {}, True
            actor.commit(newest)
            actor.pending = {}
        self.stored, self.dead = {}, set()
        return recovery.plan(self.graph, record, allow_drained=False) if record else None

    # --- V1 ---------------------------------------------------------------------------------------------------

    def check_sinks(self) -> None:
        """Nothing lost, nothing twice: at the end of a drain."""
        for task in self.tasks:
            uid, index = parse_task_id(task)
            actor, shape = self.actors[task], self.shapes[uid]
            if self.is_source(task):
                made: list[Item] = [(task, i) for i in range(actor.made)]
            else:
                offered = [i for s in self.upstream(task) for i in self.actors[s].log]
                made = [(*i, uid) for i in offered if crc32(repr(i).encode()) % shape.parallelism == index]
            made.append((task, "flushed"))
            assert sorted(actor.log, key=repr) == sorted(made, key=repr), f"V1: {task}"
            if shape.commits:
                assert sorted(actor.committed, key=repr) == sorted(made, key=repr), f"V1: sink of {task}"
