"""Stages of the restored checkpoint that the script has not started yet: each checkpoint has them as they are, or the next epoch
would know nothing of them.

A script may start its queries one after another. What is asked to end while the first one runs must not forget the last.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from dataclasses import replace

from ...protocol.messages import DriverConfig
from ...protocol.records import StageRecord, TaskRecord
from ..savepoints.write import adopt, restore
from ..spark.checkpoint_dir import CheckpointDir
from ..spark.undrain import reopen
from ..storage.hadoop import HadoopFiles
from .restore_point import adopted_directory, from_savepoint, restored, root_of, stage_to_restore

log = logging.getLogger("streamjob")


class CarriedStages:
    """`lock`: held while a stage is brought into its directory, by a checkpoint here or by its first start: they would fill it at
    the same time."""

    def __init__(self, config: DriverConfig) -> None:
        self.lock = threading.RLock()
        self._config = config
        self._own: dict[str, StageRecord] = {}  # whose directories are the job's own by now

    def uids(self, files: HadoopFiles) -> list[str]:
        """All stages that the job goes on with, started or not. :raises StreamJobError: as `restored`."""
        config = self._config
        if config.restore.latest is None and config.restore.checkpoints:
            return list(config.restore.checkpoints)
        record = restored(files, config)
        return [stage.uid for stage in record.stages] if record else []

    def records(self, files: HadoopFiles, started: Collection[str]) -> tuple[StageRecord, ...]:
        """Of those that have not started. Where what the script need not start may be left behind, there are none.

        :raises StreamJobError: a stage cannot be brought into a directory of the job's own.
        """
        if self._config.restore.allow_non_restored_state:
            return ()
        with self.lock:
            return tuple(self._of(files, uid) for uid in self.uids(files) if uid not in started)

    def _of(self, files: HadoopFiles, uid: str) -> StageRecord:
        if uid not in self._own:
            stage = stage_to_restore(files, self._config, uid)
            assert stage is not None
            self._own[uid] = replace(stage, tasks=tuple(self._task(files, uid, t) for t in stage.tasks))
        stage = self._own[uid]
        return replace(stage, tasks=tuple(_as_of_now(files, t) for t in stage.tasks))

    def _task(self, files: HadoopFiles, uid: str, task: TaskRecord) -> TaskRecord:
        """With a directory of the job's own: a savepoint, or the directory of another job, stays as it is."""
        savepoint, target = from_savepoint(self._config), f"{root_of(self._config, uid)}/{task.index}"
        source = adopted_directory(files, self._config, uid)
        if source is not None:
            adopt(files, source, target, amend=reopen)
        elif savepoint is not None:
            restore(files, savepoint, uid, task.index, target, amend=reopen)
        else:
            return task
        log.info("stage %s: copied to %s, though the script has not started it yet", uid, target)
        return replace(task, location=target)


def _as_of_now(files: HadoopFiles, task: TaskRecord) -> TaskRecord:
    """After a crash a directory may hold more than the checkpoint that it was restored from says."""
    if task.finished or task.batch is None:
        return task
    found = CheckpointDir(files, task.location).latest_commit()
    return replace(task, batch=found if found is not None else task.batch)
