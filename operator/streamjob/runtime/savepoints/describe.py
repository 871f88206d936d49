"""Describes the contents of a savepoint, as far as possible without starting its job."""

from __future__ import annotations

from dataclasses import dataclass

from ...protocol.errors import StreamJobError
from ...protocol.formats import manifest as manifests
from ...protocol.formats.manifest import Manifest
from ...protocol.formats.records import FinishedStatus, JobRef, OperatorRecord, StageRecord, TaskRecord
from ...protocol.formats.savepoint_cause import by_whom, why
from ...storage.hadoop import HadoopFiles
from ..query.endpoints import noted
from ..spark.checkpoint_dir import MAX_WATERMARKS, CheckpointDir
from .layout import read_manifest


@dataclass(frozen=True)
class TaskDescription:
    """One task of a stage, as the savepoint has it.

    :param batch: the last committed batch, None if there was none.
    :param location: URI of the checkpoint directory that was copied.
    :param watermark: that of the last batch, milliseconds since 1970; None if there is none.
    :param max_watermark: all event-time timers have fired.
    :param sources: the key of each source (its name or number) → its position after the batch, as Spark wrote
        it; None if there is no batch or the offset log cannot be read.
    :param state_size: number of the stateful operator → bytes of its state files, in all versions that Spark
        had kept.
    :param reads: where its sources read; empty if that was not recorded.
    :param writes: where its sink wrote; None if that was not recorded.
    :param table: the Delta or Iceberg table that it wrote to, with the version that has the batch.
    """

    index: int
    batch: int | None
    finished: bool
    location: str
    watermark: int | None
    max_watermark: bool
    sources: dict[str, str | None] | None
    state_size: dict[str, int]
    reads: tuple[str, ...] = ()
    writes: str | None = None
    table: str | None = None


@dataclass(frozen=True)
class StageDescription:
    uid: str
    status: FinishedStatus
    tasks: tuple[TaskDescription, ...]
    operators: tuple[OperatorRecord, ...]


@dataclass(frozen=True)
class Description:
    """A savepoint: whose it is, when and why it was taken, as in the manifest.

    :param files: number of files.
    :param size: bytes of all files.
    :param shared: bytes of the files in ROOT/shared.
    """

    uri: str
    version: int
    job: JobRef
    request_id: str | None
    scenario: str | None
    drained: bool
    checkpoint: int
    epoch: int
    completed_at: str
    spark: str
    files: int
    size: int
    shared: int
    why: str
    by_whom: str | None
    stages: tuple[StageDescription, ...]


def describe_savepoint(files: HadoopFiles, savepoint: str) -> Description:
    """Read a savepoint's manifest and the logs that it copied.

    :raises SavepointIncomplete: there is no manifest.
    :raises FormatError: the manifest cannot be read.
    :raises UnknownVersion: a newer StreamJob wrote the manifest.
    """
    manifest = read_manifest(files, savepoint)
    record = manifest.checkpoint
    return Description(
        uri=savepoint,
        version=manifest.version,
        job=manifest.job,
        request_id=record.request_id,
        scenario=record.scenario.value if record.scenario else None,
        drained=record.leaves_nothing,
        checkpoint=record.checkpoint,
        epoch=record.epoch,
        completed_at=record.completed_at,
        spark=manifest.spark,
        files=len(manifest.files),
        size=manifest.size,
        shared=sum(e.size for e in manifest.files if e.shared),
        why=why(record),
        by_whom=by_whom(record),
        stages=tuple(_stage(files, savepoint, manifest, s) for s in record.stages),
    )


def _stage(files: HadoopFiles, savepoint: str, manifest: Manifest, stage: StageRecord) -> StageDescription:
    tasks = tuple(_task(files, savepoint, manifest, stage.uid, t) for t in stage.tasks)
    return StageDescription(stage.uid, stage.status, tasks, stage.operators)


def _task(
    files: HadoopFiles, savepoint: str, manifest: Manifest, stage: str, task: TaskRecord
) -> TaskDescription:
    root = manifests.stage_root(stage, task.index)
    directory = CheckpointDir(files, f"{savepoint}/{root}")
    watermark: int | None = None
    sources: dict[str, str | None] | None = None
    if task.batch is not None:
        try:
            watermark = directory.watermark(task.batch)
            sources = dict(directory.source_offsets(task.batch))
        except StreamJobError:
            pass  # `verify` reports the file
    ends = noted(directory)
    state: dict[str, int] = {}
    for entry in manifest.files:
        parts = entry.path[len(root) + 1 :].split("/") if entry.path.startswith(f"{root}/state/") else []
        if len(parts) > 2:
            state[parts[1]] = state.get(parts[1], 0) + entry.size
    return TaskDescription(
        task.index,
        task.batch,
        task.finished,
        task.location,
        watermark or None,
        watermark in MAX_WATERMARKS,
        sources,
        state,
        tuple(str(place) for place in ends.sources) if ends else (),
        str(ends.sink) if ends and ends.sink else None,
        next(
            (
                f"{table.name}, version {table.version}"
                for table in manifest.tables
                if (table.stage, table.task) == (stage, task.index)
            ),
            None,
        ),
    )
