"""Stops, drains and savepoints. Each has an id, which its Events, the status and the index name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from ...printing.times import moment
from ..checkpoints import Checkpoint, Index
from ..events import Event, occurrences
from ..job import ENDING, Job, said_of
from .entry import FAILED, GOING, OK, TimelineEntry

_CAUSES = ("Stop", "Drain", "Deletion", "Eviction", "Upgrade")


def ends(job: Job, index: Index, events: Sequence[Event]) -> Iterator[TimelineEntry]:
    """Stops and drains: those in the index, and the one of the status that is not there."""
    t = job.part("termination")
    for c in index.checkpoints:
        if not c.scenario or not c.request or c.why not in _CAUSES:
            continue
        begin = moment(t.get("requestedAt")) if t.get("requestId") == c.request else None
        begin = begin or _first(events, ("Stopping", "Draining"), c.request) or _phase_before(c, events)
        kind = "drain" if c.scenario == "Drain" else "stop"
        why = "" if c.why.lower() == kind else f" ({c.why.lower()})"
        detail = f"checkpoint {c.number}" + (f", savepoint {c.name}" if c.name else "")
        yield TimelineEntry(kind, f"{kind}{why}", begin, c.completed, OK, detail, c.epoch)
    if t and t.get("finalCheckpoint") is None:
        kind = "drain" if t.get("mode") == "Drain" else "stop"
        going = job.phase in ENDING
        detail = ": ".join(part for part in (said_of(t.get("step")), t.get("progress")) if part)
        yield TimelineEntry(
            kind,
            f"{kind} ({t.get('requestId')})",
            moment(t.get("requestedAt")),
            None,
            GOING if going else FAILED,
            detail if going else "did not come to its end",
            job.epoch,
        )


def savepoints(job: Job, index: Index, events: Sequence[Event]) -> Iterator[TimelineEntry]:
    """Savepoints of the running job: those in the index, and the one of the status that is not there."""
    request = job.part("savepointRequest")
    for c in index.checkpoints:
        if c.savepoint and not c.scenario:
            ours = request.get("requestId") == c.request
            begin = moment(request.get("requestedAt")) if ours else None
            begin = begin or _first(events, ("SavepointRequested",), c.request or "")
            yield TimelineEntry(
                "savepoint", f"savepoint {c.name}", begin, c.completed, OK, c.why.lower(), c.epoch
            )
    if request and request.get("checkpoint") is None:
        failure = request.get("failure")
        yield TimelineEntry(
            "savepoint",
            f"savepoint {request.get('requestId')}",
            moment(request.get("requestedAt")),
            None,
            FAILED if failure else GOING,
            failure or request.get("progress") or "",
            job.epoch,
        )


def _first(events: Sequence[Event], reasons: tuple[str, ...], request: str) -> datetime | None:
    """When the first Event told of this request."""
    word = re.compile(rf"(?<![\w-]){re.escape(request)}(?![\w-])")
    return next((t for t, e in occurrences(events) if e.reason in reasons and word.search(e.message)), None)


def _phase_before(c: Checkpoint, events: Sequence[Event]) -> datetime | None:
    """When the phase changed that the checkpoint ended, by an Event that names no request: of an end that
    nobody requested, or from an earlier version.
    """
    phases = [(t, e) for t, e in occurrences(events) if c.completed is not None and t <= c.completed]
    for time, event in reversed(phases):
        if event.reason in ("Stopping", "Draining"):
            return None if "(request " in event.message else time
        if event.reason == "Starting":
            return None  # of this epoch: what is before it is another's
    return None
