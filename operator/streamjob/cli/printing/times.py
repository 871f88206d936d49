"""Times and amounts, as people read them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from ...protocol.times import timestamp

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def now() -> datetime:
    return datetime.now(timezone.utc)


def moment(text: str | None) -> datetime | None:
    """The time that a resource names (RFC 3339), None if it names none, or something else."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(_six_digits(text.replace("Z", "+00:00")))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def _six_digits(text: str) -> str:
    """Python 3.10 reads fractions of a second with three or six digits only."""
    return re.sub(r"\.(\d+)", lambda m: f".{m[1][:6]:0<6}", text)


def written(time: datetime | None) -> str | None:
    """The time as resources have it."""
    return None if time is None else timestamp(time)


def seconds(text: str | None) -> float | None:
    """The seconds of a duration such as `1h30m`."""
    found = _DURATION.fullmatch(text or "")
    if not text or not found:
        return None
    hours, minutes, rest = (int(part or 0) for part in found.groups())
    return float(hours * 3600 + minutes * 60 + rest)


def span(length: timedelta | float | None) -> str:
    """A length of time with its two largest units: `2h5m`, `12s`, `3d4h`."""
    if length is None:
        return ""
    total = length.total_seconds() if isinstance(length, timedelta) else length
    if total < 0:
        return f"-{span(-total)}"
    if total < 10 and total != int(total):
        return f"{total:.1f}s"
    whole = round(total)
    for size, unit, smaller, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size}{unit}" + (f"{rest}{small}" if rest and whole < 100 * size else "")
    return f"{whole}s"


def ago(time: datetime | None, at: datetime) -> str:
    return "" if time is None else f"{span(max(at - time, timedelta()))} ago"


def until(time: datetime, at: datetime) -> str:
    """How long it is until then; `0s` if that is over."""
    return span(max(time - at, timedelta()))


def amount(number: float | None) -> str:
    """A number that is short: `950`, `12.4k`, `3.1M`."""
    if number is None:
        return ""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(number) >= size:
            return f"{number / (1e3 if unit == 'k' else size):.1f}{unit}"
    return f"{number:.0f}" if number == int(number) or abs(number) >= 100 else f"{number:.1f}"


def size(number: float | None) -> str:
    """A number of bytes: `512 B`, `3.2 MiB`."""
    if number is None:
        return ""
    amount, unit = float(number), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(amount) < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
