"""A stage's part of a checkpoint, made of its tasks' parts."""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.engine.effects import StoreCheckpoint
from ...protocol.formats.records import StageRecord
from .run import Run


def stage_record(tasks: Sequence[Run], upstream: tuple[str, ...], effect: StoreCheckpoint) -> StageRecord:
    """A stage's part of a checkpoint.

    :param tasks: all tasks of the stage.
    :param upstream: uids of the stages that it reads from.
    """
    ordered = sorted(tasks, key=lambda t: t.name.index)
    running = effect.scenario is None
    records = tuple(
        t.record(
            effect.number,
            t.task in effect.finished,
            effect.batches.get(t.task),
            exhausted=t.task in effect.exhausted,
            running=running,
        )
        for t in ordered
    )
    all_finished = all(r.finished for r in records)
    # Merged: a task before its first batch shows no stateful operator, and driver-side states may differ.
    operators = {o.uid: o for t in ordered for o in t.operators(all_finished)}
    first = ordered[0]
    return StageRecord(first.uid, records, tuple(operators.values()), first.beside, upstream)
