"""Times in the format of records and resources: RFC 3339, in UTC."""

from __future__ import annotations

from datetime import datetime, timezone


def timestamp(moment: datetime) -> str:
    """RFC 3339, UTC, seconds."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> datetime:
    """The inverse of `timestamp`; also accepts the API server's format (microseconds).

    :raises ValueError: not a time, or one that Python does not have, such as Spark's max watermark.
    """
    # Python before 3.11 does not read the Z.
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
