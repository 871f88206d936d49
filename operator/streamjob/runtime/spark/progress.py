"""What can be read from a query's last progress (`StreamingQueryProgress`), which lags: for people, not for decisions."""

from __future__ import annotations

from typing import Any


def watermark(progress: Any) -> str | None:
    """RFC 3339, None for a query without event time."""
    event_time = progress["eventTime"] or {}
    value = event_time.get("watermark")
    return str(value) if value else None


def rows_per_second(progress: Any) -> float | None:
    value = progress["inputRowsPerSecond"]
    # NaN and infinities come out of the first progress and are not JSON.
    return round(float(value), 1) if isinstance(value, (int, float)) and 0 <= value < 1e15 else None


def state_rows(progress: Any) -> int | None:
    """Rows that all stateful operators hold, None for a stateless query."""
    operators = progress["stateOperators"] or []
    return sum(int(o["numRowsTotal"]) for o in operators) if operators else None
