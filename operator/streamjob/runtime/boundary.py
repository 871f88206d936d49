"""Stops a query at a micro-batch boundary: the running batch commits, no other one begins.

`StreamingQuery.stop()` interrupts the batch, and setting the state to TERMINATED alone does too: `MicroBatchExecution.runBatch`
looks at it once after planning and interrupts itself. The procedure (docs/adr/0001) holds the progress lock, which
`constructNextBatch` and `markMicroBatchEnd` need, and sets the state only where the thread is past that look, or between
two triggers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from ..protocol.errors import StreamJobError
from .checkpointdir import CheckpointDir
from .internals import Execution, Internals

POLL = 0.005  # seconds between looks at a batch that is still planned
SAY_AFTER = 2.0  # seconds until a person is told what is waited for


class QueryFailed(StreamJobError):
    """The query ended by an error of its own."""

    reason = "QueryFailed"
    retryable = True


@dataclass(frozen=True)
class Boundary:
    """:param batch: the last committed batch, None if there was none yet. :param how: for the log.
    :param seconds: from the request to the end of the query's thread."""

    batch: int | None
    how: str
    seconds: float


def stop_at_boundary(
    query: StreamingQuery,
    directory: CheckpointDir,
    internals: Internals | None,
    *,
    finish_pending: Callable[[], StreamingQuery],
    on_wait: Callable[[str], None] = lambda _: None,
) -> Boundary:
    """Returns when the query's thread has ended and offsets.latest == commits.latest.

    :param finish_pending: starts the same writer with `trigger(once=True)`; called only if a batch is pending, which that
        trigger then runs and nothing else. With nothing pending it would read all new data.
    :raises QueryFailed: the query died, before or while it was stopped. What it had committed stays.
    """
    began = time.monotonic()
    if internals is None:
        how = "public API"
        query.stop()
    else:
        how = _stop(internals.execution(query), query, on_wait)
    _raise_if_failed(query)
    if directory.latest_offset() != directory.latest_commit():
        how += ", pending batch run"
        pending = finish_pending()
        pending.awaitTermination()
        _raise_if_failed(pending)
    return Boundary(directory.boundary(), how, time.monotonic() - began)


def _raise_if_failed(query: StreamingQuery) -> None:
    error = query.exception()
    if error is not None:
        first = str(error).strip().splitlines()[0][:500]
        raise QueryFailed(
            f"query {query.name or query.id} failed: {first}", remedy="See the driver's log for the cause"
        )


def _stop(execution: Execution, query: StreamingQuery, on_wait: Callable[[str], None]) -> str:
    began = time.monotonic()
    how = None
    while how is None and execution.is_alive():
        execution.lock.lock()
        try:
            how = _decide(execution)
        finally:
            execution.lock.unlock()
        if how is None:
            time.sleep(POLL)
    while execution.is_alive():
        # Asleep between two triggers it would sleep on: here, and only here, an interrupt hits no batch.
        if "waitTillTime" in execution.stack():
            _interrupt(query)
        execution.join(0.02)
        if time.monotonic() - began > SAY_AFTER:
            on_wait(f"the running batch goes on for {time.monotonic() - began:.0f} s")
    return how or "ended by itself"


def _decide(execution: Execution) -> str | None:
    """One look under the progress lock; what the thread was found at once TERMINATED is set, None to look again."""
    stack = execution.stack()
    if not stack:
        return "ended by itself"
    if "SQLExecution$." in stack or "markMicroBatchEnd" in stack:
        # Past runBatch's look at the state: the batch runs to its commit, then the loop sees TERMINATED.
        return "in a batch" if execution.terminate() else None
    if "onstructNextBatch" in stack or "runBatch" in stack or not execution.terminate():
        return None
    while True:
        # The thread may have passed isActive just before: then it queues for the lock we hold, inside
        # constructNextBatch, and would plan a batch that runBatch interrupts. Take it back.
        queued, stack = execution.is_queued_for_lock(), execution.stack()
        if queued and "onstructNextBatch" in stack:
            execution.reactivate()
            return None
        if queued:
            return "after a batch"
        if not stack or not execution.is_alive():
            return "ended by itself"
        if "waitTillTime" in stack:
            return "between triggers"
        if ("executeOneBatch" in stack and ".sleep" in stack) or "executeOneBatch" not in stack:
            return "idle"


def _interrupt(query: StreamingQuery) -> None:
    # It may have ended meanwhile; how it ended is asked of exception().
    with suppress(Py4JJavaError, StreamingQueryException):
        query.stop()
