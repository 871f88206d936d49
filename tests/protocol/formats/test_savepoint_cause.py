"""Why and at whose word: from the id of the request, which is what names the savepoint."""

from __future__ import annotations

import pytest

from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.formats.savepoint_cause import by_whom, why
from streamjob.protocol.lifecycle import Scenario


def record(request: str | None, scenario: Scenario | None) -> CheckpointRecord:
    return CheckpointRecord(1, 1, scenario, request, "file:/sp/x", "2026-01-01T00:00:00Z", ())


@pytest.mark.parametrize(
    ("request_id", "scenario", "word", "who"),
    [
        ("savepoint-manual-7", None, "Manual", "spec.savepoint.nonce"),
        ("savepoint-schedule-20260102-0300", None, "Schedule", "spec.savepoint.schedule"),
        ("stop-3-7", Scenario.STOP, "Stop", "spec.state"),
        ("drain-3-7", Scenario.DRAIN, "Drain", "spec.state"),
        ("upgrade-3-7", Scenario.STOP, "Upgrade", "a change of the spec"),
        ("delete-3-7", Scenario.DRAIN, "Deletion", "the deletion of the StreamJob"),
        ("eviction-3", Scenario.STOP, "Eviction", "SIGTERM to the driver's pod"),
        ("adopt", None, "Adoption", "the command savepoint adopt"),
        ("nightly", None, "Running", "nightly"),
        (None, Scenario.END_OF_INPUT, "EndOfInput", None),
        (None, None, "Running", None),
    ],
)
def test_why_and_by_whom(
    request_id: str | None, scenario: Scenario | None, word: str, who: str | None
) -> None:
    found = record(request_id, scenario)
    assert (why(found), by_whom(found)) == (word, who)
