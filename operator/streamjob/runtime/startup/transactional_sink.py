"""Takes over the commits of a query's transactional sink."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from ...protocol.graph import TaskName
from ...protocol.messages.driver_config import DriverConfig
from ...protocol.messages.driver_status import Problem
from ...transactional import TransactionalSink
from ..query.run import Run
from ..query.transactions import Transactions, owner_of
from ..spark.stream_writer import WriterOptions
from .checks.neighbours import refuse_shared

log = logging.getLogger("streamjob")


def transactions_of(
    config: DriverConfig,
    name: TaskName,
    said: WriterOptions,
    runs: Iterable[Run],
    warn: Callable[[Problem], None],
) -> Transactions | None:
    """The transactions of a query, None if its sink is not transactional.

    From here on, the runtime decides when the sink commits.

    :param runs: the last run of each task.
    :param warn: adds a warning for the user.
    :raises SinkShared: another query writes to the same sink object.
    """
    sink = said.each_batch.given if said.each_batch else None
    if said.each_batch is None or not isinstance(sink, TransactionalSink):
        return None
    refuse_shared(sink, name, runs)
    said.each_batch.function = sink.write_batch
    if not config.checkpointing.interval:
        text = (
            f"stage {name.task}: its sink commits at checkpoints and spec.checkpoint.interval is 0: its rows "
            "become visible only when it ends"
        )
        log.warning("%s", text)
        warn(Problem("NoCheckpoints", text, "Set spec.checkpoint.interval"))
    return Transactions(sink, owner_of(config.job, name.task))
