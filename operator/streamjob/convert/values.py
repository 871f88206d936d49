"""Spark's notations, and those of a StreamJob."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from ..api.resource import NAME_LIMIT
from .source import Refused

SIZES = {
    "": 20,
    "k": 10,
    "kb": 10,
    "m": 20,
    "mb": 20,
    "g": 30,
    "gb": 30,
    "t": 40,
    "tb": 40,
    "p": 50,
    "pb": 50,
}
SIZES |= {"b": 0, "ki": 10, "mi": 20, "gi": 30, "ti": 40}
TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
LABEL_LIMIT = 63
SECONDS_LIMIT = 10**6  # a duration's numbers have at most six digits


def string(value: Any) -> str:
    """A setting's value as Spark gets it. Files that no API server has seen have numbers and booleans too."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def truth(value: Any) -> bool:
    return string(value).strip().lower() == "true"


def number(value: Any, field: str) -> int:
    """:raises Refused: it is none."""
    try:
        return int(value)
    except (TypeError, ValueError):
        raise Refused(f"{field}: {value!r} is not a whole number") from None


def mebibytes(size: Any, field: str) -> int:
    """A size in Spark's notation, `512m` or `2g`; a bare number is in mebibytes. Rounded up.

    :raises Refused: it is none.
    """
    found = re.fullmatch(r"([0-9]+)\s*([a-z]*)", string(size).strip().lower())
    if not found or found[2] not in SIZES or not int(found[1]):
        raise Refused(f"{field}: {size!r} is not a size in Spark's notation, such as 512m or 2g")
    return -(-(int(found[1]) << SIZES[found[2]]) // (1 << 20))


def memory(size: int) -> str:
    """Mebibytes as a quantity, in gibibytes if they are whole."""
    return f"{size // 1024}Gi" if size % 1024 == 0 else f"{size}Mi"


def seconds(time: Any, field: str) -> float:
    """A time in Spark's notation, `90s` or `5min`; a bare number is in seconds.

    :raises Refused: it is none.
    """
    found = re.fullmatch(r"([0-9]+)\s*([a-z]*)", string(time).strip().lower())
    if not found or (found[2] or "s") not in TIMES:
        raise Refused(f"{field}: {time!r} is not a time in Spark's notation, such as 90s or 5min")
    return int(found[1]) * TIMES[found[2] or "s"]


def duration(time: float) -> str:
    """Seconds as a duration, rounded up."""
    whole = int(-(-time // 1))
    if whole >= SECONDS_LIMIT:
        return f"{min(whole // 3600, SECONDS_LIMIT - 1)}h"
    return f"{whole}s"


def listed(text: Any) -> list[str]:
    """The entries of Spark's comma-separated list."""
    return [entry.strip() for entry in string(text).split(",") if entry.strip()]


def job_name(name: str) -> str:
    """A name that a StreamJob may have. A name that is cut ends with a hash of the whole."""
    plain = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    plain = plain if plain[:1].isalpha() else f"job-{plain}".rstrip("-")
    return _cut(plain, name, NAME_LIMIT)


def volume_name(name: str) -> str:
    """A DNS label for a volume."""
    return _cut(re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-"), name, LABEL_LIMIT)


def _cut(plain: str, name: str, limit: int) -> str:
    if len(plain) <= limit:
        return plain
    return f"{plain[: limit - 9].rstrip('-')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None
