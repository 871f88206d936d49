"""I2, I4: an index that was deleted or broken by hand is made anew by a driver that knows enough, and by nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.controller.actions import AskForRecords, WriteIndex
from streamjob.controller.decide import decide
from streamjob.controller.observe import Observed
from streamjob.controller.status import events
from streamjob.protocol.messages import KnownRecords, Problem, RecordsRequest

from .given import NOW, driver, exited, index, is_stalled, job, look, observed, pod, ran, record, running

GONE = Problem("IndexMissing", "ConfigMap orders-checkpoints is gone", "Restore it")
BROKEN = Problem("MalformedDocument", "ConfigMap orders-checkpoints: cut off or not JSON", "Restore it")
STATUS = ran(2, checkpoint={"latest": 3, "epoch": 2, "completedAt": "2026-01-02T03:00:00Z"})
FIRST, NIGHT = record(1), record(2, 2, None, request="savepoint-schedule-20260102-0300")
NEWEST = record(3, 2, None, request=None, transactions=("t3",))
KNOWN = KnownRecords(3, (FIRST, NIGHT))


def runs(problem: Problem = GONE, version: str | None = None, **says: Any) -> Observed:
    word = driver(epoch=2, **{"completed": NEWEST, **says})
    found = observed(job(status=STATUS), pods=[running(2)], says=word, index_problem=problem)
    return Observed(**{**found.__dict__, "index_version": version})


def test_the_driver_is_asked_what_it_knows() -> None:
    d = decide(runs(), NOW)
    assert d.actions == (AskForRecords(RecordsRequest(2, 3)),)


def test_and_the_index_is_made_of_it() -> None:
    o = runs(known=KNOWN)
    d = decide(o, NOW)
    assert d.actions == (WriteIndex(index(FIRST, NIGHT, NEWEST), None),)
    assert d.status.conditions[0].reason == "IndexRebuilt"
    assert d.status.last_error is not None
    assert d.status.last_error.reason == "IndexRebuilt"
    assert [e.reason for e in events(o.job.status, d.status) if e.warning] == ["IndexRebuilt"]
    assert d.status.checkpoint == o.job.status.checkpoint


def test_one_that_cannot_be_read_is_replaced_in_the_version_that_was_seen() -> None:
    d = decide(runs(BROKEN, "17", known=KNOWN), NOW)
    assert d.actions == (WriteIndex(index(FIRST, NIGHT, NEWEST), "17"),)


def test_what_older_checkpoints_had_to_commit_is_committed_since() -> None:
    older = record(2, 2, None, request=None, transactions=("t2",))
    d = decide(runs(known=KnownRecords(3, (FIRST, older))), NOW)
    (write,) = d.actions
    assert isinstance(write, WriteIndex)
    assert [c.uncommitted for c in write.index.checkpoints] == [False, False, True]


def test_less_than_the_status_has_seen_is_not_enough() -> None:
    """The job would go back."""
    _, reason, do, d = look(runs(known=KNOWN, completed=None))
    assert (reason, do) == ("IndexMissing", [])
    assert is_stalled(d)


def test_an_answer_to_an_earlier_question_does_not_count() -> None:
    assert decide(runs(known=KnownRecords(2, (FIRST,))), NOW).actions == (
        AskForRecords(RecordsRequest(2, 3)),
    )


@pytest.mark.parametrize("reason", ["UnknownFormatVersion", "ForeignIndex", "NameTaken"])
def test_one_with_which_nothing_is_wrong_is_left_untouched(reason: str) -> None:
    """Of a newer version, another job's, or no index at all: what is there is not ours to replace."""
    _, told, do, d = look(runs(Problem(reason, "it is", "Leave it"), "17", known=KNOWN))
    assert (told, do) == (reason, [])
    assert is_stalled(d)


@pytest.mark.parametrize("pods", [[], [pod(2)], [exited(1, 2)]])
def test_without_a_driver_that_runs_nobody_knows(pods: Any) -> None:
    o = observed(job(status=STATUS), pods=pods, index_problem=GONE)
    assert look(o)[1:3] == ("IndexMissing", [])


def test_while_it_is_asked_the_job_says_what_is_wrong() -> None:
    o = runs()
    o = Observed(**{**o.__dict__, "acknowledged": frozenset({RecordsRequest(2, 3).token})})
    _, reason, do, d = look(o)
    assert (reason, do) == ("IndexMissing", [])
    assert is_stalled(d)
