"""Drains a query in place: it runs the batch with the max watermark itself, on the state that it has loaded.

A restarted query loads its state again, which takes more than half of a drain of a million keys.

Two steps. `come_to_rest` takes the query's sources away, so it plans no batch that reads, and waits until its
thread sleeps: a boundary at which the query stays. `RestingQuery.fire` plans the batch, in the offset log as
for a restart and in the query as Spark does after one. Both change the query only under the lock that its
batches take. What is written is the same as with a restart, so a crash is recovered in the same way.

Not every query can be drained like this. For all others, and whenever anything is not as expected before the
batch is written, the restart remains (`batch.fire_timers`):

- a query with timers may need several such batches;
- without input, Spark leaves a limit out, and may then confuse the states of other operators: it checks that
  in the first batch of a query only;
- with an interval, the thread would notice the batch at its next trigger only;
- a query that has run no batch has no state loaded;
- of a version that is not in `versions.table`, nobody has read the code that this relies on.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from ....jvm.errors import one_line
from ....protocol.formats.records import OperatorKind
from ..boundary import JOIN_WAIT, LOCK_WAIT, POLL, ThreadState, end, look, raise_failure
from ..checkpoint_dir import MAX_WATERMARK_MS, CheckpointDir
from ..internals import Execution, Internals
from .batch import WITHOUT_TIMERS, DrainResult, check_committed, result_of, write_max_watermark

log = logging.getLogger("streamjob")

ERRORS = (Py4JError, PySparkException)  # pyspark makes the latter of some of the former
CANNOT = "%s: cannot be drained in place, so it is restarted: %s"
EVICTING = WITHOUT_TIMERS - {"globalLimit"}
COMMIT_POLL = 0.02  # seconds between two looks for the commit of the last batch
RESTING = (ThreadState.SLEEPING, ThreadState.NEXT)  # NEXT: it waits for the lock


def come_to_rest(
    query: StreamingQuery,
    directory: CheckpointDir,
    internals: Internals,
    *,
    on_wait: Callable[[str], None],
) -> RestingQuery | None:
    """Let the running batch commit, and no other read anything. Batches without input may follow it.

    :param on_wait: called with a text when a batch has to be waited for.
    :returns: None if the query cannot be drained in place; it then has ended, or runs on, unchanged.
    """
    if not internals.traits.drains_in_place or not _evicts_only(query, directory):
        return None
    execution = internals.execution(query)
    resting = RestingQuery(query, execution, directory, internals)
    said, wait = False, POLL
    while execution.alive():
        if execution.lock(LOCK_WAIT):
            try:
                if not (resting.reads_nothing or execution.polls):
                    return None
                place = resting.take_sources()
            except ERRORS as e:
                if resting.reads_nothing:
                    raise
                log.warning(CANNOT, directory.uri, one_line(e))
                return None
            finally:
                execution.unlock()
            if resting.reads_nothing:
                if place is ThreadState.SLEEPING:
                    return resting
                if place is ThreadState.SINK and not said:
                    said = True
                    on_wait("the running batch has to commit")
                wait = min(wait * 2, JOIN_WAIT)
        time.sleep(wait)
    resting.stop_sources()
    return None


def _evicts_only(query: StreamingQuery, directory: CheckpointDir) -> bool:
    """Whether it has run a batch, and all the operators with a state evict by the watermark alone."""
    progress: Any = query.lastProgress
    names = [o["operatorName"] for o in progress["stateOperators"]] if progress is not None else []
    kept = [o for o in directory.operators() if o.kind is OperatorKind.STATE]
    return bool(names) and set(names) <= EVICTING and len(names) == len(kept)


class RestingQuery:
    """A query that runs and reads nothing more."""

    def __init__(
        self, query: StreamingQuery, execution: Execution, directory: CheckpointDir, internals: Internals
    ) -> None:
        self._query = query
        self._execution = execution
        self._directory = directory
        self._internals = internals
        self._sources: list[Any] = []
        self.reads_nothing = False

    def take_sources(self) -> ThreadState:
        """Take the query's sources away, unless it is just starting or ending. The caller holds the lock.

        :returns: where its thread is. If it sleeps, and its sources had been taken before or nothing new was
            in them, it has no batch planned.
        """
        _, place = look(self._execution)
        if not self.reads_nothing and place not in (ThreadState.OUTSIDE, ThreadState.ENDED):
            self._sources = self._execution.close_sources()
            self.reads_nothing = True
        return place

    def fire(self) -> DrainResult | None:
        """Let the query run the batch with the max watermark, and end it after that.

        :returns: None if the query was not as expected. It has ended; the batch may be planned.
        :raises NotAtBoundary: as `write_max_watermark`.
        :raises StorageError: as `write_max_watermark`; the query runs on.
        :raises QueryFailed: the batch did not commit. It is still planned.
        """
        begun = time.monotonic()
        try:
            batch = self._plan()
        except ERRORS as e:
            log.warning(CANNOT, self._directory.uri, one_line(e))
            batch = None
        try:
            if batch is not None:
                self._await_commit(batch)
            end(self._query, self._execution, None, None)
            raise_failure(self._query)
        finally:
            self.stop_sources()
        if batch is None:
            return None
        check_committed(self._directory, batch)
        log.info("%s: drained in place, without a restart", self._directory.uri)
        return result_of(self._query, self._directory, batch, time.monotonic() - begun)

    def _plan(self) -> int | None:
        """Plan the batch, in the offset log and in the query.

        :returns: its number, None if nothing was planned.
        :raises Py4JError: this Spark is not as expected. The batch may be in the offset log.
        :raises PySparkException: the same.
        """
        last = self._directory.boundary()
        while last is not None and self._execution.alive():
            if self._execution.lock(LOCK_WAIT):
                try:
                    queued, place = look(self._execution)
                    if place in RESTING and (place is ThreadState.SLEEPING or queued):
                        return self._plan_after(last)
                finally:
                    self._execution.unlock()
            time.sleep(POLL)
        return None

    def _plan_after(self, last: int) -> int | None:
        if not self._execution.has_no_batch_after(last):
            return None
        batch = write_max_watermark(self._directory, self._internals)
        if batch != last + 1:
            return None
        metadata = json.dumps(self._directory.entry(batch).metadata)
        self._execution.plan_next(batch, MAX_WATERMARK_MS, self._internals.batch_metadata(metadata))
        return batch

    def _await_commit(self, batch: int) -> None:
        """Wait until the batch is over, or the query.

        Until then the query must stay ACTIVE. If its thread still sleeps, it would end without the batch; and
        while a batch runs, Spark takes errors such as a timeout for the stop itself (`isInterruptedByStop`).
        No other batch follows: nothing is read, and the watermark can rise no more.
        """
        while self._execution.alive() and self._execution.next_batch() <= batch:
            self._execution.join(COMMIT_POLL)

    def stop_sources(self) -> None:
        """Stop the sources, as the query would do at its end. A repetition does nothing."""
        sources, self._sources = self._sources, []
        for source in sources:
            try:
                source.stop()
            except ERRORS as e:  # Spark, too, only logs it
                log.warning("%s: a source did not stop: %s", self._directory.uri, one_line(e))
