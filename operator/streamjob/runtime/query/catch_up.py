"""Runs a query until nothing is left of what its sources hold.

The first run uses availableNow, which respects the limits of the sources. If that does not prove that it has
read everything (`end_of_input`), runs with `once`, which ignores limits, follow until each source is known to
be read: a run proves it, or does not move its position. Iceberg refuses availableNow if the snapshot at which
the query once began has expired; then `once` takes its place.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from enum import Enum
from functools import partial

from pyspark.sql.streaming.query import StreamingQuery

from ...protocol.messages.driver_status import Problem
from ..spark.boundary import QueryFailed, run_to_end
from ..spark.checkpoint_dir import CheckpointDir
from ..spark.sources.iceberg_history import NO_SNAPSHOT

log = logging.getLogger("streamjob")

ONCE = {"once": True}
OWN_SECONDS = 600.0  # for a source that no stage of the job writes: it may never have nothing left
EMPTY_RUNS = 10  # without rows, although the position moves, as of a source whose position is a clock


class CaughtUp(Enum):
    """How a catch-up has ended."""

    ALL = "nothing is left"
    CUT_SHORT = "the job is asked to stop"
    UNKNOWN = "whether anything is left cannot be established"


def read_all(
    run: Callable[..., StreamingQuery],
    directory: CheckpointDir,
    *,
    proves: Callable[[StreamingQuery], list[bool]],
    cut_short: Callable[[], bool],
    on_run: Callable[[int], None],
    seconds: float = math.inf,
) -> CaughtUp:
    """Read everything. The query must be at a boundary, and is at one afterwards, unless it was cut short.

    :param run: starts the query with the trigger that it gets as keyword argument.
    :param proves: of which sources the run, which has ended by itself, has read all that there was at its
        start; empty if that is not known.
    :param cut_short: asks for an early end. The last run may still be active then.
    :param on_run: called with the number of each run after the first.
    :param seconds: after these, no other run begins.
    :raises QueryFailed: a batch failed.
    """
    deadline, runs, empty = time.monotonic() + seconds, 0, 0
    trigger, read = {"availableNow": True}, set[int]()
    before, _ = _position(directory)
    while not cut_short():
        runs += 1
        try:
            query = run_to_end(partial(run, **trigger), cut_short)
        except QueryFailed as e:
            if NO_SNAPSHOT not in e.message or trigger == ONCE:
                raise
            log.info(
                "the snapshot has expired at which the query began: once takes the place of availableNow"
            )
            trigger = ONCE
            on_run(runs + 1)
            continue
        if cut_short():
            break
        (after, in_order), proven, asked_for_all = _position(directory), proves(query), trigger == ONCE
        if (proven and all(proven)) or (after == before and asked_for_all):
            return CaughtUp.ALL
        if in_order:
            read.update(i for i, is_proven in enumerate(proven) if is_proven)
            pairs = enumerate(zip(before, after, strict=False))
            read.update(i for i, (was, now) in pairs if was == now and asked_for_all)
            if after and read.issuperset(range(len(after))):
                return CaughtUp.ALL
        empty = 0 if after == before or _rows(query) else empty + 1
        if empty == EMPTY_RUNS or time.monotonic() > deadline:
            return CaughtUp.UNKNOWN
        before, trigger = after, ONCE
        on_run(runs + 1)
    return CaughtUp.CUT_SHORT


def unknown_end(task: str, upstream: str) -> Problem:
    """What the user is told of CaughtUp.UNKNOWN.

    :param upstream: what the task reads from, "" if from no other stage.
    """
    message = (
        f"stage {task} is stopped instead of flushed: whether it has read all of {upstream or 'its input'} "
        "cannot be established, because a source names a new position each time it is asked"
    )
    remedy = (
        "Nothing is lost: the next start continues from there. Let the source name the same position while "
        "it has nothing new, or let it take part in availableNow (SupportsTriggerAvailableNow)"
    )
    return Problem("EndOfInputUnknown", message, remedy)


def _position(directory: CheckpointDir) -> tuple[list[str | None], bool]:
    """The positions of the last batch, and whether they are in the order of the query's sources.

    Format 2 has them by name.
    """
    batch = directory.latest_commit()
    if batch is None:
        return [], False
    entry = directory.entry(batch)
    return list(entry.offsets.values()), entry.format == 1


def _rows(query: StreamingQuery) -> int:
    return sum(progress["numInputRows"] for progress in query.recentProgress)
