"""Which pods of failed drivers stay for their logs, and what else of a driver goes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamjob.api import ConditionType, Phase
from streamjob.controller.rules.actions import CreateDriver, DeletePod, EnsureSecret, SetFinalizer
from streamjob.controller.rules.context import Decision
from streamjob.controller.rules.decide import decide
from streamjob.controller.rules.observed import ExecutorPod, Observed, Pod
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.driver_status import DriverPhase

from ...factories import (
    MINUTE,
    NOW,
    SECOND,
    driver,
    exited,
    failed,
    index,
    job,
    look,
    observed,
    pod,
    ran,
    record,
    requested,
    running,
)

DUE: dict[str, Any] = {"phase": "Restarting", "restarts": failed(3, again=-SECOND)}
EXECUTORS = (ExecutorPod("orders-exec-1", "exec-1"), ExecutorPod("orders-exec-2", "exec-2"))


def restart(limit: int) -> dict[str, Any]:
    return {"failedDriversHistoryLimit": limit}


def deleted(o: Observed) -> list[str]:
    return [a.name for a in decide(o, NOW).actions if isinstance(a, DeletePod)]


def message(d: Decision) -> str:
    ready = d.status.condition(ConditionType.READY)
    assert ready is not None
    return ready.message


class TestWhatStays:
    @pytest.mark.parametrize(
        ("limit", "expected"),
        [(0, [1, 2]), (1, [1, 2]), (2, [1]), (3, []), (10, [])],
    )
    def test_the_newest_stay_when_another_one_has_failed(self, limit: int, expected: list[int]) -> None:
        """The newest one's own turn comes when the next driver begins."""
        pods = [exited(1, n) for n in (1, 2, 3)]
        o = observed(job(status=ran(3, **DUE), restart=restart(limit)), pods=pods, index=index())
        assert deleted(o) == [f"orders-driver-{n}" for n in expected]

    @pytest.mark.parametrize(("limit", "expected"), [(0, [DeletePod]), (1, [EnsureSecret, CreateDriver])])
    def test_the_next_driver_begins_beside_it(self, limit: int, expected: list[type]) -> None:
        o = observed(job(status=ran(3, **DUE), restart=restart(limit)), pods=[exited(1, 3)], index=index())
        assert look(o)[2] == expected

    def test_while_the_next_one_runs(self) -> None:
        pods = [exited(1, 3), running(4)]
        o = observed(job(status=ran(4)), pods=pods, index=index(), reported=driver(epoch=4))
        assert look(o)[:3] == (Phase.RUNNING, "Running", [])
        fewer = observed(job(status=ran(4), restart=restart(0)), pods=pods, index=index())
        assert deleted(fewer) == ["orders-driver-3"]

    @pytest.mark.parametrize("code", [0, 1])
    def test_a_driver_that_has_ended_as_requested_goes(self, code: int) -> None:
        """Whatever the script does afterwards."""
        report = driver(DriverPhase.TERMINATED, completed=record(), exit_code=code)
        status = ran(termination=requested())
        pods = [exited(code, report=report)]
        o = observed(job(state="Stopped", status=status), pods=pods, index=index(record()))
        assert deleted(o) == ["orders-driver-1"]

    @pytest.mark.parametrize(
        "end",
        [
            exited(137, 3, beside=True),  # its sidecar holds the pod's resources
            running(3, phase="Failed"),  # its node is lost: nobody has seen how it ended
            pod(3, phase="Failed", reason="Evicted", waiting=None),  # it has no log
        ],
    )
    def test_one_that_is_not_over_goes(self, end: Pod) -> None:
        assert deleted(observed(job(status=ran(3, **DUE)), pods=[end], index=index())) == ["orders-driver-3"]

    @pytest.mark.parametrize("end", [exited(137, 3, deleting=True), running(3, deleting=True)])
    def test_one_that_is_being_deleted_is_waited_for(self, end: Pod) -> None:
        o = observed(job(status=ran(3, **DUE)), pods=[end], index=index(), silent=60.0)
        assert not decide(o, NOW).actions

    def test_a_late_driver_of_an_earlier_epoch_goes(self) -> None:
        pods = [running(2), running(3)]
        assert deleted(observed(job(status=ran(3)), pods=pods, index=index())) == ["orders-driver-2"]


class TestAJobWithoutADriver:
    """The pod of the newest epoch may be that of the failed driver."""

    @pytest.mark.parametrize(
        ("spec", "phase"),
        [
            ({"state": "Cancelled"}, Phase.CANCELLED),
            ({"suspend": True}, Phase.SUSPENDED),
        ],
    )
    def test_it_is_at_rest_with_the_pod_there(self, spec: dict[str, Any], phase: Phase) -> None:
        o = observed(job(status=ran(3, **DUE), **spec), pods=[exited(1, 3)], index=index())
        d = decide(o, NOW)
        assert (d.status.phase, d.actions, d.status.driver) == (phase, (), None)
        again = replace(o, job=job(status=d.status.plain(), **spec))
        assert decide(again, NOW).status == d.status
        resumed = replace(o, job=job(status=d.status.plain(), generation=2))
        assert decide(resumed, NOW).status.epoch == 4

    def test_a_driver_that_fails_while_it_is_cancelled_goes(self) -> None:
        """Nobody counts that failure."""
        o = observed(job(state="Cancelled", status=ran(3)), pods=[exited(137, 3)], index=index())
        assert deleted(o) == ["orders-driver-3"]


ENDS = [
    ({"state": "Stopped"}, Phase.STOPPED),
    ({}, Phase.FINISHED),  # the script has stopped its queries itself
]


class TestAPodThatIsBeingRemoved:
    """The kubelet removes it seconds after the last container has exited. The job does not wait for that."""

    def seen(self, end: Pod, spec: dict[str, Any]) -> Observed:
        asked: dict[str, Any] = {"termination": requested()} if spec else {}
        last = record() if spec else record(request=None)
        return observed(job(status=ran(**asked), **spec), pods=[end], index=index(last))

    @pytest.mark.parametrize(("spec", "phase"), ENDS)
    def test_the_job_is_at_rest(self, spec: dict[str, Any], phase: Phase) -> None:
        o = self.seen(exited(deleting=True), spec)
        d = decide(o, NOW)
        assert (d.status.phase, d.actions, d.status.driver) == (phase, (), None)
        again = replace(o, job=job(status=d.status.plain(), **spec))
        assert decide(again, NOW).status == d.status
        gone = replace(again, pods=())
        assert decide(gone, NOW).status.phase is phase

    @pytest.mark.parametrize(("spec", "phase"), ENDS)
    @pytest.mark.parametrize(
        "end",
        [
            exited(),  # deleted first
            exited(deleting=True, beside=True),
            running(deleting=True),
            pod(deleting=True, phase="Failed"),  # nobody has seen how it ended
        ],
    )
    def test_it_is_not_at_rest_while_anything_may_run(
        self, spec: dict[str, Any], phase: Phase, end: Pod
    ) -> None:
        assert decide(self.seen(end, spec), NOW).status.phase is not phase

    def then(self, o: Observed, **spec: Any) -> Observed:
        """The same, once what `decide` says is written and the spec is another one."""
        return replace(o, job=job(status=decide(o, NOW).status.plain(), **spec))

    def test_the_next_driver_waits_for_it(self) -> None:
        """It may hold a volume that only one pod can have."""
        resumed = self.then(self.seen(exited(deleting=True), {"state": "Stopped"}), generation=2)
        phase, _, do, d = look(resumed)
        assert (phase, do) == (Phase.PENDING, [])
        assert "orders-driver-1" in message(d)
        assert d.requeue_after is not None, "its end may be missed"
        gone = replace(self.then(resumed, generation=2), pods=())
        assert look(gone)[2] == [EnsureSecret, CreateDriver]

    def test_a_job_that_its_script_has_ended_goes_on_when_asked_to(self) -> None:
        """Only its phase tells that it has been asked."""
        ended = self.seen(exited(deleting=True), {})
        stopped = self.then(ended, state="Stopped", generation=2)
        resumed = self.then(stopped, generation=3)
        for _ in range(3):
            assert look(resumed)[0] is Phase.PENDING
            resumed = self.then(resumed, generation=3)
        assert look(replace(resumed, pods=()))[2] == [EnsureSecret, CreateDriver]

    @pytest.mark.parametrize(
        ("spec", "says", "then"),
        [
            ({"suspend": True}, "suspended", Phase.SUSPENDED),  # a queue takes it for room
            ({"state": "Cancelled"}, "cancelled", Phase.CANCELLED),
            ({"state": "Stopped", "deleted": SECOND}, "deleted", None),
            ({"state": "Stopped", "deleted": 60 * MINUTE}, "deleted", None),  # past its timeout
        ],
    )
    def test_what_else_waits_for_it(self, spec: dict[str, Any], says: str, then: Phase | None) -> None:
        """Somebody else's finalizer may hold it for long. Nobody kills what has exited."""
        stopped = self.seen(exited(deleting=True), {"state": "Stopped"})
        asked = self.then(stopped, generation=2, **spec)
        phase, _, do, d = look(asked)
        assert phase in (Phase.PENDING, Phase.CANCELLING)
        assert do == []
        assert message(d) == f"The job is {says} when this pod is gone: orders-driver-1"
        assert d.status.observed_generation == 2
        phase, _, do, _ = look(replace(self.then(asked, generation=2, **spec), pods=()))
        assert (phase is then) or do == [SetFinalizer]

    def test_a_drained_job_stays_drained(self) -> None:
        last = record(scenario=Scenario.DRAIN)
        end = observed(job(status=ran(), state="Drained"), pods=[exited(deleting=True)], index=index(last))
        assert look(end)[0] is Phase.DRAINED
        assert look(self.then(end, state="Cancelled", generation=2))[0] is Phase.DRAINED


class TestExecutors:
    @pytest.mark.parametrize("spec", [{}, {"state": "Cancelled"}, {"suspend": True}, {"state": "Stopped"}])
    def test_those_of_a_failed_driver_go_at_once(self, spec: dict[str, Any]) -> None:
        """During the backoff, too, and for a job that has failed for good."""
        for again in (MINUTE, -SECOND, None):
            status = ran(3, "Restarting", restarts=failed(3, again=again))
            o = observed(
                job(status=status, **spec), pods=[exited(1, 3)], index=index(), executors_left=EXECUTORS
            )
            assert decide(o, NOW).actions == tuple(DeletePod(e.name, e.uid) for e in EXECUTORS)


class TestItsName:
    """`kubectl logs` needs it."""

    def name(self, o: Observed) -> str | None:
        last = decide(o, NOW).status.last_exit
        assert last is not None
        return last.pod

    def test_it_is_known_as_long_as_the_pod_is_there(self) -> None:
        o = observed(job(status=ran(3)), pods=[exited(1, 3)], index=index())
        assert self.name(o) == "orders-driver-3"
        status = ran(4, lastExit={"epoch": 3, "code": 1, "pod": "orders-driver-3"})
        both = observed(job(status=status), pods=[exited(1, 3), running(4)], index=index())
        assert self.name(both) == "orders-driver-3"
        assert self.name(replace(both, pods=(running(4),))) is None
        assert self.name(replace(both, pods=(exited(1, 3, deleting=True), running(4)))) is None

    def test_it_is_not_forgotten_when_only_the_newest_pod_was_read(self) -> None:
        status = ran(4, lastExit={"epoch": 3, "code": 1, "pod": "orders-driver-3"})
        o = observed(job(status=status), pods=[running(4)], index=index(), newest_only=True)
        assert self.name(o) == "orders-driver-3"
