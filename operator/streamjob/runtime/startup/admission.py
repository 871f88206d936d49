"""Admits a query: finds its checkpoint directory, checks it, and brings it to where the task starts.

Everything that can be refused is refused here, before Spark writes an offset.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Collection
from dataclasses import dataclass

from pyspark.sql.streaming.readwriter import DataStreamWriter

from ...protocol.errors import StreamJobError
from ...protocol.graph import TaskName
from ...protocol.messages.driver_status import Problem
from ...protocol.restore.recovery import Start, TaskPlan
from ...storage.file_systems import canonical
from ..query import driver_state
from ..query.driver_state import StateManager
from ..query.edges import Channel
from ..query.endpoints import NotedEnds
from ..query.places.owner import owner, owner_of, take
from ..query.task import Stage
from ..spark import sink_log
from ..spark.checkpoint_dir import CheckpointDir
from ..spark.engine import Engine
from ..spark.file_manager import refuse_unfit
from ..spark.handles import frame_of
from ..spark.sources.plan_sources import sources_of
from ..spark.stream_writer import Written, choose_location
from ..spark.tables.find import MissingTable, table_written
from .begin_from import begin_from, plan_of_only_task
from .checks.neighbours import refuse_other_job
from .checks.preflight import Going
from .checks.sources import QueryChanged
from .checks.spark_version import refuse_newer
from .checks.table_sink import Origin, refuse_gone_table, refuse_unfit_table
from .missing_stages import refuse_renamed
from .naming import refuse_other_query
from .own_disk import warn_of_own_disk
from .own_sink import OwnSink, own_sink
from .restore_point import RestorePoint, RestorePoints
from .sharding.remaining_splits import begin_behind
from .sharding.split_assignment import ShardedStage
from .spark_location import SETTING, refuse_ignored

log = logging.getLogger("streamjob")


class AsyncProgress(StreamJobError):
    """Asynchronous progress writes offsets and commits late, and not for each batch.

    So the last batch is unknown.
    """

    reason = "AsyncProgressUnsupported"


class ShardLocation(StreamJobError):
    reason = "ShardLocation"


ASYNC_PROGRESS = "asyncprogresstrackingenabled"


@dataclass(frozen=True)
class Entry:
    """What `enter` found and prepared for a task.

    :param drained: the max watermark is already in the offset log, so no more data may be read.
    :param finished: the restored checkpoint marks the task as finished, so it is not started (row 10).
    :param description: where the task starts, for the log.
    :param transactions: those of the restored checkpoint, to be committed if they are not.
    :param state_manager: manages the driver-side state that the script declared for the query, None if it
        declared none.
    :param warnings: warnings for the user; the query starts all the same.
    :param ends: what the query reads and writes, None if that is not fully known.
    :param volatile: the query reads a socket or writes to Spark's memory sink, so no other run can continue
        it to flush it. Without a checkpointLocation of its own, each run starts from nothing.
    :param own_sink: to be taken when the query starts; None if it writes with no file sink.
    """

    directory: CheckpointDir
    drained: bool
    finished: bool
    description: str
    transactions: tuple[str, ...] = ()
    state_manager: StateManager | None = None
    warnings: tuple[Problem, ...] = ()
    ends: NotedEnds | None = None
    volatile: bool = False
    own_sink: OwnSink | None = None


def enter(
    engine: Engine,
    points: RestorePoints,
    task: TaskName,
    stage: ShardedStage | None,
    writer: DataStreamWriter,
    written: Written,
    sink: Channel | None,
    *,
    upstream: Collection[str],
    reads: bool,
    before: Stage | None = None,
    fits: str | None = None,
    missing: Collection[str] = (),
) -> Entry:
    """Find the task's checkpoint directory and bring it to the state that the task starts from.

    :param stage: None for a query that is a stage of its own.
    :param upstream: stages that write what the query reads.
    :param reads: the query is going to read new data, because the job is not asked to end.
    :param before: the task's previous run in this epoch, None for the first. Only the first run restores
        anything.
    :param fits: URI of a checkpoint directory with whose state the query has been found to fit.
    :param missing: stages of the restored checkpoint that the script has not started yet.
    :raises StreamJobError: the query is refused, or the directory cannot be prepared.
    """
    if written.options.get(ASYNC_PROGRESS, "").lower() == "true":
        raise AsyncProgress(
            f"query {task.name!r} uses asynchronous progress tracking, which does not write down the end of "
            "each batch",
            remedy="Remove the option asyncProgressTrackingEnabled",
        )
    sockets = [s.name for s in sources_of(writer) or () if not s.replayable]
    volatile = bool(sockets) or _writes_to_memory(written)
    afresh = volatile and written.location is None
    location = written.location
    in_place = location is not None and points.continues_in_place(engine.files, task.uid, location)
    restores = before is None and not afresh and not in_place
    point, plan = _origin(engine, points, task, stage, restores=restores)
    fresh = f"{point.folder}/volatile-{points.config.epoch}-{uuid.uuid4().hex[:8]}" if afresh else None
    directory = _directory(engine, point, task, stage, writer, written, before, fresh)
    me = owner(engine.files, points.config.job, points.config.checkpoints, task.name, directory.uri)
    theirs = owner_of(engine.files, directory.uri) if location is not None else None
    if theirs is not None and not in_place:
        refuse_other_job(theirs, me)
    restored = _restored(point, plan) if before is None else None
    warnings = [
        *refuse_newer(restored or directory, engine),
        *warn_of_own_disk(task.name, directory.uri, os.environ),
    ]
    folder = sink_log.folder_of(engine.files, writer, written)
    refuse_unfit(
        engine.files.spark, engine.internals, task.name, directory.uri, *([folder] if folder else [])
    )
    table = table_written(writer, written, engine.files.qualify) if before is None else None
    if table is not None and not isinstance(table, MissingTable):
        origin = _begins_from(point, plan, directory)
        here = Going(point, engine, origin.directory, writer, written, sink, upstream, stage is not None)
        warnings += refuse_unfit_table(
            task.name, table, written, frame_of(writer), origin, wrote_here=here.wrote_here
        )
    directory.drop_half_written()
    if stage is not None and before is None:
        stage.begin(task.index)
        if plan.start is Start.REDISTRIBUTED and stage.like is not None:
            begin_behind(directory, stage.like)
    beginning = begin_from(point, task.index, plan, directory)
    begins = before is None and (point.is_foreign or in_place)
    going = Going(
        point,
        engine,
        directory,
        writer,
        written,
        sink,
        upstream,
        is_shard=stage is not None,
        later=_read_on_in(point, plan, directory) if before is None else None,
    )
    committed = directory.latest_commit()
    if isinstance(table, MissingTable) and committed is not None and going.wrote_here:
        refuse_gone_table(task.name, table, committed, folder)
    if before is None:
        _refuse_another(points, task.uid, going, () if plan.record or afresh else missing)
    drained = directory.is_drained()  # an earlier epoch began to fire the max watermark: for good
    if plan.start in (Start.NEW, Start.RESUME) and not drained:
        warnings += going.refuse(reads=reads, fits=before is None and fits == directory.uri)
    moved = None if begins else going.moved_sink()
    at = None if isinstance(table, MissingTable) else folder  # Spark creates no table in a folder that exists
    own = own_sink(directory, at, me, point, plan, going)
    if location is not None and (faster := take(engine.files, directory.uri, me, theirs)) is not None:
        refuse_other_job(faster, me)
    going.note()
    transactions = plan.record.transactions if plan.record else ()
    state_manager = driver_state.keep(directory, task.name, written.each_batch, plan.state)
    return Entry(
        directory,
        drained,
        plan.start is Start.FINISHED,
        beginning.words,
        transactions,
        state_manager,
        (
            *warnings,
            *beginning.warnings,
            *([own.warning] if own and own.warning else []),
            *([moved] if moved else []),
            *([_not_replayable(task.name)] if sockets else []),
            *([_in_place(task.name, directory)] if in_place and points.names_directory(task.uid) else []),
        ),
        going.ends,
        volatile,
        own,
    )


def _refuse_another(points: RestorePoints, uid: str, going: Going, missing: Collection[str]) -> None:
    """Check that the query is not another one than its name says.

    :param missing: stages of the restored checkpoint that a new query may be under another name.
    :raises NonRestoredState: as `refuse_renamed`.
    :raises NothingToAdopt: as `refuse_ignored`.
    :raises QueryNameMissing: as `refuse_other_query`.
    """
    files, written = going.engine.files, going.written
    if going.directory.latest_offset() is None:
        refuse_renamed(files, points, uid, going.ends, missing)
        if not going.is_shard and written.location is None:
            refuse_ignored(files, written.name, files.spark.conf.get(SETTING, None), going.directory)
    if not going.point.is_foreign and written.name is None and written.location is None:
        refuse_other_query(uid, going.ends, going.noted)


def _directory(
    engine: Engine,
    point: RestorePoint,
    task: TaskName,
    stage: ShardedStage | None,
    writer: DataStreamWriter,
    written: Written,
    before: Stage | None,
    fresh: str | None,
) -> CheckpointDir:
    """Choose the query's checkpoint directory, and make it.

    :param fresh: a new one, for a query that starts from nothing. None for others.
    :raises ShardLocation: the script chose one for a shard.
    """
    location, said_by = written.location, "the script's checkpointLocation"
    if stage is not None and location is not None:
        raise ShardLocation(
            f"query {task.name!r} has a checkpointLocation of its own: those of a sharded stage have to move "
            "when its parallelism changes",
            remedy="Remove the option; for runs without the runtime set "
            "spark.sql.streaming.checkpointLocation",
        )
    if before is not None and location is not None:
        _refuse_moved(task, before.directory, engine.files.qualify(location))
    if location is None:
        own = stage.location(task.index) if stage else f"{point.folder}/0"
        location = fresh or (before.directory.uri if before is not None else own)
        said_by = "spec.storage.checkpoints"
        choose_location(writer, location)
    # Created here, because none of Spark's errors about an unusable location says who chose it.
    engine.files.make_directory(location, f"checkpoint directory ({said_by})")
    return CheckpointDir(engine.files, engine.files.qualify(location))


def _refuse_moved(task: TaskName, before: CheckpointDir, location: str) -> None:
    """Check that a query that is started again continues where it was.

    :raises QueryChanged: it has another directory, so it is another query, and nothing would emit the last
        windows of the first one.
    """
    if canonical(before.uri) != canonical(location):
        raise QueryChanged(
            f"query {task.name!r} has run in the checkpoint directory {before.uri} and is started in "
            f"{location}: these are two queries with one name",
            remedy="Give each of them a queryName of its own",
        )


def _origin(
    engine: Engine, points: RestorePoints, task: TaskName, stage: ShardedStage | None, *, restores: bool
) -> tuple[RestorePoint, TaskPlan]:
    """What the stage starts from, and how the task starts. Computed here once for each start.

    :param restores: false for a query that starts from its own directory, or from nothing.
    """
    if not restores:
        return points.nothing(engine.files, task.uid), TaskPlan(task.task, Start.NEW)
    if stage is not None:
        return stage.point, stage.plan.tasks[task.index]
    point = points.of(engine.files, task.uid)
    return point, plan_of_only_task(point)


def _restored(point: RestorePoint, plan: TaskPlan) -> CheckpointDir | None:
    """The directory that is copied into the task's own. None if the task starts its own or nothing."""
    if plan.record is None or not point.is_foreign:
        return None
    return point.adopted or point.directory(plan.record)


def _read_on_in(point: RestorePoint, plan: TaskPlan, directory: CheckpointDir) -> CheckpointDir | None:
    """The directory from which the savepoint was taken, of which the task has read nothing beyond by itself.

    None if the task does not start from a savepoint, or has already run on.
    """
    if point.savepoint is None or plan.record is None or directory.latest_offset() != plan.record.batch:
        return None
    origin = CheckpointDir(directory.files, plan.record.location)
    return origin if origin.uri != directory.uri else None


def _begins_from(point: RestorePoint, plan: TaskPlan, directory: CheckpointDir) -> Origin:
    if (restored := _restored(point, plan)) is None:
        return Origin(directory)
    assert plan.record is not None
    return Origin(restored, None if point.adopted is not None else plan.record.batch)


def _writes_to_memory(written: Written) -> bool:
    """Whether the sink's table is lost with its query: each run starts from nothing, as in plain Python."""
    return written.format == "memory" and written.location is None


def _not_replayable(name: str) -> Problem:
    text = (
        f"query {name!r} reads from a socket, which nobody can read again: without a checkpointLocation of "
        "its own it begins from nothing at each start, and a drain does not emit its last windows"
    )
    log.warning("%s", text)
    return Problem("SourceNotReplayable", text, "Use a socket for tests only; read files or Kafka instead")


def _in_place(name: str, directory: CheckpointDir) -> Problem:
    text = (
        f"query {name!r} continues in {directory.uri} itself, not in a copy: restoreFrom.checkpoints and the "
        "script's checkpointLocation name the same directory, so the earlier job cannot go on from it"
    )
    log.warning("%s", text)
    return Problem("AdoptedInPlace", text, "Remove the option from the script to have a copy")
