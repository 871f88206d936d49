"""Deletion, older epochs, an unreadable index: what is observed → phase, reason and actions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamjob.api import Phase
from streamjob.controller.rules.actions import (
    Action,
    CreateDriver,
    DeletePod,
    EnsureSecret,
    SendTermination,
    SetFinalizer,
    WriteIndex,
)
from streamjob.controller.rules.context import Decision
from streamjob.controller.rules.decide import decide
from streamjob.protocol.messages.driver_status import DriverPhase, Problem

from ..factories import (
    MINUTE,
    NOW,
    SECOND,
    driver,
    exited,
    failed,
    index,
    is_stalled,
    job,
    look,
    observed,
    pod,
    ran,
    record,
    requested,
    running,
    terminating,
)

RESUMED = {"latest": 1, "epoch": 1, "completedAt": "2026-01-02T03:04:00Z"}


class TestNamespace:
    """It is being deleted, and has refused the next driver."""

    def test_the_finalizer_goes_before_the_job_is_deleted(self) -> None:
        saved = record(2, 1, request="eviction-1")
        o = observed(job(status=ran()), index=index(saved), namespace_ends=True)
        _, reason, do, d = look(o)
        assert (reason, do) == ("NamespaceTerminating", [SetFinalizer])
        assert d.actions == (SetFinalizer(False),)
        assert is_stalled(d)
        assert d.status.last_error is not None
        assert str(saved.savepoint) in d.status.last_error.remedy

    def test_it_does_not_come_back(self) -> None:
        o = observed(job(status=ran(), finalizer=False), index=index(record(2, 1)), namespace_ends=True)
        assert look(o)[2] == []

    def test_an_end_that_has_begun_is_not_waited_for(self) -> None:
        stages = [{"uid": "windows"}]
        status = ran(
            phase="Restarting", termination=requested(), restarts=failed(again=-SECOND), stages=stages
        )
        o = observed(job(deleted=SECOND, status=status), index=index(), namespace_ends=True)
        assert look(o)[2] == [SetFinalizer]

    def test_a_driver_that_lives_is_left_to_its_end(self) -> None:
        o = observed(
            job(status=ran()), pods=[running()], index=index(), reported=driver(), namespace_ends=True
        )
        assert look(o)[2] == []


class TestDeletion:
    def test_stops_a_running_driver(self) -> None:
        o = observed(job(deleted=SECOND, status=ran()), pods=[running()], index=index(), reported=driver())
        phase, _, do, _ = look(o)
        assert (phase, do) == (Phase.STOPPING, [SendTermination])

    @pytest.mark.parametrize("status", [ran(), ran(2, checkpoint=RESUMED), ran(termination=requested())])
    @pytest.mark.parametrize("on_delete", ["Stop", "Drain"])
    def test_a_driver_that_has_started_no_query_leaves_at_once(
        self, status: dict[str, Any], on_delete: str
    ) -> None:
        """A first one, or one that resumes: nothing new is there to save."""
        epoch = status["epoch"]
        spec: dict[str, Any] = {"termination": {"onDelete": on_delete}}
        known = index(record()) if epoch > 1 else index()
        idle = replace(driver(DriverPhase.STARTING, epoch), stages=())
        o = observed(
            job(deleted=SECOND, status=status, **spec), pods=[running(epoch)], index=known, reported=idle
        )
        (action,) = look(o)[3].actions
        assert action == DeletePod(f"orders-driver-{epoch}", f"pod-{epoch}"), (
            "SIGTERM, and time for a savepoint"
        )
        leaving = replace(o, pods=(running(epoch, deleting=True, grace=60),))
        assert look(leaving)[2] == []
        evicted = replace(idle, evicted=True)
        left = replace(o, pods=(exited(0, epoch, report=evicted, deleting=True),), driver=None)
        d = look(left)[3]
        assert d.status.restarts is None, "that is no failure"
        after = observed(job(deleted=SECOND, status=d.status.plain(), **spec), index=known)
        assert look(after)[3].actions == (SetFinalizer(False),)

    def test_a_driver_whose_container_has_not_run_goes_unless_it_starts_just_now(self) -> None:
        status = ran(phase="Starting", startedEpoch=0)
        o = observed(job(deleted=SECOND, status=status), pods=[pod()], index=index())
        d = look(o)[3]
        assert d.actions == (DeletePod("orders-driver-1", "pod-1", "5"),)
        after = observed(job(deleted=SECOND, status=d.status.plain()), index=index())
        assert look(after)[3].actions == (SetFinalizer(False),)

    def test_one_that_has_not_answered_yet_is_waited_for(self) -> None:
        o = observed(job(deleted=SECOND, status=ran(phase="Starting")), pods=[running()], index=index())
        d = look(o)[3]
        assert (d.actions, d.status.termination, d.requeue_after) == ((), None, 599)

    def test_a_stop_that_had_begun_before_is_finished(self) -> None:
        """The user has asked for that savepoint, and a driver before has processed what it would have."""
        status = ran(2, termination=requested(epoch=2), stages=[{"uid": "windows"}])
        idle = replace(driver(DriverPhase.STARTING, 2), stages=())
        o = observed(job(deleted=SECOND, status=status), pods=[running(2)], index=index(), reported=idle)
        assert look(o)[2] == [SendTermination]

    @pytest.mark.parametrize(("on_delete", "action"), [("Drain", SendTermination), ("Cancel", DeletePod)])
    def test_on_delete_decides_the_action(self, on_delete: str, action: type[Action]) -> None:
        spec: dict[str, Any] = {"termination": {"onDelete": on_delete}}
        o = observed(
            job(deleted=SECOND, status=ran(), **spec), pods=[running()], index=index(), reported=driver()
        )
        assert look(o)[2] == [action]

    def test_it_is_requeued_at_the_timeout(self) -> None:
        o = observed(
            job(deleted=MINUTE, status=ran(termination=requested())),
            pods=[running()],
            index=index(),
            reported=terminating(),
        )
        assert look(o)[3].requeue_after == 540

    def test_past_its_timeout_it_cancels(self) -> None:
        status = ran(termination=requested(ago=11 * MINUTE))
        o = observed(
            job(deleted=11 * MINUTE, status=status), pods=[running()], index=index(), reported=terminating()
        )
        assert look(o)[2] == [DeletePod]

    def test_past_its_timeout_it_does_not_wait_for_the_index(self) -> None:
        """In a namespace that is being deleted, no ConfigMap can be created: the finalizer stayed forever."""
        o = observed(
            job(deleted=11 * MINUTE, status=ran(termination=requested(ago=11 * MINUTE), pod=False)),
            reported=terminating(completed=record()),
        )
        assert look(o)[3].actions == (SetFinalizer(False),)

    @pytest.mark.parametrize("state", ["Running", "Stopped", "Drained", "Cancelled"])
    def test_the_finalizer_goes_when_nothing_lives(self, state: str) -> None:
        for known in (index(record()), None):
            o = observed(
                job(state=state, deleted=SECOND, status=ran(phase="Stopped", pod=False)), index=known
            )
            assert look(o)[3].actions == (SetFinalizer(False),)

    def test_also_without_a_readable_index(self) -> None:
        broken = Problem("UnknownFormatVersion", "version 9", "Upgrade")
        o = observed(job(deleted=SECOND, status=ran()), index_problem=broken)
        assert look(o)[3].actions == (SetFinalizer(False),)

    def test_also_when_the_job_has_failed(self) -> None:
        status = ran(phase="Failed", restarts=failed(), termination=requested())
        for pods in ([exited(1)], []):  # the garbage collector deletes the pod with the job
            o = observed(job(deleted=SECOND, status=status), pods=pods, index=index())
            assert look(o)[2] == [SetFinalizer]

    def test_a_stop_that_had_begun_is_brought_to_its_end(self) -> None:
        stages = [{"uid": "windows"}]
        status = ran(
            phase="Restarting", termination=requested(), restarts=failed(again=-SECOND), stages=stages
        )
        o = observed(job(deleted=SECOND, status=status), index=index())
        assert look(o)[2] == [EnsureSecret, CreateDriver]

    def test_a_job_that_never_started_a_query_is_not_started_again(self) -> None:
        status = ran(phase="Restarting", termination=requested(), restarts=failed(again=-SECOND))
        gone = look(observed(job(deleted=SECOND, status=status), index=index()))
        assert gone[2] == [SetFinalizer]

    def test_without_our_finalizer_nothing_is_done(self) -> None:
        o = observed(job(deleted=SECOND, finalizer=False, status=ran()), pods=[running()], reported=driver())
        assert decide(o, NOW) == Decision(o.job.status)


class TestFencing:
    def test_a_driver_of_an_older_epoch_is_removed(self) -> None:
        o = observed(
            job(status=ran(2)), pods=[running(1), running(2)], index=index(), reported=driver(epoch=2)
        )
        assert look(o)[3].actions == (DeletePod("orders-driver-1", "pod-1", grace=1),)

    @pytest.mark.parametrize("phase", ["Stopped", "Drained", "Finished", "Cancelled"])
    @pytest.mark.parametrize("state", ["Running", "Stopped"])
    def test_a_driver_that_is_created_late_goes_before_it_starts(self, state: str, phase: str) -> None:
        """An older controller's creation, from before the job came to rest."""
        o = observed(
            job(state=state, status=ran(phase=phase, pod=False)), pods=[pod()], index=index(record())
        )
        d = look(o)[3]
        assert d.actions == (DeletePod("orders-driver-1", "pod-1", "5", 1),)
        assert d.status.driver is None, "nothing asks for it"

    def test_so_does_one_that_takes_the_name_of_one_that_has_lived(self) -> None:
        status = ran(phase="Restarting", restarts=failed(again=MINUTE))
        o = observed(job(status=status), pods=[replace(pod(), uid="late")], index=index())
        d = look(o)[3]
        assert d.actions == (DeletePod("orders-driver-1", "late", "5", 1),)
        assert d.status.driver == o.job.status.driver

    def test_one_that_has_started_is_ended_in_order(self) -> None:
        status = ran(phase="Stopped", pod=False)
        o = observed(job(state="Stopped", status=status), pods=[running()], index=index(), reported=driver())
        assert look(o)[2] == [SendTermination]

    def test_nothing_begins_while_a_pod_is_left(self) -> None:
        leaving = running(1, deleting=True)
        status = {"epoch": 2, "startedEpoch": 1, "phase": "Cancelled"}
        assert look(observed(job(status=status), pods=[leaving], index=index()))[2] == []

    def test_a_lost_status_does_not_turn_the_epoch_back(self) -> None:
        *_, d = look(observed(job(), pods=[running(5)], index=index(), reported=driver(epoch=5)))
        assert (d.status.epoch, d.status.started_epoch, d.actions) == (5, 5, ())

    def test_a_record_of_another_epoch_is_not_taken(self) -> None:
        old = driver(epoch=2, completed=record(1, 1))
        o = observed(job(status=ran(2)), pods=[running(2)], index=index(), reported=old)
        assert WriteIndex not in look(o)[2]


class TestName:
    def test_the_savepoint_of_a_deletion_names_its_cause(self) -> None:
        """By its name, which is in its manifest too; one that was requested before keeps its own."""
        o = observed(job(deleted=SECOND, status=ran()), pods=[running()], index=index(), reported=driver())
        (tell,) = [a for a in decide(o, NOW).actions if isinstance(a, SendTermination)]
        assert tell.request.request_id == "delete-1-1"
        assert str(tell.request.savepoint).endswith("/delete-1-1")
        before = job(deleted=SECOND, status=ran(termination=requested()))
        o = observed(before, pods=[running()], index=index(), reported=driver())
        (tell,) = [a for a in decide(o, NOW).actions if isinstance(a, SendTermination)]
        assert tell.request.request_id == "stop-1-1"


class TestIndex:
    def test_without_it_nothing_begins(self) -> None:
        gone = Problem("IndexMissing", "gone", "Restore it")
        status = ran(phase="Stopped", pod=False)
        _, reason, do, d = look(observed(job(status=status), index_problem=gone))
        assert (reason, do) == ("IndexMissing", [])
        assert is_stalled(d)

    def test_a_number_that_is_taken_stops_everything(self) -> None:
        other = record(1, 1, request="stop-1-9")
        reported = terminating(completed=record())
        o = observed(
            job(state="Stopped", status=ran(termination=requested())),
            pods=[running()],
            index=index(other),
            reported=reported,
        )
        assert look(o)[1:3] == ("IndexConflict", [])

    def test_an_index_that_was_never_written_is_made(self) -> None:
        reported = terminating(completed=record())
        o = observed(
            job(state="Stopped", status=ran(termination=requested())), pods=[running()], reported=reported
        )
        assert look(o)[3].actions == (WriteIndex(index(record()), None),)
