"""Drain: max watermarks fire every event-time timer (FLIP-147 and FLIP-34: MAX_WATERMARK before finish()).

At a boundary N, the offset log gets a batch N+1 that reads nothing and has the max watermark. Spark then runs it as it
would after a crash between planning and running: every window, session, outer join row and timer comes out, through a chain of
operators too, since what one of them emits reaches the next one before that evicts.

What a timer sets while it fires is left over by its batch, and nothing else is. So there is another batch for as long as an
operator that has timers sets any (see MAX_WATERMARKS).
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from ...protocol.messages import Problem
from ...protocol.records import OperatorKind
from ..storage.hadoop import NotFound, translated
from .boundary import QueryFailed, Starter, run_to_end
from .checkpoint_dir import MAX_WATERMARK_MS, MAX_WATERMARKS, CheckpointDir
from .internals import Internals

__all__ = ["MAX_WATERMARK_MS", "DrainResult", "fire_timers", "run_max_watermark_batch", "write_max_watermark"]

log = logging.getLogger("streamjob")

# Spark's names of the stateful operators that evict by the watermark alone, and have nothing more a second time. What is not
# among them may have timers.
AGGREGATIONS = frozenset(("stateStoreSave", "sessionWindowStateStoreSaveExec"))
WITHOUT_TIMERS = AGGREGATIONS | {"symmetricHashJoin", "dedupe", "dedupeWithinWatermark", "globalLimit"}
TRACKING = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"


@dataclass(frozen=True)
class DrainResult:
    """`batch`: the last one; `batches`: how many had a max watermark, with those of earlier attempts. `output_rows` and
    `seconds` are of the batches that this attempt ran; rows are None if it ran none, or nobody counts them.

    :param state_rows_left: rows and timers that the operators kept, such as those without event time; None if not known.
    :param timers_left: timers were set that have not fired.
    """

    batch: int
    batches: int
    output_rows: int | None
    seconds: float
    state_rows_left: int | None
    timers_left: bool


def fire_timers(
    start_once: Starter, directory: CheckpointDir, internals: Internals | None
) -> DrainResult | None:
    """Run batches with max watermarks until no timer is left or there are no more of them; None if nothing can fire.

    May be called again after a crash anywhere in it, and when all is done.

    :param start_once: starts the stage's writer with `trigger(once=True)`, which runs a planned batch and nothing else.
    :raises NotAtBoundary, StorageError, QueryFailed: as the two below.
    """
    batch = write_max_watermark(directory, internals)
    if batch is None:
        return None
    result = run_max_watermark_batch(start_once, directory, batch, internals)
    while result.timers_left and result.batches < len(MAX_WATERMARKS):
        log.info("%s: timers were set in batch %d while others fired", directory.uri, result.batch)
        batch = _plan(directory, result.batch, MAX_WATERMARKS[result.batches], internals)
        then = run_max_watermark_batch(start_once, directory, batch, internals)
        rows = [r.output_rows for r in (result, then) if r.output_rows is not None]
        output_rows = sum(rows) if rows else None
        result = replace(then, output_rows=output_rows, seconds=result.seconds + then.seconds)
    return result


def endless(task: str, result: DrainResult) -> Problem:
    """What is told of timers that are left."""
    message = (
        f"stage {task}: in {result.batches} batches at the max watermark its timers set new ones each time"
    )
    remedy = f"Set none when the watermark is {MAX_WATERMARK_MS} or later: then the job is being drained"
    log.warning("%s; rows left in its state: %s. %s", message, result.state_rows_left, remedy)
    return Problem("TimersLeft", message, remedy)


def write_max_watermark(directory: CheckpointDir, internals: Internals | None) -> int | None:
    """Plan the first batch that fires timers; its number, None if nothing can fire. It is not run yet.

    May be repeated: what an earlier attempt planned last is found again. From here on the query can only end.

    :raises NotAtBoundary: an ordinary batch is planned and not committed.
    :raises StorageError: it could not be written; nothing was changed.
    """
    if directory.is_drained():
        return directory.latest_offset()
    batch = directory.boundary()
    if batch is None or not directory.has_state():
        return None
    return _plan(directory, batch, MAX_WATERMARK_MS, internals)


def run_max_watermark_batch(
    start_once: Starter, directory: CheckpointDir, batch: int, internals: Internals | None = None
) -> DrainResult:
    """Run the batch that was planned, unless it is committed already.

    :raises QueryFailed: it did not commit; it is still planned and may be run again.
    """
    batches = directory.drain_batches()
    committed = directory.latest_commit()
    if committed is not None and committed >= batch:
        # Once with nothing pending would read all new data, which the max watermark drops as late. What the batch left, its
        # progress would have said.
        return DrainResult(batch, batches, None, 0.0, None, _has_timers(directory))
    if batches > 1:
        _keep_lateness(directory, batch, internals)
    begun = time.monotonic()
    query = run_to_end(start_once)
    planned, committed = directory.latest_offset(), directory.latest_commit()
    if planned != batch or committed != batch:
        raise QueryFailed(
            f"{directory.uri}: batch {batch} should have fired all timers, but batch {planned} is planned and "
            f"batch {committed} committed: the query read this directory with another trigger or writes elsewhere"
        )
    seconds = time.monotonic() - begun
    operators = _operators(query, batch)
    if operators is None:
        return DrainResult(batch, batches, None, seconds, None, _has_timers(directory))
    rows, timers = _output_rows(query, operators), any(map(_set_timers, operators))
    return DrainResult(batch, batches, rows, seconds, _rows_left(directory, operators), timers)


def _plan(directory: CheckpointDir, last: int, watermark: int, internals: Internals | None) -> int:
    """:param last: batch at whose end the query stands."""
    entry = _changed(directory, last, {"batchWatermarkMs": watermark, "batchTimestampMs": _now()})
    _write(directory, last + 1, entry, internals)
    return last + 1


def _keep_lateness(directory: CheckpointDir, batch: int, internals: Internals | None) -> None:
    """Spark takes for late what is older than the watermark of the batch before, as the offset log has it. That stays what it was
    when the drain began: otherwise what comes out of a timer could not enter the next operator, or ends the query
    (EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED).

    :param batch: planned, and not the first with a max watermark. The log then ends with one of them in any case.
    """
    kept = directory.watermark(batch - 2)
    try:
        done = directory.watermark(batch - 1) == kept
    except NotFound:  # a driver died between these two
        done = False
    if not done:
        directory.files.delete(f"{directory.uri}/offsets/{batch - 1}")
        _write(directory, batch - 1, _changed(directory, batch, {"batchWatermarkMs": kept}), internals)


def _changed(directory: CheckpointDir, batch: int, changes: dict[str, int]) -> bytes:
    """An entry of the offset log (OffsetSeqLog.serialize) with other metadata: it reads up to the same offsets."""
    version, metadata, sources = directory.entry(batch)
    line = json.dumps({**metadata, **changes}, separators=(",", ":"))
    return "\n".join([version, line, *sources]).encode()


def _write(directory: CheckpointDir, batch: int, entry: bytes, internals: Internals | None) -> None:
    uri = f"{directory.uri}/offsets/{batch}"
    if internals is None:
        directory.files.write_new(uri, entry)
    else:
        with translated(uri, "write"):
            internals.create_atomic(uri, entry)


def _now() -> int:
    return int(time.time() * 1000)


def _has_timers(directory: CheckpointDir) -> bool:
    """Of a batch whose progress is not known: it may have left some."""
    names = {o.name for o in directory.operators() if o.kind is OperatorKind.STATE}
    return not names <= WITHOUT_TIMERS


def _operators(query: StreamingQuery, batch: int) -> list[Any] | None:
    """What the batch's own progress says of each stateful operator; None if there is none."""
    progress: Any = query.lastProgress
    return list(progress["stateOperators"]) if progress is not None and progress["batchId"] == batch else None


def _set_timers(operator: Any) -> bool:
    """The batch's timers have set others, or its input, of which none may be left. `transformWithState` counts timers; a timeout
    of the other kinds is a part of its row, which is written when it is set."""
    if operator["operatorName"] in WITHOUT_TIMERS:
        return False
    timers = operator["customMetrics"].get("numRegisteredTimers", 0)
    return int(timers) > 0 or int(operator["numRowsUpdated"]) > 0


def _output_rows(query: StreamingQuery, operators: list[Any]) -> int | None:
    progress: Any = query.lastProgress
    rows = progress["sink"]["numOutputRows"]
    if isinstance(rows, int) and rows >= 0:
        return rows
    # A file sink and foreachBatch do not count. What an aggregation next to the sink (the plan's first operator) removed from
    # its state is what came out of it, a window or session each.
    last = operators[0] if operators else None
    return int(last["numRowsRemoved"]) if last and last["operatorName"] in AGGREGATIONS else None


def _rows_left(directory: CheckpointDir, operators: list[Any]) -> int | None:
    if directory.files.spark.conf.get(TRACKING, "true") != "true":
        return None  # Spark says zero
    # Timers are no rows. RocksDB has two keys for each among those that it calls internal.
    internal = sum(int(o["customMetrics"].get("rocksdbNumInternalColFamiliesKeys", 0)) for o in operators)
    return sum(int(o["numRowsTotal"]) for o in operators) + (internal + 1) // 2
