"""What a stage starts from: the restored checkpoint's record of it, and the directories of its tasks."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, replace

from ...protocol.errors import StreamJobError
from ...protocol.formats import manifest
from ...protocol.formats.records import CheckpointRecord, StageRecord, TaskRecord
from ...protocol.formats.savepoint_cause import ADOPTION
from ...protocol.messages.driver_config import DriverConfig
from ...protocol.restore import finished
from ...protocol.restore.adoption import adopted_stage
from ...protocol.restore.recovery import AlreadyDrained, refuse_if_over
from ...storage.hadoop import HadoopFiles
from ..query.endpoints import noted
from ..savepoints.adopt import bare_directory
from ..savepoints.layout import read_manifest
from ..spark.checkpoint_dir import CheckpointDir
from .checks.neighbours import PastReader


class CheckpointLost(StreamJobError):
    reason = "CheckpointLost"


class CheckpointMoved(StreamJobError):
    reason = "CheckpointMoved"


class StageNotInSavepoint(StreamJobError):
    reason = "StageNotInSavepoint"


class NothingToAdopt(StreamJobError):
    reason = "CheckpointNotAdopted"


@dataclass(frozen=True)
class RestorePoint:
    """What one stage starts from.

    :param uid: the stage's uid.
    :param folder: the folder of the checkpoint directories of its tasks.
    :param files: the file system of the session that the stage starts in.
    :param checkpoint: the record of the checkpoint that the job resumes from. None if there is none, as in a
        job that adopts directories.
    :param record: what the stage resumes from, None if it starts from nothing.
    :param savepoint: the savepoint that the job starts from, None if it starts from none.
    :param adopted: the checkpoint directory of a plain PySpark job that the stage adopts, None if it adopts
        none.
    :param exact: no driver of the job has run since the checkpoint.
    :param reopens: what is copied reads on, also if it was drained (`allowDrained`).
    """

    uid: str
    folder: str
    files: HadoopFiles
    checkpoint: CheckpointRecord | None = None
    record: StageRecord | None = None
    savepoint: str | None = None
    adopted: CheckpointDir | None = None
    exact: bool = False
    reopens: bool = False

    @property
    def is_foreign(self) -> bool:
        """Whether the job starts from files that are not its own. They are copied and never change."""
        return self.savepoint is not None or self.adopted is not None

    def directory(self, task: TaskRecord) -> CheckpointDir:
        """The directory with a task's files, in the savepoint if there is one. For reading only."""
        return _directory(self.files, self.savepoint, self.uid, task)

    def directories_of_others(self) -> list[CheckpointDir]:
        """The directories of the tasks of all other stages. For reading only."""
        others = [s for s in (self.checkpoint.stages if self.checkpoint else ()) if s.uid != self.uid]
        return [_directory(self.files, self.savepoint, s.uid, task) for s in others for task in s.tasks]

    def refuse_other(self, directory: CheckpointDir, task: TaskRecord, found: int | None) -> None:
        """Check a task's directory against the checkpoint of this job that it resumes from.

        :param task: the task's record in that checkpoint.
        :param found: the last committed batch in the directory, None if there is none.
        :raises CheckpointLost: the directory is behind the checkpoint.
        :raises CheckpointMoved: the directory is ahead, although no driver of the job has run since the
            checkpoint.
        """
        assert self.checkpoint is not None
        number = self.checkpoint.checkpoint
        if task.batch is None:
            return
        if found is None or found < task.batch:
            raise CheckpointLost(
                f"{directory.uri} should hold batch {task.batch} of checkpoint {number} and holds "
                + ("none" if found is None else f"only batch {found}"),
                remedy="Restore the directory, or <new-job>",
            )
        if self.exact and found > task.batch:
            raise CheckpointMoved(
                f"{directory.uri} is at batch {found}, checkpoint {number} ended at {task.batch}: "
                "somebody else ran this query from it",
                remedy="Stop that query; then <new-job>",
            )


class RestorePoints:
    """The restore points of the job's stages. Thread-safe.

    The record of the savepoint that the job starts from is read once and kept: a savepoint never changes. Its
    list of files is not kept, because it may be long.
    """

    def __init__(self, config: DriverConfig) -> None:
        self._lock = threading.Lock()
        self._of_savepoint: CheckpointRecord | None = None
        self.restore(config)

    def restore(self, config: DriverConfig) -> None:
        """Resume from what this configuration names. Comes before the first restore point is asked for."""
        self.config = config
        # None if the job has none, or has a checkpoint of its own.
        self.savepoint = config.restore.savepoint if config.restore.latest is None else None
        self._past: dict[str, PastReader | None] = {}  # of stages that have not started; None: it reads on

    def of(self, files: HadoopFiles, uid: str) -> RestorePoint:
        """What a stage starts from.

        :raises StageNotInSavepoint: the job starts from a savepoint that does not contain the stage.
        :raises StreamJobError: as `checkpoint`, `_adopted` and `adoption.adopted_stage`.
        """
        adopted = self._adopted(files, uid)
        if adopted is not None:
            folder, found = root_of(self.config, uid), self._adopted_record(adopted, uid)
            return RestorePoint(uid, folder, files, record=found, adopted=adopted, reopens=True)
        point = self.nothing(files, uid)
        record = stage_of(point.checkpoint, uid)
        allowed = self.config.restore.allow_non_restored_state
        if record is None and point.checkpoint and self.savepoint and not allowed:
            raise StageNotInSavepoint(
                f"the script's query {uid!r} is not in {self.savepoint}, which holds "
                f"{', '.join(s.uid for s in point.checkpoint.stages)}",
                remedy="Give the query the name it had or, if it is new, <allow-lost-state>",
            )
        return replace(point, record=record)

    def continues_in_place(self, files: HadoopFiles, uid: str, location: str) -> bool:
        """Whether a query of a job that adopts directories is already where its script lets it run.

        There is nothing to copy then. It is adopted in place, as by plain PySpark.

        :param location: the script's checkpointLocation.
        """
        directories = self.config.restore.checkpoints
        if self.config.restore.latest is not None or not directories:
            return False
        own = CheckpointDir(files, files.qualify(location))
        named = files.canonical(directories.get(uid, location))
        return named == files.canonical(location) and own.latest_offset() is not None

    def names_directory(self, uid: str) -> bool:
        """Whether `restoreFrom.checkpoints` has a directory for the stage."""
        return uid in self.config.restore.checkpoints

    def nothing(self, files: HadoopFiles, uid: str) -> RestorePoint:
        """The restore point of a stage that the restored checkpoint has nothing for.

        Also that of another run in the same epoch, which starts from the stage's own directory.

        :raises StreamJobError: as `checkpoint`.
        """
        return RestorePoint(
            uid,
            root_of(self.config, uid),
            files,
            self.checkpoint(files),
            savepoint=self.savepoint,
            exact=self.config.restore.exact,
            reopens=self.config.restore.allow_drained,
        )

    def checkpoint(self, files: HadoopFiles) -> CheckpointRecord | None:
        """The record that the job resumes from: its latest checkpoint, or at the first start its savepoint's.

        None if the job starts from nothing, or adopts directories.

        :raises AlreadyDrained: nothing is left to resume (row 14).
        :raises StreamJobError: as `read_manifest`.
        """
        restore = self.config.restore
        latest = restore.latest
        refuse_if_over(restore)
        if self.savepoint is None:
            return latest
        with self._lock:
            if self._of_savepoint is None:
                self._of_savepoint = self._read(files, self.savepoint)
            return self._of_savepoint

    def uids(self, files: HadoopFiles) -> list[str]:
        """All stages that the job resumes, started or not.

        :raises StreamJobError: as `checkpoint`.
        """
        restore = self.config.restore
        if restore.latest is None and restore.checkpoints:
            return list(restore.checkpoints)
        record = self.checkpoint(files)
        return [stage.uid for stage in record.stages] if record else []

    def locations(self, files: HadoopFiles) -> dict[str, str]:
        """The checkpoint locations of the restored stages by uid, without those of a savepoint."""
        latest = self.config.restore.latest
        if latest is None:
            return {uid: files.qualify(at) for uid, at in self.config.restore.checkpoints.items()}
        return {s.uid: s.tasks[0].location for s in latest.stages if s.tasks}

    def is_elsewhere(self, files: HadoopFiles, uid: str) -> bool:
        """Whether the restored checkpoint has the stage at a location that its script chose.

        Not in a savepoint of adopted directories: there the user has given the stage its name.

        :raises StreamJobError: as `checkpoint`.
        """
        record = self.checkpoint(files)
        stage = stage_of(record, uid)
        if record is None or stage is None or record.request_id == ADOPTION:
            return False
        own = f"/{folder_of(uid)}/"
        return all(own not in task.location for task in stage.tasks)

    def directory(self, files: HadoopFiles, uid: str, task: TaskRecord) -> CheckpointDir:
        """As `RestorePoint.directory`."""
        return _directory(files, self.savepoint, uid, task)

    def past_readers(self, files: HadoopFiles, started: Collection[str]) -> list[PastReader]:
        """The stages of the restored checkpoint, except those that have started, that read no more.

        :raises StreamJobError: as `checkpoint`.
        """
        record = self.checkpoint(files)
        left = [s for s in (record.stages if record else ()) if s.uid not in started and s.tasks]
        for stage in left:
            if stage.uid not in self._past:  # each start asks, and nothing changes until the stage starts
                self._past[stage.uid] = self._past_reader(files, stage)
        return [past for stage in left if (past := self._past[stage.uid]) is not None]

    def _past_reader(self, files: HadoopFiles, stage: StageRecord) -> PastReader | None:
        """What the stage has read; None if it goes on to read, as all do that are copied and reopened."""
        directories = [self.directory(files, stage.uid, task) for task in stage.tasks]
        reopens = self.savepoint is not None and self.config.restore.allow_drained
        if not stage.finished and (reopens or not any(d.is_drained() for d in directories)):
            return None
        notes = [ends for d in directories if (ends := noted(d)) is not None]
        reads = tuple(channel for ends in notes for channel in ends.channels_read(files.canonical))
        return PastReader(stage.uid, reads, stage.upstream)

    def _read(self, files: HadoopFiles, savepoint: str) -> CheckpointRecord:
        record = read_manifest(files, savepoint).checkpoint
        if not record.leaves_nothing:
            return record
        if not self.config.restore.allow_drained:
            raise AlreadyDrained(
                f"{savepoint} was drained: its windows are out, a job resumed from it would drop every row "
                "as late",
                remedy="Restore another savepoint, or <allow-drained>",
            )
        # Clear the finished flags: every stage resumes, with empty windows.
        return replace(record, stages=tuple(finished.flagged(s, ()) for s in record.stages))

    def _adopted(self, files: HadoopFiles, uid: str) -> CheckpointDir | None:
        """The checkpoint directory of a plain PySpark job that the stage adopts.

        None if the job has a checkpoint of its own, or does not start with `restoreFrom.checkpoints`.

        :raises NothingToAdopt: the job adopts directories, and none, or that of another stage, is named for
            this stage.
        """
        directories = self.config.restore.checkpoints
        if self.config.restore.latest is not None or not directories:
            return None
        if uid not in directories:
            raise NothingToAdopt(
                f"the script's query {uid!r} is not in restoreFrom.checkpoints, which has "
                f"{', '.join(directories)}",
                remedy="Name its checkpoint directory there, or start without restoreFrom.checkpoints",
            )
        adopted = files.qualify(directories[uid])
        place = files.canonical(adopted)
        if others := [u for u, at in directories.items() if u != uid and files.canonical(at) == place]:
            raise NothingToAdopt(
                f"restoreFrom.checkpoints has {adopted} for {uid!r} and for {others[0]!r}: two queries with "
                "one id would stop each other",
                remedy="Name a directory of its own for each query",
            )
        return CheckpointDir(files, adopted)

    def _adopted_record(self, directory: CheckpointDir, uid: str) -> StageRecord:
        if directory.drain_batches() and not self.config.restore.allow_drained:
            raise AlreadyDrained(
                f"{directory.uri} was drained: its windows are out, a job resumed from it would drop every "
                "row as late",
                remedy="Adopt another one, or <allow-drained>",
            )
        return adopted_stage(bare_directory(directory, uid))


def stage_of(record: CheckpointRecord | None, uid: str) -> StageRecord | None:
    return next((s for s in record.stages if s.uid == uid), None) if record else None


def as_exhausted(directory: CheckpointDir, task: TaskRecord) -> bool:
    """Whether an exhausted task is still as its record says: no later run has planned a batch.

    A later run may have died before its first checkpoint.

    :param directory: the task's files.
    """
    return task.exhausted and task.batch == directory.latest_offset() == directory.latest_commit()


def is_fresh(config: DriverConfig) -> bool:
    """Whether the job's latest checkpoint is not its end, see `coordinator.Coordinator`."""
    latest = config.restore.latest
    return latest is None or not latest.over


def root_of(config: DriverConfig, uid: str) -> str:
    """The folder of the checkpoint directories of a stage's tasks.

    A slash in the uid is escaped: a sub-folder would lie among the tasks of another stage. A long uid is
    shortened.
    """
    return f"{config.checkpoints.rstrip('/')}/{folder_of(uid)}"


def folder_of(uid: str) -> str:
    """The last component of `root_of`."""
    return manifest.folder_name(uid.replace("%", "%25").replace("/", "%2F"), uid)


def _directory(files: HadoopFiles, savepoint: str | None, uid: str, task: TaskRecord) -> CheckpointDir:
    if savepoint is not None:
        return CheckpointDir(files, f"{savepoint.rstrip('/')}/{manifest.stage_root(uid, task.index)}")
    return CheckpointDir(files, task.location)
