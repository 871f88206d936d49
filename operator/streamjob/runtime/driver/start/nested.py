"""Queries that a batch of another query runs: their input may be what that batch writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ....protocol.engine.coordinator import Coordinator
from ....protocol.graph import GraphCycle
from ...query.task import Stage
from ...spark.foreach_batch.function import BatchFunction, running_batch, running_batch_function
from ...spark.stream_writer import Written


def in_batch() -> bool:
    """Whether this thread works for a batch of a query."""
    return running_batch_function() is not None


def inside_batch(said: Written) -> bool:
    """Whether a batch of another query starts the query and runs it to the end of its input."""
    return said.exhausts and in_batch()


def calling_stage(runs: Iterable[Stage]) -> Stage | None:
    """The run whose batch this thread works for, None outside of a batch."""
    function = running_batch_function()
    return next((s for s in list(runs) if function is not None and s.each_batch is function), None)


def calling_functions(runs: Iterable[Stage]) -> list[BatchFunction]:
    """The function whose batch this thread works for, and those whose running batches may wait for that one.

    A batch that has started a query may wait for its end, so the batches of that query must not wait for it.
    """
    started_in = {s.each_batch: s.started_in for s in list(runs)}
    found: list[BatchFunction] = []
    batch = running_batch()
    while batch is not None and batch.runs and batch.function not in found:
        found.append(batch.function)
        batch = started_in.get(batch.function)
    return found


def caller(
    said: Written, task: str, upstream: Collection[str], runs: Mapping[str, Stage], coordinator: Coordinator
) -> list[str]:
    """The uid of the stage whose batch runs the query to the end of its input, if it is to be upstream.

    A drain ends that stage first, because its last batches run the query, too.

    :param upstream: the uids of the stages that are upstream already.
    """
    found = calling_stage(runs.values()) if said.exhausts else None
    if found is None or found.uid in upstream or found.transactions is not None:
        return []
    try:
        coordinator.refuse_start(task, [found.uid], drained=True)
    except GraphCycle:  # the stage reads what the query writes
        return []
    return [found.uid]
