"""The manual of the controller, row by row: what is observed → phase, reason and what is done."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from streamjob.api import ConditionType, Phase
from streamjob.controller.actions import (
    Action,
    ConfirmCheckpoint,
    CreateDriver,
    DeletePod,
    EnsureSecret,
    SendTermination,
    SetFinalizer,
    WriteIndex,
)
from streamjob.controller.case import Decision
from streamjob.controller.decide import decide
from streamjob.controller.drivers import completed_token
from streamjob.controller.observe import Observed
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages import DriverPhase, Mode, Problem, Step, TerminationRequest

from .given import (
    MINUTE,
    NOW,
    UID,
    asked,
    driver,
    exited,
    failed,
    index,
    job,
    observed,
    pod,
    ran,
    record,
    running,
    terminating,
    unschedulable,
    waiting,
)

SECOND = timedelta(seconds=1)
DRAINED = record(2, 1, Scenario.DRAIN, request="drain-1-1")
OUT_OF_INPUT = record(2, 1, Scenario.END_OF_INPUT, request=None)
TRANSIENT = Problem("QueryFailed", "the broker is away", "Wait for it", retryable=True)
FATAL = Problem("ScriptFailed", "syntax error in line 3", "Mend the script")


def look(o: Observed) -> tuple[Phase | None, str, list[type[Action]], Decision]:
    """Phase, reason of Ready, kinds of actions, and the whole decision."""
    d = decide(o, NOW)
    ready = d.status.condition(ConditionType.READY)
    return d.status.phase, ready.reason if ready else "", [type(a) for a in d.actions], d


def is_stalled(d: Decision) -> bool:
    condition = d.status.condition(ConditionType.STALLED)
    return condition is not None and condition.status == "True"


def is_ready(d: Decision) -> bool:
    condition = d.status.condition(ConditionType.READY)
    return condition is not None and condition.status == "True"


class TestBeginning:
    def test_the_finalizer_comes_first(self) -> None:
        phase, _, do, _ = look(observed(job(finalizer=False)))
        assert (phase, do) == (Phase.PENDING, [SetFinalizer])

    def test_then_secret_index_and_driver_in_this_order(self) -> None:
        phase, reason, do, d = look(observed(job()))
        assert (phase, reason, do) == (Phase.STARTING, "Starting", [EnsureSecret, WriteIndex, CreateDriver])
        assert d.status.epoch == 1, "the epoch is recorded before its driver is made"
        assert d.status.driver is not None
        assert d.status.driver.uid is None

    def test_a_driver_that_may_not_have_been_created_is_created_again_in_the_same_epoch(self) -> None:
        status = {"phase": "Starting", "epoch": 3, "startedEpoch": 2, "driver": {"pod": "orders-driver-3"}}
        _, _, do, d = look(observed(job(status=status), index=index()))
        assert do == [EnsureSecret, CreateDriver]
        assert d.status.epoch == 3

    def test_a_job_that_is_stopped_from_the_start_never_begins(self) -> None:
        phase, _, do, d = look(observed(job(state="Stopped", finalizer=False)))
        assert (phase, do) == (Phase.STOPPED, [])
        assert is_ready(d)

    def test_the_first_driver_restores_the_named_savepoint(self) -> None:
        wanted = {"savepoint": "file:///data/sp/other/x", "allowDrained": True}
        *_, d = look(observed(job(restoreFrom=wanted)))
        config = next(a for a in d.actions if isinstance(a, CreateDriver)).config
        assert config.restore.savepoint == wanted["savepoint"]
        assert config.restore.allow_drained

    @pytest.mark.parametrize(
        ("says", "expected"),
        [
            (None, Phase.STARTING),
            (driver(DriverPhase.STARTING), Phase.STARTING),
            (driver(), Phase.RUNNING),
        ],
    )
    def test_starting_until_a_query_runs(self, says: Any, expected: Phase) -> None:
        phase, _, do, d = look(observed(job(status=ran()), pods=[running()], index=index(), says=says))
        assert (phase, do) == (expected, [])
        assert is_ready(d) == (expected is Phase.RUNNING)

    def test_at_rest_nothing_is_written(self) -> None:
        o = observed(job(status=ran()), pods=[running()], index=index(), says=driver())
        first = decide(o, NOW)
        again = observed(job(status=first.status.plain()), pods=[running()], index=index(), says=driver())
        assert decide(again, NOW + MINUTE) == Decision(first.status)


class TestStop:
    def test_the_intent_is_recorded_and_then_the_driver_is_told(self) -> None:
        o = observed(
            job(state="Stopped", generation=4, status=ran()), pods=[running()], index=index(), says=driver()
        )
        phase, _, _, d = look(o)
        target = f"file:///data/sp/shop-orders-{UID[:8]}/stop-1-4"
        assert phase is Phase.STOPPING
        assert d.actions == (SendTermination(TerminationRequest("stop-1-4", 1, Mode.STOP, target)),)
        t = d.status.termination
        assert t is not None
        assert (t.request_id, t.mode, t.savepoint) == ("stop-1-4", "Stop", target)
        assert t.deadline == "2026-01-02T03:14:05Z"

    def test_a_driver_that_does_not_answer_yet_is_told_when_it_does(self) -> None:
        phase, _, do, d = look(observed(job(state="Stopped", status=ran()), pods=[running()], index=index()))
        assert (phase, do) == (Phase.STOPPING, [])
        later = job(state="Stopped", status=d.status.plain())
        *_, d2 = look(observed(later, pods=[running()], index=index(), says=driver(DriverPhase.STARTING)))
        assert [type(a) for a in d2.actions] == [SendTermination]
        assert d2.status.termination == d.status.termination, "the same request, the same deadline"

    def test_a_command_that_was_taken_is_not_repeated(self) -> None:
        status = ran(termination=asked())
        o = observed(
            job(state="Stopped", status=status),
            pods=[running()],
            index=index(),
            says=driver(),
            acknowledged=frozenset({"stop-1-1"}),
        )
        assert look(o)[2] == []

    def test_progress_is_shown(self) -> None:
        says = terminating(step=Step.SNAPSHOT)
        *_, d = look(
            observed(
                job(state="Stopped", status=ran(termination=asked())),
                pods=[running()],
                index=index(),
                says=says,
            )
        )
        assert d.status.termination is not None
        assert (d.status.termination.step, d.status.termination.progress) == (
            "WritingSavepoint",
            "the batch runs",
        )

    def test_a_durable_checkpoint_goes_into_the_index(self) -> None:
        says = terminating(step=Step.COMPLETING, completed=record())
        o = observed(
            job(state="Stopped", status=ran(termination=asked())), pods=[running()], index=index(), says=says
        )
        assert look(o)[3].actions == (WriteIndex(index(record()), "20"),)

    def test_then_the_driver_is_told_that_it_is_there(self) -> None:
        says = terminating(step=Step.COMPLETING, completed=record())
        o = observed(
            job(state="Stopped", status=ran(termination=asked())),
            pods=[running()],
            index=index(record()),
            says=says,
        )
        _, _, _, d = look(o)
        assert d.actions == (ConfirmCheckpoint(1, 1),)
        assert d.status.termination is not None
        assert d.status.termination.final_checkpoint == 1
        taken = observed(
            o.job,
            pods=[running()],
            index=index(record()),
            says=says,
            acknowledged=frozenset({completed_token(1)}),
        )
        assert look(taken)[2] == [], "and then it is waited for"

    def test_the_pod_goes_when_it_has_exited(self) -> None:
        o = observed(
            job(state="Stopped", status=ran(termination=asked())),
            pods=[exited()],
            index=index(record()),
            says=driver(DriverPhase.TERMINATED, completed=record()),
        )
        assert look(o)[3].actions == (DeletePod("orders-driver-1", "pod-1"),)

    def test_and_the_job_is_stopped(self) -> None:
        phase, reason, do, d = look(
            observed(job(state="Stopped", status=ran(termination=asked())), index=index(record()))
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
            job(state="Stopped", status=ran(termination=asked())), pods=[exited(report=report)], index=index()
        )
        assert look(o)[3].actions == (WriteIndex(index(record()), "20"),)

    def test_resumed_in_a_new_epoch_exactly_where_it_ended(self) -> None:
        status = ran(phase="Stopped", pod=False, termination=asked(finalCheckpoint=1))
        _, _, do, d = look(observed(job(status=status), index=index(record())))
        config = next(a for a in d.actions if isinstance(a, CreateDriver)).config
        assert do == [EnsureSecret, CreateDriver]
        assert (config.epoch, config.next_checkpoint, config.termination) == (2, 2, None)
        assert config.restore.latest == record()
        assert config.restore.exact
        assert d.status.termination is None

    def test_a_stop_that_was_never_sent_can_be_taken_back(self) -> None:
        o = observed(job(status=ran(termination=asked())), pods=[running()], index=index(), says=driver())
        phase, _, do, d = look(o)
        assert (phase, do, d.status.termination) == (Phase.RUNNING, [], None)

    def test_a_stop_that_was_sent_is_finished_and_then_the_job_resumes(self) -> None:
        status = ran(termination=asked())
        o = observed(job(status=status), pods=[running()], index=index(), says=terminating())
        assert look(o)[:3] == (Phase.STOPPING, "Stopping", [])
        done = observed(job(status=status), index=index(record()))
        assert look(done)[2] == [EnsureSecret, CreateDriver]

    def test_the_driver_dies_in_mid_stop_and_another_goes_on_with_the_same_request(self) -> None:
        status = ran(termination=asked(), restarts=failed(again=-SECOND), phase="Restarting")
        _, _, do, d = look(observed(job(state="Stopped", status=status), index=index()))
        config = next(a for a in d.actions if isinstance(a, CreateDriver)).config
        assert do == [EnsureSecret, CreateDriver]
        assert config.termination is not None
        assert (config.termination.request_id, config.termination.epoch) == ("stop-1-1", 2)
        assert not config.restore.exact

    def test_past_the_deadline_it_says_what_it_waits_for(self) -> None:
        says = terminating(step=Step.SNAPSHOT, problem=Problem("StorageFull", "no space", "Make room", True))
        status = ran(termination=asked(ago=11 * MINUTE))
        phase, reason, do, d = look(
            observed(job(state="Stopped", status=status), pods=[running()], index=index(), says=says)
        )
        assert (phase, reason, do) == (Phase.STOPPING, "TerminationTimedOut", [])
        message = d.status.conditions[0].message
        assert "WritingSavepoint" in message
        assert "no space. Make room." in message
        assert "Cancelled" in message
        assert d.status.last_error is not None
        assert d.status.last_error.reason == "StorageFull"


class TestDrain:
    def test_like_a_stop(self) -> None:
        o = observed(job(state="Drained", status=ran()), pods=[running()], index=index(), says=driver())
        phase, _, _, d = look(o)
        (send,) = d.actions
        assert isinstance(send, SendTermination)
        assert (phase, send.request.mode, send.request.request_id) == (
            Phase.DRAINING,
            Mode.DRAIN,
            "drain-1-1",
        )

    def test_it_is_an_end(self) -> None:
        status = ran(termination=asked("Drain"))
        phase, _, do, d = look(observed(job(state="Drained", status=status), index=index(DRAINED)))
        assert (phase, do) == (Phase.DRAINED, [])
        assert is_ready(d)
        assert d.status.savepoint is not None
        assert d.status.savepoint.drained

    def test_there_is_no_way_back(self) -> None:
        phase, reason, do, d = look(observed(job(status=ran(phase="Drained")), index=index(DRAINED)))
        assert (phase, reason, do) == (Phase.DRAINED, "AlreadyDrained", [])
        assert is_stalled(d)
        assert "restoreFrom.allowDrained: true" in d.status.conditions[0].message

    def test_also_when_the_report_had_no_room_for_the_stages(self) -> None:
        cut = record(2, 1, Scenario.DRAIN, request="drain-1-1", stages=False)
        assert look(observed(job(status=ran(phase="Drained")), index=index(cut)))[1] == "AlreadyDrained"

    def test_cancelling_a_drained_job_changes_nothing(self) -> None:
        phase, _, do, _ = look(
            observed(job(state="Cancelled", status=ran(phase="Drained")), index=index(DRAINED))
        )
        assert (phase, do) == (Phase.DRAINED, [])

    def test_a_stopped_job_is_drained_by_a_driver_that_does_only_that(self) -> None:
        status = ran(phase="Stopped", pod=False, termination=asked(finalCheckpoint=1))
        o = observed(job(state="Drained", generation=2, status=status), index=index(record()))
        *_, d = look(o)
        config = next(a for a in d.actions if isinstance(a, CreateDriver)).config
        assert config.termination is not None
        assert (config.termination.mode, config.termination.request_id) == (Mode.DRAIN, "drain-2-2")

    def test_a_stop_under_way_is_finished_first(self) -> None:
        status = ran(termination=asked())
        o = observed(job(state="Drained", status=status), pods=[running()], index=index(), says=terminating())
        assert look(o)[:3] == (Phase.STOPPING, "Stopping", [])

    def test_a_stop_that_was_never_sent_becomes_a_drain(self) -> None:
        status = ran(termination=asked())
        o = observed(job(state="Drained", status=status), pods=[running()], index=index(), says=driver())
        (send,) = look(o)[3].actions
        assert isinstance(send, SendTermination)
        assert send.request.mode is Mode.DRAIN

    def test_out_of_input_the_job_has_finished(self) -> None:
        phase, _, do, d = look(observed(job(status=ran()), index=index(OUT_OF_INPUT)))
        assert (phase, do) == (Phase.FINISHED, [])
        assert is_ready(d)

    def test_a_script_that_stops_its_query_is_not_run_again_and_again(self) -> None:
        o = observed(job(status=ran()), index=index(record(request=None)))
        assert look(o)[:3] == (Phase.FINISHED, "ScriptEnded", [])
        stopped = observed(job(status=ran(phase="Stopped")), index=index(record(request=None)))
        assert look(stopped)[2] == [EnsureSecret, CreateDriver]


class TestCancel:
    @pytest.mark.parametrize("says", [None, driver(), terminating(), driver(DriverPhase.STARTING)])
    def test_at_any_time(self, says: Any) -> None:
        o = observed(
            job(state="Cancelled", status=ran(termination=asked())),
            pods=[running()],
            index=index(),
            says=says,
        )
        phase, _, _, d = look(o)
        assert phase is Phase.CANCELLING
        assert d.actions == (DeletePod("orders-driver-1", "pod-1", grace=1),)

    def test_also_one_that_is_leaving_slowly(self) -> None:
        slow = running(deleting=True, grace=60)
        assert look(observed(job(state="Cancelled", status=ran()), pods=[slow], index=index()))[2] == [
            DeletePod
        ]
        quick = running(deleting=True, grace=1)
        assert look(observed(job(state="Cancelled", status=ran()), pods=[quick], index=index()))[2] == []

    def test_also_without_an_index(self) -> None:
        broken = Problem("UnknownFormatVersion", "version 9", "Upgrade")
        o = observed(job(state="Cancelled", status=ran()), pods=[running()], index_problem=broken)
        assert look(o)[2] == [DeletePod]

    def test_then_it_is_cancelled(self) -> None:
        o = observed(job(state="Cancelled", status=ran(termination=asked())), index=index())
        phase, _, do, d = look(o)
        assert (phase, do, d.status.termination) == (Phase.CANCELLED, [], None)

    def test_and_running_goes_on_from_the_latest_checkpoint_whose_directories_may_be_ahead(self) -> None:
        status = {"phase": "Cancelled", "epoch": 2, "startedEpoch": 2}
        *_, d = look(observed(job(status=status), index=index(record())))
        config = next(a for a in d.actions if isinstance(a, CreateDriver)).config
        assert (config.epoch, config.restore.latest, config.restore.exact) == (3, record(), False)


class TestFailure:
    def test_what_may_pass_is_tried_again_after_the_backoff(self) -> None:
        end = exited(1, report=driver(DriverPhase.FAILED, problem=TRANSIENT))
        phase, reason, do, d = look(observed(job(status=ran()), pods=[end], index=index()))
        assert (phase, reason, do, d.wake) == (Phase.RESTARTING, "QueryFailed", [], 10)
        assert d.status.restarts is not None
        assert (d.status.restarts.count, d.status.restarts.epoch) == (1, 1)
        assert d.status.last_error is not None
        assert d.status.last_error.remedy == "Wait for it"

    def test_a_failure_is_counted_once(self) -> None:
        status = ran(phase="Restarting", restarts=failed(again=3 * SECOND))
        end = exited(1, report=driver(DriverPhase.FAILED, problem=TRANSIENT))
        _, _, do, d = look(observed(job(status=status), pods=[end], index=index()))
        assert (do, d.wake) == ([], 3)
        assert d.status.restarts is not None
        assert d.status.restarts.count == 1

    def test_then_the_pod_goes_and_a_new_epoch_begins(self) -> None:
        status = ran(phase="Restarting", restarts=failed(again=-SECOND))
        assert look(observed(job(status=status), pods=[exited(1)], index=index()))[2] == [DeletePod]
        _, _, do, d = look(observed(job(status=status), index=index()))
        assert do == [EnsureSecret, CreateDriver]
        assert d.status.epoch == 2

    @pytest.mark.parametrize(("before", "delay"), [(0, 10), (1, 20), (2, 40), (5, 300), (8, 300)])
    def test_the_backoff_doubles_to_its_limit(self, before: int, delay: int) -> None:
        status = ran(2, restarts=failed(1, count=before)) if before else ran(2)
        *_, d = look(observed(job(status=status), pods=[exited(1, 2)], index=index()))
        assert d.wake == delay

    def test_ten_stable_minutes_forget_earlier_failures(self) -> None:
        old = exited(1, 2, started_at=NOW - 11 * MINUTE)
        *_, d = look(observed(job(status=ran(2, restarts=failed(count=7))), pods=[old], index=index()))
        assert d.status.restarts is not None
        assert d.status.restarts.count == 1

    @pytest.mark.parametrize(
        ("spec", "problem", "count", "reason"),
        [
            ({}, FATAL, 0, "ScriptFailed"),
            ({"restart": {"policy": "Never"}}, TRANSIENT, 0, "QueryFailed"),
            ({"restart": {"limit": 3}}, TRANSIENT, 3, "RestartLimitReached"),
        ],
    )
    def test_it_has_failed_for_good(
        self, spec: dict[str, Any], problem: Problem, count: int, reason: str
    ) -> None:
        status = ran(2, **({"restarts": failed(count=count)} if count else {}))
        end = exited(1, 2, report=driver(DriverPhase.FAILED, 2, problem=problem))
        phase, why, do, d = look(observed(job(status=status, **spec), pods=[end], index=index()))
        assert (phase, why, do, d.wake) == (Phase.FAILED, reason, [], None)
        assert is_stalled(d)
        assert problem.remedy in d.status.conditions[0].message

    @pytest.mark.parametrize(("generation", "expected"), [(1, []), (2, [DeletePod])])
    def test_until_the_spec_changes(self, generation: int, expected: list[type[Action]]) -> None:
        status = ran(phase="Failed", restarts=failed())
        o = observed(job(generation=generation, status=status), pods=[exited(1)], index=index())
        assert look(o)[2] == expected

    def test_stopping_a_failed_job_starts_nothing(self) -> None:
        status = ran(phase="Failed", restarts=failed())
        o = observed(job(state="Stopped", generation=2, status=status), pods=[exited(1)], index=index())
        assert look(o)[:3] == (Phase.FAILED, "Failed", [])

    @pytest.mark.parametrize(
        ("end", "reason"),
        [
            (exited(137, reason="OOMKilled"), "OOMKilled"),
            (exited(137), "DriverKilled"),
            (exited(1, tail="No module named streamjob"), "DriverExited"),
            (exited(0), "DriverExited"),
            (exited(0, report=driver(DriverPhase.STARTING, evicted=True)), "Evicted"),
            (running(phase="Failed", reason="Preempting", message="for another"), "Preempting"),
        ],
    )
    def test_an_end_without_a_final_checkpoint_is_a_failure(self, end: Any, reason: str) -> None:
        phase, why, _, d = look(observed(job(status=ran()), pods=[end], index=index()))
        assert (phase, why) == (Phase.RESTARTING, reason)
        assert d.status.last_error is not None

    def test_a_pod_that_vanished_means_resume_and_never_success(self) -> None:
        status = ran(termination=asked())
        phase, reason, _, d = look(observed(job(state="Stopped", status=status), index=index()))
        assert (phase, reason) == (Phase.RESTARTING, "DriverLost")
        assert d.status.started_epoch == 1

    def test_an_evicted_driver_goes_on_elsewhere_at_once(self) -> None:
        taken = record(request="eviction-1")
        report = driver(DriverPhase.TERMINATED, completed=taken, evicted=True)
        o = observed(job(status=ran()), pods=[exited(report=report)], index=index())
        assert look(o)[2] == [WriteIndex]
        *_, d = look(observed(job(status=ran()), index=index(taken)))
        config = next(a for a in d.actions if isinstance(a, CreateDriver)).config
        assert (config.epoch, config.restore.exact) == (2, True)
        assert d.status.restarts is None

    def test_what_fails_after_the_final_checkpoint_takes_nothing_back(self) -> None:
        report = driver(DriverPhase.FAILED, completed=record(), problem=TRANSIENT)
        o = observed(
            job(state="Stopped", status=ran(termination=asked())),
            pods=[exited(1, report=report)],
            index=index(record()),
        )
        assert look(o)[2] == [DeletePod]

    def test_a_silent_driver_is_told_of_and_left_alone(self) -> None:
        o = observed(job(status=ran()), pods=[running()], index=index(), says=driver(), silent=40)
        _, reason, do, d = look(o)
        assert (reason, do) == ("DriverUnreachable", [])
        assert is_stalled(d)

    def test_a_pod_on_a_lost_node_is_waited_for(self) -> None:
        lost = running(deleting=True, node="n1")
        o = observed(job(status=ran()), pods=[lost], index=index(), says=driver(), silent=40)
        _, reason, do, _ = look(o)
        assert (reason, do) == ("DriverNotGone", [])


class TestStuck:
    @pytest.mark.parametrize(
        ("kubelet", "reason", "field"),
        [
            ("ErrImagePull", "ImagePullBackOff", "spec.image"),
            ("ImagePullBackOff", "ImagePullBackOff", "spec.image"),
            ("InvalidImageName", "InvalidImageName", "spec.image"),
            ("CreateContainerConfigError", "CreateContainerConfigError", "spec.application.env"),
        ],
    )
    def test_the_condition_names_the_field(self, kubelet: str, reason: str, field: str) -> None:
        o = observed(job(status={"epoch": 1, "phase": "Starting"}), pods=[waiting(kubelet)], index=index())
        phase, why, do, d = look(o)
        assert (phase, why, do) == (Phase.STARTING, reason, [])
        assert is_stalled(d)
        assert field in d.status.conditions[0].message

    @pytest.mark.parametrize(("ago", "reason"), [(SECOND, "Starting"), (MINUTE, "Unschedulable")])
    def test_no_node(self, ago: timedelta, reason: str) -> None:
        o = observed(job(status={"epoch": 1}), pods=[unschedulable(ago)], index=index())
        _, why, do, d = look(o)
        assert (why, do) == (reason, [])
        assert d.wake is None or d.wake > 0

    def test_a_mended_spec_replaces_it_unless_it_starts_just_now(self) -> None:
        o = observed(job(generation=2, status={"epoch": 1}), pods=[waiting("ErrImagePull")], index=index())
        _, _, _, d = look(o)
        assert d.actions == (DeletePod("orders-driver-1", "pod-1", "5"),)
        assert d.status.driver is None

    def test_stopped_it_is_not_needed(self) -> None:
        status = {"epoch": 2, "startedEpoch": 1}
        o = observed(
            job(state="Stopped", status=status), pods=[waiting("ErrImagePull", 2)], index=index(record())
        )
        assert look(o)[2] == [DeletePod]
        assert look(observed(job(state="Stopped", status=status), index=index(record())))[0] is Phase.STOPPED

    def test_but_a_job_whose_last_driver_failed_needs_another_to_stop(self) -> None:
        status = {"epoch": 2, "startedEpoch": 1}
        o = observed(job(state="Stopped", status=status), pods=[waiting("ErrImagePull", 2)], index=index())
        assert look(o)[2] == []


class TestDeletion:
    def test_stops_a_running_driver(self) -> None:
        o = observed(job(deleted=SECOND, status=ran()), pods=[running()], index=index(), says=driver())
        phase, _, do, _ = look(o)
        assert (phase, do) == (Phase.STOPPING, [SendTermination])

    @pytest.mark.parametrize(("on_delete", "action"), [("Drain", SendTermination), ("Cancel", DeletePod)])
    def test_as_on_delete_says(self, on_delete: str, action: type[Action]) -> None:
        spec = {"termination": {"onDelete": on_delete}}
        o = observed(
            job(deleted=SECOND, status=ran(), **spec), pods=[running()], index=index(), says=driver()
        )
        assert look(o)[2] == [action]

    def test_it_looks_again_when_patience_ends(self) -> None:
        o = observed(
            job(deleted=MINUTE, status=ran(termination=asked())),
            pods=[running()],
            index=index(),
            says=terminating(),
        )
        assert look(o)[3].wake == 540

    def test_past_its_timeout_it_cancels(self) -> None:
        status = ran(termination=asked(ago=11 * MINUTE))
        o = observed(
            job(deleted=11 * MINUTE, status=status), pods=[running()], index=index(), says=terminating()
        )
        assert look(o)[2] == [DeletePod]

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
        status = ran(phase="Failed", restarts=failed(), termination=asked())
        gone = look(observed(job(deleted=SECOND, status=status), pods=[exited(1)], index=index()))
        assert gone[2] == [DeletePod]
        assert look(observed(job(deleted=SECOND, status=status), index=index()))[2] == [SetFinalizer]

    def test_a_stop_that_had_begun_is_brought_to_its_end(self) -> None:
        status = ran(phase="Restarting", termination=asked(), restarts=failed(again=-SECOND))
        o = observed(job(deleted=SECOND, status=status), index=index())
        assert look(o)[2] == [EnsureSecret, CreateDriver]

    def test_without_our_finalizer_nothing_is_done(self) -> None:
        o = observed(job(deleted=SECOND, finalizer=False, status=ran()), pods=[running()], says=driver())
        assert decide(o, NOW) == Decision(o.job.status)


class TestFencing:
    def test_a_driver_of_an_older_epoch_is_removed(self) -> None:
        o = observed(job(status=ran(2)), pods=[running(1), running(2)], index=index(), says=driver(epoch=2))
        assert look(o)[3].actions == (DeletePod("orders-driver-1", "pod-1", grace=1),)

    def test_nothing_begins_while_a_pod_is_left(self) -> None:
        leaving = running(1, deleting=True)
        status = {"epoch": 2, "startedEpoch": 1, "phase": "Cancelled"}
        assert look(observed(job(status=status), pods=[leaving], index=index()))[2] == []

    def test_a_lost_status_does_not_turn_the_epoch_back(self) -> None:
        *_, d = look(observed(job(), pods=[running(5)], index=index(), says=driver(epoch=5)))
        assert (d.status.epoch, d.status.started_epoch, d.actions) == (5, 5, ())

    def test_a_record_of_another_epoch_is_not_taken(self) -> None:
        old = driver(epoch=2, completed=record(1, 1))
        o = observed(job(status=ran(2)), pods=[running(2)], index=index(), says=old)
        assert WriteIndex not in look(o)[2]


class TestIndex:
    def test_without_it_nothing_begins(self) -> None:
        gone = Problem("IndexMissing", "gone", "Restore it")
        status = ran(phase="Stopped", pod=False)
        _, reason, do, d = look(observed(job(status=status), index_problem=gone))
        assert (reason, do) == ("IndexMissing", [])
        assert is_stalled(d)

    def test_a_number_that_is_taken_stops_everything(self) -> None:
        other = record(1, 1, request="stop-1-9")
        says = terminating(completed=record())
        o = observed(
            job(state="Stopped", status=ran(termination=asked())),
            pods=[running()],
            index=index(other),
            says=says,
        )
        assert look(o)[1:3] == ("IndexConflict", [])

    def test_an_index_that_was_never_written_is_made(self) -> None:
        says = terminating(completed=record())
        o = observed(job(state="Stopped", status=ran(termination=asked())), pods=[running()], says=says)
        assert look(o)[3].actions == (WriteIndex(index(record()), None),)


def test_pending_pods_are_waited_for() -> None:
    phase, _, do, _ = look(observed(job(status={"epoch": 1}), pods=[pod()], index=index()))
    assert (phase, do) == (Phase.STARTING, [])
