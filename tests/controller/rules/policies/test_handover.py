"""`upgrade.mode: Handover`: the next driver is prepared beside the running one, which notices nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamjob.api import ConditionType, Phase, UpgradeStep
from streamjob.controller.rules.actions import (
    CreateDriver,
    DeletePod,
    EnsureSecret,
    OpenGate,
    SendTermination,
)
from streamjob.controller.rules.observed import Observed, Pod, gate_token
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.driver_config import Restore
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus, Problem

from ...factories import (
    FATAL,
    MINUTE,
    OUT_OF_INPUT,
    TRANSIENT,
    UID,
    at,
    driver,
    exited,
    failed,
    index,
    look,
    observed,
    ran,
    record,
    requested,
    running,
    terminating,
    waiting,
)
from .upgrades import NEW, OLD, alive, at_gate, made, standby, step, upgrade, wanting

NOTED = at(-MINUTE)
ONCE = {"reason": "QueryFailed", "message": "the broker is away", "time": at(-MINUTE)}
LATE: dict[str, Any] = {"deadline": at(-MINUTE)}
HANDOVER: dict[str, Any] = {"upgrade": {"mode": "Handover", "startTimeout": "5m"}}
TAKEN = record(3, 1, Scenario.STOP, request="upgrade-1-2")


def preparing(epoch: int = 2, **more: Any) -> dict[str, Any]:
    found = upgrade("Preparing", epoch=epoch, deadline=at(4 * MINUTE))
    found["upgrade"] |= more
    return found


def handing_over(
    *, status: dict[str, Any] | None = None, pods: list[Pod] | None = None, **more: Any
) -> Observed:
    fields = {"index": index(record(2, 1, None)), "reported": driver(), **more}
    job = wanting(
        fields.pop("image", NEW), status=status or ran() | preparing(), **HANDOVER, **fields.pop("spec", {})
    )
    return observed(job, pods=[alive()] if pods is None else pods, **fields)


class TestPreparing:
    def test_a_driver_is_prepared_and_the_running_one_is_left_alone(self) -> None:
        _, _, do, d = look(handing_over(status=ran()))
        assert do == [EnsureSecret, CreateDriver]
        create = d.actions[-1]
        assert isinstance(create, CreateDriver)
        assert (create.config.epoch, create.config.prepared, create.config.restore) == (2, True, Restore())
        assert create.specification == made(NEW)
        assert d.status.epoch == 1
        assert d.status.driver is not None
        assert d.status.driver.pod == "orders-driver-1"
        assert d.status.upgrade is not None
        assert (step(d), d.status.upgrade.epoch, d.status.upgrade.deadline) == (
            UpgradeStep.PREPARING,
            2,
            at(5 * MINUTE),
        )
        assert d.status.upgrade.previous == made(OLD).text

    def test_its_creation_is_repeated_under_the_same_name(self) -> None:
        """Nobody knows whether the call that was lost has made it."""
        _, _, do, d = look(handing_over())
        assert do == [EnsureSecret, CreateDriver]
        create = d.actions[-1]
        assert isinstance(create, CreateDriver)
        assert create.config.epoch == 2
        assert d.status.upgrade is not None
        assert d.status.upgrade.deadline == at(4 * MINUTE), "its time runs from the first attempt"

    @pytest.mark.parametrize("prepared", [None, DriverStatus(1, UID, 2, DriverPhase.STARTING)])
    def test_it_is_waited_for(self, prepared: DriverStatus | None) -> None:
        o = handing_over(standbys=(standby(),), prepared=prepared)
        phase, reason, do, d = look(o)
        assert (phase, reason, do) == (Phase.RUNNING, "Running", [])
        assert d.requeue_after == 240, "until its time is over"

    def test_when_it_waits_at_the_gate_the_running_one_is_stopped(self) -> None:
        o = handing_over(standbys=(standby(),), prepared=at_gate())
        phase, _, do, d = look(o)
        assert (phase, do, step(d)) == (Phase.STOPPING, [SendTermination], UpgradeStep.STOPPING)
        assert d.status.upgrade is not None
        assert d.status.upgrade.previous == made(OLD).text

    def test_another_change_drops_it(self) -> None:
        o = handing_over(standbys=(standby(image="orders:9"),), prepared=at_gate())
        assert look(o)[3].actions == (DeletePod("orders-driver-2", "pod-2"),)

    def test_and_the_next_has_another_number_while_it_leaves(self) -> None:
        o = handing_over(
            status=ran() | preparing(target="another"), standbys=(standby(image="orders:9", deleting=True),)
        )
        create = look(o)[3].actions[-1]
        assert isinstance(create, CreateDriver)
        assert create.config.epoch == 3

    @pytest.mark.parametrize("spec", [{"state": "Stopped"}, {"state": "Drained"}, {"suspend": True}])
    def test_who_wants_the_job_to_end_wants_no_other_driver(self, spec: dict[str, Any]) -> None:
        o = handing_over(standbys=(standby(),), prepared=at_gate(), spec=spec)
        assert look(o)[3].actions == (DeletePod("orders-driver-2", "pod-2"),)

    def test_the_old_specification_again_ends_it(self) -> None:
        o = handing_over(image=OLD, standbys=(standby(),), prepared=at_gate())
        _, _, _, d = look(o)
        assert d.actions == (DeletePod("orders-driver-2", "pod-2"),)
        phase, _, do, d = look(replace(o, standbys=(), prepared=None))
        assert (phase, do, d.status.upgrade) == (Phase.RUNNING, [], None)

    def test_it_is_ready_and_reconciling(self) -> None:
        """The stream goes on. Flux and Argo CD wait for the specification that they deliver."""
        waits = replace(running(2), specification=made(NEW), prepared=True)
        d = look(handing_over(status=ran() | preparing(), standbys=(waits,), prepared=None))[3]
        ready, reconciling = (
            d.status.condition(kind) for kind in (ConditionType.READY, ConditionType.RECONCILING)
        )
        assert ready is not None
        assert reconciling is not None
        assert (ready.status, reconciling.status, reconciling.reason) == ("True", "True", "Upgrading")
        assert "epoch 2" in reconciling.message

    def test_it_says_what_the_prepared_driver_waits_for(self) -> None:
        pulled = replace(waiting("ErrImagePull", 2), specification=made(NEW), prepared=True)
        o = handing_over(standbys=(pulled,))
        phase, _, do, d = look(o)
        assert (phase, do, step(d)) == (Phase.RUNNING, [], UpgradeStep.PREPARING)
        told = d.status.condition(ConditionType.UPGRADED)
        assert told is not None
        assert (told.status, told.reason) == ("Unknown", "Upgrading")
        assert "and waits: the image 'orders:2' cannot be pulled. Correct spec.image" in told.message
        there = replace(o, job=o.job.model_copy(update={"status": d.status}), standbys=(standby(),))
        d = look(there)[3]
        assert d.status.upgrade is not None
        assert d.status.upgrade.waits_for is None
        late = handing_over(status=ran() | preparing(**LATE, waitsFor="room"), standbys=(pulled,))
        d = look(late)[3]
        assert d.status.upgrade is not None
        assert (step(d), d.status.upgrade.waits_for) == (UpgradeStep.ROLLED_BACK, None)


class TestInVain:
    @pytest.mark.parametrize(
        ("pod_of_it", "status", "reason"),
        [
            (exited(1, 2, report=driver(DriverPhase.FAILED, 2, problem=FATAL)), {}, "ScriptFailed"),
            (
                exited(1, 3, report=driver(DriverPhase.FAILED, 3, problem=TRANSIENT)),
                {"epoch": 3, "error": ONCE},
                "QueryFailed",
            ),
            (exited(1, 2, report=driver(DriverPhase.FAILED, 2, problem=TRANSIENT)), LATE, "QueryFailed"),
            (running(2), LATE, "DriverNotPrepared"),
            (waiting("ErrImagePull", 2), LATE, "ImagePullBackOff"),
            (waiting("InvalidImageName", 2), {}, "InvalidImageName"),
            (None, LATE, "DriverNotStarted"),
        ],
    )
    def test_the_running_driver_has_not_noticed_anything(
        self, pod_of_it: Pod | None, status: dict[str, Any], reason: str
    ) -> None:
        there = [replace(pod_of_it, specification=made(NEW), prepared=True)] if pod_of_it else []
        o = handing_over(status=ran() | preparing(**status), standbys=tuple(there))
        d = look(o)[3]
        assert d.actions == ()
        assert (step(d), d.status.last_error and d.status.last_error.reason) == (
            UpgradeStep.ROLLED_BACK,
            reason,
        )
        after = replace(o, job=o.job.model_copy(update={"status": d.status}))
        if there:
            assert look(after)[3].actions == (DeletePod(there[0].name, there[0].uid),)
        phase, why, do, _ = look(replace(after, standbys=()))
        assert (phase, why, do) == (Phase.RUNNING, "RolledBack", [])

    def test_nobody_is_sent_to_a_log_that_has_gone_with_its_pod(self) -> None:
        failed = replace(FATAL, remedy="See the driver's log for the traceback")
        pod = exited(1, 2, report=driver(DriverPhase.FAILED, 2, problem=failed))
        there = replace(pod, specification=made(NEW), prepared=True)
        d = look(handing_over(status=ran() | preparing(), standbys=(there,)))[3]
        assert d.status.last_error is not None
        assert d.status.last_error.remedy.startswith(f"Its pod {pod.name} is deleted, with its log: follow")
        assert "See the driver's log" not in d.status.conditions[0].message

    def test_a_failure_that_may_pass_is_tried_once_more(self) -> None:
        gone = exited(1, 2, report=driver(DriverPhase.FAILED, 2, problem=TRANSIENT))
        o = handing_over(standbys=(replace(gone, specification=made(NEW), prepared=True),))
        d = look(o)[3]
        create = d.actions[-1]
        assert isinstance(create, CreateDriver)
        assert (create.config.epoch, create.config.prepared) == (3, True)
        assert d.status.upgrade is not None
        assert (d.status.upgrade.epoch, d.status.upgrade.deadline) == (3, at(4 * MINUTE))
        assert d.status.upgrade.error is not None
        assert d.status.upgrade.error.reason == "QueryFailed"
        after = replace(o, job=o.job.model_copy(update={"status": d.status}))
        assert look(after)[3].actions == (DeletePod("orders-driver-2", "pod-2"),)

    @pytest.mark.parametrize(
        ("error", "late", "reason"),
        [
            ("Forbidden", True, "Forbidden"),  # its quota
            ("Invalid", False, "Invalid"),
            ("DriverUnreachable", True, "DriverNotStarted"),  # of another driver
        ],
    )
    def test_what_the_api_server_refuses_is_the_reason(self, error: str, late: bool, reason: str) -> None:
        last = {"reason": error, "message": "no", "time": at(-MINUTE)}
        status = preparing(**LATE) if late else preparing()
        o = handing_over(status=ran(lastError=last) | status)
        d = look(o)[3]
        assert step(d) is UpgradeStep.ROLLED_BACK
        assert d.status.last_error is not None
        assert d.status.last_error.reason == reason

    def test_but_not_where_the_spec_says_never(self) -> None:
        gone = exited(1, 2, report=driver(DriverPhase.FAILED, 2, problem=TRANSIENT))
        o = handing_over(
            standbys=(replace(gone, specification=made(NEW), prepared=True),),
            spec={"restart": {"policy": "Never"}},
        )
        assert step(look(o)[3]) is UpgradeStep.ROLLED_BACK

    def test_what_has_run_beside_it_runs_on_even_if_it_was_on_probation(self) -> None:
        """The second new specification fails, and the first one's driver has not been up for long."""
        o = handing_over(image="orders:3", status=ran(2) | upgrade("Starting"), pods=[alive(NEW, 2)])
        o = replace(o, driver=driver(epoch=2), index=index(record(1, 1)))
        d = look(o)[3]
        assert step(d) is UpgradeStep.PREPARING
        assert d.status.upgrade is not None
        assert d.status.upgrade.previous == made(NEW).text

    def test_no_driver_runs_when_it_fails(self) -> None:
        """The old one has died meanwhile: the old specification continues at once."""
        gone = exited(1, 2, report=driver(DriverPhase.FAILED, 2, problem=FATAL))
        o = handing_over(
            status=ran(phase="Restarting", restarts=failed(again=-MINUTE)) | preparing(),
            pods=[],
            standbys=(replace(gone, specification=made(NEW), prepared=True),),
            reported=None,
        )
        d = look(o)[3]
        assert step(d) is UpgradeStep.ROLLED_BACK
        o = replace(o, job=o.job.model_copy(update={"status": d.status}), standbys=())
        create = look(o)[3].actions[-1]
        assert isinstance(create, CreateDriver)
        assert (create.specification, create.config.epoch) == (made(OLD), 3)

    def test_one_that_is_on_its_way_is_waited_for(self) -> None:
        o = handing_over(
            status=ran(phase="Restarting", restarts=failed(again=-MINUTE)) | preparing(),
            pods=[],
            standbys=(standby(),),
            reported=None,
        )
        phase, _, do, d = look(o)
        assert (phase, do, d.requeue_after) == (Phase.STARTING, [], 240)

    @pytest.mark.parametrize(
        "status",
        [
            ran(phase="Failed", restarts=failed() | {"nextAt": None}) | preparing(),
            ran(phase="Finished") | preparing(),
        ],
    )
    def test_no_driver_follows_a_job_that_is_over(self, status: dict[str, Any]) -> None:
        over = index(OUT_OF_INPUT) if status["phase"] == "Finished" else index(record(2, 1, None))
        o = handing_over(status=status, pods=[], index=over, standbys=(standby(),), prepared=at_gate())
        assert look(o)[3].actions == (DeletePod("orders-driver-2", "pod-2"),)


def stopped(**more: Any) -> Observed:
    """The running driver has stopped for it: its checkpoint is in the index, its tasks are closed."""
    reported = replace(terminating(request="upgrade-1-2", completed=TAKEN), phase=DriverPhase.TERMINATED)
    status = ran(phase="Stopping", termination=requested() | {"requestId": "upgrade-1-2"})
    status |= upgrade("Stopping", epoch=2, deadline=at(4 * MINUTE))
    fields: dict[str, Any] = {"standbys": (standby(),), "prepared": at_gate(), "index": index(TAKEN)}
    return handing_over(
        status=status,
        **{**fields, "reported": reported, "acknowledged": frozenset({"checkpoint-3-completed"}), **more},
    )


class TestTheGate:
    def test_it_opens_with_the_final_checkpoint_while_the_old_process_leaves(self) -> None:
        phase, _, do, d = look(stopped())
        assert (phase, do) == (Phase.STARTING, [OpenGate])
        (action,) = d.actions
        assert isinstance(action, OpenGate)
        assert (action.gate.epoch, action.gate.token) == (2, gate_token(2))
        assert action.gate.restore == Restore(latest=TAKEN, exact=True)
        assert action.gate.next_checkpoint == 4
        assert (d.status.epoch, d.status.started_epoch, d.status.termination) == (2, 2, None)
        assert d.status.handed_over is not None
        assert d.status.handed_over.uid == "pod-1"
        assert d.status.driver is not None
        assert (d.status.driver.pod, d.status.driver.uid) == ("orders-driver-2", "pod-2")
        assert step(d) is UpgradeStep.STARTING

    @pytest.mark.parametrize(
        "lacks",
        [
            {"index": index(record(2, 1, None))},  # the final checkpoint is only durable
            {"reported": replace(terminating(request="upgrade-1-2", completed=TAKEN))},  # tasks are open
            {"prepared": DriverStatus(1, UID, 2, DriverPhase.STARTING)},
            {"prepared": None},
            {"index": index(record(3, 1, Scenario.STOP, request="upgrade-1-2", stages=False))},
            {"index": index(record(3, 1, Scenario.END_OF_INPUT, request=None))},
            {"index": index(record(3, 1, Scenario.STOP, request=None))},  # the script has ended it
            {"index": index(record(3, 1, Scenario.STOP, request="upgrade-1-2", transactions=("t",)))},
        ],
    )
    def test_not_before(self, lacks: dict[str, Any]) -> None:
        assert OpenGate not in look(stopped(**lacks))[2]

    def test_the_command_is_repeated_until_it_is_taken(self) -> None:
        o = stopped()
        d = look(o)[3]
        begun = replace(
            o,
            job=o.job.model_copy(update={"status": d.status}),
            pods=(*o.pods, standby()),
            standbys=(),
            prepared=None,
            driver=at_gate(),
            acknowledged=frozenset(),
        )
        (again,) = look(begun)[3].actions
        assert isinstance(again, OpenGate)
        first = d.actions[0]
        assert isinstance(first, OpenGate)
        assert again.gate.token == first.gate.token
        assert again.gate.restore == Restore(latest=TAKEN, again=True), "nobody knows what was sent before"
        taken = replace(begun, acknowledged=frozenset({gate_token(2)}))
        phase, _, do, _ = look(taken)
        assert (phase, do) == (Phase.STARTING, [])
        later = replace(taken, driver=driver(epoch=2))
        phase, _, do, d = look(later)
        assert (phase, do, d.status.started_epoch) == (Phase.RUNNING, [], 2)

    def test_who_has_handed_over_leaves_in_peace(self) -> None:
        o = handing_over(
            status=ran(2, handedOver={"pod": "orders-driver-1", "uid": "pod-1"})
            | upgrade("Starting", epoch=2),
            pods=[alive(), standby()],
            index=index(TAKEN),
            reported=driver(epoch=2),
        )
        assert look(o)[2] == []
        late = replace(o, pods=(replace(alive(), uid="made-late"), standby()))
        assert look(late)[3].actions == (DeletePod("orders-driver-1", "made-late", grace=1),)
        left = exited(0, 1, specification=made(OLD))
        assert look(replace(o, pods=(left, standby())))[3].actions == (DeletePod(left.name, left.uid),)

    def test_a_driver_that_dies_is_followed_by_the_prepared_one(self) -> None:
        """From the newest checkpoint, as any new epoch; the failure is counted first."""
        dead = exited(137, 1, specification=made(OLD))
        o = handing_over(
            status=ran(phase="Restarting", restarts=failed(again=-MINUTE)) | preparing(),
            pods=[dead],
            standbys=(standby(),),
            prepared=at_gate(),
            reported=None,
        )
        while (d := look(o)[3]).actions and isinstance(d.actions[0], DeletePod):
            assert d.actions[0].name == dead.name
            o = replace(o, pods=())
        (action,) = d.actions
        assert isinstance(action, OpenGate)
        assert (action.gate.restore.exact, action.gate.restore.again) == (False, True)


class TestAtItsGate:
    """Its epoch has begun, and it has not heard so."""

    def at(self, **more: Any) -> Observed:
        status = ran(2, phase="Starting") | upgrade("Starting", epoch=2) | more.pop("status", {})
        fields: dict[str, Any] = {"pods": [standby()], "index": index(TAKEN), "reported": at_gate(), **more}
        return handing_over(status=status, **fields)

    @pytest.mark.parametrize("spec", [{}, {"state": "Stopped"}, {"state": "Drained"}, {"suspend": True}])
    def test_what_is_asked_for_reaches_it_behind_the_gate(self, spec: dict[str, Any]) -> None:
        o = self.at(spec=spec)
        assert look(o)[2] == [OpenGate]
        assert look(replace(o, acknowledged=frozenset({gate_token(2)})))[2] == (
            [SendTermination] if spec else []
        )

    def test_a_cancel_kills_it(self) -> None:
        assert look(self.at(spec={"state": "Cancelled"}))[3].actions == (
            DeletePod("orders-driver-2", "pod-2", grace=1),
        )

    def test_not_while_an_earlier_driver_may_still_write(self) -> None:
        """The status was lost, and with it who has handed over."""
        do = look(self.at(pods=[alive(deleting=True, grace=1), standby()]))[2]
        assert OpenGate not in do

    def test_without_an_index_another_driver_is_told_at_its_start(self) -> None:
        lost = {
            "checkpoint": {"latest": 3, "epoch": 1, "completedAt": NOTED},
            "savepoint": {"latest": "file:///sp", "checkpoint": 3, "completedAt": NOTED, "drained": False},
        }
        missing = Problem("IndexMissing", "it is gone", "See who deletes it")
        o = replace(self.at(status=lost), index=None, index_version=None, index_problem=missing)
        assert look(o)[3].actions == (DeletePod("orders-driver-2", "pod-2"),)

    def test_a_gate_that_is_open_is_not_opened_again(self) -> None:
        o = self.at(reported=driver(DriverPhase.STARTING, 2))
        assert look(o)[2] == []


@pytest.mark.parametrize("gone", [(), (standby(deleting=True),)])
def test_a_cancelled_job_is_at_rest_when_its_prepared_driver_is_gone(gone: tuple[Pod, ...]) -> None:
    o = handing_over(spec={"state": "Cancelled"}, pods=[], standbys=gone, reported=None)
    assert look(o)[0] is (Phase.CANCELLING if gone else Phase.CANCELLED)


def test_a_driver_that_is_not_a_prepared_one_is_told_nothing_of_a_gate() -> None:
    o = observed(
        wanting(OLD, status=ran()), pods=[alive()], index=index(), reported=driver(DriverPhase.STARTING)
    )
    assert look(o)[2] == []
