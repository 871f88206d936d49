"""The current time, in the format of the records."""

from __future__ import annotations

from datetime import datetime, timezone

from ..protocol.times import timestamp


def now() -> str:
    """The current time in UTC as RFC 3339, in whole seconds."""
    return timestamp(datetime.now(timezone.utc))
