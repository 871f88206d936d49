"""The remaining splits of a stage whose parallelism changes, read from its tasks' checkpoint directories.

After a stop, they are as in the checkpoint. After a crash, the tasks may be ahead of the latest checkpoint:
what they have committed since then is not read again.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from ....protocol.formats import splits
from ....protocol.formats.records import StageRecord, TaskRecord
from ....protocol.restore.recovery import StateCannotMove
from ...spark.checkpoint_dir import CheckpointDir
from ...spark.sources.source_log import left_at
from ..restore_point import RestorePoint


def as_of_now(point: RestorePoint, stage: StageRecord) -> tuple[StageRecord, CheckpointDir | None]:
    """The current remaining splits of a stage.

    :param stage: the record that `point` has of the stage.
    :returns: the record with its remaining splits, and the directory of the task with the highest committed
        batch, None if no task has committed one.
    :raises StateCannotMove: a task has an uncommitted batch, which only that task can run again.
    :raises CheckpointLost: as `RestorePoint.refuse_other`.
    :raises CheckpointMoved: as `RestorePoint.refuse_other`.
    """
    tasks: list[TaskRecord] = []
    highest: tuple[int, CheckpointDir] | None = None
    for task in stage.tasks:
        directory = point.directory(task)
        planned, batch = directory.latest_offset(), directory.latest_commit()
        if not point.is_foreign:
            point.refuse_other(directory, task, batch)
        if planned != batch and not task.finished:
            raise StateCannotMove(
                f"stage {stage.uid!r} has batch {planned} of its task {task.index} uncommitted, and a task "
                "of another parallelism could not run the same batch again",
                remedy=f"Give it parallelism {len(stage.tasks)} again, and stop it before it gets "
                "another one",
            )
        if batch is not None and (highest is None or batch > highest[0]):
            highest = batch, directory
        entries = task.state.get(splits.OPERATOR)
        if not point.is_foreign and entries is not None and not task.finished:
            now = {**task.state, splits.OPERATOR: left_at(directory, entries, batch)}
            tasks.append(replace(task, state=now))
        else:
            tasks.append(task)
    return replace(stage, tasks=tuple(tasks)), highest[1] if highest else None


def begin_behind(directory: CheckpointDir, other: CheckpointDir) -> None:
    """Let a new query start with the batch number after the last one of `other`, and with nothing read.

    A sink that identifies batches by number (files, idempotent functions) would take a second batch 0 for one
    that it already has.

    May be repeated. A directory that a query has started from is not changed.
    """
    if directory.query_id() is not None:
        return
    directory.files.delete(directory.uri)  # leftovers of an earlier attempt
    batch = other.latest_commit()
    assert batch is not None
    entry = other.entry(batch).changed(batchWatermarkMs=0).without_offsets().serialize()
    for number in range(max(batch - 1, 0), batch + 1):  # Spark requires the last entry and the one before
        directory.files.write_new(f"{directory.uri}/offsets/{number}", entry)
        directory.files.write_new(f"{directory.uri}/commits/{number}", b'v1\n{"nextBatchWatermarkMs":0}')
    directory.begin_as(str(uuid.uuid4()))
