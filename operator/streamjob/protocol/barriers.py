"""The barriers of one checkpoint on their way down the graph (FLIP-147, "support checkpointing with finished tasks").

A barrier says: downstream has committed all that upstream had committed at its snapshot. The checkpoint begins at its roots,
the running tasks without a running task upstream. A stage is told to take its snapshot when each of its channels has the
barrier; a channel whose task has ended has it from the beginning, as if it had been inserted behind the last record.

Every task of a stage is connected with every task of the next, so all of a stage is aligned at the same moment: this
counts stages, not channels.
"""

from __future__ import annotations

from collections.abc import Iterable

from .graph import Graph, parse_task_id


class Barriers:
    """:param running: the tasks that have to take a snapshot; whatever else is in the graph has ended."""

    def __init__(self, graph: Graph, running: Iterable[str]) -> None:
        self._graph = graph
        self._left: dict[str, set[str]] = {}
        for task in running:
            self._left.setdefault(parse_task_id(task)[0], set()).add(task)
        self._unaligned = {
            uid: sum(1 for source in graph.upstream(uid) if source.uid in self._left) for uid in self._left
        }

    @property
    def through(self) -> bool:
        """Every snapshot has been taken."""
        return not self._left

    def roots(self) -> list[str]:
        """The stages that the checkpoint is triggered at."""
        return [uid for uid, count in self._unaligned.items() if count == 0]

    def waits_for(self, task: str) -> bool:
        """Its snapshot has not been taken, whether it has been asked for or not."""
        return task in self._left.get(parse_task_id(task)[0], ())

    def asked(self, task: str) -> bool:
        """All its channels have the barrier, and its snapshot is what is waited for."""
        return self.waits_for(task) and self._unaligned[parse_task_id(task)[0]] == 0

    def passed(self, task: str) -> list[str]:
        """The snapshot of a task has been taken; the stages that are aligned by that."""
        uid = parse_task_id(task)[0]
        self._left[uid].remove(task)
        if self._left[uid]:
            return []
        del self._left[uid]
        aligned = []
        for reader in self._graph.downstream(uid):
            if reader.uid in self._left:
                self._unaligned[reader.uid] -= 1
                if self._unaligned[reader.uid] == 0:
                    aligned.append(reader.uid)
        return aligned
