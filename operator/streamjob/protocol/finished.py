"""Finished flags, and driver-side state of stages that have finished in part (FLIP-147, "checkpoint format").

A stage that has finished in every task is done for good. One that has finished in some goes on with what the others hold:
list state is what is left to do and can be dealt out anew; broadcast state is the same in each, so one that has not finished
gives it; of union state each task may hold a part that no other has, so it must not be missing any.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from .errors import StreamJobError
from .records import FinishedStatus, StageRecord

T = TypeVar("T")


class UnionStatePartlyFinished(StreamJobError):
    reason = "UnionStatePartlyFinished"


class BroadcastStateMissing(StreamJobError):
    reason = "BroadcastStateMissing"


def flagged(stage: StageRecord, finished: Collection[int]) -> StageRecord:
    """The record with the flags of a checkpoint at whose trigger the tasks `finished` (by index) had finished."""
    tasks = tuple(replace(t, finished=t.index in finished) for t in stage.tasks)
    full = replace(stage, tasks=tasks, operators=()).status is FinishedStatus.FULLY
    return replace(stage, tasks=tasks, operators=tuple(replace(o, finished=full) for o in stage.operators))


def redistribute(entries: Sequence[Sequence[T]], parallelism: int) -> tuple[tuple[T, ...], ...]:
    """Deal the list state of the tasks that have not finished out to `parallelism` tasks, in runs of equal length, the
    first ones longer by one where it does not come out even. Nothing is lost, nothing is there twice."""
    everything = [entry for of_one_task in entries for entry in of_one_task]
    size, rest = divmod(len(everything), parallelism)
    cuts = [i * size + min(i, rest) for i in range(parallelism + 1)]
    return tuple(tuple(everything[a:b]) for a, b in itertools.pairwise(cuts))


def union(
    operator: str, entries: Mapping[int, Sequence[T]], finished: Collection[int], parallelism: int
) -> tuple[tuple[T, ...], ...]:
    """Union state: every task gets the entries of all, in the order of their indices.

    :raises UnionStatePartlyFinished: some tasks have finished and took their part with them.
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
    """Broadcast state: that of the first task that has not finished, for the others' may be gone.

    :param entries: of the tasks that gave any.
    :raises BroadcastStateMissing: only tasks that have finished gave any.
    """
    running = sorted(set(entries) - set(finished))
    if not running:
        raise BroadcastStateMissing(
            f"operator {operator} has broadcast state and no task that has not finished holds it",
            remedy="Restore another checkpoint",
        )
    return (tuple(entries[running[0]]),) * parallelism
