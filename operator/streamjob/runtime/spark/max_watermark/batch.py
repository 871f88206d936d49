"""Drains a query: max watermarks fire every event-time timer.

From FLIP-147 and FLIP-34: MAX_WATERMARK comes before finish().

At a boundary N, this module writes a batch N+1 to the offset log that reads nothing and has the max
watermark. Spark then runs that batch as it would after a crash between planning and running. The batch emits
every window, session, outer join row and timer. Chains of operators are flushed as well, because the rows
that one operator emits reach the next one before that one evicts.

The only event-time work that such a batch leaves behind is timers that were set while others fired. So
further batches follow as long as an operator with timers sets any (see MAX_WATERMARKS).

Processing time stands still: these batches have that of the last batch which could read (ADR 52). So no timer
of processing time fires that has not fired in that batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from ....protocol.formats.records import OperatorKind
from ....protocol.messages.driver_status import Problem
from ....protocol.wording import fill
from ....storage.hadoop import NotFound, translated
from ..boundary import QueryFailed, run_to_end
from ..checkpoint_dir import MAX_WATERMARK_MS, MAX_WATERMARKS, CheckpointDir
from ..internals import Internals

__all__ = ["MAX_WATERMARK_MS", "DrainResult", "fire_timers", "run_max_watermark_batch", "write_max_watermark"]

log = logging.getLogger("streamjob")

# Spark's names of the stateful operators that evict by the watermark alone: a second batch finds nothing left
# to evict. Any other stateful operator may have timers.
AGGREGATIONS = frozenset(("stateStoreSave", "sessionWindowStateStoreSaveExec"))
WITHOUT_TIMERS = AGGREGATIONS | {"symmetricHashJoin", "dedupe", "dedupeWithinWatermark", "globalLimit"}
# Of these, each row in the state stays or is removed by the batch: what is left can be told without counting.
# An operator behind another one gets new rows, a join has several stores, and others have timers.
COUNTED = frozenset(("stateStoreSave", "dedupe", "dedupeWithinWatermark"))
TRACKING = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"


StartOnce = Callable[..., StreamingQuery]


@dataclass(frozen=True)
class DrainResult:
    """The result of a drain, or of one batch of it.

    :param batch: the last batch.
    :param batches: number of batches with a max watermark, including those of earlier attempts.
    :param output_rows: rows that the batches of this attempt emitted; None if it ran none, or the sink does
        not count.
    :param seconds: how long the batches of this attempt took.
    :param state_rows_left: rows and timers that remain in the state, such as those without event time; None
        if unknown.
    :param timers_left: whether timers were set that have not fired.
    :param processing_time: whether an operator has timers of processing time, which no drain fires.
    :param windows_left: rows of aggregations among `state_rows_left`; 0 if unknown. In append mode they are
        windows that have not come out.
    """

    batch: int
    batches: int
    output_rows: int | None
    seconds: float
    state_rows_left: int | None
    timers_left: bool
    processing_time: bool = False
    windows_left: int = 0


def state_rows(directory: CheckpointDir, queries: Iterable[StreamingQuery | None]) -> int | None:
    """The rows in the state before a drain, from the progress of the last batch.

    :param queries: those that may have run that batch.
    :returns: None if they are not known, or if what the drain leaves does not follow from them.
    """
    batch = directory.latest_commit()
    if directory.files.spark.conf.get(TRACKING, "true") != "true":
        return None
    for query in queries:
        operators = _operators(query, batch) if query is not None and batch is not None else None
        if operators is not None and [o["operatorName"] in COUNTED for o in operators] == [True]:
            return int(operators[0]["numRowsTotal"])
    return None


def fire_timers(
    start_once: StartOnce, directory: CheckpointDir, internals: Internals, before: int | None = None
) -> DrainResult | None:
    """Run batches with max watermarks until no timer is left, or until all of MAX_WATERMARKS are used.

    May be called again after a crash at any point, and after it has completed.

    :param start_once: starts the stage's writer with `trigger(once=True)`, which runs a planned batch and
        nothing else. Its arguments are further settings of the session, as pairs.
    :param before: `state_rows`. Unless it is None, the batch may run without counting rows (`TRACKING`):
        RocksDB then looks up no key before it removes it, nor while it loads its changelog.
    :returns: None if nothing can fire.
    :raises NotAtBoundary: as `write_max_watermark`.
    :raises StorageError: as `write_max_watermark`.
    :raises QueryFailed: as `run_max_watermark_batch`.
    """
    batch = write_max_watermark(directory, internals)
    if batch is None:
        return None
    result = run_max_watermark_batch(start_once, directory, batch, internals, before)
    while result.timers_left and result.batches < len(MAX_WATERMARKS):
        log.info("%s: batch %d may have set timers while others fired", directory.uri, result.batch)
        batch = plan(directory, result.batch, MAX_WATERMARKS[result.batches], internals)
        then = run_max_watermark_batch(start_once, directory, batch, internals)
        rows = [r.output_rows for r in (result, then) if r.output_rows is not None]
        output_rows = sum(rows) if rows else None
        result = replace(then, output_rows=output_rows, seconds=result.seconds + then.seconds)
    return result


def endless(task: str, result: DrainResult) -> Problem:
    """The problem to report if timers are left after all batches. Also logs it."""
    message = (
        f"stage {task}: in {result.batches} batches at the max watermark its timers set new ones each time"
    )
    remedy = f"Set none when the watermark is {MAX_WATERMARK_MS} or later: then the job is being drained"
    log.warning("%s; rows left in its state: %s. %s", message, result.state_rows_left, remedy)
    return Problem("TimersLeft", message, remedy)


def kept_for_the_clock(task: str, result: DrainResult) -> Problem | None:
    """The problem to report if timers of processing time keep something in the state. Also logs it.

    :returns: None if nothing is left, or something else keeps it.
    """
    if not result.processing_time or result.state_rows_left == 0:
        return None
    left = "" if result.state_rows_left is None else f" ({result.state_rows_left} rows and timers)"
    message = (
        f"stage {task}: something is left in its state{left}, because its timers of processing time have not "
        "fired: a drain fires those of event time only"
    )
    remedy = fill(
        "Nothing, if they only tell that time has passed. To continue with them, <new-job> "
        "<and-allow-drained>"
    )
    log.warning("%s. %s", message, remedy)
    return Problem("ProcessingTimersLeft", message, remedy)


def beyond_the_end(task: str, result: DrainResult) -> Problem | None:
    """The problem to report of a query in append mode whose windows end after all watermarks of a drain. Also
    logs it.

    :returns: None if there are none.
    """
    if not result.windows_left:
        return None
    message = (
        f"stage {task}: {result.windows_left} windows or groups have not come out: their event time is null, "
        "or they end after 9999-12-31T23:59:59.999Z, which is the end of time for a drain"
    )
    remedy = "Before the group, leave out rows whose event time is null or only stands for none (9999-12-31)"
    log.warning("%s. %s", message, remedy)
    return Problem("WindowsLeft", message, remedy)


def write_max_watermark(directory: CheckpointDir, internals: Internals) -> int | None:
    """Plan the first batch that fires timers, without running it. From here on, the query can only end.

    May be repeated: it then finds the last batch that an earlier attempt planned.

    :returns: the number of the batch, None if nothing can fire.
    :raises NotAtBoundary: an ordinary batch is uncommitted.
    :raises StorageError: the entry could not be written; nothing was changed.
    """
    if directory.drain_batches():
        return directory.latest_offset()
    batch = directory.boundary()
    if batch is None or not directory.has_state():
        return None
    return plan(directory, batch, MAX_WATERMARK_MS, internals)


def run_max_watermark_batch(
    start_once: StartOnce,
    directory: CheckpointDir,
    batch: int,
    internals: Internals,
    before: int | None = None,
) -> DrainResult:
    """Run the planned batch, unless it is already committed.

    :param before: as in `fire_timers`.
    :raises QueryFailed: the batch did not commit; it is still planned and may be run again.
    """
    batches = directory.drain_batches()
    committed = directory.latest_commit()
    if committed is not None and committed >= batch:
        # With no batch pending, a trigger(once=True) would read all new data, and the max watermark would
        # drop it as late. What the committed batch left over is unknown, because its progress is lost.
        return DrainResult(batch, batches, None, 0.0, None, _has_timers(directory))
    if batches > 1:
        _keep_lateness(directory, batch, internals)
    begun = time.monotonic()
    settings = internals.traits.flush_settings
    if before is not None:
        settings = (*settings, (TRACKING, "false"))
    query = run_to_end(partial(start_once, *settings))
    check_committed(directory, batch)
    result = result_of(query, directory, batch, time.monotonic() - begun, before)
    if not _has_timers(directory):
        return result
    return replace(result, processing_time=internals.execution(query).has_processing_time_timers())


def check_committed(directory: CheckpointDir, batch: int) -> None:
    """Check that the planned batch has run, and no other.

    :raises QueryFailed: it has not.
    """
    planned, committed = directory.latest_offset(), directory.latest_commit()
    if planned != batch or committed != batch:
        raise QueryFailed(
            f"{directory.uri}: batch {batch} should have fired all timers, but batch {planned} is planned "
            f"and batch {committed} committed: the query read this directory with another trigger or writes "
            "elsewhere"
        )


def result_of(
    query: StreamingQuery, directory: CheckpointDir, batch: int, seconds: float, before: int | None = None
) -> DrainResult:
    """What the batch has done, from the query's last progress.

    :param seconds: how long it took.
    :param before: as in `fire_timers`.
    """
    batches, operators = directory.drain_batches(), _operators(query, batch)
    if operators is None:
        return DrainResult(batch, batches, None, seconds, None, _has_timers(directory))
    rows, timers = _output_rows(query, operators), any(map(_set_timers, operators))
    left, windows = _rows_left(directory, operators, before), _windows_left(operators, before)
    return DrainResult(batch, batches, rows, seconds, left, timers, windows_left=windows)


def plan(directory: CheckpointDir, last: int, watermark: int, internals: Internals) -> int:
    """Plan the batch after `last`, with the given watermark, and the same offsets and processing time.

    :param last: the last committed batch.
    :returns: the number of the new batch.
    """
    entry = directory.entry(last).changed(batchWatermarkMs=watermark)
    _write(directory, last + 1, entry.serialize(), internals)
    return last + 1


def _keep_lateness(directory: CheckpointDir, batch: int, internals: Internals) -> None:
    """Set the watermark of the batch before `batch` back to its value from before the drain.

    Spark drops rows as late by the watermark of the previous batch, as the offset log has it. With a max
    watermark there, the next operator would drop the rows that a timer emits, or the query would fail
    (EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED).

    :param batch: planned, and not the first with a max watermark. So the log ends with a max watermark even
        if this is interrupted.
    """
    kept = directory.watermark(batch - 2)
    try:
        done = directory.watermark(batch - 1) == kept
    except NotFound:  # a driver died between the deletion and the write below
        done = False
    if not done:
        directory.files.delete(f"{directory.uri}/offsets/{batch - 1}")
        entry = directory.entry(batch).changed(batchWatermarkMs=kept)
        _write(directory, batch - 1, entry.serialize(), internals)


def _write(directory: CheckpointDir, batch: int, entry: bytes, internals: Internals) -> None:
    uri = f"{directory.uri}/offsets/{batch}"
    with translated(uri, "write"):
        internals.create_atomic(uri, entry)


def _has_timers(directory: CheckpointDir) -> bool:
    """Whether a batch of unknown progress may have left timers: an operator of the query can set some."""
    names = {o.name for o in directory.operators() if o.kind is OperatorKind.STATE}
    return not names <= WITHOUT_TIMERS


def _operators(query: StreamingQuery, batch: int) -> list[Any] | None:
    """The progress of each stateful operator in this batch; None if the last progress is of another batch."""
    progress: Any = query.lastProgress
    return list(progress["stateOperators"]) if progress is not None and progress["batchId"] == batch else None


def _set_timers(operator: Any) -> bool:
    """Whether fired timers or input rows of the batch set timers in the operator.

    All of these may have fired already. `transformWithState` counts its timers. Timeouts of other operators
    are part of a state row, which Spark writes when the timeout is set.
    """
    if operator["operatorName"] in WITHOUT_TIMERS:
        return False
    timers = operator["customMetrics"].get("numRegisteredTimers", 0)
    return int(timers) > 0 or int(operator["numRowsUpdated"]) > 0


def _output_rows(query: StreamingQuery, operators: list[Any]) -> int | None:
    progress: Any = query.lastProgress
    rows = progress["sink"]["numOutputRows"]
    if isinstance(rows, int) and rows >= 0:
        return rows
    # A file sink and foreachBatch do not count rows. If an aggregation is next to the sink (the plan's first
    # operator), the rows that it removed from its state are its output: one for each window or session.
    last = operators[0] if operators else None
    return int(last["numRowsRemoved"]) if last and last["operatorName"] in AGGREGATIONS else None


def _rows_left(directory: CheckpointDir, operators: list[Any], before: int | None) -> int | None:
    if before is not None:
        return before - int(operators[0]["numRowsRemoved"])
    if directory.files.spark.conf.get(TRACKING, "true") != "true":
        return None  # without tracking, Spark reports zero
    # Timers do not count as rows. For each timer, RocksDB has two of the keys that it calls internal.
    internal = sum(int(o["customMetrics"].get("rocksdbNumInternalColFamiliesKeys", 0)) for o in operators)
    return sum(int(o["numRowsTotal"]) for o in operators) + (internal + 1) // 2


def _windows_left(operators: list[Any], before: int | None) -> int:
    found = [o for o in operators if o["operatorName"] in AGGREGATIONS]
    if before is not None:  # there is one operator
        return sum(before - int(o["numRowsRemoved"]) for o in found)
    return sum(int(o["numRowsTotal"]) for o in found)
