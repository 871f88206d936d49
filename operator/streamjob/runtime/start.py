"""Where a stage starts from: its name, its checkpoint directory, and whether that holds what it should.

Everything that can be refused is refused here, before Spark writes an offset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ..protocol.errors import StreamJobError
from ..protocol.messages import DriverConfig
from ..protocol.records import TaskRecord
from .checkpointdir import CheckpointDir
from .files import HadoopFiles
from .internals import Internals
from .reopen import reopen
from .savepoint import read_manifest, restore
from .stage import UNNAMED, Engine, Stage
from .written import Written


class DuplicateStage(StreamJobError):
    reason = "DuplicateQueryName"


class UnnamedStage(StreamJobError):
    reason = "QueryNameMissing"


class SeveralStages(StreamJobError):
    reason = "SeveralQueriesUnsupported"


class CheckpointLost(StreamJobError):
    reason = "CheckpointLost"


class CheckpointMoved(StreamJobError):
    reason = "CheckpointMoved"


class AlreadyDrained(StreamJobError):
    reason = "AlreadyDrained"


class StageNotInSavepoint(StreamJobError):
    reason = "StageNotInSavepoint"


@dataclass(frozen=True)
class Entry:
    """:param drained: the max watermark is in the offset log already: no more data may be read."""

    directory: CheckpointDir
    drained: bool
    description: str


def open_engine(writer: DataStreamWriter) -> Engine:
    spark = writer._spark
    return Engine(HadoopFiles(spark), Internals.of(spark), spark._jvm)


def once(
    writer: DataStreamWriter,
    original: Callable[..., StreamingQuery],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Callable[[], StreamingQuery]:
    """Starts the same writer again for exactly one batch. Its location is fixed by now."""

    def start() -> StreamingQuery:
        return original(writer.trigger(once=True), *args, **kwargs)

    return start


def stage_name(name: str | None, stages: Mapping[str, Stage]) -> str:
    """The query's name.

    :raises DuplicateStage, UnnamedStage, SeveralStages: it cannot be told from the job's other query, or is one too many.
    """
    running = {uid: s for uid, s in stages.items() if s.failure is None}
    if name in running:
        raise DuplicateStage(
            f"the script starts two queries with the name {name!r}",
            remedy="Give each query a queryName of its own",
        )
    if running and (name is None or UNNAMED in running):
        raise UnnamedStage(
            "the script starts several queries and one has no name: a savepoint could not tell them apart",
            remedy="Give each query a queryName",
        )
    if running:
        raise SeveralStages(
            f"the script starts a second query, {name!r}, beside {next(iter(running))!r}: one query for each StreamJob",
            remedy="Make it a StreamJob of its own",
        )
    return name or UNNAMED


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
    if expected is not None:
        description = _resume(config, uid, directory, expected)
    elif config.restore.savepoint is not None and config.restore.latest is None:
        description = _restore(engine.files, config, uid, directory)
    else:
        latest = directory.latest_offset()
        description = "nothing" if latest is None else f"batch {latest} of {directory.uri}"
    # An earlier epoch had begun to fire the max watermark; that cannot be taken back.
    return Entry(directory, directory.is_drained(), description)


def _expected(config: DriverConfig, uid: str) -> TaskRecord | None:
    record = config.restore.latest
    stages = {s.uid: s for s in record.stages} if record else {}
    return stages[uid].tasks[0] if uid in stages else None


def _resume(config: DriverConfig, uid: str, directory: CheckpointDir, expected: TaskRecord) -> str:
    """Go on in the directory of the latest checkpoint, which holds its batch or, after a crash, a later one."""
    record = config.restore.latest
    assert record is not None
    if record.drained and config.restore.exact and not config.restore.allow_drained:
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


def _restore(files: HadoopFiles, config: DriverConfig, uid: str, directory: CheckpointDir) -> str:
    """The job's first start from a savepoint; done already if an earlier epoch of the job got that far."""
    savepoint = config.restore.savepoint
    assert savepoint is not None
    manifest = read_manifest(files, savepoint)
    if manifest.checkpoint.drained and not config.restore.allow_drained:
        raise AlreadyDrained(
            f"{savepoint} was drained: its windows are out, a job resumed from it would drop every row as late",
            remedy="Restore another savepoint, or set spec.restoreFrom.allowDrained to true",
        )
    known = [s.uid for s in manifest.checkpoint.stages]
    if uid not in known:
        raise StageNotInSavepoint(
            f"the script's query {uid!r} is not in {savepoint}, which holds {', '.join(known)}",
            remedy="Give the query the name it had, or start without restoreFrom",
        )
    restore(files, savepoint, uid, 0, directory.uri, amend=reopen)
    return f"savepoint {savepoint}"
