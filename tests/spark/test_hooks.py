"""What a script does of its own when its query ends comes in the order of FLIP-147, and a plain stop finishes
nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode, TerminationRequest

from .job import Feed

pytestmark = pytest.mark.any_spark
APP = Path(__file__).parent / "apps" / "hooks.py"


def test_row3_a_stop_only_closes_and_a_drain_finishes_first(feed: Feed, tmp_path: Path) -> None:
    """D2: the driver dies in finish(), and the next one finishes; nothing is flushed twice."""
    feed.add(4)
    arguments = (str(feed.source), str(tmp_path))
    notes, obstacle = tmp_path / "notes", tmp_path / "obstacle"
    with LocalDriver(tmp_path, APP, *arguments) as first:
        first.running(4)  # all files and the batch without data, which Spark does not run after a restart
        first.finish(Mode.STOP)
    assert [line.split()[0] for line in notes.read_text().splitlines()] == ["close"]
    notes.unlink()
    obstacle.touch()
    with first.next_epoch(APP, *arguments) as second:
        second.running(4)
        request = second.terminate(Mode.DRAIN, "end")
        assert second.wait() == 1
    problem = second.report().problem
    assert problem is not None
    assert (problem.reason, problem.retryable) == ("HookFailed", True)
    assert "nobody there" in problem.message
    obstacle.unlink()
    pending = TerminationRequest(request.request_id, 3, Mode.DRAIN, request.savepoint)
    second.record = first.record
    with second.next_epoch(APP, *arguments, exact=False, termination=pending) as third:
        record = third.finish()
    assert record.drained
    called = [line.rsplit(" ", 1) for line in notes.read_text().splitlines()]
    assert [what for what, _ in called] == ["end of data", "end of data", "finish", "close"]
    assert len({rows for _, rows in called}) == 1, "the windows were out before the first of them"
