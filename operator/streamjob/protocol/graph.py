"""Stages, their tasks, and the edges between them: what FLIP-147 calls the execution graph.

The graph grows while the script starts its queries. An edge leads from stage to stage and connects every task
of the one with every task of the other. A stage names its upstream when it starts. A named stage may start
later or never; until then it is not part of the graph, unless it is expected.

An edge that only the restored checkpoint has is *assumed*: its reader has started, and nothing has shown yet
whether it is still there. It gives way to an edge that would close a circle with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from .errors import StreamJobError

_SHARD = re.compile(r"(.+)/(0|[1-9][0-9]{0,8})", re.DOTALL)


def task_id(uid: str, index: int = 0, parallelism: int = 1) -> str:
    """The engine's name of shard `index` of stage `uid`. A stage with one task has the uid itself, unless the
    uid looks like the name of a shard.
    """
    if parallelism == 1 and index == 0 and not _SHARD.fullmatch(uid):
        return uid
    return f"{uid}/{index}"


def parse_task_id(task: str) -> tuple[str, int]:
    """The stage's uid and the shard's index. Inverts `task_id` for any uid."""
    match = _SHARD.fullmatch(task)
    return (match[1], int(match[2])) if match else (task, 0)


@dataclass(frozen=True)
class TaskName:
    """Which task of the job a query is: number `index` of the `parallelism` tasks of stage `uid`.

    `name` is the query's name.
    """

    uid: str
    name: str
    index: int = 0
    parallelism: int = 1

    @property
    def task(self) -> str:
        """The task's id in the coordinator."""
        return task_id(self.uid, self.index, self.parallelism)


class GraphCycle(StreamJobError):
    """Stages that read from each other in a circle."""

    reason = "StagesInACircle"


@dataclass
class Stage:
    """A stage: `tasks` in the order of their start, `named` the uids that it reads from; ordered sets."""

    uid: str
    tasks: dict[str, None] = field(default_factory=dict)
    named: dict[str, None] = field(default_factory=dict)


@dataclass
class Graph:
    """`readers`: for the uid of a stage, started or not, the stages that named it as their upstream.

    :param assumed: edges that are assumed, as (writer, reader).
    """

    stages: dict[str, Stage] = field(default_factory=dict)
    readers: dict[str, dict[str, None]] = field(default_factory=dict)
    assumed: set[tuple[str, str]] = field(default_factory=set)

    def expect(self, uid: str) -> list[tuple[Stage, Stage]]:
        """The stage will start, and stages that name it as their upstream have to wait for it.

        :returns: the edges that exist from now on, as (upstream, downstream).
        """
        if uid in self.stages:
            return []
        stage = self.stages[uid] = Stage(uid)
        return [(stage, self.stages[r]) for r in self.readers.get(uid, ()) if r in self.stages]

    def add(self, task: str, upstream: Iterable[str] = ()) -> list[tuple[Stage, Stage]]:
        """Add a task.

        :returns: the edges that exist from now on, as (upstream, downstream).
        :raises GraphCycle: an edge would close a cycle. Nothing has changed then.
        """
        uid, _ = parse_task_id(task)
        edges = self.connect(uid, upstream)
        self.stages[uid].tasks[task] = None
        return edges

    def connect(self, uid: str, upstream: Iterable[str]) -> list[tuple[Stage, Stage]]:
        """The stage, started or not, reads from these stages.

        :returns: the edges that exist from now on, as (upstream, downstream).
        :raises GraphCycle: as `add`.
        """
        stage, named = self.stages.get(uid), dict.fromkeys(upstream)
        fresh = [u for u in named if stage is None or u not in stage.named]
        self._refuse_cycles(named, uid)
        self.assumed -= {(u, uid) for u in named}
        edges = self.expect(uid)
        stage = self.stages[uid]
        for u in fresh:
            stage.named[u] = None
            self.readers.setdefault(u, {})[uid] = None
            if u in self.stages:
                edges.append((self.stages[u], stage))
        return edges

    def assume(self, uid: str, upstream: Iterable[str]) -> list[tuple[Stage, Stage]]:
        """The stage, which has started, has read from these in an earlier epoch. Those that it reads from
        already, and those of which an edge would close a circle, change nothing.

        :returns: as `connect`.
        """
        edges: list[tuple[Stage, Stage]] = []
        for u in upstream:
            if u not in self.stages[uid].named and not self._path(uid, u, assumed=True):
                edges += self.connect(uid, [u])
                self.assumed.add((u, uid))
        return edges

    def drop_assumed(self) -> list[tuple[Stage, Stage]]:
        """Drop the assumed edges of which both ends have started.

        :returns: the edges that no longer exist, as (upstream, downstream).
        """
        return self._drop((u, r) for u, r in self.assumed if u in self.stages and self.stages[u].tasks)

    def break_circles(self) -> list[tuple[Stage, Stage]]:
        """Drop the assumed edges that close a circle. As `drop_assumed`."""
        gone: list[tuple[Stage, Stage]] = []
        for writer, reader in sorted(self.assumed):
            if self._path(reader, writer, assumed=True):
                gone += self._drop([(writer, reader)])
        return gone

    def _drop(self, edges: Iterable[tuple[str, str]]) -> list[tuple[Stage, Stage]]:
        gone = sorted(edges)
        self.assumed.difference_update(gone)
        for writer, reader in gone:
            del self.stages[reader].named[writer]
            del self.readers[writer][reader]
        return [(self.stages[w], self.stages[r]) for w, r in gone if w in self.stages]

    def upstream(self, uid: str) -> list[Stage]:
        """The stages that this stage reads from, as far as they are known."""
        return [self.stages[u] for u in self.stages[uid].named if u in self.stages]

    def downstream(self, uid: str) -> list[Stage]:
        return [self.stages[r] for r in self.readers.get(uid, ()) if r in self.stages]

    def downstream_first(self) -> list[str]:
        """The uids of all stages, each after the stages that read from it."""
        order: dict[str, None] = {}
        for uid in self.stages:
            todo = [(uid, False)]
            while todo:
                at, behind = todo.pop()
                if behind:
                    order[at] = None
                elif at not in order:
                    todo.append((at, True))
                    todo += [(reader.uid, False) for reader in self.downstream(at)]
        return list(order)

    def connected(self, uid: str) -> set[str]:
        """The uids of all stages that edges connect with this one, in either direction, including itself."""
        found, todo = {uid}, [uid]
        while todo:
            at = todo.pop()
            near = {s.uid for s in (*self.upstream(at), *self.downstream(at))} - found
            found |= near
            todo += near
        return found

    def upstream_first(self) -> list[str]:
        """The uids of all stages, each after the stages that it reads from."""
        return self.downstream_first()[::-1]

    def refuse_cycle(self, task: str, upstream: Iterable[str]) -> None:
        """Check new edges. Changes nothing.

        :raises GraphCycle: one of these edges would close a cycle.
        """
        self._refuse_cycles(upstream, parse_task_id(task)[0])

    def _refuse_cycles(self, upstream: Iterable[str], uid: str) -> None:
        for source in upstream:
            self._refuse_cycle(source, uid)

    def _refuse_cycle(self, source: str, target: str) -> None:
        path = self._path(target, source)
        if path:
            circle = " → ".join([source, *path])
            raise GraphCycle(
                f"stages read from each other in a circle: {circle}",
                remedy="Let one of them read from something that no stage of this job writes",
            )

    def _path(self, start: str, goal: str, *, assumed: bool = False) -> list[str]:
        """The stages from `start` downstream to `goal`, both included; empty if there is no path.

        :param assumed: along assumed edges as well.
        """
        if start == goal:
            return [start]
        if goal not in self.stages or not self.stages[goal].named:
            return []
        came_from = {start: start}
        todo = [start]
        while todo:
            uid = todo.pop()
            for reader in self.readers.get(uid, ()):
                if reader not in came_from and (assumed or (uid, reader) not in self.assumed):
                    came_from[reader] = uid
                    todo.append(reader)
        if goal not in came_from:
            return []
        path = [goal]
        while path[-1] != start:
            path.append(came_from[path[-1]])
        return path[::-1]
