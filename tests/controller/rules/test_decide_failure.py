"""A driver fails or cannot start: what is observed → phase, reason and what is done."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from streamjob.api import Phase
from streamjob.controller.rules.actions import Action, CreateDriver, DeletePod, EnsureSecret, WriteIndex
from streamjob.controller.rules.observed import Pod, Unschedulable
from streamjob.protocol.messages.driver_status import DriverPhase, Problem

from ..factories import (
    FATAL,
    MINUTE,
    NOW,
    SECOND,
    TRANSIENT,
    driver,
    exited,
    failed,
    index,
    is_ready,
    is_stalled,
    job,
    look,
    observed,
    pod,
    ran,
    record,
    requested,
    running,
    unschedulable,
    waiting,
)


class TestFailure:
    def test_what_may_pass_is_tried_again_after_the_backoff(self) -> None:
        end = exited(1, report=driver(DriverPhase.FAILED, problem=TRANSIENT))
        phase, reason, do, d = look(observed(job(status=ran()), pods=[end], index=index()))
        assert (phase, reason, do, d.requeue_after) == (Phase.RESTARTING, "QueryFailed", [], 10)
        assert d.status.restarts is not None
        assert (d.status.restarts.count, d.status.restarts.epoch) == (1, 1)
        assert d.status.last_error is not None
        assert d.status.last_error.remedy == "Wait for it"

    def test_a_failure_is_counted_once(self) -> None:
        status = ran(phase="Restarting", restarts=failed(again=3 * SECOND))
        end = exited(1, report=driver(DriverPhase.FAILED, problem=TRANSIENT))
        _, _, do, d = look(observed(job(status=status), pods=[end], index=index()))
        assert (do, d.requeue_after) == ([], 3)
        assert d.status.restarts is not None
        assert d.status.restarts.count == 1

    @pytest.mark.parametrize("pods", [[exited(1)], []])
    def test_then_a_new_epoch_begins_whether_the_pod_is_there_or_not(self, pods: list[Pod]) -> None:
        status = ran(phase="Restarting", restarts=failed(again=-SECOND))
        _, _, do, d = look(observed(job(status=status), pods=pods, index=index()))
        assert do == [EnsureSecret, CreateDriver]
        assert d.status.epoch == 2

    @pytest.mark.parametrize(("before", "delay"), [(0, 10), (1, 20), (2, 40), (5, 300), (8, 300)])
    def test_the_backoff_doubles_to_its_limit(self, before: int, delay: int) -> None:
        status = ran(2, restarts=failed(1, count=before)) if before else ran(2)
        *_, d = look(observed(job(status=status), pods=[exited(1, 2)], index=index()))
        assert d.requeue_after == delay

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
    def test_it_has_failed_permanently(
        self, spec: dict[str, Any], problem: Problem, count: int, reason: str
    ) -> None:
        status = ran(2) | ({"restarts": failed(count=count)} if count else {})
        end = exited(1, 2, report=driver(DriverPhase.FAILED, 2, problem=problem))
        phase, why, do, d = look(observed(job(status=status, **spec), pods=[end], index=index()))
        assert (phase, why, do, d.requeue_after) == (Phase.FAILED, reason, [], None)
        assert is_stalled(d)
        assert problem.remedy in d.status.conditions[0].message
        assert ("restart.nonce" in d.status.conditions[0].message) == (count > 0)

    @pytest.mark.parametrize(("generation", "expected"), [(1, []), (2, [EnsureSecret, CreateDriver])])
    def test_until_the_spec_changes(self, generation: int, expected: list[type[Action]]) -> None:
        status = ran(phase="Failed", restarts=failed())
        o = observed(job(generation=generation, status=status), pods=[exited(1)], index=index())
        assert look(o)[2] == expected

    def test_stopping_a_failed_job_starts_nothing(self) -> None:
        status = ran(phase="Failed", restarts=failed())
        o = observed(job(state="Stopped", generation=2, status=status), pods=[exited(1)], index=index())
        assert look(o)[:3] == (Phase.FAILED, "Failed", [])

    def test_nor_is_it_shown_as_cancelled_when_it_no_longer_is(self) -> None:
        status = ran(1, "Cancelled", restarts=failed(count=11), lastError={"reason": "DriverKilled"})
        status["lastError"] |= {"message": "killed", "time": "2026-01-02T03:04:00Z"}
        phase, reason, do, d = look(observed(job(state="Stopped", status=status), index=index()))
        assert (phase, reason, do) == (Phase.FAILED, "DriverKilled", [])
        assert is_stalled(d)

    @pytest.mark.parametrize(
        ("end", "reason"),
        [
            (exited(137, reason="OOMKilled"), "OOMKilled"),
            (exited(137), "DriverKilled"),
            (exited(1, tail="No module named streamjob"), "DriverExited"),
            (exited(0), "DriverExited"),
            (exited(0, report=driver(DriverPhase.STARTING, evicted=True)), "Evicted"),
            (running(phase="Failed", reason="Preempting", message="for another"), "Preempting"),
            (running(phase="Failed"), "DriverLost"),
        ],
    )
    def test_an_end_without_a_final_checkpoint_is_a_failure(self, end: Any, reason: str) -> None:
        phase, why, _, d = look(observed(job(status=ran()), pods=[end], index=index()))
        assert (phase, why) == (Phase.RESTARTING, reason)
        assert d.status.last_error is not None

    def test_a_driver_without_memory_is_told_that_python_needs_memory_too(self) -> None:
        _, _, _, d = look(observed(job(status=ran()), pods=[exited(137, reason="OOMKilled")], index=index()))
        assert d.status.last_error is not None
        said = d.status.last_error.remedy
        assert said.startswith("Raise spec.driver.memory: the pod has that for the JVM's heap, and 40 % more")
        assert "If it is Python that needs more, set only the pod's memory" in said

    def test_a_pod_that_vanished_means_resume_and_never_success(self) -> None:
        status = ran(termination=requested())
        phase, reason, _, d = look(observed(job(state="Stopped", status=status), index=index()))
        assert (phase, reason) == (Phase.RESTARTING, "DriverLost")
        assert d.status.started_epoch == 1

    def test_an_evicted_driver_is_restarted_at_once(self) -> None:
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
            job(state="Stopped", status=ran(termination=requested())),
            pods=[exited(1, report=report)],
            index=index(record()),
        )
        assert look(o)[2] == [DeletePod]

    def test_a_silent_driver_is_reported_and_left_alone(self) -> None:
        o = observed(job(status=ran()), pods=[running()], index=index(), reported=driver(), silent=40)
        _, reason, do, d = look(o)
        assert (reason, do) == ("DriverUnreachable", [])
        assert is_stalled(d)
        assert not is_ready(d)

    def test_a_pod_on_a_lost_node_is_waited_for(self) -> None:
        lost = running(deleting=True, node="n1")
        o = observed(job(status=ran()), pods=[lost], index=index(), reported=driver(), silent=40)
        _, reason, do, _ = look(o)
        assert (reason, do) == ("DriverNotGone", [])


@pytest.mark.parametrize("state", ["Running", "Stopped", "Cancelled"])
def test_a_pod_that_is_being_deleted_is_observed_again_without_an_event(state: str) -> None:
    gone = exited(0, deleting=True, grace=1)
    *_, do, d = look(observed(job(state=state, status=ran()), pods=[gone], index=index(record())))
    assert do == []
    assert d.requeue_after is not None
    assert d.requeue_after > 0


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
        assert d.requeue_after is None or d.requeue_after > 0

    @pytest.mark.parametrize(("ago", "reason"), [(SECOND, "Starting"), (MINUTE, "VolumesNotMounted")])
    def test_volumes_that_are_missing_are_named(self, ago: timedelta, reason: str) -> None:
        volumes = [{"name": "app", "configMap": {"name": "nope"}}, {"name": "a", "emptyDir": {}}]
        storage = {"checkpoints": "/data/cp", "savepoints": "/data/sp", "volumes": volumes}
        waits = pod(unmounted_since=NOW - ago)
        _, why, do, d = look(observed(job(status={"epoch": 1}, storage=storage), pods=[waits], index=index()))
        assert (why, do) == (reason, [])
        if reason == "Starting":
            assert d.requeue_after is not None
        else:
            assert "ConfigMap nope" in d.status.conditions[0].message
            assert "See the Events of its pod" in d.status.conditions[0].message

    def test_what_a_volume_names_and_is_not_there_is_the_culprit(self) -> None:
        waits = pod(unmounted_since=NOW - MINUTE, missing=("ConfigMap rates", "Secret keys"))
        _, why, _, d = look(observed(job(status={"epoch": 1}), pods=[waits], index=index()))
        assert why == "VolumesNotMounted"
        assert d.status.conditions[0].message == (
            "the node cannot mount the driver's volumes: there is no ConfigMap rates, no Secret keys. Make "
            "it, or correct the name in spec.storage.volumes or spec.driver.template."
        )

    def test_a_claim_without_a_volume_has_a_remedy_of_its_own(self) -> None:
        pod = unschedulable(MINUTE)
        assert pod.unschedulable is not None
        claim = replace(pod.unschedulable, message="pod has unbound immediate PersistentVolumeClaims")
        o = observed(job(status={"epoch": 1}), pods=[replace(pod, unschedulable=claim)], index=index())
        *_, d = look(o)
        assert "kubectl describe pvc" in d.status.conditions[0].message

    @pytest.mark.parametrize("ago", [SECOND, MINUTE])
    def test_from_the_beginning_the_condition_says_why_no_node_takes_it(self, ago: timedelta) -> None:
        claim = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: none"
        waits = replace(unschedulable(ago), unschedulable=Unschedulable(claim, NOW - ago))
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "orders-data"}}]
        storage = {"checkpoints": "/data/cp", "savepoints": "/data/sp", "volumes": volumes}
        *_, d = look(observed(job(status={"epoch": 1}, storage=storage), pods=[waits], index=index()))
        message = d.status.conditions[0].message
        assert "before its claims have volumes (orders-data): 0/1 nodes are available" in message
        assert "preemption" not in message
        *_, d = look(observed(job(status={"epoch": 1}), pods=[unschedulable(ago)], index=index()))
        assert "no node takes the driver: 0/3 nodes" in d.status.conditions[0].message

    def test_what_the_scheduler_says_is_cut_without_its_comma(self) -> None:
        told = "0/1 nodes are available: no new claims to deallocate, preemption: none"
        waits = replace(unschedulable(MINUTE), unschedulable=Unschedulable(told, NOW - MINUTE))
        *_, d = look(observed(job(status={"epoch": 1}), pods=[waits], index=index()))
        assert "no new claims to deallocate. Lower spec.driver.cores" in d.status.conditions[0].message

    def test_it_leaves_the_failure_of_the_driver_before(self) -> None:
        *_, failed = look(observed(job(status=ran()), pods=[exited(1)], index=index()))
        assert failed.status.restarts is not None
        assert failed.status.restarts.error == failed.status.last_error
        status = {**failed.status.plain(), "epoch": 2, "phase": "Starting"}
        waits = replace(unschedulable(MINUTE), name="orders-driver-2", epoch=2)
        *_, d = look(observed(job(status=status), pods=[waits], index=index()))
        assert d.status.last_error is not None
        assert d.status.last_error.reason == "Unschedulable"
        assert d.status.restarts == failed.status.restarts

    def test_a_fixed_spec_replaces_it_unless_it_starts_just_now(self) -> None:
        o = observed(job(generation=2, status={"epoch": 1}), pods=[waiting("ErrImagePull")], index=index())
        _, _, _, d = look(o)
        assert d.actions == (DeletePod("orders-driver-1", "pod-1", "5"),)
        assert d.status.driver is None

    def test_also_one_that_nobody_saw_being_made(self) -> None:
        o = observed(
            job(generation=2, status={"epoch": 1, "startedEpoch": 1, "driver": {"pod": "orders-driver-1"}}),
            pods=[waiting("ErrImagePull")],
            index=index(),
        )
        assert look(o)[2] == [DeletePod]

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
