"""Drain: the max watermark fires every event-time timer, once (FLIP-147 and FLIP-34: MAX_WATERMARK before finish()).

At a boundary N, the offset log gets a batch N+1 that reads nothing and has the max watermark. Spark then runs it as it
would after a crash between planning and running: every window, session, outer join row and timer comes out.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from .boundary import QueryFailed, Starter, run_to_end
from .checkpointdir import MAX_WATERMARK_MS, CheckpointDir
from .files import translated
from .internals import Internals

__all__ = ["MAX_WATERMARK_MS", "DrainResult", "run_max_watermark_batch", "write_max_watermark"]


@dataclass(frozen=True)
class DrainResult:
    """`output_rows`: None if an earlier attempt ran the batch; `seconds`: 0 then;
    `state_rows_left`: rows that the operators kept, such as those without event time, None if not known."""

    batch: int
    output_rows: int | None
    seconds: float
    state_rows_left: int | None


def write_max_watermark(directory: CheckpointDir, internals: Internals | None) -> int | None:
    """Plan the batch that fires everything; its number, None if nothing can fire. It is not run yet.

    May be repeated: what an earlier attempt planned is found again. From here on the query can only end.

    :raises NotAtBoundary: an ordinary batch is planned and not committed.
    :raises StorageError: it could not be written; nothing was changed.
    """
    if directory.is_drained():
        return directory.latest_offset()
    batch = directory.boundary()
    if batch is None or not directory.has_state():
        return None
    entry = _with_max_watermark(*directory.entry(batch), now=int(time.time() * 1000))
    uri = f"{directory.uri}/offsets/{batch + 1}"
    if internals is None:
        directory.files.write_new(uri, entry)
    else:
        with translated(uri, "write"):
            internals.create_atomic(uri, entry)
    return batch + 1


def run_max_watermark_batch(start_once: Starter, directory: CheckpointDir, batch: int) -> DrainResult:
    """Run the batch that `write_max_watermark` planned, unless it is committed already.

    :param start_once: starts the stage's writer with `trigger(once=True)`, which runs a planned batch and nothing else.
    :raises QueryFailed: it did not commit; it is still planned and may be run again.
    """
    committed = directory.latest_commit()
    if committed is not None and committed >= batch:
        # Once with nothing pending would read all new data, which the max watermark drops as late.
        return DrainResult(batch, None, 0.0, None)
    begun = time.monotonic()
    query = run_to_end(start_once)
    planned, committed = directory.latest_offset(), directory.latest_commit()
    if planned != batch or committed != batch:
        raise QueryFailed(
            f"{directory.uri}: batch {batch} should have fired all timers, but batch {planned} is planned and "
            f"batch {committed} committed: the query read this directory with another trigger or writes elsewhere"
        )
    output_rows, state_rows_left = _figures(query, batch)
    return DrainResult(batch, output_rows, time.monotonic() - begun, state_rows_left)


def _with_max_watermark(version: str, metadata: dict[str, Any], sources: list[str], now: int) -> bytes:
    """An offset log entry (OffsetSeqLog.serialize) equal to another but for watermark and time of day."""
    changed = {**metadata, "batchWatermarkMs": MAX_WATERMARK_MS, "batchTimestampMs": now}
    return "\n".join([version, json.dumps(changed, separators=(",", ":")), *sources]).encode()


def _figures(query: StreamingQuery, batch: int) -> tuple[int | None, int | None]:
    """Output rows and rows left in state, from the batch's own progress; None where it does not say."""
    progress: Any = query.lastProgress
    if progress is None or progress["batchId"] != batch:
        return None, None
    rows = progress["sink"]["numOutputRows"]
    operators = progress["stateOperators"] or []
    if isinstance(rows, int) and rows >= 0:
        output_rows: int | None = rows
    else:
        # A file sink and foreachBatch do not count. What the operator next to the sink (the plan's first) removed from its
        # state is what came out of it, a window or session each.
        output_rows = int(operators[0]["numRowsRemoved"]) if operators else None
    return output_rows, sum(int(o["numRowsTotal"]) for o in operators)
