"""Reads a query's last progress (`StreamingQueryProgress`). It lags: for display, not for decisions.

A missing value is None, and so is one that is not a number: the first progress can have NaN and infinity,
which are not JSON. Spark 3.5 leaves out what a query does not have, such as `eventTime`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from ...protocol.formats.records import OperatorRecord
from ...protocol.times import moment

INPUT, PROCESSED = "inputRowsPerSecond", "processedRowsPerSecond"
OBJECT = re.compile(r"(?:[\w$]+\.)*([\w$]+?)\$?@[0-9a-f]+")  # as java.lang.Object.toString
NAME_LIMIT = 120  # characters
UNREAL = 1e15  # rates and times from here on are infinity, or a maximum that stands for no time


def batch(progress: Any) -> int | None:
    """The last batch that has run. A trigger that found nothing new has the number of the next one."""
    number = int(progress["batchId"])
    return number if _ran(progress) else number - 1 if number > 0 else None


def committed(progress: Any) -> datetime | None:
    """When its batch was committed: at the end of its trigger. None of a trigger that found nothing new."""
    if not _ran(progress):
        return None
    took = batch_seconds(progress).get("triggerExecution", 0.0)
    return moment(progress["timestamp"]) + timedelta(seconds=took)


def _ran(progress: Any) -> bool:
    return "addBatch" in (progress.get("durationMs") or {})


def watermark(progress: Any) -> str | None:
    """The watermark as RFC 3339, None for a query without event time."""
    event_time = progress.get("eventTime") or {}
    value = event_time.get("watermark")
    return str(value) if value else None


def watermark_delay(watermark: str | None, now: datetime) -> float | None:
    """Seconds by which the watermark is behind `now`. None before the first event, and in a drain."""
    if watermark is None:
        return None
    try:
        at = moment(watermark)
    except ValueError:  # the max watermark has a year with five digits
        return None
    return round((now - at).total_seconds(), 1) if 1970 < at.year < 9999 else None


def described(progress: Any, operators: Sequence[OperatorRecord]) -> tuple[OperatorRecord, ...]:
    """The operators, sources and sink with the names that Spark has for them: `KafkaV2[Subscribe[a]]`."""
    names = {f"source-{n}": s["description"] for n, s in enumerate(progress.get("sources") or ())}
    names["sink"] = (progress.get("sink") or {}).get("description")
    return tuple(replace(o, name=_name(names[o.uid])) if names.get(o.uid) else o for o in operators)


def _name(description: str) -> str:
    """Without the package and the number of an object that has no description of its own."""
    found = OBJECT.fullmatch(description)
    return (found[1] if found else description)[:NAME_LIMIT]


def rate(progress: Any, name: str) -> float | None:
    """Rows per second.

    :param name: INPUT or PROCESSED.
    """
    value = progress.get(name)
    return round(float(value), 1) if isinstance(value, (int, float)) and 0 <= value < UNREAL else None


def batch_seconds(progress: Any) -> dict[str, float]:
    """The duration of the last trigger and of its parts, named as in Spark's `durationMs`."""
    return {str(part): int(ms) / 1000 for part, ms in sorted((progress.get("durationMs") or {}).items())}


def state_rows(progress: Any) -> int | None:
    """Total rows in the state of all stateful operators, None for a stateless query."""
    return _of_state(progress, "numRowsTotal")


def state_bytes(progress: Any) -> int | None:
    """Memory that the state of all stateful operators uses, None for a stateless query."""
    return _of_state(progress, "memoryUsedBytes")


def _of_state(progress: Any, name: str) -> int | None:
    operators = progress.get("stateOperators") or []
    return sum(int(o[name]) for o in operators) if operators else None
