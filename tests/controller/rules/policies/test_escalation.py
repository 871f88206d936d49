"""A stop or drain past its timeout becomes what `termination.escalation` declares, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamjob.api import Phase
from streamjob.controller.reports.events import events
from streamjob.controller.rules.actions import ConfirmCheckpoint, CreateDriver, DeletePod, SendTermination
from streamjob.controller.rules.context import Decision
from streamjob.controller.rules.decide import decide
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_status import TerminationStep

from ...factories import (
    MINUTE,
    NOW,
    SECOND,
    at,
    driver,
    exited,
    failed,
    index,
    is_ready,
    is_stalled,
    job,
    look,
    observed,
    ran,
    record,
    requested,
    running,
    terminating,
)

LATE = 11 * MINUTE


def draining(*escalation: str, state: str = "Drained", mode: str = "Drain", **status: Any) -> Any:
    """A job whose termination has been pending for longer than its timeout."""
    phase = "Draining" if mode == "Drain" else "Stopping"
    return job(
        state=state,
        status=ran(phase=phase, termination=requested(mode, ago=LATE)) | status,
        termination={"escalation": list(escalation)},
    )


def stopping(*escalation: str, **status: Any) -> Any:
    return draining(*escalation, state="Stopped", mode="Stop", **status)


def escalated(mode: str, state: str = "Drained", **more: Any) -> dict[str, Any]:
    fields = {"state": state, "mode": mode, "epoch": 1, "requestId": "drain-1-1", "since": at(-SECOND)}
    return {"escalation": {**fields, "waitedFor": "a batch", **more}}


def reported(mode: Mode) -> dict[str, Any]:
    return {
        "pods": [running()],
        "index": index(),
        "reported": terminating(mode, step=TerminationStep.BOUNDARY),
    }


def mode_of(d: Decision) -> str | None:
    return d.status.escalation.mode.value if d.status.escalation else None


class TestWhen:
    @pytest.mark.parametrize(
        ("declared", "drain", "stop"),
        [
            ([], None, None),
            (["Stop"], "Stop", None),
            (["Cancel"], "Cancel", "Cancel"),
            (["Stop", "Cancel"], "Stop", "Cancel"),
        ],
    )
    def test_only_what_is_declared_and_one_after_the_other(
        self, declared: list[str], drain: str | None, stop: str | None
    ) -> None:
        assert mode_of(look(observed(draining(*declared), **reported(Mode.DRAIN)))[3]) == drain
        assert mode_of(look(observed(stopping(*declared), **reported(Mode.STOP)))[3]) == stop

    def test_not_before_the_timeout(self) -> None:
        o = job(
            state="Drained",
            status=ran(phase="Draining", termination=requested("Drain", ago=9 * MINUTE)),
            termination={"escalation": ["Stop"]},
        )
        _, reason, do, d = look(observed(o, **reported(Mode.DRAIN)))
        assert (reason, do, mode_of(d), d.requeue_after) == ("Draining", [], None, 60)

    def test_it_is_recorded_before_any_action_and_reported(self) -> None:
        phase, reason, do, d = look(observed(draining("Stop"), **reported(Mode.DRAIN)))
        assert (phase, reason, do, d.requeue_after) == (Phase.STOPPING, "Escalated", [], 0)
        assert "the batch runs" in d.status.conditions[0].message, "what it has waited for"
        escalations = [e for e in events(draining("Stop").status, d.status) if e.reason == "Escalated"]
        assert [e.warning for e in escalations] == [True]

    def test_nor_of_what_has_ended_or_waits_for_a_person(self) -> None:
        done = stopping("Cancel", termination=requested(ago=LATE, finalCheckpoint=1))
        assert look(observed(done, index=index(record())))[0] is Phase.STOPPED
        o = observed(stopping("Cancel", phase="Failed", restarts=failed()), index=index())
        assert look(o)[:3] == (Phase.FAILED, "Failed", [])

    def test_no_driver_that_hangs_holds_it_up(self) -> None:
        """The index has a checkpoint that could not be confirmed to the driver."""
        hung: dict[str, Any] = {"pods": [running()], "index": index(record(1, 1, None)), "silent": 40.0}
        reported = replace(terminating(), completed=record(1, 1, None))
        assert look(observed(stopping("Cancel"), reported=reported, **(hung | {"silent": 0.0})))[2] == [
            ConfirmCheckpoint
        ]
        assert mode_of(look(observed(stopping("Cancel"), reported=reported, **hung))[3]) == "Cancel"
        cancelled = job(state="Cancelled", status=ran(termination=requested()))
        assert look(observed(cancelled, reported=reported, **(hung | {"silent": 0.0})))[2] == [DeletePod]

    @pytest.mark.parametrize(
        ("declared", "mode"), [(["Stop"], None), (["Cancel"], "Cancel"), (["Stop", "Cancel"], "Cancel")]
    )
    def test_nothing_is_left_to_stop_when_the_final_checkpoint_is_in_the_index(
        self, declared: list[str], mode: str | None
    ) -> None:
        done = draining(*declared, termination=requested("Drain", ago=LATE, finalCheckpoint=1))
        final = index(record(1, 1, Scenario.DRAIN, request="drain-1-1"))
        reported = terminating(Mode.DRAIN, step=TerminationStep.CLOSED)
        _, reason, do, d = look(observed(done, pods=[running()], index=final, reported=reported))
        assert (mode_of(d), do) == (mode, [])
        assert reason == ("Escalated" if mode else "TerminationTimedOut")
        if mode:
            o = observed(done.model_copy(update={"status": d.status}), pods=[running()], index=final)
            assert look(o)[2] == [DeletePod]
            assert look(replace(o, pods=()))[0] is Phase.DRAINED

    def test_a_deletion_has_an_escalation_of_its_own(self) -> None:
        o = job(
            state="Stopped",
            deleted=5 * MINUTE,
            status=ran(termination=requested(ago=LATE)),
            termination={"escalation": ["Cancel"], "stopTimeout": "10m"},
        )
        assert mode_of(look(observed(o, **reported(Mode.STOP)))[3]) is None

    def test_an_upgrade_is_never_cancelled(self) -> None:
        status = ran(termination=requested(ago=LATE) | {"requestId": "upgrade-1-2"})
        o = job(status=status, termination={"escalation": ["Cancel"]})
        reported = terminating(request="upgrade-1-2")
        assert look(observed(o, pods=[running()], index=index(), reported=reported))[:3] == (
            Phase.STOPPING,
            "TerminationTimedOut",
            [],
        )


class TestDrainToStop:
    def test_the_driver_that_drains_is_killed(self) -> None:
        o = observed(draining("Stop", **escalated("Stop")), **reported(Mode.DRAIN))
        assert look(o)[3].actions == (DeletePod("orders-driver-1", "pod-1", grace=1),)

    def test_so_is_one_that_answers_nobody(self) -> None:
        o = observed(draining("Stop", **escalated("Stop")), pods=[running()], index=index(), silent=40)
        assert look(o)[2] == [DeletePod]

    def test_but_one_that_never_got_the_drain_is_asked_to_stop(self) -> None:
        o = observed(
            draining("Stop", **escalated("Stop")), pods=[running()], index=index(), reported=driver()
        )
        (action,) = look(o)[3].actions
        assert isinstance(action, SendTermination)
        assert action.request.mode is Mode.STOP

    @pytest.mark.parametrize("policy", ["OnFailure", "Never"])
    def test_the_next_one_begins_at_once_and_stops(self, policy: str) -> None:
        """Its death is not a failure, and `restart` does not forbid to continue."""
        wanted = draining("Stop", **escalated("Stop"))
        wanted = wanted.model_copy(
            update={
                "spec": wanted.spec.model_copy(
                    update={"restart": job(restart={"policy": policy}).spec.restart}
                )
            }
        )
        _, reason, do, d = look(observed(wanted, pods=[exited(137)], index=index()))
        assert (reason, do, d.requeue_after) == ("Escalated", [], 0)
        *_, d = look(observed(wanted.model_copy(update={"status": d.status}), index=index()))
        (made,) = [a for a in d.actions if isinstance(a, CreateDriver)]
        assert made.config.termination is not None
        assert (made.config.termination.request_id, made.config.termination.mode) == ("stop-2-1", Mode.STOP)
        assert d.status.termination is not None
        assert d.status.termination.deadline == at(10 * MINUTE), "bounded by the stop's own timeout"

    def test_stopped_it_reports_its_savepoint_and_the_remedy(self) -> None:
        status = ran(2, "Stopping", termination=requested(epoch=2, finalCheckpoint=1)) | escalated("Stop")
        wanted = job(state="Drained", status=status, termination={"escalation": ["Stop"]})
        phase, reason, do, d = look(observed(wanted, index=index(record(1, 2, request="stop-2-1"))))
        assert (phase, reason, do) == (Phase.STOPPED, "Escalated", [])
        assert is_stalled(d)
        message = d.status.conditions[0].message
        assert "a batch" in message
        assert "file:///data/sp/x/stop-2-1" in message
        assert "Cancelled" in message

    def test_and_drained_if_the_timers_had_fired(self) -> None:
        status = ran(2, "Stopping", termination=requested(epoch=2, finalCheckpoint=2)) | escalated("Stop")
        wanted = job(state="Drained", status=status, termination={"escalation": ["Stop"]})
        done = record(2, 2, Scenario.DRAIN, request="stop-2-1")
        assert look(observed(wanted, index=index(done)))[0] is Phase.DRAINED

    def test_a_stop_that_takes_too_long_as_well_is_cancelled(self) -> None:
        later = escalated("Stop", since=at(-LATE))
        status = ran(2, termination=requested(epoch=2, ago=LATE)) | later
        wanted = job(state="Drained", status=status, termination={"escalation": ["Stop", "Cancel"]})
        o = observed(wanted, pods=[running(2)], index=index(), reported=terminating(epoch=2))
        assert mode_of(look(o)[3]) == "Cancel"

    def test_which_has_its_own_time_also_before_a_driver_could_get_it(self) -> None:
        o = observed(draining("Stop", "Cancel", **escalated("Stop")), index=index(), pods=[exited(137)])
        assert mode_of(look(o)[3]) == "Stop"


class TestCancel:
    def test_the_driver_is_killed(self) -> None:
        o = observed(stopping("Cancel", **escalated("Cancel", "Stopped")), **reported(Mode.STOP))
        assert look(o)[3].actions == (DeletePod("orders-driver-1", "pod-1", grace=1),)

    def test_and_the_job_rests_without_a_savepoint(self) -> None:
        wanted = stopping("Cancel", **escalated("Cancel", "Stopped"))
        phase, reason, do, d = look(observed(wanted, index=index()))
        assert (phase, reason, do) == (Phase.CANCELLED, "Escalated", [])
        assert is_stalled(d)
        assert "no savepoint" in d.status.conditions[0].message
        again = look(observed(wanted.model_copy(update={"status": d.status}), index=index()))[3]
        assert (again.actions, again.status) == ((), d.status), "no driver begins only to be stopped"

    def test_a_savepoint_that_was_taken_before_is_reported(self) -> None:
        """The driver had its final checkpoint in the index, and did not leave."""
        wanted = stopping(
            "Cancel", termination=requested(ago=LATE, finalCheckpoint=1), **escalated("Cancel", "Stopped")
        )
        phase, _, _, d = look(observed(wanted, index=index(record())))
        assert phase is Phase.STOPPED
        assert is_ready(d)
        assert "file:///data/sp/x/stop-1-1" in d.status.conditions[0].message

    def test_another_state_is_a_new_request(self) -> None:
        wanted = job(
            state="Running",
            generation=2,
            status=ran(phase="Cancelled", pod=False) | escalated("Cancel", "Stopped"),
        )
        d = decide(observed(wanted, index=index()), NOW)
        assert d.status.escalation is None
        assert any(isinstance(a, CreateDriver) for a in d.actions)


def test_what_waited_for_a_person_has_its_time_again() -> None:
    """A drain has failed for good, and somebody starts it again when its timeout has long passed."""
    waited = job(
        state="Drained",
        generation=2,
        status=ran(phase="Failed", pod=False, termination=requested("Drain", ago=LATE), restarts=failed()),
        termination={"escalation": ["Stop"], "drainTimeout": "10m"},
    )
    *_, d = look(observed(waited, index=index(record(scenario=None))))
    (made,) = [a for a in d.actions if isinstance(a, CreateDriver)]
    assert made.config.termination is not None
    assert (made.config.termination.request_id, made.config.termination.mode) == ("drain-1-1", Mode.DRAIN)
    assert d.status.termination is not None
    assert d.status.termination.deadline == at(10 * MINUTE)
