"""Admits a query: finds its checkpoint directory, checks it, and brings it to where the task starts.

Everything that can be refused is refused here, before Spark writes an offset.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ...protocol.errors import StreamJobError
from ...protocol.graph import task_id
from ...protocol.messages import DriverConfig, Problem
from ...protocol.records import TaskRecord
from ...protocol.recovery import Start, StateCannotMove, TaskPlan, stage_plan, unfinished_before_finished
from ...sinks.transactional import TransactionalSink
from ..query import driver_state
from ..query.driver_state import StateKeeper
from ..query.edges import Channel
from ..query.endpoints import NotedEnds
from ..query.task import Engine, Restart, Stage, TaskName
from ..query.transactions import Transactions, owner_of
from ..savepoints.write import adopt, restore
from ..spark import sink_log
from ..spark.checkpoint_dir import CheckpointDir
from ..spark.file_manager import refuse_unfit
from ..spark.handles import analyzed_plan, jvm, session_of
from ..spark.internals import Internals
from ..spark.plan_sources import sources_of_plan
from ..spark.session_conf import Settings
from ..spark.stream_writer import Written, choose_location
from ..spark.undrain import reopen
from ..storage.hadoop import HadoopFiles
from .declared_shards import DeclaredStages
from .missing_stages import refuse_renamed
from .preflight import Going
from .remaining_splits import begin_behind
from .restore_point import (
    adopted_directory,
    directory_of,
    from_savepoint,
    refuse_other,
    root_of,
    stage_to_restore,
)
from .split_assignment import ShardedStage

log = logging.getLogger("streamjob")


class ShardMissing(StreamJobError):
    reason = "ShardMissing"


class TransactionalUpstream(StreamJobError):
    """A stage reads the output of a transactional sink of the same job.

    The sink's last rows become visible only with the checkpoint that also ends the reader, which would never
    read them.
    """

    reason = "TransactionalUpstream"


class AsyncProgress(StreamJobError):
    """Asynchronous progress writes offsets and commits late, and not for each batch.

    So the last batch is unknown.
    """

    reason = "AsyncProgressUnsupported"


class SinkShared(StreamJobError):
    reason = "SinkShared"


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
    :param keeper: manages the driver-side state that the script declared for the query, None if it declared
        none.
    :param told: warnings for the user; the query starts all the same.
    :param ends: what the query reads and writes, None if that is not fully known.
    :param volatile: the query reads a socket or writes to Spark's memory sink, so no other run can continue
        it to flush it. Without a checkpointLocation of its own, each run starts from nothing.
    """

    directory: CheckpointDir
    drained: bool
    finished: bool
    description: str
    transactions: tuple[str, ...] = ()
    keeper: StateKeeper | None = None
    told: tuple[Problem, ...] = ()
    ends: NotedEnds | None = None
    volatile: bool = False


def open_engine(writer: DataStreamWriter) -> Engine:
    spark = session_of(writer)
    return Engine(HadoopFiles(spark), Internals.of(spark), jvm(spark))


def restarter(
    writer: DataStreamWriter,
    original: Callable[..., StreamingQuery],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Restart:
    """A function that starts the same writer again with another trigger. The location is set by then."""
    settings = Settings(session_of(writer))

    def restart(**trigger: Any) -> StreamingQuery:
        with settings.in_force():
            return original(writer.trigger(**trigger), *args, **kwargs)

    return restart


def refuse_missing(declared: DeclaredStages, stages: Mapping[str, Stage]) -> None:
    """Check that the script has started every declared shard.

    :raises ShardMissing: it has not, so no query would read that shard's share.
    """
    started = {stage.name.name for stage in stages.values()}
    for shard in declared.shards():
        if shard.name not in started:
            raise ShardMissing(
                f"shard {shard.index} of stage {shard.uid!r} was not started: nobody would read its share",
                remedy=f"Start a query with the name {shard.name!r}, as for each shard that job.shards() gives",
            )


def enter(
    engine: Engine,
    config: DriverConfig,
    task: TaskName,
    stage: ShardedStage | None,
    writer: DataStreamWriter,
    written: Written,
    sink: Channel | None,
    *,
    upstream: Collection[str],
    reads: bool,
    before: Stage | None = None,
    missing: Collection[str] = (),
) -> Entry:
    """Find the task's checkpoint directory and bring it to the state that the task starts from.

    :param stage: None for a query that is a stage of its own.
    :param upstream: stages that write what the query reads.
    :param reads: the query is going to read new data, because the job is not asked to end.
    :param before: the task's previous run in this epoch, None for the first. Only the first run restores
        anything.
    :param missing: stages of the restored checkpoint that the script has not started yet.
    :raises StreamJobError: the query is refused, or the directory cannot be prepared.
    """
    if written.options.get(ASYNC_PROGRESS, "").lower() == "true":
        raise AsyncProgress(
            f"query {task.name!r} uses asynchronous progress tracking, which does not write down the end of each batch",
            remedy="Take the option asyncProgressTrackingEnabled away",
        )
    sockets = [s.name for s in sources_of_plan(analyzed_plan(writer)) or () if not s.replayable]
    volatile = bool(sockets) or _writes_to_memory(written)
    afresh = volatile and written.location is None
    if before is not None or afresh:
        plan = TaskPlan(task.task, Start.NEW)
    else:
        plan = stage.plan.tasks[task.index] if stage else _only_task(engine.files, config, task.uid)
    location, said_by = written.location, "the script's checkpointLocation"
    if stage is not None and location is not None:
        raise ShardLocation(
            f"query {task.name!r} has a checkpointLocation of its own: those of a sharded stage have to move when its "
            "parallelism changes",
            remedy="Take the option away; for runs without the runtime set spark.sql.streaming.checkpointLocation",
        )
    if afresh:
        location = f"{root_of(config, task.uid)}/volatile-{config.epoch}-{uuid.uuid4().hex[:8]}"
        choose_location(writer, location)
    if location is None:
        if before is not None:
            location = before.directory.uri
        else:
            location = stage.location(task.index) if stage else f"{root_of(config, task.uid)}/0"
        said_by = "spec.storage.checkpoints"
        choose_location(writer, location)
    # Created here, because none of Spark's errors about an unusable location says who chose it.
    engine.files.make_directory(location, f"checkpoint directory ({said_by})")
    directory = CheckpointDir(engine.files, engine.files.qualify(location))
    folder = sink_log.folder_of(engine.files, written)
    refuse_unfit(
        engine.files.spark, engine.internals, task.name, directory.uri, *([folder] if folder else [])
    )
    directory.drop_half_written()
    if stage is not None and before is None:
        stage.begin(task.index)
        if plan.start is Start.REDISTRIBUTED and stage.like is not None:
            begin_behind(directory, stage.like)
    source = None if before else adopted_directory(engine.files, config, task.uid)
    description = _come_to(config, task, directory, plan, source)
    begins = before is None and (from_savepoint(config) is not None or source is not None)
    going = Going(engine, config, task.uid, directory, writer, written, sink, upstream, stage is not None)
    told: list[Problem] = []
    if not (before or plan.record or afresh) and directory.latest_offset() is None:
        refuse_renamed(engine.files, config, task.uid, going.ends, missing)
    if plan.start in (Start.NEW, Start.RESUME) and not directory.is_drained():
        told += going.refuse(reads=reads)
    moved = None if begins else going.moved_sink()
    _prepare_sink(directory, written, new=begins or plan.start is Start.REDISTRIBUTED or moved is not None)
    going.note()
    finished = plan.start is Start.FINISHED
    transactions = plan.record.transactions if plan.record else ()
    keeper = driver_state.keep(directory, task.name, written.each_batch, plan.state)
    return Entry(
        directory,
        # True if an earlier epoch began to fire the max watermark, which cannot be undone.
        directory.is_drained(),
        finished,
        description,
        transactions,
        keeper,
        (*told, *([moved] if moved else []), *([_not_replayable(task.name)] if sockets else [])),
        going.ends,
        volatile,
    )


def inherit(
    files: HadoopFiles,
    config: DriverConfig,
    task: TaskName,
    stage: ShardedStage | None,
    sink: TransactionalSink,
) -> None:
    """If the parallelism of the stage changed, commit what its previous tasks wrote and did not commit.

    The output becomes visible now. The new tasks start at the previous positions, so it would otherwise be
    lost. Each new task does this for some of the previous ones.

    :raises SinkFailed: the sink refused.
    """
    if stage is None or stage.plan.tasks[task.index].start is not Start.REDISTRIBUTED:
        return
    record = stage_to_restore(files, config, task.uid)
    for old in record.tasks if record else ():
        if old.index % stage.parallelism == task.index:
            assert record is not None
            owner = owner_of(config.job, task_id(task.uid, old.index, len(record.tasks)))
            transactions = Transactions(sink, owner)
            batch = directory_of(files, config, task.uid, old).latest_commit()
            # A new task can have the owner name of an old one, and may have run before: keep its batches.
            begun = CheckpointDir(files, stage.location(task.index)).latest_commit()
            transactions.recover(batch if begun is None else begun, old.transactions)
            transactions.pre_commit(0, batch)
            transactions.commit(0)


def _writes_to_memory(written: Written) -> bool:
    """Whether the sink's table is lost with its query: each run starts from nothing, as in plain Python."""
    return written.format == "memory" and written.location is None


def _not_replayable(name: str) -> Problem:
    text = (
        f"query {name!r} reads from a socket, which nobody can read again: without a checkpointLocation of its own it begins "
        "from nothing at each start, and a drain does not emit its last windows"
    )
    log.warning("%s", text)
    return Problem("SourceNotReplayable", text, "Use a socket for tests only; read files or Kafka instead")


def _only_task(files: HadoopFiles, config: DriverConfig, uid: str) -> TaskPlan:
    stage = stage_to_restore(files, config, uid)
    plan = stage_plan(uid, 1, stage).tasks[0]
    if plan.start is Start.REDISTRIBUTED and stage is not None:
        raise StateCannotMove(
            f"stage {uid!r} had {len(stage.tasks)} tasks and is one query now, which would read all of its input again",
            remedy=f"Declare it with job.shards({uid!r}, 1), or give the query another name",
        )
    return plan


def _come_to(
    config: DriverConfig,
    task: TaskName,
    directory: CheckpointDir,
    plan: TaskPlan,
    source: CheckpointDir | None,
) -> str:
    """Bring the directory to the point where the task starts.

    :param source: the directory that the task adopts, None if it adopts none.
    :returns: where the task starts, in words.
    """
    savepoint = from_savepoint(config)
    if plan.record is None:
        latest = directory.latest_offset()
        if plan.start is Start.REDISTRIBUTED:
            return f"what is left of {savepoint or f'checkpoint {_number(config)}'}"
        return "nothing" if latest is None else f"batch {latest} of {directory.uri}"
    if source is not None:
        adopt(directory.files, source, directory.uri, amend=reopen)
        return f"a copy of {source.uri}"
    if savepoint is not None:
        restore(directory.files, savepoint, task.uid, task.index, directory.uri, amend=reopen)
        return f"savepoint {savepoint}"
    return _resume(config, task, directory, plan.record)


def _prepare_sink(directory: CheckpointDir, written: Written, *, new: bool) -> None:
    """Prepare the log of a file sink. Does nothing for other sinks.

    :param new: the query starts after batches that ran elsewhere or wrote to another folder.
    :raises SinkAhead: see `sink_log.refuse_ahead`.
    """
    folder = sink_log.folder_of(directory.files, written)
    if folder is None:
        return
    sink_log.refuse_ahead(directory.files, folder, directory.latest_offset())
    committed = directory.latest_commit()
    if new and committed is not None:
        sink_log.begin_after(directory.files, folder, committed)


def refuse_unfinished_before_finished(
    stage: Stage, upstream: Iterable[Stage], readers: Iterable[Stage]
) -> None:
    """Check that no unfinished stage feeds a finished one.

    :raises UnfinishedBeforeFinished: a finished stage would never read what the other one produces (row 10).
    """
    for source, reader in [*((u, stage) for u in upstream), *((stage, r) for r in readers)]:
        if reader.all_finished and not source.all_finished:
            raise unfinished_before_finished(source.uid, reader.uid)


def refuse_transactional_upstream(stage: Stage, upstream: Iterable[Stage], readers: Iterable[Stage]) -> None:
    """Check that no stage reads what another stage of the job writes to a transactional sink.

    :raises TransactionalUpstream: one does.
    """
    for source, reader in [*((u, stage) for u in upstream), *((stage, r) for r in readers)]:
        if source.transactions is not None:
            raise TransactionalUpstream(
                f"stage {reader.uid!r} reads what stage {source.uid!r} writes to a transactional sink: its last rows become "
                f"visible with the checkpoint that ends both, and {reader.uid!r} would never read them",
                remedy=f"Give {source.uid!r} a sink that is durable at each batch, such as Spark's own for files or Kafka",
            )


def refuse_shared(sink: TransactionalSink, task: TaskName, stages: Iterable[Stage]) -> None:
    """Check that the sink object belongs to one query.

    :raises SinkShared: another query writes to the same object, which keeps the transactions of one query
        only.
    """
    for other in stages:
        if other.transactions is not None and other.transactions.sink is sink and other.task != task.task:
            raise SinkShared(
                f"queries {other.name.name!r} and {task.name!r} write to one {type(sink).__name__} object, which keeps the "
                "transactions of one query",
                remedy="Make a sink for each query; several may write to the same place",
            )


def _resume(config: DriverConfig, task: TaskName, directory: CheckpointDir, expected: TaskRecord) -> str:
    """Resume in the directory of the latest checkpoint, which has its batch or, after a crash, a later one.

    If the directory is lost and the job ended with that checkpoint, restore it from the checkpoint's
    savepoint, if there is one.

    :returns: where the task starts, in words.
    :raises CheckpointLost: as `refuse_other`.
    :raises CheckpointMoved: as `refuse_other`.
    """
    record, found = config.restore.latest, directory.latest_commit()
    assert record is not None
    if expected.batch is None:
        return "nothing"
    if config.restore.exact and record.savepoint is not None and found is None:
        restore(directory.files, record.savepoint, task.uid, task.index, directory.uri)
        return f"savepoint {record.savepoint}: its checkpoint directory was gone"
    refuse_other(config, directory, expected, found)
    return f"batch {found} of {directory.uri}"


def _number(config: DriverConfig) -> int:
    assert config.restore.latest is not None
    return config.restore.latest.checkpoint
