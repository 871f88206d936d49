"""What a check says: its exit code, and its words."""

from __future__ import annotations

import pytest

from streamjob.protocol.formats import codec
from streamjob.protocol.messages.check_report import (
    DOES_NOT,
    GOES_ON,
    NOT_CHECKED,
    Outcome,
    Report,
    Verdict,
)
from streamjob.protocol.messages.driver_status import Problem

PROBLEM = Problem("QueryChanged", "it does not fit " * 20, "Start the script that wrote it")
GOOD = Verdict("orders", Outcome.CONTINUES, 41)
REFUSED = Verdict("totals", Outcome.REFUSED, problem=PROBLEM)
LOST = Verdict("late", Outcome.MISSING, problem=PROBLEM)
ALLOWED = Verdict("late", Outcome.MISSING)
WARNED = Verdict("orders", Outcome.CONTINUES, 41, warnings=(PROBLEM,))


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (Report("a.py", "it", (GOOD, WARNED, ALLOWED)), GOES_ON),
        (Report("a.py", "it", (GOOD, REFUSED)), DOES_NOT),
        (Report("a.py", "it", (LOST,)), DOES_NOT),
        (Report("a.py", "it", refused=PROBLEM), DOES_NOT),
        (Report("a.py", "it", (GOOD,), unknown=PROBLEM), NOT_CHECKED),
        (Report("a.py", "it", (REFUSED,), unknown=PROBLEM), DOES_NOT),
    ],
)
def test_what_is_refused_is_refused_whatever_is_not_known(report: Report, code: int) -> None:
    assert report.code == code
    assert codec.loads(Report, codec.dumps(report)) == report


def test_the_text_fits_a_terminal_and_ends_with_the_answer() -> None:
    lines = list(Report("a.py", "checkpoint 12", (GOOD, REFUSED, LOST), "4.1.4").lines(60))
    assert lines[0] == "a.py against checkpoint 12, with Spark 4.1.4"
    assert lines[1] == "  orders  continues after batch 41"
    assert "  late    missing: its state would be lost" in lines
    assert "    → Start the script that wrote it" in lines
    assert lines[-1] == "It does not go on."
    assert max(map(len, lines)) <= 60


def test_that_there_is_no_way_back_is_said_of_what_goes_on() -> None:
    why = ("'more' is new",)
    assert any("No way back" in line for line in Report("a.py", "it", (GOOD,), no_way_back=why).lines(80))
    refused = Report("a.py", "it", (REFUSED,), no_way_back=why)
    assert not any("No way back" in line for line in refused.lines(80))
