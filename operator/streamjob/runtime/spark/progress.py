"""Reads a query's last progress (`StreamingQueryProgress`). It lags: for display, not for decisions."""

from __future__ import annotations

from typing import Any


def watermark(progress: Any) -> str | None:
    """The watermark as RFC 3339, None for a query without event time."""
    event_time = progress["eventTime"] or {}
    value = event_time.get("watermark")
    return str(value) if value else None


def rows_per_second(progress: Any) -> float | None:
    value = progress["inputRowsPerSecond"]
    # The first progress can contain NaN or infinity, which are not JSON.
    return round(float(value), 1) if isinstance(value, (int, float)) and 0 <= value < 1e15 else None


def state_rows(progress: Any) -> int | None:
    """Total rows in the state of all stateful operators, None for a stateless query."""
    operators = progress["stateOperators"] or []
    return sum(int(o["numRowsTotal"]) for o in operators) if operators else None
