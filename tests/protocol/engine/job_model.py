"""A job with data in it: tasks that make, take and forward items, sinks with transactions, storage and an
index that survive.

It carries the effects out truthfully, each task's in order, and notes what has to be answered. Own sources
make numbered items; what comes from upstream is taken by the tasks whose share it is and forwarded, so that
no two items are ever equal; a task that is flushed adds one more. V1 is then: what the sinks have committed
is what was made, each item once.

A crash takes what was in memory. Batches that were committed stay, as with Spark: a task continues behind its
last one, the transactions of the newest record of the index are committed, and what others held belongs to
the next one. Or the record is restored as a savepoint is, somewhere else: everything is cut back to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from zlib import crc32

from streamjob.protocol.engine import effects as fx
from streamjob.protocol.formats.records import (
    CheckpointRecord,
    OperatorKind,
    OperatorRecord,
    StageRecord,
    TaskRecord,
)
from streamjob.protocol.graph import parse_task_id, task_id
from streamjob.protocol.restore import finished

Item = tuple[Any, ...]


@dataclass(frozen=True)
class Shape:
    """A stage as the script has it.

    :param upstream: what its query shows that it reads; `late`: what the script declares besides, some time.
    :param own: it reads sources of its own.
    :param available: its trigger takes what is there, and then it ends.
    :param bounded: the script declares when its own sources have ended.
    """

    parallelism: int
    upstream: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    commits: bool = True
    own: bool = True
    available: bool = False
    bounded: bool = False

    def reads(self, uid: str) -> bool:
        return uid in (*self.upstream, *self.late)

    def without(self, uid: str) -> Shape:
        """It no longer reads from that stage. What reads from none has a source of its own."""
        upstream, late = (tuple(u for u in names if u != uid) for names in (self.upstream, self.late))
        return replace(self, upstream=upstream, late=late, own=self.own or not (upstream or late))


@dataclass
class Cut:
    """The state of a task at a snapshot; `loose`: it has batches that no transaction has."""

    batch: int = 0
    taken: dict[str, int] = field(default_factory=dict)
    made: int = 0
    flushed: bool = False
    transactions: tuple[int, ...] = ()
    loose: bool = False


@dataclass
class Actor:
    """One task: its output so far, how far it has taken each task upstream, and its sink.

    :param left: what its own sources still hold for this run; None: no end of it.
    :param until: how far a run of `availableNow` takes each task upstream.
    :param stopped: it was told to stop, so its end is on its way.
    """

    log: list[Item] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)
    made: int = 0
    flushed: bool = False
    read_at_flush: tuple[str, ...] = ()
    ran: bool = False  # it has read, in this epoch or an earlier one
    running: bool = False
    stopped: bool = False
    left: int | None = None
    until: dict[str, int] | None = None
    begun: list[Item] = field(default_factory=list)  # in no transaction
    pending: dict[int, list[Item]] = field(default_factory=dict)  # pre-committed, by checkpoint
    committed: dict[int, list[Item]] = field(default_factory=dict)
    cuts: dict[int, Cut] = field(default_factory=dict)

    def put(self, item: Item) -> None:
        self.log.append(item)
        self.begun.append(item)

    def cut(self) -> Cut:
        return Cut(len(self.log), dict(self.taken), self.made, self.flushed)

    def pre_commit(self, number: int) -> None:
        if self.begun:
            self.pending[number] = self.pending.get(number, []) + self.begun
            self.begun = []

    def commit(self, number: int) -> None:
        for n in sorted(n for n in self.pending if n <= number):
            self.committed[n] = self.pending.pop(n)

    def recover(self, recorded: Iterable[int]) -> None:
        """A run begins: what a record has is committed, anything else belongs to the next transaction."""
        for n in recorded:
            assert n in self.pending or n in self.committed, f"transaction {n} is lost"
            if n in self.pending:
                self.committed[n] = self.pending.pop(n)
        self.begun = [item for n in sorted(self.pending) for item in self.pending[n]] + self.begun
        self.pending = {}

    @property
    def shown(self) -> list[Item]:
        return [item for n in sorted(self.committed) for item in self.committed[n]]


class World:
    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        self.shapes = dict(shapes)
        self.names = {
            u: [task_id(u, i, s.parallelism) for i in range(s.parallelism)] for u, s in shapes.items()
        }
        self.tasks = [t for names in self.names.values() for t in names]
        self.actors = {t: Actor() for t in self.tasks}
        self.edges: dict[str, list[str]] = {}  # as the engine knows them in this epoch
        self.stored: dict[int, tuple[CheckpointRecord, dict[str, Cut]]] = {}
        self.index: dict[int, tuple[CheckpointRecord, dict[str, Cut]]] = {}
        self.dead: set[int] = set()  # aborted checkpoints hold back nobody
        self.epoch: set[str] = set()  # tasks that have started, or were told as finished
        self.recorded_upstream: Callable[[str], tuple[str, ...]] = lambda uid: ()  # as the engine knows it
        self.recorded: set[tuple[str, str]] = set()  # (writer, reader), and the script still has them
        self.drains: Callable[[], bool] = lambda: False
        self.excused: set[tuple[str, str]] = set()  # (reader, writer), of which the driver has warned

    def upstream(self, task: str) -> list[str]:
        return [t for u in self.edges.get(parse_task_id(task)[0], ()) for t in self.names[u]]

    @property
    def newest(self) -> CheckpointRecord | None:
        return self.index[max(self.index)][0] if self.index else None

    def known(self, task: str) -> tuple[str, ...]:
        """The tasks upstream of it: those that its query shows, those that the engine knows, and in a drain
        those of the restored checkpoint.
        """
        uid = parse_task_id(task)[0]
        shown = [
            *self.shapes[uid].upstream,
            *(w for w, r in sorted(self.recorded) if r == uid and self.drains()),
        ]
        return tuple(dict.fromkeys([*self.upstream(task), *(t for u in shown for t in self.names[u])]))

    def lose_an_edge(self, random: Random) -> None:
        """The script has changed: one of its queries reads less."""
        edges = [(uid, u) for uid, shape in self.shapes.items() for u in (*shape.upstream, *shape.late)]
        if edges:
            reader, writer = random.choice(edges)
            self.shapes[reader] = self.shapes[reader].without(writer)

    # --- data -----------------------------------------------------------------------------------------------

    def start(self, task: str, random: Random, *, reads: bool) -> None:
        """:param reads: False for one that starts when the job is asked to end, or that an earlier epoch has
        drained.
        """
        shape, actor = self.shapes[parse_task_id(task)[0]], self.actors[task]
        self.epoch.add(task)
        actor.running, actor.stopped, actor.left, actor.until = reads, False, None, None
        actor.ran = actor.ran or reads
        if shape.available:
            actor.left = random.randint(0, 4)
            actor.until = {t: len(self.actors[t].log) for t in self.upstream(task)}

    def work(self, task: str, count: int) -> bool:
        """The query runs for a while. True if that was all of it."""
        shape, actor = self.shapes[parse_task_id(task)[0]], self.actors[task]
        if shape.own:
            made = count if actor.left is None else min(count, actor.left)
            self.make(task, made)
            actor.left = None if actor.left is None else actor.left - made
        for source in self.upstream(task):
            limit = self.limit(task, source)
            if actor.until is not None:
                limit = min(limit, actor.until.get(source, 0))
            self.take(task, source, min(actor.taken.get(source, 0) + count, limit))
        if actor.until is None or (shape.own and actor.left):
            return False
        over = all(actor.taken.get(t, 0) >= n for t, n in actor.until.items())
        actor.running = not over
        return over

    def leave_some(self, task: str, random: Random) -> bool:
        """The run that has ended may have left something of its own sources. True if so."""
        actor = self.actors[task]
        if not self.shapes[parse_task_id(task)[0]].own or random.random() < 0.7:
            return False
        actor.left = random.randint(0, 3)
        return True

    def make(self, task: str, count: int) -> None:
        actor = self.actors[task]
        for _ in range(count):
            actor.put((task, actor.made))
            actor.made += 1

    def limit(self, task: str, source: str) -> int:
        """Behind the barrier of a checkpoint nothing is taken before the task's own snapshot for it."""
        barriers = [
            cut.batch
            for n, cut in self.actors[source].cuts.items()
            if n not in self.dead and n not in self.stored and n not in self.actors[task].cuts
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

    # --- effects --------------------------------------------------------------------------------------------

    def carry_out(self, effect: Any, *, cut_short: bool = False) -> tuple[Any, ...] | None:
        """Do it; the event that answers.

        :param cut_short: a catch-up that has been told to stop where it is.
        """
        if isinstance(effect, fx.CatchUp):
            return self._catch_up(effect, cut_short)
        act = getattr(self, "_" + type(effect).__name__.lower(), None)
        return act(effect) if act else None

    def _stopatboundary(self, effect: fx.StopAtBoundary) -> tuple[Any, ...]:
        actor = self.actors[effect.task]
        actor.running, actor.stopped = False, True
        return "boundary_reached", effect.task, len(actor.log)

    def _catch_up(self, effect: fx.CatchUp, cut_short: bool) -> tuple[Any, ...]:
        shape, actor = self.shapes[parse_task_id(effect.task)[0]], self.actors[effect.task]
        for source, batch in effect.upstream.items():
            assert batch == len(self.actors[source].log), f"{source} went on after its end"
            if not actor.flushed:  # what was drained by an earlier epoch reads nothing
                self.take(
                    effect.task, source, min(batch, actor.taken.get(source, 0) + 1) if cut_short else batch
                )
        for source in (t for t in self.known(effect.task) if t not in effect.upstream):
            if not (actor.flushed or cut_short):  # of a stage that has finished and has not been started
                self.take(effect.task, source, len(self.actors[source].log))
        if shape.own and actor.left and not cut_short and not actor.flushed:
            self.make(effect.task, actor.left)
            actor.left = 0
        return self._stopatboundary(fx.StopAtBoundary(effect.task))

    def _firemaxwatermark(self, effect: fx.FireMaxWatermark) -> tuple[Any, ...]:
        actor = self.actors[effect.task]
        if not actor.flushed:
            actor.flushed = True
            actor.read_at_flush = self.known(effect.task)
            if actor.ran or actor.log:  # else there is no state
                actor.put((effect.task, "flushed"))
        return "max_watermark_fired", effect.task, len(actor.log)

    def _finish(self, effect: fx.Finish) -> tuple[Any, ...]:
        return "finished", effect.task

    def _close(self, effect: fx.Close) -> tuple[Any, ...]:
        return "closed", effect.task

    def _snapshot(self, effect: fx.Snapshot) -> tuple[Any, ...] | None:
        actor = self.actors[effect.task]
        if effect.number in self.dead or actor.stopped:
            return None  # a task that was told to stop has an end on its way, and that is what counts
        for source, batch in effect.upstream.items():
            assert batch is not None
            assert actor.taken.get(source, 0) <= batch, f"{effect.task} is beyond the barrier of {source}"
            if actor.running and actor.until is None:
                self.take(effect.task, source, batch)
        actor.pre_commit(effect.number)
        actor.cuts[effect.number] = actor.cut()
        return "snapshot_taken", effect.task, effect.number, len(actor.log)

    def _storecheckpoint(self, effect: fx.StoreCheckpoint) -> tuple[Any, ...]:
        n = effect.number
        if n in self.dead:
            return "checkpoint_durable", n
        for task, number in effect.pre_commit.items():
            self.actors[task].pre_commit(number)
        cuts = {t: self.actors[t].cuts.get(n) or self.actors[t].cut() for t in effect.batches}
        assert {t: c.batch for t, c in cuts.items()} == dict(effect.batches)
        for task in self.tasks:
            if task not in cuts:  # it has failed, or has not started in this epoch: its last committed batch
                cuts[task] = replace(self.actors[task].cut(), loose=bool(self.actors[task].begun))
            else:
                snapshot = n in self.actors[task].cuts
                assert snapshot or not self.actors[task].begun, f"{task} has batches that {n} has not"
            cuts[task].transactions = tuple(m for m in self.actors[task].pending if m <= n)
        for task in self.tasks:
            for source in self.upstream(task):
                assert cuts[task].taken.get(source, 0) <= cuts[source].batch, "the cut is not consistent"
        self.stored[n] = (self._record(effect, cuts), cuts)
        return "checkpoint_durable", n

    def _record(self, effect: fx.StoreCheckpoint, cuts: dict[str, Cut]) -> CheckpointRecord:
        stages = []
        before = {s.uid: s for s in (self.newest.stages if self.newest else ())}
        carried = {
            task_id(s.uid, t.index, len(s.tasks)) for s in before.values() for t in s.tasks if t.finished
        } - self.epoch
        for uid, tasks in self.names.items():
            if self.epoch.isdisjoint(tasks) and uid not in before:
                continue
            edges = before[uid].upstream if self.epoch.isdisjoint(tasks) else self.recorded_upstream(uid)
            record = StageRecord(
                uid,
                tuple(TaskRecord(i, t, cuts[t].batch) for i, t in enumerate(tasks)),
                (OperatorRecord(f"{uid}/sink", OperatorKind.SINK, "sink", False),),
                upstream=edges,
            )
            done = effect.finished | carried
            stages.append(finished.flagged(record, [i for i, t in enumerate(tasks) if t in done]))
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
        later = [n for n in actor.pending if n > effect.after]
        assert not later, f"V1: data of {effect.task} in transactions {later}, begun after its end"

    def _cancel(self, effect: fx.Cancel) -> None:
        self.actors[effect.task].running = False

    # --- crash ----------------------------------------------------------------------------------------------

    @property
    def restorable_elsewhere(self) -> bool:
        """The newest record says all: no task had staged what no transaction has."""
        return bool(self.index) and not any(c.loose for c in self.index[max(self.index)][1].values())

    def crash(self, *, elsewhere: bool) -> None:
        """All that was in memory is gone.

        :param elsewhere: the newest record is restored as a savepoint is: everything is cut back to it.
        """
        newest = max(self.index, default=0)
        _, cuts = self.index.get(newest, (None, {}))
        for task, actor in self.actors.items():
            cut = cuts.get(task) or Cut()
            actor.recover(cut.transactions)
            if elsewhere:
                actor.log = actor.log[: cut.batch]
                actor.taken, actor.made, actor.flushed = dict(cut.taken), cut.made, cut.flushed
                actor.begun = []
            actor.cuts, actor.running, actor.stopped, actor.left, actor.until = {}, False, False, None, None
        for (
            actor
        ) in self.actors.values():  # what a drain has flushed reads no more of what continues upstream of it
            actor.read_at_flush = tuple(t for t in actor.read_at_flush if self.actors[t].flushed)
        self.stored, self.dead, self.edges, self.epoch = {}, set(), {}, set()

    # --- V1 -------------------------------------------------------------------------------------------------

    def check_sinks(self, without: Iterable[str] = ()) -> None:
        """Nothing lost, nothing twice: when the job has come to an end of which a completed checkpoint says
        so.

        :param without: as in `plan`.
        """
        for task in self.tasks:
            uid, index = parse_task_id(task)
            actor, shape = self.actors[task], self.shapes[uid]
            made: list[Item] = [(task, i) for i in range(actor.made)]
            for source, count in actor.taken.items():
                offered = self.actors[source].log[:count]
                made += [(*i, uid) for i in offered if crc32(repr(i).encode()) % shape.parallelism == index]
            made += [(task, "flushed")] if (task, "flushed") in actor.log else []
            assert sorted(actor.log, key=repr) == sorted(made, key=repr), f"V1: {task}"
            if shape.commits and task in self.epoch:
                assert sorted(actor.shown, key=repr) == sorted(made, key=repr), f"V1: sink of {task}"
            read = [t for t in actor.read_at_flush if parse_task_id(t)[0] not in without]
            read = [t for t in read if (uid, parse_task_id(t)[0]) not in self.excused]
            for source in read if actor.flushed else ():
                assert actor.taken.get(source, 0) == len(self.actors[source].log), (
                    f"V1: {task} has missed {source}"
                )
