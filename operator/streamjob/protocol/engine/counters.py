"""How far the data of each stage has come to its end, kept in counters, so that no event has to walk over all
tasks.

EndOfData and EndOfPartition (FLIP-147, "the revised process of finishing") follow from the counters. A stage
has sent EndOfData when none of its tasks is open, and EndOfPartition when all of its tasks are closed. A
downstream stage has received it when every stage that it reads from has sent it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..graph import Graph, Stage
from .task import NOTHING, Tally


@dataclass
class StageFlow:
    """The counters of one stage.

    :param tally: sum over the tasks of the stage.
    :param behind_open: number of upstream stages that are open.
    :param behind_unclosed: number of upstream stages that are not closed.
    :param ahead_open: number of downstream stages that are open and still take data.
    """

    tally: Tally = NOTHING
    behind_open: int = 0
    behind_unclosed: int = 0
    ahead_open: int = 0


@dataclass
class Flow:
    """Counters over the tasks of each stage and of the whole job."""

    graph: Graph
    stages: dict[str, StageFlow] = field(default_factory=dict)
    total: Tally = NOTHING

    def of(self, uid: str) -> StageFlow:
        return self.stages.setdefault(uid, StageFlow())

    def connect(self, edges: list[tuple[Stage, Stage]]) -> None:
        """Count edges that exist from now on, as (upstream, downstream)."""
        for source, target in edges:
            a, b = self.of(source.uid), self.of(target.uid)
            b.behind_open += a.tally.open > 0
            b.behind_unclosed += a.tally.unclosed > 0
            a.ahead_open += b.tally.open > 0

    def change(self, uid: str, before: Tally, after: Tally) -> None:
        """A task of the stage contributed `before` and now contributes `after`."""
        stage = self.of(uid)
        old, new = stage.tally, stage.tally.plus(before, -1).plus(after)
        stage.tally = new
        self.total = self.total.plus(before, -1).plus(after)
        opened = (new.open > 0) - (old.open > 0)
        unclosed = (new.unclosed > 0) - (old.unclosed > 0)
        if opened or unclosed:
            for reader in self.graph.downstream(uid):
                self.of(reader.uid).behind_open += opened
                self.of(reader.uid).behind_unclosed += unclosed
        if opened:
            for source in self.graph.upstream(uid):
                self.of(source.uid).ahead_open += opened
