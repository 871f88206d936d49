"""A job is stopped: what is observed → phase, reason and what is done."""

from __future__ import annotations

import pytest

from streamjob.api import Phase
from streamjob.controller.reports.messages import STEPS
from streamjob.controller.rules.actions import (
    ConfirmCheckpoint,
    CreateDriver,
    DeletePod,
    EnsureSecret,
    SendTermination,
    WriteIndex,
    completed_token,
)
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.messages.driver_status import DriverPhase, Problem, TerminationStep

from ..factories import (
    MINUTE,
    SECOND,
    UID,
    driver,
    exited,
    failed,
    index,
    is_ready,
    job,
    look,
    observed,
    ran,
    record,
    requested,
    running,
    terminating,
)


class TestStop:
    def test_the_intent_is_recorded_and_then_sent_to_the_driver(self) -> None:
        o = observed(
            job(state="Stopped", generation=4, status=ran()),
            pods=[running()],
            index=index(),
            reported=driver(),
        )
        phase, _, _, d = look(o)
        target = f"file:///data/sp/shop-orders-{UID[:8]}/stop-1-4"
        assert phase is Phase.STOPPING
        assert d.actions == (SendTermination(TerminationRequest("stop-1-4", 1, Mode.STOP, target, 600.0)),)
        t = d.status.termination
        assert t is not None
        assert (t.request_id, t.mode, t.savepoint) == ("stop-1-4", "Stop", target)
        assert t.deadline == "2026-01-02T03:14:05Z"

    def test_a_driver_that_does_not_answer_yet_gets_the_request_when_it_does(self) -> None:
        phase, _, do, d = look(observed(job(state="Stopped", status=ran()), pods=[running()], index=index()))
        assert (phase, do) == (Phase.STOPPING, [])
        later = job(state="Stopped", status=d.status.plain())
        *_, d2 = look(observed(later, pods=[running()], index=index(), reported=driver(DriverPhase.STARTING)))
        assert [type(a) for a in d2.actions] == [SendTermination]
        assert d2.status.termination == d.status.termination, "the same request, the same deadline"

    def test_a_command_that_was_taken_is_not_repeated(self) -> None:
        status = ran(termination=requested())
        o = observed(
            job(state="Stopped", status=status),
            pods=[running()],
            index=index(),
            reported=driver(),
            acknowledged=frozenset({"stop-1-1"}),
        )
        assert look(o)[2] == []
        assert "its script has not started all its queries yet" in look(o)[3].status.conditions[0].message

    def test_progress_is_shown(self) -> None:
        reported = terminating(step=TerminationStep.SNAPSHOT)
        *_, d = look(
            observed(
                job(state="Stopped", status=ran(termination=requested())),
                pods=[running()],
                index=index(),
                reported=reported,
            )
        )
        assert d.status.termination is not None
        assert (d.status.termination.step, d.status.termination.progress) == (
            "WritingSavepoint",
            "the batch runs",
        )

    def test_a_durable_checkpoint_goes_into_the_index(self) -> None:
        reported = terminating(step=TerminationStep.COMPLETING, completed=record())
        o = observed(
            job(state="Stopped", status=ran(termination=requested())),
            pods=[running()],
            index=index(),
            reported=reported,
        )
        assert look(o)[3].actions == (WriteIndex(index(record()), "20"),)

    def test_then_it_is_confirmed_to_the_driver(self) -> None:
        reported = terminating(step=TerminationStep.COMPLETING, completed=record())
        o = observed(
            job(state="Stopped", status=ran(termination=requested())),
            pods=[running()],
            index=index(record()),
            reported=reported,
        )
        _, _, _, d = look(o)
        assert d.actions == (ConfirmCheckpoint(1, 1),)
        assert d.status.termination is not None
        assert d.status.termination.final_checkpoint == 1
        taken = observed(
            o.job,
            pods=[running()],
            index=index(record()),
            reported=reported,
            acknowledged=frozenset({completed_token(1)}),
        )
        assert look(taken)[2] == [], "and then it is waited for"

    def test_the_pod_goes_when_it_has_exited(self) -> None:
        o = observed(
            job(state="Stopped", status=ran(termination=requested())),
            pods=[exited()],
            index=index(record()),
            reported=driver(DriverPhase.TERMINATED, completed=record()),
        )
        assert look(o)[3].actions == (DeletePod("orders-driver-1", "pod-1"),)

    def test_and_the_job_is_stopped(self) -> None:
        phase, reason, do, d = look(
            observed(job(state="Stopped", status=ran(termination=requested())), index=index(record()))
        )
        assert (phase, reason, do) == (Phase.STOPPED, "Stopped", [])
        assert is_ready(d)
        assert d.status.checkpoint is not None
        assert d.status.checkpoint.latest == 1
        assert d.status.savepoint is not None
        assert not d.status.savepoint.drained

    def test_a_controller_that_was_away_learns_it_from_the_final_report(self) -> None:
        report = driver(DriverPhase.TERMINATED, completed=record())
        o = observed(
            job(state="Stopped", status=ran(termination=requested())),
            pods=[exited(report=report)],
            index=index(),
        )
        assert look(o)[3].actions == (WriteIndex(index(record()), "20"),)

    def test_resumed_in_a_new_epoch_exactly_where_it_ended(self) -> None:
        status = ran(phase="Stopped", pod=False, termination=requested(finalCheckpoint=1))
        _, _, do, d = look(observed(job(status=status), index=index(record())))
        config = next(a for a in d.actions if isinstance(a, CreateDriver)).config
        assert do == [EnsureSecret, CreateDriver]
        assert (config.epoch, config.next_checkpoint, config.termination) == (2, 2, None)
        assert config.restore.latest == record()
        assert config.restore.exact
        assert d.status.termination is None

    def test_a_stop_that_was_never_sent_can_be_revoked(self) -> None:
        o = observed(
            job(status=ran(termination=requested())), pods=[running()], index=index(), reported=driver()
        )
        phase, _, do, d = look(o)
        assert (phase, do, d.status.termination) == (Phase.RUNNING, [], None)

    def test_a_stop_that_was_sent_is_finished_and_then_the_job_resumes(self) -> None:
        status = ran(termination=requested())
        o = observed(job(status=status), pods=[running()], index=index(), reported=terminating())
        assert look(o)[:3] == (Phase.STOPPING, "Stopping", [])
        done = observed(job(status=status), index=index(record()))
        assert look(done)[2] == [EnsureSecret, CreateDriver]

    def test_the_driver_dies_in_mid_stop_and_another_continues_with_the_same_request(self) -> None:
        status = ran(termination=requested(), restarts=failed(again=-SECOND), phase="Restarting")
        _, _, do, d = look(observed(job(state="Stopped", status=status), index=index()))
        config = next(a for a in d.actions if isinstance(a, CreateDriver)).config
        assert do == [EnsureSecret, CreateDriver]
        assert config.termination is not None
        assert (config.termination.request_id, config.termination.epoch) == ("stop-1-1", 2)
        assert config.termination.timeout == 600.0
        assert not config.restore.exact

    @pytest.mark.parametrize("step", list(TerminationStep))
    def test_a_step_without_progress_is_said_in_words(self, step: TerminationStep) -> None:
        reported = terminating(step=step, progress="")
        status = ran(termination=requested())
        o = observed(job(state="Stopped", status=status), pods=[running()], index=index(), reported=reported)
        message = look(o)[3].status.conditions[0].message
        assert message == f"{STEPS[step]}."
        assert step.value not in message.split()

    def test_past_the_deadline_it_reports_what_it_waits_for(self) -> None:
        reported = terminating(
            step=TerminationStep.SNAPSHOT, problem=Problem("StorageFull", "no space", "Make room", True)
        )
        status = ran(termination=requested(ago=11 * MINUTE))
        phase, reason, do, d = look(
            observed(job(state="Stopped", status=status), pods=[running()], index=index(), reported=reported)
        )
        assert (phase, reason, do) == (Phase.STOPPING, "TerminationTimedOut", [])
        message = d.status.conditions[0].message
        assert "; now: the batch runs." in message
        assert "no space. Make room." in message
        assert "Cancelled" in message
        assert d.status.last_error is not None
        assert d.status.last_error.reason == "StorageFull"
