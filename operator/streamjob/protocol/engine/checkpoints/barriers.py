"""The barriers of one checkpoint on their way down the graph (FLIP-147, "support checkpointing with finished
tasks").

A barrier says that upstream has taken its snapshot. What upstream had committed and downstream has not read
is durable, and part of no state (ADR 7). A checkpoint begins at its roots: the running tasks that have no
running task upstream. A stage is asked for its snapshot when each of its channels has the barrier. A channel
whose task has ended has the barrier from the beginning, as if it had been inserted after the last record.

Every task of a stage is connected with every task of the next stage, so all tasks of a stage are aligned at
the same moment. This module therefore counts stages, not channels.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...graph import Graph, parse_task_id


class Barriers:
    """The barriers of one checkpoint.

    :param running: the tasks that must take a snapshot. Everything else in the graph has ended.
    """

    def __init__(self, graph: Graph, running: Iterable[str]) -> None:
        self._graph = graph
        self._left: dict[str, set[str]] = {}
        for task in running:
            self._left.setdefault(parse_task_id(task)[0], set()).add(task)
        self._unaligned = {
            uid: sum(1 for source in graph.upstream(uid) if source.uid in self._left) for uid in self._left
        }

    @property
    def all_passed(self) -> bool:
        """Whether every snapshot has been taken."""
        return not self._left

    def roots(self) -> list[str]:
        """The uids of the stages at which the checkpoint is triggered."""
        return [uid for uid, count in self._unaligned.items() if count == 0]

    def waits_for(self, task: str) -> bool:
        """Whether the task has yet to take its snapshot, asked for or not."""
        return task in self._left.get(parse_task_id(task)[0], ())

    def is_aligned(self, task: str) -> bool:
        """Whether all of the task's channels have the barrier and its snapshot has not been taken yet."""
        return self.waits_for(task) and self._unaligned[parse_task_id(task)[0]] == 0

    def passed(self, task: str) -> list[str]:
        """Note that the task has taken its snapshot.

        :returns: the uids of the stages that are aligned as a result.
        """
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
