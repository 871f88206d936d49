"""The time of day as it stands in records."""

from __future__ import annotations

from datetime import datetime, timezone


def now() -> str:
    """RFC 3339, UTC, seconds."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
