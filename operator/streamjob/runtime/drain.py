"""Fires every event-time timer of a query by one more batch, whose watermark is the end of time (docs/adr/0002)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from .boundary import QueryFailed
from .checkpointdir import MAX_WATERMARK_MS, CheckpointDir
from .internals import Internals


@dataclass(frozen=True)
class DrainResult:
    """:param batch: the max-watermark batch. :param output_rows: what it gave to the sink, None if the sink does not
    say or an earlier driver ran it. :param state_rows_left: rows of state afterwards."""

    batch: int
    output_rows: int | None
    state_rows_left: int | None


def write_max_watermark(directory: CheckpointDir, internals: Internals | None) -> int | None:
    """At boundary N, write `offsets/N+1`: the offsets of N, so no input, and the max watermark.

    Returns the number of that batch; the one that is there if this was done before, committed or not. None if nothing
    could fire: no batch yet, or no state.

    :raises NotAtBoundary: another batch is pending.
    """
    latest = directory.latest_offset()
    if latest is None or not directory.is_stateful():
        return None
    entry = directory.offsets(latest)
    if entry.watermark >= MAX_WATERMARK_MS:
        return latest
    directory.boundary()
    final = entry.with_metadata(batchWatermarkMs=MAX_WATERMARK_MS, batchTimestampMs=int(time.time() * 1000))
    uri = f"{directory.uri}/offsets/{latest + 1}"
    if internals is not None:
        internals.write_atomically(uri, final.text)
    else:
        directory.files.write_new(uri, final.text.encode())
    return latest + 1


def run_max_watermark_batch(
    start_once: Callable[[], StreamingQuery], directory: CheckpointDir, batch: int
) -> DrainResult:
    """Run `batch`, which `write_max_watermark` has planned, unless it is committed. May be repeated after any crash.

    :param start_once: starts the query's writer with `trigger(once=True)`, which runs a pending batch and nothing else.
    :raises QueryFailed: the batch did not commit, or another one was run.
    """
    if directory.latest_commit() == batch:
        return DrainResult(batch, None, None)
    query = start_once()
    try:
        query.awaitTermination()
    except StreamingQueryException as e:
        first = str(e).strip().splitlines()[0][:500]
        raise QueryFailed(
            f"the max-watermark batch {batch} of {directory.uri} failed: {first}",
            remedy="See the driver's log; the drain goes on with the next driver",
        ) from e
    ran = directory.boundary()
    if ran != batch:
        raise QueryFailed(
            f"{directory.uri} is at batch {ran} after the drain, {batch} was to be the last one"
        )
    progress = [p for p in query.recentProgress if p["batchId"] == batch]
    if not progress:
        return DrainResult(batch, None, None)
    rows = progress[-1]["sink"]["numOutputRows"]
    left = sum(int(o["numRowsTotal"]) for o in progress[-1]["stateOperators"])
    return DrainResult(batch, _emitted(progress[-1]) if rows is None or rows < 0 else int(rows), left)


def _emitted(progress: object) -> int | None:
    """Rows removed from state: what a sink that does not count was given, at most."""
    removed = [int(o["numRowsRemoved"]) for o in progress["stateOperators"]]  # type: ignore[index]
    return sum(removed) if removed else None
