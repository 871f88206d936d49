"""The tasks of the job, the graph that connects them, and the counters over both: who joins, and what is too
late to join.

A stage joins when its first run starts, or when it is announced: by the restored checkpoint, by a
declaration, or by a stage that reads from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..errors import StreamJobError
from ..graph import Graph, Stage, parse_task_id
from ..lifecycle import Scenario
from .counters import ABSENT, EXPECTED, NOTHING, JobCounters, StageCounters
from .task import Task


class UpstreamTooLate(StreamJobError):
    """A stage starts after its reader began to be flushed, or was flushed: nothing would read its output."""

    reason = "UpstreamStartedTooLate"


class EdgeTooLate(StreamJobError):
    """An edge is declared to a stage that is being flushed and did not wait for its new upstream."""

    reason = "EdgeTooLate"


@dataclass
class Roster:
    """The tasks by id, and the graph. Every change of a task goes through `changing`, which keeps the
    counters right.

    :param expected: tasks of the restored checkpoint, or declared ones, that have not started yet.
    :param recorded: those of the restored checkpoint among them.
    :param read_before: from which stages one has read in the epoch of the restored checkpoint. Assumed when
        the reader starts.
    :param unconfirmed: edges of the restored checkpoint, as `read_before`, that the script has not shown when
        it waited for its queries. A drain counts them again: a declaration or the first write of a
        foreachBatch function may still show them.
    :param freed: tasks that may wait for each other no longer, because an edge between them was dropped.
    :param begins: the script may still be starting what was restored: it has not waited for its queries yet.
    :param declared: the declared ones among them, by stage.
    :param rounds: as `coordinator.Coordinator`.
    :param requested: how the job is asked to end, None if it is not.
    :param script_ended: the script starts no other run.
    :param cut_short: a stop was requested before the script had ended, so the job goes on when it is resumed,
        whatever has finished by then.
    :param termination_announced: a termination request is announced. No termination begins before the request
        is known.
    :param named: uids of stages that have not started and that another stage reads from. That stage waits for
        them as for expected tasks.
    :param fresh: the job ends with a checkpoint of this epoch: the restored one was not its end, or a task
        has run since.
    """

    tasks: dict[str, Task]
    expected: dict[str, None] = field(default_factory=dict)
    recorded: set[str] = field(default_factory=set)
    read_before: dict[str, list[str]] = field(default_factory=dict)
    unconfirmed: dict[str, list[str]] = field(default_factory=dict)
    freed: list[str] = field(default_factory=list)
    begins: bool = True
    declared: dict[str, set[str]] = field(default_factory=dict)
    rounds: bool = False
    requested: Scenario | None = None
    script_ended: bool = False
    cut_short: bool = False
    termination_announced: bool = False
    named: dict[str, None] = field(default_factory=dict)
    fresh: bool = False
    graph: Graph = field(default_factory=Graph)
    counters: JobCounters = field(init=False)

    def __post_init__(self) -> None:
        self.counters = JobCounters(self.graph)

    @property
    def has_tasks(self) -> bool:
        """Whether the job can end, and have checkpoints."""
        return bool(self.tasks)

    def restore(self, names: Iterable[str], edges: Iterable[tuple[str, str]] = (), *, fresh: bool) -> None:
        """The restored checkpoint has these tasks. Comes before any task.

        :param edges: as (writer, reader).
        """
        assert not self.tasks
        self.fresh, declared = fresh, set(self.graph.stages)
        for writer, reader in edges:
            self.read_before.setdefault(reader, []).append(writer)
            self.counters.connect(self.graph.expect(writer))
        for name in names:
            uid = parse_task_id(name)[0]
            if uid in declared:
                continue
            self.expected[name] = None
            self.recorded.add(name)
            self.counters.connect(self.graph.expect(uid))
            self.counters.change(uid, NOTHING, EXPECTED)

    def counters_of(self, name: str) -> StageCounters:
        return self.counters.of(parse_task_id(name)[0])

    def sources(self, uid: str) -> list[Stage]:
        """The stages that this stage reads from and that have started."""
        return [stage for stage in self.graph.upstream(uid) if stage.tasks]

    @contextmanager
    def changing(self, name: str) -> Iterator[Task]:
        task = self.tasks[name]
        before = task.counters()
        yield task
        self.counters.change(parse_task_id(name)[0], before, task.counters())

    # --- tasks join -----------------------------------------------------------------------------------------

    def put(self, name: str, task: Task, upstream: Iterable[str]) -> None:
        """Add a task, or let it take the place of its earlier run.

        :raises GraphCycle: see `Graph.add`.
        """
        uid, _ = parse_task_id(name)
        known = self.graph.stages[uid].named if uid in self.graph.stages else {}
        fresh = [u for u in upstream if u not in known or (u, uid) in self.graph.assumed]
        self.counters.connect(self.graph.add(name, fresh))
        self._drop(self.graph.break_circles())
        self._await(fresh)
        self._arrives(uid)
        before = self.tasks[name].counters() if name in self.tasks else NOTHING
        if name in self.expected:
            self._expects_no_more(uid, name)
            before = EXPECTED
        self.tasks[name] = task
        self.counters.change(parse_task_id(name)[0], before, task.counters())
        self.counters.connect(self.graph.assume(uid, self.read_before.pop(uid, ())))

    def expect(self, uid: str, names: Iterable[str]) -> None:
        """The stage will have these tasks, whatever was expected of it before."""
        self.counters.connect(self.graph.expect(uid))
        self._arrives(uid)
        wanted = dict.fromkeys(names)
        for name in [n for n in wanted if n not in self.tasks and n not in self.expected]:
            self.expected[name] = None
            self.counters.change(uid, NOTHING, EXPECTED)
        missing = {name for name in wanted if name in self.expected}
        if missing:
            self.declared[uid] = missing
        for name in [n for n in self.expected if parse_task_id(n)[0] == uid and n not in wanted]:
            self._expects_no_more(uid, name)
            self.counters.change(uid, EXPECTED, NOTHING)

    def _expects_no_more(self, uid: str, name: str) -> None:
        del self.expected[name]
        self.recorded.discard(name)
        if uid in self.declared:
            self.declared[uid].discard(name)
            if not self.declared[uid]:
                del self.declared[uid]

    @property
    def partly_started(self) -> bool:
        """Whether some shards of a stage have started and others are about to: a checkpoint would have the
        stage with another parallelism.
        """
        return any(self.graph.stages[uid].tasks for uid in self.declared)

    def forget_expected(self, left: Iterable[str] = ()) -> list[str]:
        """Drop what has not started by now: it is not part of the job.

        :param left: uids of stages of the restored checkpoint that stay expected.
        :returns: the uids of the stages that are dropped.
        """
        stays = {name for name in self.recorded if parse_task_id(name)[0] in set(left)}
        uids = [*(parse_task_id(name)[0] for name in self.expected if name not in stays), *self.named]
        self.expected = {name: None for name in self.expected if name in stays}
        self.recorded, self.begins = stays, False
        self.named.clear()
        self.declared.clear()
        for uid in uids:
            self.counters.change(uid, EXPECTED, NOTHING)
        return list(dict.fromkeys(uids))

    def continue_elsewhere(self, uids: Iterable[str]) -> None:
        """The script has ended. These stages have not started, and another epoch continues them."""
        for uid in uids:
            self.counters.connect(self.graph.expect(uid))
            self.counters.change(uid, NOTHING, ABSENT)

    def _await(self, uids: Iterable[str]) -> None:
        """A stage reads from these: expect those that have not started, unless the script has ended."""
        for uid in () if self.script_ended else uids:
            self.counters.connect(self.graph.expect(uid))
            if not self.graph.stages[uid].tasks and not self.counters.of(uid).tasks.expected:
                self.named[uid] = None
                self.counters.change(uid, NOTHING, EXPECTED)

    def _arrives(self, uid: str) -> None:
        if uid in self.named:
            del self.named[uid]
            self.counters.change(uid, EXPECTED, NOTHING)

    def finished_before(self, name: str) -> list[str]:
        """The tasks of the stages upstream of the task's, directly or not, that have finished."""
        todo = [parse_task_id(name)[0]]
        for uid in todo:
            todo += [s.uid for s in self.graph.upstream(uid) if s.uid not in todo]
        tasks = [t for uid in todo[1:] for t in self.graph.stages[uid].tasks]
        return [t for t in tasks if self.tasks[t].operators_finished]

    def names_upstream(self, uid: str) -> bool:
        """Whether the stage is known to read from another stage of the job, started or not."""
        return uid in self.graph.stages and bool(self.graph.stages[uid].named)

    # --- edges join -----------------------------------------------------------------------------------------

    def drop_assumed(self) -> bool:
        """The script waits for its queries, or has ended. What it has started and not shown to be connected
        is not, as far as one knows, unless the job is asked to end.

        :returns: whether an edge was dropped.
        """
        if self.requested is not None:
            return False
        gone = self.graph.drop_assumed()
        for writer, reader in gone:
            self.unconfirmed.setdefault(reader.uid, []).append(writer.uid)
        self._drop(gone)
        return bool(gone)

    def assume_again(self) -> bool:
        """The job drains.

        :returns: whether there are edges that did not count before.
        """
        edges = [e for uid in list(self.unconfirmed) for e in self.graph.assume(uid, self._unconfirmed(uid))]
        self.unconfirmed.clear()
        self.counters.connect(edges)
        return bool(edges)

    def _unconfirmed(self, uid: str) -> list[str]:
        """None of a stage that has been flushed: that it did not wait for them has been decided."""
        flushed = all(self.tasks[t].drains for t in self.graph.stages[uid].tasks)
        return [] if flushed else self.unconfirmed.get(uid, [])

    def upstream(self, uid: str) -> tuple[str, ...]:
        """The uids of the stages that this one reads from, as far as one knows, started or not."""
        stage = self.graph.stages.get(uid)
        return tuple(dict.fromkeys([*stage.named, *self._unconfirmed(uid)])) if stage else ()

    def take_freed(self) -> list[str]:
        """`freed`, which is empty then."""
        freed, self.freed = self.freed, []
        return freed

    def _drop(self, gone: list[tuple[Stage, Stage]]) -> None:
        self.counters.disconnect(gone)
        self.freed += [name for edge in gone for stage in edge for name in stage.tasks]

    def connect(self, uid: str, upstream: str, *, own_sources: bool = False) -> list[tuple[Stage, Stage]]:
        """A stage that has started reads from another one.

        :param own_sources: the stage also reads something that no stage writes.
        :returns: the edges that exist from now on, as (upstream, downstream).
        :raises GraphCycle: see `Graph.add`.
        """
        edges = self.graph.connect(uid, [upstream])
        self.counters.connect(edges)
        self._drop(self.graph.break_circles())
        self._await([upstream])
        for task in self.graph.stages[uid].tasks:
            self.tasks[task].own_sources = own_sources
        return edges

    def declare(
        self, uid: str, upstream: str, *, own_sources: bool = False
    ) -> list[tuple[Stage, Stage]] | None:
        """Like `connect`, for an edge that the queries did not show.

        :returns: the edges that exist from now on; None if the edge was already known.
        :raises EdgeTooLate: the stage is being flushed and did not wait for `upstream`.
        :raises GraphCycle: see `Graph.add`.
        """
        stage = self.graph.stages.get(uid)
        if stage is not None:
            if (upstream, uid) in self.graph.assumed:
                self.connect(uid, upstream, own_sources=own_sources)
                return []
            if upstream in stage.named:
                return None
            if any(self._too_late_to_read(self.tasks[t], upstream) for t in stage.tasks):
                raise EdgeTooLate(
                    f"stage {uid!r} is declared to read from {upstream!r} when it is being flushed",
                    remedy="Declare the edge before either of them ends, best before they start",
                )
        return self.connect(uid, upstream, own_sources=own_sources)

    def _too_late_to_read(self, task: Task, upstream: str) -> bool:
        """Whether the task is being flushed, or was, and has not waited for `upstream`.

        A task that an earlier epoch drained (`drained_before`) is never too late: it reads nothing more, and
        a refusal would not change that. A task that was restored as finished is too late only if `upstream`
        may still write something.
        """
        if task.scenario is None or not task.scenario.is_drain or task.can_start_again or task.drained_before:
            return False
        if not task.restored:
            return True
        source = self.graph.stages.get(upstream)
        tasks = [self.tasks[t] for t in source.tasks] if source else []
        return not all(t.operators_finished or t.drained_before for t in tasks)

    def flushed(self, uid: str, *, assumed: bool) -> Iterator[tuple[str, Task]]:
        """The tasks that read from the stage and are being flushed, or were, in this epoch or before.

        Each comes after the uid of its stage.

        :param assumed: also those of which only the restored checkpoint knows that they do, unless they were
            flushed before the drain: that they did not wait for the stage had been decided.
        """
        for reader in self.graph.downstream(uid):
            if not self.counters.of(reader.uid).tasks.draining:
                continue
            shown = (uid, reader.uid) not in self.graph.assumed
            for task in map(self.tasks.__getitem__, reader.tasks):
                if task.drains and (shown or (assumed and task.scenario is not Scenario.END_OF_INPUT)):
                    yield reader.uid, task

    def misses_the_end(self, name: str) -> bool:
        """Whether what the end of the task brings out would be missed by a stage that was flushed."""
        task = self.tasks[name]
        emits = task.emits and not task.drained_before
        return emits and any(True for _ in self.flushed(parse_task_id(name)[0], assumed=True))

    def refuse_if_too_late(self, name: str) -> None:
        """Refuse a task that starts too late to be read. Not once the job is asked to end: a task that starts
        then reads nothing, so it has no output that could be lost.

        One that an earlier epoch has drained reads nothing either, and is not refused.

        :raises UpstreamTooLate: a stage that reads from the task's stage is being flushed or was flushed.
        """
        uid = parse_task_id(name)[0]
        if self.requested is not None or self.termination_announced:
            return
        for reader, task in self.flushed(uid, assumed=False):
            raise UpstreamTooLate(
                f"stage {uid!r} starts when all input of stage {reader!r} has ended and "
                f"{'was flushed by an earlier driver' if task.drained_before else 'is being flushed'}: "
                "what it produces would never be read",
                remedy="Drain the job, which needs nothing more of either"
                if task.drained_before
                else f"Start {uid!r} before {reader!r}, and {reader!r} again from the output of both",
            )
