"""How far the data of each stage has come to its end, kept in counters, so that no event has to walk over all
tasks.

EndOfData and EndOfPartition (FLIP-147, "the revised process of finishing") follow from the counters. A stage
has sent EndOfData when none of its tasks is open, and EndOfPartition when all of its tasks are closed. A
downstream stage has received it when every stage that it reads from has sent it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..graph import Graph, Stage


class Counters(NamedTuple):
    """What one task contributes to the counters of its stage and of the job, and the sums of that."""

    running: int = 0
    failed: int = 0
    expected: int = 0  # restored, declared or named as upstream, but not started yet
    open: int = 0  # has not sent EndOfData: more may come from it
    unclosed: int = 0  # has not sent EndOfPartition; without failed runs, which never will
    stopped: int = 0  # its run has ended and its operators have not finished: the script may start it again
    draining: int = 0  # will end, or has ended, with EndOfData[isDrain = true]
    begun: int = 0  # its termination has begun
    ending: int = 0  # its termination has begun and is not over
    flushing: int = 0  # the same, and its max watermark fires: it can take no snapshot

    def plus(self, other: Counters, sign: int = 1) -> Counters:
        return Counters(*(a + sign * b for a, b in zip(self, other, strict=True)))


NOTHING = Counters()
EXPECTED = Counters(expected=1, open=1)
ABSENT = Counters(stopped=1)  # of the restored checkpoint, and the script has ended without starting it


@dataclass
class StageCounters:
    """The counters of one stage.

    :param tasks: the sum over the tasks of the stage.
    :param upstream_open: number of upstream stages that are open.
    :param upstream_unclosed: number of upstream stages that are not closed.
    :param downstream_open: number of downstream stages that are open and still take data.
    """

    tasks: Counters = NOTHING
    upstream_open: int = 0
    upstream_unclosed: int = 0
    downstream_open: int = 0


@dataclass
class JobCounters:
    """Counters over the tasks of each stage and of the whole job."""

    graph: Graph
    stages: dict[str, StageCounters] = field(default_factory=dict)
    total: Counters = NOTHING

    def of(self, uid: str) -> StageCounters:
        return self.stages.setdefault(uid, StageCounters())

    def connect(self, edges: list[tuple[Stage, Stage]]) -> None:
        """Count edges that exist from now on, as (upstream, downstream)."""
        self._count(edges, 1)

    def disconnect(self, edges: list[tuple[Stage, Stage]]) -> None:
        """Count edges that exist no longer."""
        self._count(edges, -1)

    def _count(self, edges: list[tuple[Stage, Stage]], sign: int) -> None:
        for source, target in edges:
            a, b = self.of(source.uid), self.of(target.uid)
            b.upstream_open += sign * (a.tasks.open > 0)
            b.upstream_unclosed += sign * (a.tasks.unclosed > 0)
            a.downstream_open += sign * (b.tasks.open > 0)

    def change(self, uid: str, before: Counters, after: Counters) -> None:
        """A task of the stage contributed `before` and now contributes `after`."""
        stage = self.of(uid)
        old, new = stage.tasks, stage.tasks.plus(before, -1).plus(after)
        stage.tasks = new
        self.total = self.total.plus(before, -1).plus(after)
        opened = (new.open > 0) - (old.open > 0)
        unclosed = (new.unclosed > 0) - (old.unclosed > 0)
        if opened or unclosed:
            for reader in self.graph.downstream(uid):
                self.of(reader.uid).upstream_open += opened
                self.of(reader.uid).upstream_unclosed += unclosed
        if opened:
            for source in self.graph.upstream(uid):
                self.of(source.uid).downstream_open += opened
