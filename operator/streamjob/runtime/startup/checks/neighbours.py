"""Checks of a query against the job's other queries: what it reads from them, and what it
shares with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from ....protocol.errors import StreamJobError
from ....protocol.graph import TaskName
from ....protocol.messages.driver_status import Problem
from ....protocol.restore.recovery import unfinished_before_finished
from ....transactional import TransactionalSink
from ...query.edges import Channel, Endpoints
from ...query.places.claim import Claim, SinkShared
from ...query.places.owner import NAME as OWNER
from ...query.places.owner import Owner
from ...query.run import Run
from ...query.transactions import Transactions
from .sources import QueryChanged


class TransactionalUpstream(StreamJobError):
    """A stage reads the output of a transactional sink of the same job.

    The sink's last rows become visible only with the checkpoint that also ends the reader, which would never
    read them.
    """

    reason = "TransactionalUpstream"


class CheckpointShared(StreamJobError):
    """Another query has the checkpoint directory, and a directory has the positions of one query."""

    reason = "CheckpointShared"


class Neighbour(Protocol):
    """A run, or a query that is about to start."""

    @property
    def uid(self) -> str: ...

    @property
    def drained(self) -> bool:
        """Its max watermark has begun to fire, in this epoch or before."""

    @property
    def all_finished(self) -> bool: ...

    @property
    def transactions(self) -> Transactions | None: ...


def refuse_unfinished_before_finished(
    run: Neighbour, upstream: Iterable[Neighbour], readers: Iterable[Neighbour]
) -> None:
    """Check that no stage that reads on feeds a finished one.

    :raises UnfinishedBeforeFinished: a finished stage would never read what the other one produces (row 10).
    """
    for source, reader in [*((u, run) for u in upstream), *((run, r) for r in readers)]:
        if reader.all_finished and not (source.all_finished or source.drained):
            raise unfinished_before_finished(source.uid, reader.uid)


@dataclass(frozen=True)
class PastReader:
    """A stage of the restored checkpoint that has not started and that reads no more: it has finished, or its
    max watermark has fired.

    :param reads: what it has read.
    :param upstream: as `StageRecord.upstream`.
    """

    uid: str
    reads: tuple[Channel, ...]
    upstream: tuple[str, ...] = ()


def refuse_before_past_readers(uid: str, ends: Endpoints, past: Iterable[PastReader], *, new: bool) -> None:
    """Check, before a stage reads on, that nothing reads from it that reads no more.

    :param ends: where the stage reads and writes.
    :param new: the restored checkpoint does not have the stage.
    :raises UnfinishedBeforeFinished: such a stage reads from it (row 10).
    """
    for reader in past:
        shown = Endpoints(sources=reader.reads).read(ends) or uid in reader.upstream
        if shown and reader.uid != uid:
            raise unfinished_before_finished(uid, reader.uid, new=new)


def started_after_flush(uid: str, reader: str, *, new: bool) -> Problem:
    """The warning for a stage that starts in a drain, when what reads from it has been flushed.

    In the first epoch nothing but the script says what will start. A script that waits has told all of its
    queries.

    :param new: it has no batch.
    """
    left = "" if new else f". What it wrote in an earlier epoch and {reader!r} had not read is missing there"
    text = (
        f"query {uid!r} starts when the job is being drained and {reader!r}, which reads from it, has been "
        f"flushed: it reads nothing{left}"
    )
    return Problem(
        "UpstreamStartedTooLate", text, f"Let the script start {uid!r} before it waits for another query"
    )


def refuse_transactional_upstream(
    run: Neighbour, upstream: Iterable[Neighbour], readers: Iterable[Neighbour]
) -> None:
    """Check that no stage reads what another stage of the job writes to a transactional sink.

    :raises TransactionalUpstream: one does.
    """
    for source, reader in [*((u, run) for u in upstream), *((run, r) for r in readers)]:
        if source.transactions is not None:
            raise TransactionalUpstream(
                f"stage {reader.uid!r} reads what stage {source.uid!r} writes to a transactional sink: its "
                f"last rows become visible with the checkpoint that ends both, and {reader.uid!r} would "
                "never read them",
                remedy=f"Give {source.uid!r} a sink that makes each batch durable, such as Spark's own for "
                "files or Kafka",
            )


def refuse_shared_place(mine: Claim, others: Iterable[Claim], has_ended: Callable[[str], bool]) -> None:
    """Check that no other query of the job has what this one needs for itself.

    That another query has ended changes nothing: its batches are in the folder and in the directory.

    :param has_ended: whether the last run of a task has.
    :raises CheckpointShared: another query runs in the checkpoint directory.
    :raises QueryChanged: another query has run in it.
    :raises SinkShared: another query writes to the folder of a file sink, or one of two that write to one
        table replaces what is in it.
    """
    for other in others:
        if other.task == mine.task:
            continue
        both = f"queries {other.name!r} and {mine.name!r}"
        if mine.directory is not None and mine.directory == other.directory:
            kind = QueryChanged if has_ended(other.task) else CheckpointShared
            raise kind(
                f"{both} have one checkpoint directory, {mine.directory}: {mine.name!r} would go on from "
                f"what {other.name!r} has read, and never read that itself",
                remedy="Give each query a checkpointLocation of its own, or none",
            )
        if (place := _common_place(mine, other)) is not None:
            raise SinkShared(
                f"{both} write to {place}: the log of Spark's file sink has room for one query, and Spark "
                "drops batches of the other one in silence",
                remedy="Give each query a folder of its own; a reader can read several with a pattern",
            )
        if (mine.replaces or other.replaces) and _one_table(mine.table, other.table):
            name = (mine if mine.replaces else other).name
            raise SinkShared(
                f"{both} write to one table, and each batch of {name!r} replaces all that is in it "
                "(output mode complete)",
                remedy="Give each query a table of its own",
            )


def refuse_hidden_rows(mine: Claim, runs: Iterable[Run]) -> None:
    """Check that no foreachBatch function has written to the folder of the query's file sink. The other order
    is refused where the function writes (`skipped_writes`).

    :raises SinkShared: one has. Readers go by the sink's log, which does not name its files.
    """
    if mine.folder is None:
        return
    for run in runs:
        if run.task != mine.task and any(mine.folder in channel.folders for channel in run.ends.wrote):
            raise SinkShared(
                f"query {mine.name!r} writes to {mine.folder} with Spark's file sink, where the foreachBatch "
                f"function of query {run.name.name!r} has written: readers go by the log of the sink and "
                "would not find these rows any more",
                remedy="Give each query a folder of its own; a reader can read several with a pattern",
            )


def _common_place(mine: Claim, other: Claim) -> str | None:
    """The folder that both write to, at least one of them with Spark's file sink."""
    if mine.folder is not None and mine.folder in (other.folder, other.commits):
        return mine.folder
    return mine.commits if mine.commits is not None and mine.commits == other.folder else None


def _one_table(mine: Channel | None, other: Channel | None) -> bool:
    if mine is None or other is None:
        return False
    names = {name.casefold() for name in mine.names} & {name.casefold() for name in other.names}
    return bool(names or mine.folders & other.folders)


def refuse_other_job(theirs: Owner, mine: Owner) -> None:
    """Check that no other job has the checkpoint directory that the script chose.

    :param theirs: its owner.
    :raises CheckpointShared: the owner is a query of another job.
    """
    if mine.same_job(theirs):
        return
    raise CheckpointShared(
        f"{mine.checkpoint} is the checkpoint directory of {theirs}, and {mine} has chosen it, too: each "
        "would read a part of the input",
        remedy="Give the query a checkpointLocation of its own, or none. To continue the other job's query, "
        f"<new-job>. If that job has gone for good, delete {mine.checkpoint}/{OWNER}",
    )


def refuse_shared(sink: TransactionalSink, task: TaskName, stages: Iterable[Run]) -> None:
    """Check that the sink object belongs to one query.

    :raises SinkShared: another query writes to the same object, which keeps the transactions of one query
        only.
    """
    for other in stages:
        if other.transactions is not None and other.transactions.sink is sink and other.task != task.task:
            raise SinkShared(
                f"queries {other.name.name!r} and {task.name!r} write to one {type(sink).__name__} object, "
                "which keeps the transactions of one query",
                remedy="Make a sink for each query; several may write to the same place",
            )
