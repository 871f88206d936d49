"""What a query of the job has to itself, as far as that is known before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.streaming.readwriter import DataStreamWriter

from ....protocol.errors import StreamJobError
from ....protocol.graph import TaskName
from ....storage.hadoop import HadoopFiles
from ....transactional import TransactionalSink
from ...spark import sink_log
from ...spark.stream_writer import WriterOptions
from ..edges import Channel

LAKES = frozenset({"delta", "iceberg"})  # formats of tables to which several queries may append


class SinkShared(StreamJobError):
    """Two queries write to what has room for one."""

    reason = "SinkShared"


@dataclass(frozen=True)
class Claim:
    """Places are in the form by which they are compared (`file_systems.canonical`).

    :param task: whose claim it is.
    :param name: of its query, for people.
    :param directory: the checkpoint directory, None if StreamJob chooses it.
    :param folder: the folder of Spark's file sink, None for other sinks.
    :param commits: the folder of a `FileSink`; several of them may have one.
    :param table: the table that it writes to, None for other sinks.
    :param replaces: each batch replaces all rows of the table.
    """

    task: str
    name: str
    directory: str | None = None
    folder: str | None = None
    commits: str | None = None
    table: Channel | None = None
    replaces: bool = False


def claim(
    files: HadoopFiles,
    task: TaskName,
    writer: DataStreamWriter,
    written: WriterOptions,
    sink: Channel | None,
) -> Claim:
    """
    :param sink: where the query writes, None if that is not known.
    """
    folder = sink_log.folder_of(files, writer, written)
    commits = next(iter(sink.folders), None) if sink and is_transactional(written) else None
    lake = sink is not None and (sink.kind == "table" or (written.format or "").lower() in LAKES)
    return Claim(
        task.task,
        task.name,
        files.canonical(written.location) if written.location is not None else None,
        files.canonical(folder) if folder is not None else None,
        commits,
        sink if lake else None,
        (written.mode or "").lower() == "complete",
    )


def is_transactional(written: WriterOptions) -> bool:
    """Whether the query's sink commits with checkpoints."""
    return written.each_batch is not None and isinstance(written.each_batch.given, TransactionalSink)
