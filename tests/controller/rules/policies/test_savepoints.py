"""On-demand savepoints: when one is requested, what is sent, and its outcome."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from streamjob.api import Phase, SavepointCause, Status
from streamjob.controller.reports.events import events
from streamjob.controller.rules.actions import (
    ConfirmCheckpoint,
    CreateDriver,
    SendSavepoint,
    WriteIndex,
    completed_token,
)
from streamjob.controller.rules.context import Decision
from streamjob.controller.rules.decide import decide
from streamjob.controller.rules.observed import Observed
from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.formats.savepoint_cause import why
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import SavepointRequest
from streamjob.protocol.messages.driver_status import DriverPhase, Problem, SavepointStatus
from streamjob.protocol.times import timestamp

from ...factories import (
    MINUTE,
    NOW,
    SECOND,
    UID,
    at,
    driver,
    exited,
    failed,
    index,
    job,
    look,
    observed,
    ran,
    record,
    running,
    terminating,
)

ID = "savepoint-manual-2"
PLACE = f"file:///data/sp/shop-orders-{UID[:8]}/{ID}"
HOURLY = {"schedule": "0 * * * *"}


def saved(number: int = 1, request: str = ID) -> CheckpointRecord:
    return record(number, scenario=None, request=request)


def requested(**more: Any) -> dict[str, Any]:
    """A recorded request."""
    entry = {"requestId": ID, "cause": "Manual", "requestedAt": at(-MINUTE), "deadline": at(29 * MINUTE)}
    return {"savepointRequest": {**entry, "savepoint": PLACE, **more}, "savepointNonce": 7}


def runs(
    savepoint: dict[str, Any] | None = None, *, status: dict[str, Any] | None = None, **more: Any
) -> Observed:
    """A job that runs, its driver too. `more`: of what is observed."""
    spec = job(
        generation=2, status=status or ran(), savepoint={"nonce": 7} if savepoint is None else savepoint
    )
    return observed(spec, **{"pods": [running()], "index": index(), "reported": driver(), **more})


def reported(**savepoint: Any) -> Any:
    return driver(savepoint=SavepointStatus(ID, **savepoint))


def book(d: Decision) -> Any:
    assert d.status.savepoint_request is not None
    return d.status.savepoint_request


class TestTrigger:
    def test_the_value_at_creation_requests_none(self) -> None:
        d = decide(observed(job(finalizer=False, savepoint={"nonce": 7})), NOW)
        assert (d.status.savepoint_nonce, d.status.savepoint_request) == (7, None)

    def test_a_change_is_recorded_and_then_sent_to_the_driver(self) -> None:
        phase, _, _, d = look(runs(status=ran(savepointNonce=6)))
        assert phase is Phase.RUNNING
        assert d.actions == (SendSavepoint(SavepointRequest(ID, 1, PLACE, 1800.0)),)
        r = book(d)
        assert (r.request_id, r.cause, r.savepoint) == (ID, SavepointCause.MANUAL, PLACE)
        assert (r.requested_at, r.deadline) == (at(0 * MINUTE), at(30 * MINUTE))
        assert d.status.savepoint_nonce == 7
        assert why(saved(request=r.request_id)) == r.cause.value, "the driver's command reads it from the id"

    def test_so_is_the_first_value_of_a_job_that_runs(self) -> None:
        assert look(runs())[2] == [SendSavepoint]

    def test_removing_the_value_requests_none(self) -> None:
        *_, do, d = look(runs({}, status=ran(savepointNonce=6)))
        assert (do, d.status.savepoint_nonce, d.status.savepoint_request) == ([], None, None)

    def test_nothing_is_repeated_once_the_driver_has_acknowledged(self) -> None:
        status = ran(**requested())
        assert look(runs(status=status))[2] == [SendSavepoint], "until then it is"
        assert look(runs(status=status, acknowledged=frozenset({ID})))[2] == []
        assert look(runs(status=status, reported=reported()))[2] == []

    def test_a_repetition_has_the_time_that_is_left(self) -> None:
        (send,) = look(runs(status=ran(**requested())))[3].actions
        assert isinstance(send, SendSavepoint)
        assert send.request.timeout == 29 * 60

    def test_one_that_comes_while_another_is_pending_follows_it(self) -> None:
        status = ran(**requested())
        status["savepointNonce"] = 6
        first = look(runs(status=status, reported=reported()))[3]
        assert (first.status.savepoint_nonce, book(first).request_id) == (6, ID)
        over = look(
            runs(
                status={
                    **first.status.plain(),
                    "savepointRequest": {**requested()["savepointRequest"], "checkpoint": 1},
                },
                index=index(saved()),
                acknowledged=frozenset({completed_token(1)}),
            )
        )[3]
        assert over.status.savepoint_nonce == 7
        assert book(over).checkpoint is None


class TestSchedule:
    def ask(self, when: datetime, status: dict[str, Any], **more: Any) -> Decision:
        return decide(runs(HOURLY, status=status, **more), when)

    def test_it_begins_with_the_next_moment(self) -> None:
        d = self.ask(NOW, ran())
        assert (d.actions, d.status.next_savepoint_at) == ((), "2026-01-02T04:00:00Z")
        assert d.requeue_after == 55 * 60 + 55

    def test_its_moment_has_come(self) -> None:
        d = self.ask(NOW + 56 * MINUTE, ran(nextSavepointAt="2026-01-02T04:00:00Z"))
        assert [type(a) for a in d.actions] == [SendSavepoint]
        assert book(d).request_id == "savepoint-schedule-20260102-0400"
        assert book(d).cause is SavepointCause.SCHEDULE
        assert d.status.next_savepoint_at == "2026-01-02T05:00:00Z"

    def test_of_many_that_were_missed_one_is_made_up_for(self) -> None:
        d = self.ask(NOW + timedelta(hours=7), ran(nextSavepointAt="2026-01-02T04:00:00Z"))
        assert [type(a) for a in d.actions] == [SendSavepoint]
        assert d.status.next_savepoint_at == "2026-01-02T11:00:00Z"

    def test_it_waits_for_the_pending_one(self) -> None:
        status = ran(nextSavepointAt="2026-01-02T04:00:00Z", **requested(deadline=at(90 * MINUTE)))
        d = self.ask(NOW + 60 * MINUTE, status, reported=reported())
        assert (book(d).request_id, d.status.next_savepoint_at) == (ID, "2026-01-02T04:00:00Z")
        assert d.requeue_after is not None
        assert d.requeue_after > 60, "the driver's status enqueues the job, not the clock"

    def test_another_schedule_makes_up_for_nothing(self) -> None:
        d = self.ask(NOW + 60 * MINUTE, ran(nextSavepointAt="2026-01-02T03:30:00Z"))
        assert (d.actions, d.status.next_savepoint_at) == ((), "2026-01-02T05:00:00Z")

    def test_a_denser_schedule_counts_at_once(self) -> None:
        d = self.ask(NOW, ran(nextSavepointAt="2026-01-03T00:00:00Z"))
        assert d.status.next_savepoint_at == "2026-01-02T04:00:00Z"

    def test_a_stopped_job_misses_nothing(self) -> None:
        """What stops it takes a savepoint; while it is stopped nothing changes."""
        status = ran(phase="Stopped", pod=False, nextSavepointAt="2026-01-02T03:00:00Z")
        stopped = job(state="Stopped", status=status, savepoint=HOURLY)
        d = decide(observed(stopped, index=index(record())), NOW)
        assert (d.status.next_savepoint_at, d.status.savepoint_request, d.requeue_after) == (None, None, None)
        resumed = job(status=d.status.plain(), savepoint=HOURLY)
        d = decide(observed(resumed, index=index(record())), NOW)
        assert (d.status.next_savepoint_at, d.status.savepoint_request) == ("2026-01-02T04:00:00Z", None)

    def test_a_job_that_is_at_its_end_has_none(self) -> None:
        status = ran(phase="Failed", pod=False, nextSavepointAt="2026-01-02T03:00:00Z", restarts=failed())
        d = decide(observed(job(status=status, savepoint=HOURLY), index=index()), NOW)
        assert (d.status.next_savepoint_at, d.requeue_after) == (None, None)


class TestOutcome:
    def test_completed_is_what_the_index_has(self) -> None:
        o = runs(status=ran(**requested()), reported=reported(completed=saved(), over=True))
        d = decide(o, NOW)
        assert d.actions == (WriteIndex(index(saved()), "20"),)
        assert book(d).checkpoint is None
        o = runs(
            status=ran(**requested()), reported=reported(completed=saved(), over=True), index=index(saved())
        )
        d = decide(o, NOW)
        assert d.actions == (ConfirmCheckpoint(1, 1),)
        assert (book(d).checkpoint, d.status.savepoint and d.status.savepoint.latest) == (
            1,
            saved().savepoint,
        )

    def test_a_later_checkpoint_does_not_hide_it(self) -> None:
        """Both were durable before the controller looked again."""
        both = driver(
            savepoint=SavepointStatus(ID, completed=saved(1), over=True),
            completed=record(2, scenario=None, request=None),
        )
        d = decide(runs(status=ran(**requested()), reported=both), NOW)
        assert d.actions == (WriteIndex(index(saved(1), record(2, scenario=None, request=None)), "20"),)

    def test_progress_and_what_is_wrong_is_shown(self) -> None:
        assert book(
            look(runs(status=ran(**requested()), reported=reported(progress="copied 3 of 9 files")))[3]
        ).progress == ("copied 3 of 9 files")
        full = Problem("StorageFull", "no space", "Make room", True)
        d = look(runs(status=ran(**requested()), reported=reported(problem=full)))[3]
        assert (book(d).progress, book(d).failure) == ("no space. Make room", None)

    def test_aborted_by_the_driver_it_is_reported_and_the_job_runs_on(self) -> None:
        why = Problem(
            "SavepointAborted", f"savepoint {ID}: it was not done after 60 s: no space", "Make room"
        )
        o = runs(status=ran(**requested()), reported=reported(problem=why, over=True))
        phase, reason, do, d = look(o)
        assert (phase, reason, do) == (Phase.RUNNING, "Running", [])
        assert book(d).failure == f"{why.message}. Make room"
        (event,) = [e for e in events(o.job.status, d.status) if e.reason == "SavepointAborted"]
        assert event.warning
        assert "the job continues" in event.message

    def test_a_driver_that_dies_leaves_it_to_the_next(self) -> None:
        gone = ran(phase="Restarting", restarts=failed(again=-SECOND), **requested())
        d = decide(observed(job(generation=2, status=gone, savepoint={"nonce": 7}), index=index()), NOW)
        assert CreateDriver in [type(a) for a in d.actions]
        assert not book(d).over
        status = {**d.status.plain(), "startedEpoch": 2}
        o = runs(status=status, pods=[running(2)], reported=driver(epoch=2), index=index())
        (send,) = decide(o, NOW).actions
        assert isinstance(send, SendSavepoint)
        assert (send.request.request_id, send.request.epoch) == (ID, 2)

    def test_past_its_deadline_it_ends_without_a_report(self) -> None:
        late = requested(deadline=at(-2 * MINUTE))
        o = runs(status=ran(**late), reported=driver(DriverPhase.STARTING))
        d = decide(o, NOW)
        assert book(d).failure == f"it was not done until {at(-2 * MINUTE)}"

    def test_the_reconcile_at_the_deadline_is_scheduled(self) -> None:
        d = decide(runs(status=ran(**requested()), reported=reported()), NOW)
        assert d.requeue_after == 30 * 60

    def test_an_aborted_one_that_completes_late_counts(self) -> None:
        status = ran(**requested(failure="it was not done until then"))
        d = decide(runs(status=status, index=index(saved())), NOW)
        assert (book(d).checkpoint, book(d).failure) == (1, None)


class TestEnds:
    def test_a_stop_before_the_driver_has_acknowledged_ends_it(self) -> None:
        o = observed(
            job(state="Stopped", generation=3, status=ran(**requested()), savepoint={"nonce": 7}),
            pods=[running()],
            index=index(),
            reported=driver(),
        )
        d = decide(o, NOW)
        assert "savepoint of its own" in str(book(d).failure)

    def test_a_driver_that_has_acknowledged_reports_the_outcome(self) -> None:
        stopping = job(state="Stopped", generation=3, status=ran(**requested()), savepoint={"nonce": 7})
        o = observed(
            stopping, pods=[running()], index=index(), reported=reported(progress="copied 1 of 9 files")
        )
        assert not book(decide(o, NOW)).over
        o = observed(
            stopping, pods=[running()], index=index(), reported=reported(completed=saved(), over=True)
        )
        d = decide(o, NOW)
        assert d.actions == (WriteIndex(index(saved()), "20"),)
        gone = observed(stopping, pods=[exited()], index=index())
        assert book(decide(gone, NOW)).over

    def test_a_cancel_ends_it(self) -> None:
        o = observed(
            job(state="Cancelled", status=ran(**requested()), savepoint={"nonce": 7}), pods=[], index=index()
        )
        assert book(decide(o, NOW)).failure == "the job was cancelled"

    def test_requested_while_the_job_must_not_run_it_is_dropped_with_a_report(self) -> None:
        status = ran(phase="Stopped", pod=False, savepointNonce=6)
        stopped = job(state="Stopped", generation=2, status=status, savepoint={"nonce": 7})
        d = decide(observed(stopped, index=index(record())), NOW)
        assert d.status.savepoint_nonce == 7
        assert book(d).over
        again = decide(observed(stopped.model_copy(update={"status": d.status}), index=index(record())), NOW)
        assert again.status == d.status, "once"

    def test_requested_while_another_one_is_pending_it_is_answered_when_that_has_ended(self) -> None:
        """The status has one place for an answer, and the stop takes its time."""
        stopping = job(state="Stopped", generation=4, status=ran(**requested()), savepoint={"nonce": 8})
        o = observed(
            stopping, pods=[running()], index=index(), reported=reported(progress="copied 1 of 9 files")
        )
        d = decide(o, NOW)
        assert not book(d).over
        assert d.status.savepoint_nonce != 8
        # The driver gives it up for the stop; then the second one is answered, which no event brings about.
        o = observed(stopping, pods=[running()], index=index(), reported=reported(over=True))
        d = decide(o, NOW)
        assert (book(d).request_id, book(d).over) == (ID, True)
        assert d.requeue_after == 1.0
        o = replace(o, job=stopping.model_copy(update={"status": d.status}))
        d = decide(o, NOW)
        assert (book(d).request_id, d.status.savepoint_nonce) == ("savepoint-manual-4", 8)
        assert "savepoint of its own" in str(book(d).failure)
        assert [e.reason for e in events(o.job.status, d.status)] == ["SavepointAborted"]

    @pytest.mark.parametrize("phase", ["Finished", "Drained"])
    def test_requested_of_a_job_that_has_ended_it_is_answered(self, phase: str) -> None:
        last = record(1, scenario=Scenario.END_OF_INPUT)
        status = ran(phase=phase, pod=False, savepointNonce=6)
        d = decide(observed(job(generation=2, status=status, savepoint={"nonce": 7}), index=index(last)), NOW)
        assert (d.status.savepoint_nonce, book(d).failure) == (7, "the job has ended")

    def test_requested_together_with_running_it_waits_for_the_driver(self) -> None:
        status = ran(phase="Stopped", pod=False, savepointNonce=6)
        d = decide(
            observed(job(generation=2, status=status, savepoint={"nonce": 7}), index=index(record())), NOW
        )
        assert not book(d).over
        assert CreateDriver in [type(a) for a in d.actions]

    def test_nothing_is_sent_to_a_driver_that_is_ending(self) -> None:
        o = runs(status=ran(**requested()), reported=terminating())
        assert look(o)[2] == []

    def test_the_last_checkpoint_of_a_script_that_stopped_may_be_a_savepoint(self) -> None:
        """It requested no end: the job is not started again behind its script's back."""
        last = record(1, scenario=Scenario.STOP, request=ID)
        d = decide(
            observed(
                job(generation=2, status=ran(savepointNonce=7), savepoint={"nonce": 7}), index=index(last)
            ),
            NOW,
        )
        assert d.status.phase is Phase.FINISHED

    def test_a_job_that_has_just_come_to_its_end_waits_for_none(self) -> None:
        """One more reconcile reported it: an unnecessary write in a terminal phase."""
        status = ran(nextSavepointAt=timestamp(NOW + MINUTE))
        last = record(1, scenario=Scenario.END_OF_INPUT, request=None)
        ended = job(status=status, savepoint={"schedule": "*/2 * * * *"})
        d = decide(observed(ended, index=index(last)), NOW)
        assert (d.status.phase, d.status.next_savepoint_at) == (Phase.FINISHED, None)


def test_it_is_in_the_status_as_kubernetes_has_it() -> None:
    d = decide(runs(status=ran(savepointNonce=6)), NOW)
    assert Status.model_validate(d.status.plain()) == d.status
    assert d.status.plain()["savepointRequest"]["deadline"] == timestamp(NOW + 30 * MINUTE)
