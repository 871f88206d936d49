"""Stops a query between two micro-batches: the running batch commits, and no other begins.

Spark's own `stop()` kills the running batch. Instead, this module takes the lock under which every batch
begins and ends, finds out where the query's thread is, and sets its state to TERMINATED only where the thread
cannot act on it before its batch is committed. A batch may still remain uncommitted (unknown Spark version, a
`stop()` by somebody else); it is then completed by running exactly that batch again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import ClassVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from ...jvm.errors import one_line
from ...protocol.errors import StreamJobError
from ...storage.hadoop import HadoopFiles
from .checkpoint_dir import CheckpointDir, NotAtBoundary
from .internals import Execution, Internals

POLL = 0.004  # seconds between two looks at a thread that cannot be terminated where it is
LOCK_WAIT = 0.1  # seconds; a source that lists its input may hold the lock longer
JOIN_WAIT = 0.25  # seconds: the longest wait between two looks at a terminated thread
CHECK_SECONDS = 1  # seconds between two calls of `unless`
MOST_LOOKS = 100  # at a thread in Place.LOOP, before the lock is released

Starter = Callable[[], StreamingQuery]


class QueryFailed(StreamJobError):
    """The query failed with its own error. The next attempt runs an uncommitted batch again."""

    reason: ClassVar[str] = "QueryFailed"
    retryable: ClassVar[bool] = True


class BoundaryTimeout(StreamJobError):
    """The running batch did not end in time. The query keeps running, unchanged."""

    reason = "BoundaryTimeout"
    retryable = True


class NoBoundary(StreamJobError):
    """Continuous processing or real-time mode: there are no micro-batches to stop between."""

    reason = "UnsupportedTrigger"


class How(str, Enum):
    """How a boundary was reached."""

    ENDED = "ended by itself"
    IN_BATCH = "the running batch was the last"
    BETWEEN = "between two batches"
    FINISHED = "the pending batch was run again"


@dataclass(frozen=True)
class Boundary:
    """The boundary that a query was stopped at.

    :param batch: the last committed batch, None if there is none.
    :param how: how the boundary was reached.
    :param seconds: how long that took.
    """

    batch: int | None
    how: How
    seconds: float

    def __str__(self) -> str:
        return f"after batch {self.batch} in {self.seconds:.3f} s, {self.how.value}"


class ThreadState(Enum):
    """Where a query's thread is. This determines the effect of setting TERMINATED now."""

    ENDED = "ended"
    SINK = "sink"  # the sink takes the batch: the thread does not check the state again before the commit
    PLANNING = "planning"  # runBatch before the sink: it checks the state, and would interrupt itself
    NEXT = "next"  # constructNextBatch: it saw ACTIVE and will run the batch that it constructs
    WAITING = "waiting"  # asleep until the next trigger: it would see TERMINATED late, but may be interrupted
    SLEEPING = "sleeping"  # no input: it checks again in some milliseconds
    DONE = "done"  # the batch is committed; the thread waits only for the lock
    LOOP = "loop"  # between two of these places; the stack does not show in which direction
    OUTSIDE = "outside"  # starting, ending, or between two rounds of the loop


SAFE = (
    ThreadState.WAITING,
    ThreadState.SLEEPING,
    ThreadState.DONE,
    ThreadState.OUTSIDE,
)  # no batch is planned that is not committed


def thread_state_of(frames: Sequence[str], queued: bool = False) -> ThreadState:
    """Determine the place of a query's thread from its stack.

    :param frames: the stack, innermost call first, each `Class.method`.
    :param queued: the thread waits for the progress lock. Spark takes that lock in three places only: in
        `constructNextBatch`, at the end of `runBatch`, and after that in `executeOneBatch`.
    """
    if not frames:
        return ThreadState.ENDED
    if any("onstructNextBatch" in f for f in frames):
        return ThreadState.NEXT
    if any("markMicroBatchEnd" in f for f in frames) or _in_sink(frames):
        return ThreadState.SINK
    if any(f.endswith(".runBatch") for f in frames):
        return ThreadState.SINK if queued else ThreadState.PLANNING
    if any("waitTillTime" in f for f in frames):
        return ThreadState.WAITING
    if any(f.endswith(".executeOneBatch") for f in frames):
        if queued:
            return ThreadState.DONE
        return ThreadState.SLEEPING if frames[0].startswith("Thread.sleep") else ThreadState.LOOP
    return ThreadState.OUTSIDE


def _in_sink(frames: Sequence[str]) -> bool:
    """Whether `runBatch` itself called SQLExecution.

    SQL that a source runs by itself during planning does not count.
    """
    return any(
        inner.startswith("SQLExecution$.") and outer.startswith("MicroBatchExecution.$anonfun$runBatch$")
        for inner, outer in pairwise(frames)
    )


def stop_at_boundary(
    query: StreamingQuery,
    files: HadoopFiles,
    internals: Internals,
    *,
    deadline: float | None = None,
    on_wait: Callable[[str], None] | None = None,
    finish_pending: Starter | None = None,
) -> Boundary:
    """Let the running batch commit and start no other. The query may also be ending or have ended by itself.

    :param deadline: a time of `time.monotonic()`.
    :param on_wait: called with a text when the stop must wait for a batch.
    :param finish_pending: starts the same writer with `trigger(once=True)`; called only if a batch is
        pending, because that trigger would otherwise read all new data.
    :raises QueryFailed: the query failed with its own error, or the pending batch did when it was run again.
    :raises BoundaryTimeout: the batch did not end in time; the query keeps running, unchanged.
    :raises NoBoundary: the query runs no micro-batches; nothing was done to it.
    :raises NotAtBoundary: a batch is pending and there is no `finish_pending`.
    """
    begun = time.monotonic()
    execution = internals.execution(query)
    if not execution.runs_micro_batches:
        raise NoBoundary(
            f"query {query.name or query.id} uses {execution.trigger}, which runs no micro-batches",
            remedy="Use processingTime or availableNow",
        )
    how = end(query, execution, deadline, on_wait)
    raise_failure(query)
    directory = CheckpointDir(files, execution.checkpoint_root)
    try:
        batch = directory.boundary()
    except NotAtBoundary:
        if finish_pending is None:
            raise
        if on_wait:
            on_wait("running the interrupted batch again")
        run_to_end(finish_pending)
        batch, how = directory.boundary(), How.FINISHED
    return Boundary(batch, how, time.monotonic() - begun)


def end(
    query: StreamingQuery,
    execution: Execution,
    deadline: float | None,
    on_wait: Callable[[str], None] | None,
) -> How:
    """Let the running batch commit, start no other, and wait for the end of the query's thread.

    The parameters are those of `stop_at_boundary`.

    :raises BoundaryTimeout: as `stop_at_boundary`.
    """
    how = _tell_when_safe(query, execution, deadline)
    if how is How.IN_BATCH and on_wait:
        on_wait("the running batch has to commit")
    _await_end(query, execution, deadline)
    return how


def run_to_end(start: Starter, unless: Callable[[], bool] | None = None) -> StreamingQuery:
    """Start a query that ends by itself and wait for its end.

    :param unless: called every `CHECK_SECONDS`; once it returns true, the wait ends and the query keeps
        running.
    :raises QueryFailed: the query could not be started, or ended with an exception.
    """
    try:
        query = start()
        if unless is None:
            query.awaitTermination()
        else:
            while not query.awaitTermination(CHECK_SECONDS) and not unless():
                pass
    except (PySparkException, Py4JError) as e:
        raise QueryFailed(
            f"the batch could not be run: {one_line(e)}",
            remedy="See <log> for the cause; its next attempt runs the batch again",
        ) from None
    raise_failure(query)
    return query


def raise_failure(query: StreamingQuery) -> None:
    """Raise the exception that a query has ended with, if any.

    :raises QueryFailed: the query has ended with an exception.
    """
    error = query.exception()
    if error is not None:
        raise QueryFailed(
            f"query {query.name or query.id} failed: {one_line(error)}",
            remedy="See <log> for the cause; the next attempt continues from the last committed batch",
        )


def _tell_when_safe(query: StreamingQuery, execution: Execution, deadline: float | None) -> How:
    """Set TERMINATED as soon as the thread is at a place where that is safe, unless the query has ended.

    :raises BoundaryTimeout: the deadline passed first.
    """
    how = None
    while how is None:
        if not execution.alive():
            return How.ENDED
        if _passed(deadline):
            raise _timeout(query)
        if execution.lock(LOCK_WAIT):
            try:
                how = _tell(execution)
            finally:
                execution.unlock()
            if how is None:
                time.sleep(POLL)
    return how


def _tell(execution: Execution) -> How | None:
    """Set TERMINATED if the thread is at a place where that is safe. The caller holds the lock.

    :returns: None if it is not; then nothing is changed.
    """
    _, place = look(execution)
    looks = 1
    while place is ThreadState.LOOP and looks < MOST_LOOKS:
        # Either constructNextBatch has just released the lock, with a batch planned, or a batch has ended. In
        # both cases the thread gets no further than PLANNING or the lock.
        _, place = look(execution)
        looks += 1
    if place is ThreadState.ENDED:
        return How.ENDED
    if place is ThreadState.SINK:
        return How.IN_BATCH if execution.terminate() else None
    if place not in SAFE or not execution.terminate():
        return None
    # The thread may have seen ACTIVE just before and be on its way into a batch. It cannot plan one while
    # this thread holds the lock: watch it until its stack shows where it went.
    while True:
        queued, place = look(execution)
        if place is ThreadState.SINK:
            return How.IN_BATCH
        if queued and place is ThreadState.NEXT:
            return None if execution.reactivate() else How.BETWEEN
        # PLANNING is the batch of a restart, which needs no constructNextBatch. Do not reactivate it: it may
        # have seen TERMINATED and interrupt itself, which in an active query would be a failure. At worst its
        # batch is run again.
        if place not in (ThreadState.LOOP, ThreadState.NEXT):
            return How.BETWEEN


def look(execution: Execution) -> tuple[bool, ThreadState]:
    """Whether the query's thread waits for the lock, which the caller holds, and where it is."""
    # In this order: a thread that is queued for the lock, which this thread holds, stays where it is.
    queued = execution.queued_for_lock()
    return queued, thread_state_of(execution.frames(), queued)


def _await_end(query: StreamingQuery, execution: Execution, deadline: float | None) -> None:
    """Wait for the thread to end after TERMINATED is set.

    :raises BoundaryTimeout: the deadline passed, and the query is active again.
    """
    wait = POLL
    while execution.alive():
        if thread_state_of(execution.frames()) is ThreadState.WAITING:
            query.stop()  # interrupts the sleep and waits for the thread; no batch can begin now
            return
        if _passed(deadline) and _take_back(execution):
            raise _timeout(query)
        execution.join(wait)
        wait = min(wait * 2, JOIN_WAIT)


def _take_back(execution: Execution) -> bool:
    """Set the query ACTIVE again if its batch is still in the sink.

    :returns: whether the query keeps running; false if it is just ending or the lock is not free.
    """
    if not execution.lock(LOCK_WAIT):
        return False
    try:
        return thread_state_of(execution.frames()) is ThreadState.SINK and execution.reactivate()
    finally:
        execution.unlock()


def _timeout(query: StreamingQuery) -> BoundaryTimeout:
    return BoundaryTimeout(
        f"query {query.name or query.id} did not come to the end of its batch in time; it runs on",
        remedy="Allow more time, or cancel",
    )


def _passed(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline
