"""What outlives a driver: what has arrived at the sources, the queries' directories, the sinks, the index."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.restore.recovery import spent

from .plan import Plan, StageSpec

Row = tuple[str, ...]  # its name at the source, and the stages that it went through


@dataclass(frozen=True)
class Batch:
    """A committed batch: the positions behind it, what it wrote, and what the query still holds back.

    :param last: all timers have fired in it: it is that of the max watermark.
    """

    own: int
    read: dict[str, int]
    rows: tuple[Row, ...]
    held: tuple[Row, ...]
    last: bool = False


NOTHING = Batch(0, {}, (), ())


@dataclass
class Directory:
    """
    :param planned: the batch of the max watermark is in the offset log, and not in the commit log.
    :param marked: so many batches it had when a reader of it was flushed, and it could not be flushed itself.
    """

    spec: StageSpec
    index: int
    batches: list[Batch] = field(default_factory=list)
    planned: bool = False
    marked: int | None = None

    @property
    def latest(self) -> int | None:
        return len(self.batches) - 1 if self.batches else None

    @property
    def at(self) -> Batch:
        return self.batches[-1] if self.batches else NOTHING

    @property
    def flushed(self) -> bool:
        return self.at.last

    @property
    def drained(self) -> bool:
        return self.planned or self.flushed or self.marked == len(self.batches)

    @property
    def rows(self) -> list[Row]:
        return [row for batch in self.batches for row in batch.rows]


@dataclass
class Sink:
    """A transactional sink. It stages the rows of each batch; `prepared` has the batches of a transaction."""

    prepared: dict[int, list[int]] = field(default_factory=dict)
    visible: Counter[int] = field(default_factory=Counter)

    def taken(self) -> set[int]:
        return {b for batches in self.prepared.values() for b in batches} | set(self.visible)

    def pre_commit(self, number: int, batch: int | None) -> None:
        taken = self.taken()
        new = [b for b in range(0 if batch is None else batch + 1) if b not in taken]
        if new and number not in self.prepared:
            self.prepared[number] = new

    def commit(self, number: int) -> None:
        for n in sorted(n for n in self.prepared if n <= number):
            self.visible.update(self.prepared.pop(n))

    def abort_after(self, number: int) -> None:
        self.prepared = {n: b for n, b in self.prepared.items() if n <= number}

    def recover(self, recorded: set[int]) -> None:
        for n in sorted(self.prepared):
            batches = self.prepared.pop(n)
            if n in recorded:
                self.visible.update(batches)


@dataclass
class World:
    plan: Plan
    directories: dict[str, Directory]
    sinks: dict[str, Sink]
    arrived: dict[str, int]
    index: CheckpointRecord | None = None
    next_checkpoint: int = 1
    index_at_start: CheckpointRecord | None = None
    stopped: set[str] = field(default_factory=set)
    """The stages that the script has stopped, and what reads from them: "EndOfData[finished = false]" goes
    downstream, so they need not emit everything.
    """
    late: set[tuple[str, str]] = field(default_factory=set)
    """Edges, as (writer, reader), of a stage that no record has and that a drain found not started when it
    ended the reader. "A script that is asked to drain in front of a wait has told all of its queries"
    (docs/adr/0055).
    """

    @classmethod
    def new(cls, plan: Plan) -> World:
        specs = plan.stages.values()
        directories = {t: Directory(s, i) for s in specs for i, t in enumerate(s.tasks)}
        return cls(
            plan,
            directories,
            {t: Sink() for s in specs if s.commits for t in s.tasks},
            {t: 0 for s in specs if s.own for t in s.tasks},
        )

    def restored_from(self, record: CheckpointRecord) -> World:
        """What another job has that starts from a savepoint of this checkpoint (row 13)."""
        batches = {
            name: task.batch
            for stage in record.stages
            for name, task in zip(self.plan.stages[stage.uid].tasks, stage.tasks, strict=True)
        }
        world = World.new(self.plan)
        world.arrived, world.stopped, world.late = dict(self.arrived), set(self.stopped), set(self.late)
        for name, there in world.directories.items():
            last = batches.get(name)
            there.batches = self.directories[name].batches[: 0 if last is None else last + 1]
            marked = self.directories[name].marked
            there.marked = marked if marked == len(there.batches) else None
            if name in world.sinks:
                world.sinks[name].visible.update(range(len(there.batches)))
        stages = tuple(
            replace(s, tasks=tuple(replace(t, transactions=()) for t in s.tasks)) for s in record.stages
        )
        world.index, world.next_checkpoint = replace(record, stages=stages), record.checkpoint + 1
        return world

    def stops(self, uid: str) -> None:
        todo = [uid]
        while todo:
            self.stopped.add(at := todo.pop())
            todo += self.plan.readers(at)

    def is_recorded(self, uid: str) -> bool:
        """Whether the restored checkpoint has the stage: the driver knows no other one before it starts."""
        return self.index_at_start is not None and any(s.uid == uid for s in self.index_at_start.stages)

    def is_spent(self, task: str) -> bool:
        """Whether the restored checkpoint says that nothing more comes from the stage, and the task has read
        nothing since. Nothing waits for it.
        """
        record, there = self.index_at_start, self.directories[task]
        stage = next((s for s in record.stages if s.uid == there.spec.uid), None) if record else None
        if record is None or stage is None or stage.uid not in spent(record.stages):
            return False
        return stage.tasks[there.index].batch == there.latest

    # --- queries --------------------------------------------------------------------------------------------

    def unread(self, task: str, upstream: str) -> list[Row]:
        """What the task has yet to read of another one: its share by a hash of the row."""
        there, source = self.directories[task], self.directories[upstream]
        rows = source.rows[there.at.read.get(upstream, 0) :]
        return [row for row in rows if share(row, there.spec.parallelism) == there.index]

    def mark(self, task: str) -> None:
        """The task reads nothing more: a reader of it is about to be flushed."""
        there = self.directories[task]
        there.marked = there.marked if there.drained else len(there.batches)

    def sources(self, task: str) -> list[str]:
        stages = self.plan.stages
        return [t for u in self.directories[task].spec.upstream for t in stages[u].tasks]

    def read(self, task: str, own: int, upstream: dict[str, int]) -> Batch | None:
        """Commit a batch up to these positions. None if there is nothing to read."""
        there = self.directories[task]
        before = there.at
        rows = [(f"{task}.{n}",) for n in range(before.own, own)]
        for name, upto in upstream.items():
            start = before.read.get(name, 0)
            rows += [
                row
                for row in self.directories[name].rows[start:upto]
                if share(row, there.spec.parallelism) == there.index
            ]
        read = {**before.read, **upstream}
        if own == before.own and all(before.read.get(u, 0) == n for u, n in read.items()):
            return None
        held = [row for row in rows if there.spec.windows and share(row, 3) == 0]
        out = tuple((*row, there.spec.uid) for row in rows if row not in held)
        batch = Batch(own, read, out, before.held + tuple(held))
        there.batches.append(batch)
        return batch

    def read_all(self, task: str) -> Batch | None:
        """Commit a batch with everything that upstream has written."""
        ends = {u: len(self.directories[u].rows) for u in self.sources(task)}
        return self.read(task, self.directories[task].at.own, ends)

    def flush(self, task: str) -> Batch | None:
        there = self.directories[task]
        there.planned = False
        if there.flushed:
            return None
        before = there.at
        if not there.spec.windows:
            return None
        rows = tuple((*row, there.spec.uid) for row in before.held)
        there.batches.append(replace(before, rows=rows, held=(), last=True))
        return there.at


def share(row: Row, of: int) -> int:
    return sum(map(ord, "".join(row))) % of
