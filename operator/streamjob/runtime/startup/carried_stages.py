"""Stages of the restored checkpoint that the script has not started yet: new checkpoints carry them over.

Otherwise the next epoch would not know them. A script may start its queries one after another, so a job that
is stopped while the first one runs must not lose the state of the last.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from dataclasses import replace

from ...protocol.formats.records import StageRecord, TaskRecord
from ...protocol.lifecycle import Scenario
from ...protocol.restore import finished
from ...protocol.restore.recovery import spent
from ...storage.hadoop import HadoopFiles
from ..spark.checkpoint_dir import CheckpointDir
from .begin_from import copy_foreign
from .restore_point import RestorePoint, RestorePoints, as_exhausted

log = logging.getLogger("streamjob")


class CarriedStages:
    """Brings stages that have not started into directories of the job's own, and records them.

    `lock` is held while a stage is copied into its directory. A checkpoint does that here, and the first
    start of the stage does it in `bring_directory_to_its_batch`: without the lock, both could fill the
    directory at the same time.
    """

    def __init__(self, points: RestorePoints) -> None:
        self.lock = threading.RLock()
        self._points = points
        self._own: dict[str, StageRecord] = {}  # stages whose directories are already the job's own

    def records(self, files: HadoopFiles, started: Collection[str]) -> tuple[StageRecord, ...]:
        """Records of the stages that have not started. Empty if the job may leave non-restored state behind.

        :param started: uids of the stages that have started.
        :raises StreamJobError: a stage cannot be brought into a directory of the job's own.
        """
        if self._points.config.restore.allow_non_restored_state:
            return ()
        with self.lock:
            return tuple(self._of(files, uid) for uid in self._points.uids(files) if uid not in started)

    def _of(self, files: HadoopFiles, uid: str) -> StageRecord:
        if uid not in self._own:
            point = self._points.of(files, uid)
            assert point.record is not None
            # By the number `ShardedStage` finds what a new parallelism has begun. 0 is none of this job's.
            number = point.checkpoint.checkpoint if point.checkpoint and not point.is_foreign else 0
            self._own[uid] = replace(
                point.record,
                tasks=tuple(_own(point, t) for t in point.record.tasks),
                carried_from=number if point.record.carried_from is None else point.record.carried_from,
            )
        stage = self._own[uid]
        return replace(stage, tasks=tuple(_as_of_now(files, t) for t in stage.tasks))


def at_the_end(stages: tuple[StageRecord, ...]) -> tuple[StageRecord, ...]:
    """The records of stages that have not started, in the checkpoint with which everything else has finished.

    A stage from which nothing more comes (`recovery.spent`) has finished, too. Otherwise the job would never
    count as drained. If another stage still has to be resumed, nothing changes.
    """
    nothing_left = spent(stages)
    if not all(s.finished or s.uid in nothing_left for s in stages):
        return stages
    return tuple(finished.flagged(s, [t.index for t in s.tasks]) for s in stages)


def ended_by(scenario: Scenario | None, stages: Collection[StageRecord]) -> Scenario | None:
    """How the job ends with a checkpoint that has these stages, None if it goes on.

    The engine knows only the stages that have started. If another one has to be resumed, or only to commit
    what is prepared, the end of all input is a stop.

    :param scenario: how everything that has started ends.
    """
    if scenario is Scenario.END_OF_INPUT and (left(stages) or not all(s.finished for s in stages)):
        return Scenario.STOP
    return scenario


def left(stages: Collection[StageRecord]) -> list[str]:
    """The uids of carried stages that only another run can end: they have not finished, or have to commit."""
    carried = [s for s in stages if s.carried_from is not None]
    return [s.uid for s in carried if not s.finished or s.holds_transactions]


def _own(point: RestorePoint, task: TaskRecord) -> TaskRecord:
    """The task with a directory of the job's own: savepoints and other jobs' directories never change."""
    if not point.is_foreign:
        return task
    target = f"{point.folder}/{task.index}"
    copy_foreign(point, task.index, target)
    log.info("stage %s: copied to %s, though the script has not started it yet", point.uid, target)
    return replace(task, location=target)


def _as_of_now(files: HadoopFiles, task: TaskRecord) -> TaskRecord:
    """The task at its last committed batch: after a crash, it may be ahead of the restored checkpoint."""
    if task.finished:
        return task
    directory = CheckpointDir(files, task.location)
    found = directory.latest_commit()
    exhausted = as_exhausted(directory, task)
    return replace(task, batch=found if found is not None else task.batch, exhausted=exhausted)
