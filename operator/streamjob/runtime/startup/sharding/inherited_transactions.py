"""Transactions of the tasks that a stage had before its parallelism changed."""

from __future__ import annotations

from ....protocol.formats.records import JobRef
from ....protocol.graph import TaskName, task_id
from ....protocol.restore.recovery import Start
from ....transactional import TransactionalSink
from ...query.transactions import Transactions, owner_of
from ...spark.checkpoint_dir import CheckpointDir
from .split_assignment import ShardedStage


def inherit(job: JobRef, task: TaskName, stage: ShardedStage | None, sink: TransactionalSink) -> None:
    """If the parallelism of the stage changed, commit what its previous tasks wrote and did not commit.

    The output becomes visible now. The new tasks start at the previous positions, so it would otherwise be
    lost. Each new task does this for some of the previous ones.

    :raises SinkFailed: the sink refused.
    """
    if stage is None or stage.plan.tasks[task.index].start is not Start.REDISTRIBUTED:
        return
    point = stage.point
    record = point.record
    for old in record.tasks if record else ():
        if old.index % stage.parallelism == task.index:
            assert record is not None
            owner = owner_of(job, task_id(task.uid, old.index, len(record.tasks)))
            transactions = Transactions(sink, owner)
            batch = point.directory(old).latest_commit()
            # A new task can have the owner name of an old one, and may have run before: keep its batches.
            begun = CheckpointDir(point.files, stage.location(task.index)).latest_commit()
            transactions.recover(batch if begun is None else begun, old.transactions)
            transactions.pre_commit(0, batch)
            transactions.commit(0)
