"""What the job resumes from: the record of a checkpoint, and the directories of its tasks."""

from __future__ import annotations

from dataclasses import replace

from ...protocol import finished, manifest
from ...protocol.adoption import adopted_stage
from ...protocol.errors import StreamJobError
from ...protocol.messages import DriverConfig
from ...protocol.records import CheckpointRecord, StageRecord, TaskRecord
from ...protocol.recovery import AlreadyDrained
from ..savepoints.adopt import bare_directory
from ..savepoints.layout import read_manifest
from ..spark.checkpoint_dir import CheckpointDir
from ..storage.hadoop import HadoopFiles


class CheckpointLost(StreamJobError):
    reason = "CheckpointLost"


class CheckpointMoved(StreamJobError):
    reason = "CheckpointMoved"


class StageNotInSavepoint(StreamJobError):
    reason = "StageNotInSavepoint"


class NothingToAdopt(StreamJobError):
    reason = "CheckpointNotAdopted"


def adopted_directory(files: HadoopFiles, config: DriverConfig, uid: str) -> CheckpointDir | None:
    """The checkpoint directory of a plain PySpark job that the stage adopts.

    None if the job has a checkpoint of its own, or does not start with `restoreFrom.checkpoints`.

    :raises NothingToAdopt: the job adopts directories, and none is named for this stage.
    """
    directories = config.restore.checkpoints
    if config.restore.latest is not None or not directories:
        return None
    if uid not in directories:
        raise NothingToAdopt(
            f"the script's query {uid!r} is not in restoreFrom.checkpoints, which has {', '.join(directories)}",
            remedy="Name its checkpoint directory there, or start without restoreFrom",
        )
    return CheckpointDir(files, files.qualify(directories[uid]))


def from_savepoint(config: DriverConfig) -> str | None:
    """The savepoint that the job starts from. None if it has none, or has a checkpoint of its own."""
    return config.restore.savepoint if config.restore.latest is None else None


def restored(files: HadoopFiles, config: DriverConfig) -> CheckpointRecord | None:
    """The record that the job resumes from: its latest checkpoint, or at the first start its savepoint's.

    None if the job starts from nothing.

    :raises AlreadyDrained: nothing is left to resume (row 14).
    :raises StreamJobError: as `read_manifest`.
    """
    latest, savepoint = config.restore.latest, from_savepoint(config)
    # A drained checkpoint with uncommitted transactions is restored only to commit them.
    over = latest is not None and latest.drained and not latest.uncommitted and not config.restore.again
    if latest is not None and over and not config.restore.allow_drained:
        raise AlreadyDrained(
            f"checkpoint {latest.checkpoint} was drained: its windows are out, a job resumed from it would drop every row",
            remedy="Make a new StreamJob with restoreFrom.savepoint and restoreFrom.allowDrained",
        )
    if savepoint is None:
        return latest
    record = read_manifest(files, savepoint).checkpoint
    if not record.drained:
        return record
    if not config.restore.allow_drained:
        raise AlreadyDrained(
            f"{savepoint} was drained: its windows are out, a job resumed from it would drop every row as late",
            remedy="Restore another savepoint, or set spec.restoreFrom.allowDrained to true",
        )
    # Clear the finished flags: every stage resumes, with empty windows.
    return replace(record, stages=tuple(finished.flagged(s, ()) for s in record.stages))


def stage_of(record: CheckpointRecord | None, uid: str) -> StageRecord | None:
    return next((s for s in record.stages if s.uid == uid), None) if record else None


def stage_to_restore(files: HadoopFiles, config: DriverConfig, uid: str) -> StageRecord | None:
    """The record that one stage resumes from, None if it starts from nothing.

    :raises StageNotInSavepoint: the job starts from a savepoint that does not contain the stage.
    :raises StreamJobError: as `restored`, `adopted_directory` and `adoption.adopt`.
    """
    directory = adopted_directory(files, config, uid)
    if directory is not None:
        return _adopted(directory, uid, allow_drained=config.restore.allow_drained)
    record, savepoint = restored(files, config), from_savepoint(config)
    stage = stage_of(record, uid)
    if stage is None and record and savepoint and not config.restore.allow_non_restored_state:
        raise StageNotInSavepoint(
            f"the script's query {uid!r} is not in {savepoint}, which holds {', '.join(s.uid for s in record.stages)}",
            remedy="Give the query the name it had, or start without restoreFrom",
        )
    return stage


def _adopted(directory: CheckpointDir, uid: str, *, allow_drained: bool) -> StageRecord:
    if directory.is_drained() and not allow_drained:
        raise AlreadyDrained(
            f"{directory.uri} was drained: its windows are out, a job resumed from it would drop every row as late",
            remedy="Take over another one, or set spec.restoreFrom.allowDrained to true",
        )
    return adopted_stage(bare_directory(directory, uid))


def directory_of(files: HadoopFiles, config: DriverConfig, uid: str, task: TaskRecord) -> CheckpointDir:
    """The directory with a task's files, in the savepoint if the job starts from one. For reading only."""
    savepoint = from_savepoint(config)
    if savepoint is not None:
        return CheckpointDir(files, f"{savepoint.rstrip('/')}/{manifest.stage_root(uid, task.index)}")
    return CheckpointDir(files, task.location)


def as_exhausted(directory: CheckpointDir, task: TaskRecord) -> bool:
    """Whether an exhausted task is still as its record says: no later run has planned a batch.

    A later run may have died before its first checkpoint.

    :param directory: the task's files.
    """
    return task.exhausted and task.batch == directory.latest_offset() == directory.latest_commit()


def refuse_other(config: DriverConfig, directory: CheckpointDir, task: TaskRecord, found: int | None) -> None:
    """Check a task's directory against the job's latest checkpoint.

    :param task: the task's record in that checkpoint.
    :param found: the last committed batch in the directory, None if there is none.
    :raises CheckpointLost: the directory is behind the checkpoint.
    :raises CheckpointMoved: the directory is ahead, although no driver of the job has run since the
        checkpoint.
    """
    record = config.restore.latest
    assert record is not None
    if task.batch is None:
        return
    if found is None or found < task.batch:
        raise CheckpointLost(
            f"{directory.uri} should hold batch {task.batch} of checkpoint {record.checkpoint} and holds "
            + ("none" if found is None else f"only batch {found}"),
            remedy="Put the directory back, or make a new StreamJob with spec.restoreFrom.savepoint",
        )
    if config.restore.exact and found > task.batch:
        raise CheckpointMoved(
            f"{directory.uri} is at batch {found}, checkpoint {record.checkpoint} ended at {task.batch}: "
            "somebody else ran this query from it",
            remedy="Stop that query; then make a new StreamJob, or restore a savepoint into one",
        )


def root_of(config: DriverConfig, uid: str) -> str:
    """The folder of the checkpoint directories of a stage's tasks.

    A slash in the uid is escaped: a sub-folder would lie among the tasks of another stage. A long uid is
    shortened.
    """
    name = manifest.folder_name(uid.replace("%", "%25").replace("/", "%2F"), uid)
    return f"{config.checkpoints.rstrip('/')}/{name}"
