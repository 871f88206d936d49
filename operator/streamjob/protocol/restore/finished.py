"""Finished flags, and driver-side state of partially finished stages (FLIP-147, "checkpoint format").

A stage that has finished in every task is done for good. A partially finished stage continues with the state
of its other tasks. List state is work that is left to do, so it can be redistributed. Broadcast state is the
same in every task, so any unfinished task can provide it. With union state each task may hold a part that no
other task has, so no part may be missing.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ..errors import StreamJobError
from ..formats.records import FinishedStatus, StageRecord

T = TypeVar("T")


class UnionStatePartlyFinished(StreamJobError):
    reason = "UnionStatePartlyFinished"


class BroadcastStateMissing(StreamJobError):
    reason = "BroadcastStateMissing"


def flagged(stage: StageRecord, finished: Collection[int]) -> StageRecord:
    """The record with the finished flags of a checkpoint.

    :param finished: indices of the tasks that had finished when the checkpoint was triggered.
    """
    tasks = tuple(replace(t, finished=t.index in finished) for t in stage.tasks)
    full = replace(stage, tasks=tasks, operators=()).status is FinishedStatus.FULLY
    return replace(stage, tasks=tasks, operators=tuple(replace(o, finished=full) for o in stage.operators))


def redistribute(entries: Sequence[Sequence[T]], parallelism: int) -> tuple[tuple[T, ...], ...]:
    """Redistribute the list state of unfinished tasks to `parallelism` tasks.

    Each task gets a contiguous run of entries. The runs have equal length; the first ones are longer by one
    if there is a remainder. No entry is lost or duplicated.
    """
    everything = [entry for of_one_task in entries for entry in of_one_task]
    size, rest = divmod(len(everything), parallelism)
    cuts = [i * size + min(i, rest) for i in range(parallelism + 1)]
    return tuple(tuple(everything[a:b]) for a, b in itertools.pairwise(cuts))


def union(
    operator: str, entries: Mapping[int, Sequence[T]], finished: Collection[int], parallelism: int
) -> tuple[tuple[T, ...], ...]:
    """Union state: every task gets the entries of all tasks, in the order of their indices.

    :raises UnionStatePartlyFinished: some tasks have finished, and their part is lost.
    """
    if finished and set(entries) - set(finished):
        raise UnionStatePartlyFinished(
            f"operator {operator} has union state and has finished in some tasks: what those held is lost",
            remedy="Restore a checkpoint from before the first of them finished, or after the last",
        )
    everything = tuple(entry for index in sorted(entries) for entry in entries[index])
    return (everything,) * parallelism


def broadcast(
    operator: str, entries: Mapping[int, Sequence[T]], finished: Collection[int], parallelism: int
) -> tuple[tuple[T, ...], ...]:
    """Broadcast state: the entries of the first unfinished task, because those of finished tasks may be lost.

    :param entries: by index, of the tasks that provided any.
    :raises BroadcastStateMissing: only finished tasks provided any.
    """
    running = sorted(set(entries) - set(finished))
    if not running:
        raise BroadcastStateMissing(
            f"operator {operator} has broadcast state and no task that has not finished holds it",
            remedy="Restore another checkpoint",
        )
    return (tuple(entries[running[0]]),) * parallelism
