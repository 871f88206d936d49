"""Sidecars (R6): they neither keep a job from ending nor end it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from streamjob.api import Phase
from streamjob.controller.objects import names
from streamjob.controller.rules.actions import DeletePod
from streamjob.controller.rules.context import SIDECAR_GRACE
from streamjob.controller.rules.decide import decide
from streamjob.controller.rules.observed import Pod
from streamjob.controller.rules.parse_pod import parse_pod
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.driver_status import DriverPhase
from streamjob.protocol.messages.final_report import report

from ..factories import (
    MINUTE,
    NOW,
    driver,
    exited,
    index,
    job,
    look,
    observed,
    ran,
    record,
    requested,
    running,
)
from .test_parse_pod import raw

PROXY = {"name": "istio-proxy", "state": {"running": {"startedAt": "2026-01-02T03:00:00Z"}}}


def pod(phase: str, *, native: bool = False, proxy: dict[str, Any] = PROXY, **state: Any) -> Pod:
    """As Kubernetes describes a pod with a sidecar, an ordinary container or a native one."""
    own = {"name": "driver", "state": state}
    containers = [own] if native else [proxy, own]
    inits = [proxy] if native else []
    status = {"phase": phase, "containerStatuses": containers, "initContainerStatuses": inits}
    found = parse_pod(raw(status, epoch=1, uid="pod-1", annotations={names.ANNOTATION_GENERATION: "1"}))
    assert found is not None
    return found


def ended(code: int, message: str = "") -> dict[str, Any]:
    return {
        "exitCode": code,
        "message": message,
        "startedAt": "2026-01-02T03:00:00Z",
        "finishedAt": "2026-01-02T03:01:00Z",
    }


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed"), (137, "Failed")])
def test_r6_a_driver_that_has_ended_is_over_though_its_sidecar_runs(
    native: bool, code: int, phase: str
) -> None:
    found = pod("Running", native=native, terminated=ended(code))
    assert (found.terminated, found.phase, found.beside) == (True, phase, True)
    assert found.exit is not None
    assert found.exit.code == code


@pytest.mark.parametrize("native", [False, True])
def test_r6_a_pod_whose_containers_have_all_ended_is_over_before_its_phase_says_so(native: bool) -> None:
    """The pod of a failed driver would else be deleted with its log."""
    proxy = {"name": "istio-proxy", "state": {"terminated": ended(0)}}
    found = pod("Running", native=native, proxy=proxy, terminated=ended(137))
    assert (found.terminated, found.beside, found.over) == (True, False, True)


@pytest.mark.parametrize("kind", ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"])
def test_a_container_that_runs_counts_whatever_the_pods_phase_is(kind: str) -> None:
    """PodGC marks the pods of a lost node as Failed. `kubectl debug` adds a container that may write."""
    own = {"name": "driver", "state": {"terminated": ended(0)}}
    status = {"phase": "Failed", "containerStatuses": [own]}
    status[kind] = [*status.get(kind, ()), PROXY]
    found = parse_pod(raw(status, epoch=1, uid="pod-1"))
    assert found is not None
    assert (found.terminated, found.all_exited) == (True, False)


def test_r6_a_sidecar_that_fails_does_not_fail_the_driver() -> None:
    failed = {"name": "istio-proxy", "state": {"terminated": ended(1)}}
    found = pod("Failed", proxy=failed, terminated=ended(0))
    assert (found.terminated, found.phase, found.beside) == (True, "Succeeded", False)
    alive = pod("Running", proxy=failed, running={"startedAt": "2026-01-02T03:00:00Z"})
    assert (alive.terminated, alive.started, alive.phase, alive.beside) == (False, True, "Running", False)


def test_r6_a_sidecar_that_runs_is_not_a_driver_that_has_run() -> None:
    found = pod("Running", waiting={"reason": "ImagePullBackOff", "message": "no such image"})
    assert (found.terminated, found.started, found.phase) == (False, False, "Pending")
    o = observed(job(status=ran(phase="Starting", startedEpoch=0)), pods=[found])
    phase, reason, _, d = look(o)
    assert (phase, reason) == (Phase.STARTING, "ImagePullBackOff")
    assert d.status.started_epoch == 0


def test_r6_a_stop_ends_though_the_sidecar_runs() -> None:
    status = driver(DriverPhase.TERMINATED, completed=record())
    found = pod("Running", terminated=ended(0, report(status)))
    o = observed(
        job(state="Stopped", status=ran(termination=requested())), pods=[found], index=index(record())
    )
    _, _, actions, d = look(o)
    assert actions == [DeletePod]
    (delete,) = d.actions
    assert isinstance(delete, DeletePod)
    assert delete.grace == SIDECAR_GRACE, (
        "the grace period is for savepoints; the next epoch waits for the pod"
    )
    gone = observed(job(state="Stopped", status=ran(termination=requested())), index=index(record()))
    assert look(gone)[0] is Phase.STOPPED


def test_r6_a_driver_that_dies_is_restarted_though_the_sidecar_runs() -> None:
    found = pod("Running", terminated=ended(137))
    o = observed(job(status=ran()), pods=[found], reported=None, silent=60.0)
    phase, reason, _, d = look(o)
    assert (phase, reason) == (Phase.RESTARTING, "DriverKilled")
    assert d.status.driver is not None
    assert d.status.driver.phase == "Failed"
    later = observed(job(status=d.status.plain()), pods=[found])
    assert [type(a) for a in decide(later, NOW + MINUTE).actions] == [DeletePod], "once the backoff is over"


def test_r6_an_evicted_driver_that_has_ended_does_not_wait_for_its_sidecar() -> None:
    """SIGTERM went to both, and the grace period may be an hour."""
    final = record(1, 1, Scenario.STOP, request="eviction-1")
    end = exited(
        report=driver(DriverPhase.TERMINATED, completed=final), deleting=True, grace=3600, beside=True
    )
    o = observed(job(status=ran()), pods=[end], index=index(final))
    (action,) = look(o)[3].actions
    assert isinstance(action, DeletePod)
    assert (action.grace, action.uid) == (SIDECAR_GRACE, "pod-1")
    going = exited(
        report=driver(DriverPhase.TERMINATED, completed=final), deleting=True, grace=10, beside=True
    )
    assert not look(observed(job(status=ran()), pods=[going], index=index(final)))[3].actions


def test_r6_a_pod_without_sidecars_goes_as_it_did() -> None:
    o = observed(
        job(state="Stopped", status=ran(termination=requested())),
        pods=[exited(report=driver(DriverPhase.TERMINATED, completed=record()))],
        index=index(record()),
    )
    assert look(o)[3].actions == (DeletePod("orders-driver-1", "pod-1"),)


def test_a_driver_that_runs_beside_its_sidecar_and_is_silent_is_unreachable_still() -> None:
    o = observed(
        job(status=ran()), pods=[running(started_at=NOW - MINUTE)], silent=timedelta(minutes=2) / MINUTE
    )
    assert look(o)[1] == "DriverUnreachable"
