"""Times in the format of the records: RFC 3339, in UTC."""

from __future__ import annotations

from datetime import datetime, timezone


def now() -> str:
    """The current time, in whole seconds."""
    return rfc3339(datetime.now(timezone.utc))


def rfc3339(moment: datetime) -> str:
    """A moment in UTC, cut to whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> datetime:
    """The inverse.

    :raises ValueError: not a time, or one that Python does not have, such as Spark's max watermark.
    """
    # Python before 3.11 does not read the Z.
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
