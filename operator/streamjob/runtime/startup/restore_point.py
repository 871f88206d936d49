"""What the job goes on from: the record of a checkpoint, and where the directories of its tasks are."""

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
    """The directory that the stage takes over, if the job begins with those of a job that no StreamJob has run and has no
    checkpoint of its own yet. :raises NothingToAdopt: it begins with others, and this one is not named."""
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
    """The savepoint that the job begins with, if it has no checkpoint of its own yet."""
    return config.restore.savepoint if config.restore.latest is None else None


def restored(files: HadoopFiles, config: DriverConfig) -> CheckpointRecord | None:
    """The job's latest checkpoint; at its first start that of the savepoint it begins with; None if it begins with nothing.

    :raises AlreadyDrained: nothing is left to resume (row 14). :raises StreamJobError: as `read_manifest`.
    """
    latest, savepoint = config.restore.latest, from_savepoint(config)
    # One whose sinks have not committed all is gone back to for that alone.
    over = latest is not None and latest.drained and config.restore.exact and not latest.uncommitted
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
    # Nothing has finished: all of it goes on, with empty windows.
    return replace(record, stages=tuple(finished.flagged(s, ()) for s in record.stages))


def stage_of(record: CheckpointRecord | None, uid: str) -> StageRecord | None:
    return next((s for s in record.stages if s.uid == uid), None) if record else None


def stage_to_restore(files: HadoopFiles, config: DriverConfig, uid: str) -> StageRecord | None:
    """What the job goes on from of one stage. :raises StageNotInSavepoint: the job begins with a savepoint that has it not.
    :raises StreamJobError: as `restored`, `adopted_directory` and `adoption.adopt`."""
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
    """Where a task of the record has its files; to be read only."""
    savepoint = from_savepoint(config)
    if savepoint is not None:
        return CheckpointDir(files, f"{savepoint.rstrip('/')}/{manifest.stage_root(uid, task.index)}")
    return CheckpointDir(files, task.location)


def refuse_other(config: DriverConfig, directory: CheckpointDir, task: TaskRecord, found: int | None) -> None:
    """A task's directory is not as the job's latest checkpoint says.

    :param found: its last committed batch. :raises CheckpointLost: it should hold more.
    :raises CheckpointMoved: it holds more, and no driver of the job has run since.
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
    """Where the tasks of a stage have their checkpoint directories. A slash in its name makes no folder: that would lie among
    the tasks of another stage."""
    return f"{config.checkpoints.rstrip('/')}/{uid.replace('%', '%25').replace('/', '%2F')}"
