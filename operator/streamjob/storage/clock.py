"""The current time, in the format of the records."""

from __future__ import annotations

from datetime import datetime, timezone


def now() -> str:
    """The current time in UTC as RFC 3339, in whole seconds."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
