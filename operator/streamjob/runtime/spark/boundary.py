"""Stops a query between two micro-batches: the running batch commits, no other begins.

Spark's own `stop()` kills the running batch. Instead, under the lock that every batch begins and ends under, this looks
where the query's thread is, and sets its state to TERMINATED only where the thread cannot act on it before its batch is
committed. A batch that was left half done all the same (a Spark version that is not known, somebody else's `stop()`) is
finished by running exactly it again.
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

from ...protocol.errors import StreamJobError
from ..jvm.errors import one_line
from ..storage.hadoop import HadoopFiles
from .checkpoint_dir import CheckpointDir, NotAtBoundary
from .internals import Execution, Internals, checkpoint_root

POLL = 0.004  # seconds between two looks at a thread that is in no place to be told
LOCK_WAIT = 0.1  # seconds; a source that lists its input holds the lock for longer
JOIN_WAIT = 0.25
LOOK = 1  # seconds
MOST_LOOKS = 100

Starter = Callable[[], StreamingQuery]


class QueryFailed(StreamJobError):
    """The query died of an error of its own. Its last batch may be half done; the next attempt runs it again."""

    reason: ClassVar[str] = "QueryFailed"
    retryable: ClassVar[bool] = True


class BoundaryTimeout(StreamJobError):
    """The running batch did not end in time. The query runs on as if nothing had been asked."""

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
    """`batch`: the last committed one, None if there was none; `seconds`: how long it took to get there."""

    batch: int | None
    how: How
    seconds: float


class Place(Enum):
    """Where a query's thread is, and so what setting TERMINATED now would do."""

    ENDED = "ended"
    SINK = "sink"  # the sink takes the batch, which commits: the last look at the state is behind it
    PLANNING = "planning"  # runBatch before the sink: it looks at the state and interrupts itself
    NEXT = "next"  # constructNextBatch: it saw ACTIVE and will run what it finds
    WAITING = "waiting"  # asleep until the next trigger: sees it late, and may be interrupted
    SLEEPING = "sleeping"  # no input, looks again in some milliseconds
    DONE = "done"  # the batch is committed, and the lock is all it needs to go on
    LOOP = "loop"  # on its way between two of these: which way, the stack does not tell
    OUTSIDE = "outside"  # starting, ending, or between two rounds of the loop


SAFE = (Place.WAITING, Place.SLEEPING, Place.DONE, Place.OUTSIDE)  # no batch is planned that is not committed


def place_of(frames: Sequence[str], queued: bool = False) -> Place:
    """From the stack of the query's thread, innermost call first, each `Class.method`.

    :param queued: it waits for the progress lock. That is taken in three places only: in `constructNextBatch`, at the end of
        `runBatch` and after it in `executeOneBatch`.
    """
    if not frames:
        return Place.ENDED
    if any("onstructNextBatch" in f for f in frames):
        return Place.NEXT
    if any("markMicroBatchEnd" in f for f in frames) or _in_sink(frames):
        return Place.SINK
    if any(f.endswith(".runBatch") for f in frames):
        return Place.SINK if queued else Place.PLANNING
    if any("waitTillTime" in f for f in frames):
        return Place.WAITING
    if any(f.endswith(".executeOneBatch") for f in frames):
        if queued:
            return Place.DONE
        return Place.SLEEPING if frames[0].startswith("Thread.sleep") else Place.LOOP
    return Place.OUTSIDE


def _in_sink(frames: Sequence[str]) -> bool:
    """`runBatch` itself called SQLExecution: a source that runs SQL of its own while planning does not count."""
    return any(
        inner.startswith("SQLExecution$.") and outer.startswith("MicroBatchExecution.$anonfun$runBatch$")
        for inner, outer in pairwise(frames)
    )


def stop_at_boundary(
    query: StreamingQuery,
    files: HadoopFiles,
    internals: Internals | None,
    *,
    deadline: float | None = None,
    on_wait: Callable[[str], None] | None = None,
    finish_pending: Starter | None = None,
) -> Boundary:
    """Let the running batch commit and start no other. Also right for a query that ends or has ended by itself.

    :param deadline: on the clock of `time.monotonic()`.
    :param on_wait: told once what is being waited for.
    :param finish_pending: starts the same writer with `trigger(once=True)`; called only if a batch is pending, because
        that trigger would otherwise read all new data.
    :raises QueryFailed: the query, or the pending batch run again, died of an error of its own.
    :raises BoundaryTimeout: the query runs on unchanged.
    :raises NoBoundary: the query runs no micro-batches; nothing was done to it.
    :raises NotAtBoundary: a batch is pending and there is no `finish_pending`.
    """
    begun = time.monotonic()
    if internals is None:
        root = checkpoint_root(query)
        query.stop()
        how = How.BETWEEN
    else:
        execution = internals.execution(query)
        if not execution.runs_micro_batches:
            raise NoBoundary(
                f"query {query.name or query.id} uses {execution.trigger}, which runs no micro-batches",
                remedy="Use processingTime or availableNow",
            )
        root = execution.checkpoint_root
        how = _stop(query, execution, deadline, on_wait or (lambda _: None))
    raise_failure(query)
    if root is None:
        raise NotAtBoundary(f"query {query.id} was stopped, but not where its checkpoint is known")
    directory = CheckpointDir(files, root)
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


def run_to_end(start: Starter, unless: Callable[[], bool] | None = None) -> StreamingQuery:
    """Start a query that ends by itself and wait for it.

    :param unless: looked at while it runs; once true, the wait is over and the query runs on.
    :raises QueryFailed: it did not get there.
    """
    try:
        query = start()
        if unless is None:
            query.awaitTermination()
        else:
            while not query.awaitTermination(LOOK) and not unless():
                pass
    except (PySparkException, Py4JError) as e:
        raise QueryFailed(
            f"the batch could not be run: {one_line(e)}",
            remedy="See the driver's log for the cause; its next attempt runs the batch again",
        ) from None
    raise_failure(query)
    return query


def raise_failure(query: StreamingQuery) -> None:
    """:raises QueryFailed: the query has ended with an exception."""
    error = query.exception()
    if error is not None:
        raise QueryFailed(
            f"query {query.name or query.id} failed: {one_line(error)}",
            remedy="See the driver's log for the cause; its next attempt goes on from the last committed batch",
        )


def _stop(
    query: StreamingQuery, execution: Execution, deadline: float | None, on_wait: Callable[[str], None]
) -> How:
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
    if how is How.IN_BATCH:
        on_wait("the running batch has to commit")
    _await_end(query, execution, deadline)
    return how


def _tell(execution: Execution) -> How | None:
    """Under the lock: set TERMINATED if the thread is in a place to be told; None if not, and nothing is changed."""
    _, place = _look(execution)
    looks = 1
    while place is Place.LOOP and looks < MOST_LOOKS:
        # constructNextBatch may just have handed the lock over, with a batch planned; or a batch has ended. It goes no
        # farther than into PLANNING or to the lock.
        _, place = _look(execution)
        looks += 1
    if place is Place.ENDED:
        return How.ENDED
    if place is Place.SINK:
        return How.IN_BATCH if execution.terminate() else None
    if place not in SAFE or not execution.terminate():
        return None
    # The thread may have seen ACTIVE just before, and be on its way into a batch. It cannot plan one while the lock is
    # held here: watch it until it shows which way it went.
    while True:
        queued, place = _look(execution)
        if place is Place.SINK:
            return How.IN_BATCH
        if queued and place is Place.NEXT:
            return None if execution.reactivate() else How.BETWEEN
        # PLANNING: the batch of a restart, which needs no constructNextBatch. It has to be left alone: it may have seen
        # TERMINATED, and to an active query its own interrupt would be a failure. At worst it is run again.
        if place not in (Place.LOOP, Place.NEXT):
            return How.BETWEEN


def _look(execution: Execution) -> tuple[bool, Place]:
    # In this order: who waits for a lock that is held here stays where it is.
    queued = execution.queued_for_lock()
    return queued, place_of(execution.frames(), queued)


def _await_end(query: StreamingQuery, execution: Execution, deadline: float | None) -> None:
    """TERMINATED is set; wait for the thread to see it."""
    wait = POLL
    while execution.alive():
        if place_of(execution.frames()) is Place.WAITING:
            query.stop()  # interrupts the sleep and waits for the thread; no batch can begin any more
            return
        if _passed(deadline) and _take_back(execution):
            raise _timeout(query)
        execution.join(wait)
        wait = min(wait * 2, JOIN_WAIT)


def _take_back(execution: Execution) -> bool:
    """At the deadline the batch still runs: set ACTIVE again, so that the query goes on. False if it is just ending."""
    if not execution.lock(LOCK_WAIT):
        return False
    try:
        return place_of(execution.frames()) is Place.SINK and execution.reactivate()
    finally:
        execution.unlock()


def _timeout(query: StreamingQuery) -> BoundaryTimeout:
    return BoundaryTimeout(
        f"query {query.name or query.id} did not come to the end of its batch in time; it runs on",
        remedy="Allow more time, or cancel",
    )


def _passed(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline
