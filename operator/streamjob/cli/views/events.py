"""Kubernetes Events of a job and of its pods."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..printing.text import DIM, WARN, Span, Table, line
from ..printing.times import ago, moment


@dataclass(frozen=True)
class Event:
    """An Event, as both of Kubernetes' APIs have it."""

    time: datetime | None
    first: datetime | None
    count: int
    warning: bool
    reason: str
    message: str
    kind: str
    name: str


def events(objects: Iterable[dict[str, Any]]) -> tuple[Event, ...]:
    """Oldest first. An Event that is there twice, by both APIs, is one."""
    found = {(o.get("metadata") or {}).get("uid") or id(o): _event(o) for o in objects}
    return tuple(sorted(found.values(), key=lambda e: e.time.timestamp() if e.time else 0.0))


def occurrences(found: Iterable[Event]) -> list[tuple[datetime, Event]]:
    """The times that are known, oldest first: of an Event that was repeated, its first and its last."""
    times = [(time, e) for e in found for time in dict.fromkeys((e.first, e.time)) if time is not None]
    return sorted(times, key=lambda found: found[0])


def _event(obj: dict[str, Any]) -> Event:
    series, meta = obj.get("series") or {}, obj.get("metadata") or {}
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    last = series.get("lastObservedTime") or obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp")
    began = obj.get("eventTime") or obj.get("firstTimestamp") or meta.get("creationTimestamp")
    return Event(
        time=moment(last or began),
        first=moment(began or last),
        count=series.get("count") or obj.get("count") or 1,
        warning=obj.get("type") == "Warning",
        reason=obj.get("reason") or "",
        message=(obj.get("message") or obj.get("note") or "").strip(),
        kind=about.get("kind") or "",
        name=about.get("name") or "",
    )


def table(found: Iterable[Event], at: datetime) -> Table:
    rows = [
        [
            line(ago(e.time, at)),
            line(Span("Warning", WARN) if e.warning else Span("Normal", DIM)),
            line(e.reason),
            line(e.name if e.kind == "Pod" else ""),
            line(str(e.count) if e.count > 1 else ""),
            line(" ".join(e.message.split())),
        ]
        for e in found
    ]
    return Table(("LAST", "TYPE", "REASON", "POD", "COUNT", "MESSAGE"), rows, frozenset({"COUNT"}))
