"""Brings a task's checkpoint directory to the batch that the task begins from."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...protocol.formats.records import TaskRecord
from ...protocol.messages.driver_status import Problem
from ...protocol.restore.recovery import Start, StateCannotMove, TaskPlan, stage_plan
from ..savepoints.restore import adopt, restore
from ..spark.checkpoint_dir import CheckpointDir
from ..spark.max_watermark.undrain import reopen
from .restore_point import RestorePoint


def plan_of_only_task(point: RestorePoint) -> TaskPlan:
    """How the task of a stage without shards starts.

    :raises StateCannotMove: the stage had several tasks.
    """
    plan = stage_plan(point.uid, 1, point.record).tasks[0]
    if plan.start is Start.REDISTRIBUTED and point.record is not None:
        raise StateCannotMove(
            f"stage {point.uid!r} had {len(point.record.tasks)} tasks and is one query now, which would read "
            "all of its input again",
            remedy=f"Declare it with job.shards({point.uid!r}, 1), or give the query another name",
        )
    return plan


class Beginning(NamedTuple):
    """Where a task starts, in words, and what its user has to know of that."""

    words: str
    warnings: tuple[Problem, ...] = ()


def begin_from(point: RestorePoint, index: int, plan: TaskPlan, directory: CheckpointDir) -> Beginning:
    """Bring the directory of a task to the point where the task starts. May be repeated.

    :param index: the task's index in its stage.
    :raises CheckpointLost: as `RestorePoint.refuse_other`.
    :raises CheckpointMoved: as `RestorePoint.refuse_other`.
    :raises StreamJobError: as `restore` and `adopt`.
    """
    if plan.record is None:
        latest = directory.latest_offset()
        if plan.start is Start.REDISTRIBUTED:
            assert point.checkpoint is not None
            left = point.savepoint or f"checkpoint {point.checkpoint.checkpoint}"
            return Beginning(f"what is left of {left}")
        return Beginning("nothing" if latest is None else f"batch {latest} of {directory.uri}")
    if point.is_foreign:
        copy_foreign(point, index, directory.uri)
        copied = f"a copy of {point.adopted.uri}" if point.adopted else f"savepoint {point.savepoint}"
        return Beginning(copied)
    return _resume(point, index, directory, plan.record)


def copy_foreign(
    point: RestorePoint, index: int, target: str, needed: Callable[[str], bool] = lambda path: True
) -> None:
    """Copy what a task starts from, which is not the job's own, into a directory of the job. May be repeated.

    :param index: the task's index in its stage.
    :param needed: as in `restore`.
    :raises StreamJobError: as `restore` and `adopt`.
    """
    amend = reopen if point.reopens else None
    if point.adopted is not None:
        adopt(point.files, point.adopted, target, amend=amend, needed=needed)
    else:
        assert point.savepoint is not None
        restore(point.files, point.savepoint, point.uid, index, target, amend=amend, needed=needed)


def _resume(point: RestorePoint, index: int, directory: CheckpointDir, expected: TaskRecord) -> Beginning:
    """Resume in the directory of the latest checkpoint, which has its batch or, after a crash, a later one.

    If the directory is lost and the job ended with that checkpoint, restore it from the checkpoint's
    savepoint, if there is one. A query that the script starts in several directories one after another has
    only the last of them in the checkpoint, which says nothing about the others.
    """
    record, found = point.checkpoint, directory.latest_commit()
    assert record is not None
    if expected.batch is None:
        return Beginning("nothing")
    if found is not None and directory.uri.rstrip("/") != expected.location.rstrip("/"):
        return Beginning(f"batch {found} of {directory.uri}")
    if point.exact and record.savepoint is not None and found is None:
        restore(directory.files, record.savepoint, point.uid, index, directory.uri)
        text = f"{directory.uri}, the checkpoint directory of query {point.uid!r}, was gone"
        warning = Problem(
            "CheckpointRestored",
            f"{text} and has been restored from {record.savepoint}, with which the job had ended",
            "Nothing is lost; find out who deletes files there",
        )
        return Beginning(f"savepoint {record.savepoint}: its checkpoint directory was gone", (warning,))
    point.refuse_other(directory, expected, found)
    return Beginning(f"batch {found} of {directory.uri}")
