"""I2, I4: an index that was deleted or damaged manually is rebuilt from a driver's records only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamjob.api import Phase
from streamjob.controller.reports.events import events
from streamjob.controller.rules.actions import AskForRecords, CreateDriver, WriteIndex
from streamjob.controller.rules.decide import decide
from streamjob.controller.rules.observed import Observed
from streamjob.protocol.messages.commands import RecordsRequest
from streamjob.protocol.messages.driver_status import DriverPhase, KnownRecords, Problem

from ...factories import (
    NOW,
    driver,
    exited,
    index,
    is_stalled,
    job,
    look,
    observed,
    pod,
    ran,
    record,
    running,
)

GONE = Problem("IndexMissing", "ConfigMap orders-checkpoints is gone", "Restore it")
BROKEN = Problem("MalformedDocument", "ConfigMap orders-checkpoints: cut off or not JSON", "Restore it")
STATUS = ran(2, checkpoint={"latest": 3, "epoch": 2, "completedAt": "2026-01-02T03:00:00Z"})
FIRST, NIGHT = record(1), record(2, 2, None, request="savepoint-schedule-20260102-0300")
NEWEST = record(3, 2, None, request=None, transactions=("t3",))
KNOWN = KnownRecords(3, (FIRST, NIGHT))


def runs(problem: Problem = GONE, version: str | None = None, **fields: Any) -> Observed:
    reported = driver(epoch=2, **{"completed": NEWEST, **fields})
    found = observed(job(status=STATUS), pods=[running(2)], reported=reported, index_problem=problem)
    return Observed(**{**found.__dict__, "index_version": version})


def test_the_driver_is_asked_for_its_records() -> None:
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
    _, shown, do, d = look(runs(Problem(reason, "it is", "Leave it"), "17", known=KNOWN))
    assert (shown, do) == (reason, [])
    assert is_stalled(d)


@pytest.mark.parametrize("pods", [[], [pod(2)], [exited(1, 2)]])
def test_without_a_driver_that_runs_nobody_knows(pods: Any) -> None:
    o = observed(job(status=STATUS), pods=pods, index_problem=GONE)
    assert look(o)[1:3] == ("IndexMissing", [])


def test_while_it_is_asked_the_job_reports_the_problem() -> None:
    o = runs()
    o = Observed(**{**o.__dict__, "acknowledged": frozenset({RecordsRequest(2, 3).token})})
    _, reason, do, d = look(o)
    assert (reason, do) == ("IndexMissing", [])
    assert is_stalled(d)


class TestNoDriver:
    """It was lost while no driver ran. Its newest checkpoint is a savepoint: the manifest has the record."""

    SAVEPOINT = "file:///data/sp/x/stop-2-1"

    def status(self, phase: str = "Stopped", number: int = 3, *, drained: bool = False, **more: Any) -> Any:
        saved = {"latest": self.SAVEPOINT, "checkpoint": number, "drained": drained}
        saved["completedAt"] = "2026-01-02T03:00:00Z"
        found = ran(2, phase, pod=False, checkpoint=STATUS["checkpoint"], savepoint=saved)
        return {**found, **more}

    @pytest.mark.parametrize(("problem", "version"), [(GONE, None), (BROKEN, "17")])
    def test_a_job_that_is_set_running_continues_from_it(self, problem: Problem, version: str | None) -> None:
        o = observed(job(status=self.status()), index_problem=problem)
        d = decide(replace(o, index_version=version), NOW)
        assert d.status.phase is Phase.STARTING
        (create,) = [a for a in d.actions if isinstance(a, CreateDriver)]
        restore = create.config.restore
        assert (restore.recorded, restore.latest, restore.exact) == (self.SAVEPOINT, None, True)
        assert create.config.next_checkpoint == 4
        assert not [a for a in d.actions if isinstance(a, WriteIndex)], "what was in it is not overwritten"

    def test_a_driver_has_run_since_so_the_directories_may_be_ahead(self) -> None:
        o = observed(job(status=self.status("Cancelled", startedEpoch=3, epoch=3)), index_problem=GONE)
        (create,) = [a for a in decide(o, NOW).actions if isinstance(a, CreateDriver)]
        assert not create.config.restore.exact

    def test_what_it_restored_from_at_first_is_not_taken_again(self) -> None:
        source = {"savepoint": "file:///data/sp/other/stop-9-9"}
        o = observed(job(status=self.status(), restoreFrom=source), index_problem=GONE)
        (create,) = [a for a in decide(o, NOW).actions if isinstance(a, CreateDriver)]
        assert create.config.restore.savepoint is None

    def test_the_driver_then_reports_its_records(self) -> None:
        began = self.status("Starting", epoch=3, startedEpoch=3)
        began["driver"] = {"pod": "orders-driver-3", "uid": "pod-3", "phase": "Running"}
        starts = driver(epoch=3, phase=DriverPhase.STARTING)
        o = observed(job(status=began), pods=[running(3)], reported=starts, index_problem=GONE)
        assert look(o)[:3] == (Phase.STARTING, "Starting", [])
        known = KnownRecords(3, (FIRST, record(3, 2)))
        o = replace(o, driver=driver(epoch=3, known=known))
        assert decide(o, NOW).actions == (WriteIndex(index(*known.records), None),)

    def test_a_driver_that_fails_is_accounted_for(self) -> None:
        """Its savepoint is gone as well, say: it is not started again and again."""
        began = self.status("Starting", epoch=3, startedEpoch=3)
        began["driver"] = {"pod": "orders-driver-3", "uid": "pod-3", "phase": "Running"}
        lost = Problem("SavepointIncomplete", "it has no manifest.json", "Take another")
        report = driver(epoch=3, phase=DriverPhase.FAILED, problem=lost)
        o = observed(job(status=began), pods=[exited(1, 3, report=report)], index_problem=GONE)
        phase, reason, _, d = look(o)
        assert (phase, reason) == (Phase.FAILED, "SavepointIncomplete")
        again = replace(o, job=o.job.model_copy(update={"status": d.status}), pods=())
        assert look(again)[:3] == (Phase.FAILED, "SavepointIncomplete", [])

    @pytest.mark.parametrize(
        ("status", "state"),
        [
            ({"number": 2}, "Running"),  # checkpoint 3 was none: its record is lost
            ({"drained": True, "phase": "Drained"}, "Drained"),
            ({}, "Stopped"),
        ],
    )
    def test_otherwise_nothing_begins(self, status: Any, state: str) -> None:
        o = observed(job(state=state, status=self.status(**status)), index_problem=GONE)
        _, reason, do, d = look(o)
        assert (reason, do) == ("IndexMissing", [])
        assert is_stalled(d)

    def test_a_stopped_job_reports_how_to_continue(self) -> None:
        d = decide(observed(job(state="Stopped", status=self.status()), index_problem=GONE), NOW)
        assert (
            f"Set spec.state to Running: the job continues from {self.SAVEPOINT}"
            in d.status.conditions[0].message
        )
