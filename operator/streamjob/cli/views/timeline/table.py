"""A timeline as a table."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ...printing.text import BAD, BUSY, DIM, GOOD, STRONG, WARN, Line, Span, Table, line
from ...printing.times import span
from .entry import FAILED, GOING, OK, TimelineEntry

_OUTCOMES = {OK: GOOD, FAILED: BAD, GOING: BUSY}
_KINDS = {"epoch": STRONG, "failure": WARN, "escalation": WARN}


def table(entries: Iterable[TimelineEntry], at: datetime) -> Table:
    """One line for each, in order."""
    return Table(("BEGAN", "ENDED", "TOOK", "WHAT", "OUTCOME", "DETAIL"), [_row(e, at) for e in entries])


def _row(entry: TimelineEntry, at: datetime) -> list[Line]:
    took = span(entry.seconds)
    if not took and entry.outcome == GOING and entry.begin is not None:
        took = f"{span(at - entry.begin)} so far"
    indented = entry.title if entry.kind == "epoch" else f"  {entry.title}"
    return [
        line(_time(entry.begin)),
        line(_time(entry.end)),
        line(took),
        line(Span(indented, _KINDS.get(entry.kind, ""))),
        line(Span(entry.outcome, _OUTCOMES.get(entry.outcome, ""))),
        line(Span(entry.detail[:200], DIM)),
    ]


def _time(time: datetime | None) -> str:
    return f"{time:%m-%d %H:%M:%S}" if time else ""
