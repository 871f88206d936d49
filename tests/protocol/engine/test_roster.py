"""Which tasks may still start."""

from __future__ import annotations

import pytest

from streamjob.protocol.engine import events as ev
from streamjob.protocol.engine.coordinator import Coordinator
from streamjob.protocol.engine.roster import UpstreamTooLate


def test_row10_what_starts_when_a_request_is_announced_is_not_too_late() -> None:
    """It reads nothing, so it has no output that nobody would read."""
    c = Coordinator(1)
    c.handle(ev.TaskStarted("reader", drained=True))
    c.reads("reader", "writer")
    with pytest.raises(UpstreamTooLate, match="'reader'"):
        c.refuse_start("writer")
    c.handle(ev.TerminationAnnounced())
    c.refuse_start("writer")
