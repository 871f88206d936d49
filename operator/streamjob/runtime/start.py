"""Where a stage starts from: its name, its checkpoint directory, and whether that holds what it should.

Everything that can be refused is refused here, before Spark writes an offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ..job import ONLY_QUERY
from ..protocol.errors import StreamJobError
from ..protocol.messages import DriverConfig
from ..protocol.records import StageRecord, TaskRecord
from ..protocol.recovery import AlreadyDrained, unfinished_before_finished
from . import driverstate, sinklog
from .checkpointdir import CheckpointDir
from .driverstate import StateKeeper
from .files import HadoopFiles
from .internals import Internals
from .reopen import reopen
from .savepoint import read_manifest, restore
from .stage import Engine, Restart, Stage
from .written import Written


class DuplicateStage(StreamJobError):
    reason = "DuplicateQueryName"


class UnnamedStage(StreamJobError):
    reason = "QueryNameMissing"


class CheckpointLost(StreamJobError):
    reason = "CheckpointLost"


class CheckpointMoved(StreamJobError):
    reason = "CheckpointMoved"


class TransactionalUpstream(StreamJobError):
    """What a transactional sink holds back until a checkpoint, a stage of the same job could not read before its own end."""

    reason = "TransactionalUpstream"


class StageNotInSavepoint(StreamJobError):
    reason = "StageNotInSavepoint"


@dataclass(frozen=True)
class Entry:
    """:param drained: the max watermark is in the offset log already: no more data may be read.
    :param finished: the checkpoint that it starts from says that it has finished: it is not started (row 10).
    :param transactions: that checkpoint's, to be committed if they are not.
    :param keeper: of the driver-side state that the script has declared for it."""

    directory: CheckpointDir
    drained: bool
    finished: bool
    description: str
    transactions: tuple[str, ...]
    keeper: StateKeeper | None = None


def open_engine(writer: DataStreamWriter) -> Engine:
    spark = writer._spark
    return Engine(HadoopFiles(spark), Internals.of(spark), spark._jvm)


def restarter(
    writer: DataStreamWriter,
    original: Callable[..., StreamingQuery],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Restart:
    """Starts the same writer again with another trigger. Its location is fixed by now."""

    def restart(**trigger: Any) -> StreamingQuery:
        return original(writer.trigger(**trigger), *args, **kwargs)

    return restart


def stage_name(name: str | None, stages: Mapping[str, Stage]) -> str:
    """The query's name.

    :raises DuplicateStage, UnnamedStage: it cannot be told from the job's other queries.
    """
    running = {uid: s for uid, s in stages.items() if s.failure is None}
    if name in running:
        raise DuplicateStage(
            f"the script starts two queries with the name {name!r}",
            remedy="Give each query a queryName of its own",
        )
    if running and (name is None or ONLY_QUERY in running):
        raise UnnamedStage(
            "the script starts several queries and one has no name: a savepoint could not tell them apart",
            remedy="Give each query a queryName",
        )
    return name or ONLY_QUERY


def enter(
    engine: Engine, config: DriverConfig, uid: str, writer: DataStreamWriter, written: Written
) -> Entry:
    """Find the stage's checkpoint directory and make it what the job should start from.

    :raises StreamJobError: it is not, and cannot be made so.
    """
    location, said_by = written.location, "the script's checkpointLocation"
    if location is None:
        location, said_by = f"{config.checkpoints.rstrip('/')}/{uid}/0", "spec.storage.checkpoints"
        writer.option("checkpointLocation", location)
    # Here, because of all that Spark would say about a location it cannot have, nothing names who chose it.
    engine.files.make_directory(location, f"checkpoint directory ({said_by})")
    directory = CheckpointDir(engine.files, engine.files.qualify(location))
    expected = _expected(config, uid)
    finished = False
    transactions: tuple[str, ...] = ()
    if expected is not None:
        description = _resume(config, uid, directory, expected.tasks[0])
        finished, transactions = expected.finished, expected.tasks[0].transactions
    elif config.restore.savepoint is not None and config.restore.latest is None:
        description, finished, transactions = _restore(engine.files, config, uid, directory)
    else:
        latest = directory.latest_offset()
        description = "nothing" if latest is None else f"batch {latest} of {directory.uri}"
    _prepare_sink(config, directory, written)
    # An earlier epoch had begun to fire the max watermark; that cannot be taken back.
    keeper = driverstate.keep(directory, uid, written.each_batch)
    return Entry(directory, directory.is_drained(), finished, description, transactions, keeper)


def _prepare_sink(config: DriverConfig, directory: CheckpointDir, written: Written) -> None:
    """:raises SinkAhead: see `sinklog`."""
    folder = sinklog.folder_of(directory.files, written)
    if folder is None:
        return
    sinklog.refuse_ahead(directory.files, folder, directory.latest_offset())
    committed = directory.latest_commit()
    if config.restore.savepoint is not None and config.restore.latest is None and committed is not None:
        sinklog.begin_after(directory.files, folder, committed)


def refuse_unfinished_before_finished(
    stage: Stage, upstream: Iterable[Stage], readers: Iterable[Stage]
) -> None:
    """:raises UnfinishedBeforeFinished: what one stage would produce, another one will never read (row 10)."""
    for source, reader in [*((u, stage) for u in upstream), *((stage, r) for r in readers)]:
        if reader.finished and not source.finished:
            raise unfinished_before_finished(source.uid, reader.uid)


def refuse_transactional_upstream(stage: Stage, upstream: Iterable[Stage], readers: Iterable[Stage]) -> None:
    """:raises TransactionalUpstream: see there."""
    for source, reader in [*((u, stage) for u in upstream), *((stage, r) for r in readers)]:
        if source.transactions is not None:
            raise TransactionalUpstream(
                f"stage {reader.uid!r} reads what stage {source.uid!r} writes to a transactional sink: its last rows become "
                f"visible with the checkpoint that ends both, and {reader.uid!r} would never read them",
                remedy=f"Give {source.uid!r} a sink that is durable at each batch, such as Spark's own for files or Kafka",
            )


def _expected(config: DriverConfig, uid: str) -> StageRecord | None:
    record = config.restore.latest
    return next((s for s in record.stages if s.uid == uid), None) if record else None


def _resume(config: DriverConfig, uid: str, directory: CheckpointDir, expected: TaskRecord) -> str:
    """Go on in the directory of the latest checkpoint, which holds its batch or, after a crash, a later one."""
    record = config.restore.latest
    assert record is not None
    settled = config.restore.exact and not record.uncommitted
    if record.drained and settled and not config.restore.allow_drained:
        raise AlreadyDrained(
            f"checkpoint {record.checkpoint} was drained: its windows are out, a job resumed from it would drop every row",
            remedy="Make a new StreamJob with restoreFrom.savepoint and restoreFrom.allowDrained",
        )
    found = directory.latest_commit()
    if expected.batch is None:
        return "nothing"
    if found is None or found < expected.batch:
        if config.restore.exact and record.savepoint is not None and found is None:
            restore(directory.files, record.savepoint, uid, 0, directory.uri)
            return f"savepoint {record.savepoint}: its checkpoint directory was gone"
        raise CheckpointLost(
            f"{directory.uri} should hold batch {expected.batch} of checkpoint {record.checkpoint} and holds "
            + ("none" if found is None else f"only batch {found}"),
            remedy="Put the directory back, or make a new StreamJob with spec.restoreFrom.savepoint",
        )
    if config.restore.exact and found > expected.batch:
        raise CheckpointMoved(
            f"{directory.uri} is at batch {found}, checkpoint {record.checkpoint} ended at {expected.batch}: "
            "somebody else ran this query from it",
            remedy="Stop that query; then make a new StreamJob, or restore a savepoint into one",
        )
    return f"batch {found} of {directory.uri}"


def _restore(
    files: HadoopFiles, config: DriverConfig, uid: str, directory: CheckpointDir
) -> tuple[str, bool, tuple[str, ...]]:
    """The job's first start from a savepoint; done already if an earlier epoch of the job got that far."""
    savepoint = config.restore.savepoint
    assert savepoint is not None
    manifest = read_manifest(files, savepoint)
    if manifest.checkpoint.drained and not config.restore.allow_drained:
        raise AlreadyDrained(
            f"{savepoint} was drained: its windows are out, a job resumed from it would drop every row as late",
            remedy="Restore another savepoint, or set spec.restoreFrom.allowDrained to true",
        )
    known = {s.uid: s for s in manifest.checkpoint.stages}
    if uid not in known:
        raise StageNotInSavepoint(
            f"the script's query {uid!r} is not in {savepoint}, which holds {', '.join(known)}",
            remedy="Give the query the name it had, or start without restoreFrom",
        )
    restore(files, savepoint, uid, 0, directory.uri, amend=reopen)
    finished = known[uid].finished and not manifest.checkpoint.drained
    return f"savepoint {savepoint}", finished, known[uid].tasks[0].transactions
