"""Checks of a query against the job's other queries: what it reads from them, and what it
shares with them.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....protocol.errors import StreamJobError
from ....protocol.graph import TaskName
from ....protocol.restore.recovery import unfinished_before_finished
from ....transactional import TransactionalSink
from ...query.edges import Channel
from ...query.task import Stage


class TransactionalUpstream(StreamJobError):
    """A stage reads the output of a transactional sink of the same job.

    The sink's last rows become visible only with the checkpoint that also ends the reader, which would never
    read them.
    """

    reason = "TransactionalUpstream"


class SinkShared(StreamJobError):
    reason = "SinkShared"


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
                f"stage {reader.uid!r} reads what stage {source.uid!r} writes to a transactional sink: its "
                f"last rows become visible with the checkpoint that ends both, and {reader.uid!r} would "
                "never read them",
                remedy=f"Give {source.uid!r} a sink that makes each batch durable, such as Spark's own for "
                "files or Kafka",
            )


def refuse_one_writer(
    task: TaskName, sink: Channel | None, shared_by: str | None, stages: Iterable[Stage]
) -> None:
    """Check that no other query of the job is one writer with this one to the table that both write to.

    :param sink: where the query writes.
    :param shared_by: see `Table`. None: the table tells them apart.
    :raises SinkShared: the table would skip batches of one because of those of the other.
    """
    if sink is None or shared_by is None:
        return
    for other in stages:
        if other.task != task.task and other.shared_by == shared_by and other.ends.sink == sink:
            raise SinkShared(
                f"queries {other.task!r} and {task.task!r} write to one table with {shared_by}: the table "
                "takes the batches of one for those of the other, and skips them",
                remedy=f"Set the option {shared_by.partition('=')[0]} of each query's writer to a value of "
                "its own, of each shard, too",
            )


def refuse_shared(sink: TransactionalSink, task: TaskName, stages: Iterable[Stage]) -> None:
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
