"""`driver.standby: true`: a prepared driver waits beside the running one, and takes over when it ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamjob.api import Phase
from streamjob.controller.reports.events import events
from streamjob.controller.rules.actions import (
    CreateDriver,
    DeletePod,
    EnsureSecret,
    OpenGate,
    SendTermination,
)
from streamjob.controller.rules.context import Decision
from streamjob.controller.rules.observed import Observed, Pod, gate_token
from streamjob.controller.rules.status import standby_failed
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.driver_config import Restore
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus, Problem

from ...factories import (
    FATAL,
    MINUTE,
    NOW,
    OUT_OF_INPUT,
    SECOND,
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
    running,
    terminating,
)
from .upgrades import NEW, OLD, alive, at_gate, made, standby, step, wanting

SPEC: dict[str, Any] = {"driver": {"standby": True}, "upgrade": {"startTimeout": "5m"}}
EVICTED = record(3, 1, Scenario.STOP, request="eviction-1")


def named(epoch: int = 2, **more: Any) -> dict[str, Any]:
    """The status names the standby; it has been seen."""
    found = {"pod": f"orders-driver-{epoch}", "epoch": epoch, "phase": "Running", "deadline": at(4 * MINUTE)}
    return {"standby": found | more}


def waiting(epoch: int = 2, base: Any = running, image: str = OLD, **more: Any) -> Pod:
    return standby(epoch, base, image, **more)


def seen(
    *, status: dict[str, Any] | None = None, pods: list[Pod] | None = None, there: bool = True, **more: Any
) -> Observed:
    """A job that runs, with a standby at its gate."""
    waits = {"standbys": (waiting(),), "prepared": at_gate()} if there else {}
    fields = {"index": index(record(2, 1, None)), "reported": driver(), **waits, **more}
    job = wanting(
        fields.pop("image", OLD), status=status or ran() | named(), **{**SPEC, **fields.pop("spec", {})}
    )
    return observed(job, pods=[alive()] if pods is None else pods, **fields)


def after(o: Observed, d: Decision, **more: Any) -> Observed:
    return replace(o, job=o.job.model_copy(update={"status": d.status}), **more)


def dead(code: int = 137, **more: Any) -> Pod:
    return exited(code, 1, specification=made(OLD), **more)


class TestMaking:
    def test_a_running_job_gets_one_and_the_status_names_it_before(self) -> None:
        phase, _, do, d = look(seen(status=ran(), there=False))
        assert (phase, do) == (Phase.RUNNING, [EnsureSecret, CreateDriver])
        create = d.actions[-1]
        assert isinstance(create, CreateDriver)
        assert (create.config.epoch, create.config.prepared, create.config.restore) == (2, True, Restore())
        assert create.specification == made(OLD)
        s = d.status.standby
        assert s is not None
        assert (s.pod, s.epoch, s.phase, s.deadline) == ("orders-driver-2", 2, None, at(5 * MINUTE))
        assert (d.status.epoch, d.status.upgrade) == (1, None)

    def test_its_creation_is_repeated_under_the_same_name(self) -> None:
        create = look(seen(status=ran() | named(phase=None), there=False))[3].actions[-1]
        assert isinstance(create, CreateDriver)
        assert create.config.epoch == 2

    @pytest.mark.parametrize("leaves", [(), (waiting(deleting=True),)])
    def test_one_that_somebody_deletes_is_followed_by_one_of_another_name(
        self, leaves: tuple[Pod, ...]
    ) -> None:
        create = look(seen(there=False, standbys=leaves))[3].actions[-1]
        assert isinstance(create, CreateDriver)
        assert create.config.epoch == 3

    def test_one_that_is_there_is_left_alone(self) -> None:
        o = seen()
        phase, _, do, d = look(o)
        assert (phase, do) == (Phase.RUNNING, [])
        assert d.status.standby is not None
        assert (d.status.standby.prepared, d.status.standby.deadline) == (True, None)
        assert [e.reason for e in events(o.job.status, d.status)].count("DriverPrepared") == 1
        again = look(after(o, d))[3].status
        assert [e.reason for e in events(d.status, again)] == []

    @pytest.mark.parametrize(
        "more",
        [
            {"reported": driver(DriverPhase.STARTING)},
            {"reported": driver(problem=TRANSIENT)},
            {"reported": None},
            {"pods": [replace(alive(), deleting=True)]},
            {"index": index(record(3, 1, Scenario.STOP, stages=False))},  # a gate cannot say that
            {"newest_only": True},
            {"namespace_ends": True},
            {"spec": {"driver": {}}},
        ],
    )
    def test_not_yet_or_not_at_all(self, more: dict[str, Any]) -> None:
        assert CreateDriver not in look(seen(status=ran(), there=False, **more))[2]

    def test_not_beside_the_driver_that_has_handed_over_and_leaves(self) -> None:
        handed_over = {"handedOver": {"pod": "orders-driver-1", "uid": "pod-1", "phase": "Running"}}
        o = seen(status=ran(2) | handed_over, there=False, reported=driver(epoch=2))
        after_it = replace(alive(), name="orders-driver-2", uid="pod-2", epoch=2)
        assert look(replace(o, pods=(alive(), after_it)))[:3] == (Phase.RUNNING, "Running", [])
        assert CreateDriver in look(replace(o, pods=(after_it,)))[2]

    def test_it_is_no_part_of_what_the_running_driver_is_made_from(self) -> None:
        with_it = wanting(OLD, **SPEC)
        assert made(OLD) == type(made(OLD)).of(with_it.spec)
        assert made(NEW).onto(with_it.spec).driver.standby


class TestInVain:
    def test_one_that_fails_is_made_again_after_the_backoff(self) -> None:
        o = seen(standbys=(waiting(base=lambda e, **m: exited(1, e, **m)),), prepared=None)
        d = look(o)[3]
        assert d.actions == (DeletePod("orders-driver-2", "pod-2"),)
        s = d.status.standby
        assert s is not None
        assert (s.failures, s.next_at, s.error and s.error.reason) == (1, at(10 * SECOND), "DriverExited")
        assert d.status.restarts is None, "the job has not failed"
        assert [e.reason for e in events(o.job.status, d.status) if e.warning] == ["DriverExited"]
        waits = after(o, d, standbys=())
        phase, _, do, d = look(waits)
        assert (phase, do, d.requeue_after) == (Phase.RUNNING, [], 10)

    @pytest.mark.parametrize(
        ("failures", "generation", "ran_for", "delay"),
        [
            (1, 2, MINUTE, 20 * SECOND),
            (9, 2, MINUTE, 5 * MINUTE),
            (9, 1, MINUTE, 10 * SECOND),
            (9, 2, 11 * MINUTE, 10 * SECOND),
        ],
    )
    def test_in_a_row_the_backoff_grows(
        self, failures: int, generation: int, ran_for: Any, delay: Any
    ) -> None:
        gone = waiting(base=lambda e, **m: exited(1, e, started_at=NOW - ran_for, **m))
        before = ran() | named(failures=failures, generation=generation)
        d = look(seen(status=before, standbys=(gone,), prepared=None))[3]
        assert d.status.standby is not None
        assert d.status.standby.next_at == at(delay)

    @pytest.mark.parametrize(
        ("again", "generation", "makes"), [(-SECOND, 2, True), (MINUTE, 2, False), (MINUTE, 1, True)]
    )
    def test_the_next_one_comes_when_it_is_due_or_the_spec_has_changed(
        self, again: Any, generation: int, makes: bool
    ) -> None:
        before = ran() | named(failures=3, generation=generation, nextAt=at(again))
        d = look(seen(status=before, there=False))[3]
        assert [a.config.epoch for a in d.actions if isinstance(a, CreateDriver)] == [3] * makes
        if makes:
            assert d.status.standby is not None
            assert (d.status.standby.failures, d.status.standby.next_at) == (3, None)

    def test_one_that_the_api_server_refuses_has_failed(self) -> None:
        job = seen(status=ran() | named(phase=None, failures=1, generation=2), there=False).job
        assert job.status.standby is not None
        s = standby_failed(job.status.standby, job, Problem("Forbidden", "exceeded quota", "Raise it"), NOW)
        assert (s.failures, s.next_at, s.error and s.error.reason) == (2, at(20 * SECOND), "Forbidden")
        before = ran() | {"standby": s.model_copy(update={"next_at": at(-SECOND)}).plain()}
        create = look(seen(status=before, there=False))[3].actions[-1]
        assert isinstance(create, CreateDriver)
        assert create.config.epoch == 3

    def test_one_that_does_not_come_to_its_gate_is_told_and_left(self) -> None:
        o = seen(
            status=ran() | named(deadline=at(-MINUTE)), prepared=DriverStatus(1, UID, 2, DriverPhase.STARTING)
        )
        phase, _, do, d = look(o)
        assert (phase, do) == (Phase.RUNNING, [])
        assert d.status.standby is not None
        assert d.status.standby.error is not None
        assert d.status.standby.error.reason == "DriverNotPrepared"
        assert d.status.last_error is None
        d = look(after(o, d, prepared=at_gate()))[3]
        assert d.status.standby is not None
        assert d.status.standby.error is None

    def test_one_that_has_fallen_silent_is_told_and_left_and_does_not_take_over(self) -> None:
        o = seen(status=ran() | named(prepared=True, deadline=None), prepared_silent=40.0)
        phase, _, do, d = look(o)
        assert (phase, do) == (Phase.RUNNING, [])
        assert d.status.standby is not None
        assert d.status.standby.error is not None
        assert (d.status.standby.prepared, d.status.standby.error.reason) == (False, "DriverUnreachable")
        dies = after(o, d, pods=(dead(),), driver=None)
        dies = after(dies, look(dies)[3])
        assert look(dies)[:3] == (Phase.RESTARTING, "DriverKilled", [])
        answers = look(after(o, d, prepared_silent=0.0))[3].status.standby
        assert answers is not None
        assert (answers.prepared, answers.error) == (True, None)


class TestFailover:
    @pytest.mark.parametrize(
        "pod",
        [
            dead(),
            dead(137, reason="OOMKilled"),
            dead(1, report=driver(DriverPhase.FAILED, problem=TRANSIENT)),
            dead(deleting=True),  # an eviction that took too long
            dead(beside=True),  # a sidecar runs on
            None,  # its node has been deleted
        ],
    )
    def test_the_gate_opens_at_once_and_the_failure_counts(self, pod: Pod | None) -> None:
        o = seen(pods=[pod] if pod else [], reported=None)
        phase, _, do, d = look(o)
        assert (phase, do, d.requeue_after) == (Phase.RESTARTING, [], 0)
        assert d.status.restarts is not None
        assert (d.status.restarts.count, d.status.epoch) == (1, 1)
        o = after(o, d)
        phase, _, do, d = look(o)
        assert (phase, do) == (Phase.STARTING, [OpenGate])
        (action,) = d.actions
        assert isinstance(action, OpenGate)
        assert (action.gate.epoch, action.gate.token) == (2, gate_token(2))
        assert (action.gate.restore.exact, action.gate.restore.again) == (False, True)
        assert (d.status.epoch, d.status.started_epoch, d.status.standby) == (2, 2, None)
        assert d.status.handed_over is None, "it has not ended in order"
        assert d.status.restarts is not None
        assert d.status.restarts.count == 1

    @pytest.mark.parametrize(
        "pod",
        [
            replace(alive(), deleting=True),
            dead(reason="ContainerStatusUnknown"),
            replace(alive(), phase="Failed"),  # of a lost node, for a moment
            replace(alive(), phase="Unknown"),
        ],
    )
    def test_not_while_nobody_knows_that_it_has_ended(self, pod: Pod) -> None:
        o = seen(pods=[pod], reported=None)
        for _ in range(3):
            d = look(o)[3]
            assert not [a for a in d.actions if isinstance(a, OpenGate)]
            o = after(o, d)

    def test_one_whose_pod_is_left_is_removed_behind_it(self) -> None:
        status = ran(2, restarts=failed()) | {"phase": "Starting"}
        old = dead(beside=True)
        o = seen(status=status, pods=[old, waiting()], there=False, reported=at_gate())
        assert look(o)[3].actions == (DeletePod(old.name, old.uid, grace=10),)
        o = replace(o, pods=(replace(old, deleting=True, grace=10), waiting()))
        assert look(o)[2] == [OpenGate], "the command was lost"

    @pytest.mark.parametrize(
        ("spec", "problem", "before"),
        [
            ({"restart": {"policy": "Never"}}, TRANSIENT, {}),
            ({}, FATAL, {}),
            ({"restart": {"limit": 2}}, TRANSIENT, {"restarts": failed(0, count=2, generation=2)}),
        ],
    )
    def test_a_job_that_fails_for_good_gets_no_successor(
        self, spec: dict[str, Any], problem: Problem, before: dict[str, Any]
    ) -> None:
        gone = dead(1, report=driver(DriverPhase.FAILED, problem=problem))
        gone = replace(gone, started_at=NOW)
        o = seen(status=ran(**before) | named(), pods=[gone], reported=None, spec=spec)
        phase, _, do, d = look(o)
        assert (phase, do) == (Phase.FAILED, [])
        o = after(o, d)
        assert look(o)[3].actions == (DeletePod("orders-driver-2", "pod-2"),)
        assert look(replace(o, standbys=()))[3].status.standby is None

    def test_one_that_is_not_at_its_gate_yet_is_waited_for(self) -> None:
        o = seen(
            status=ran(phase="Restarting", restarts=failed(again=-MINUTE)) | named(),
            pods=[],
            prepared=DriverStatus(1, UID, 2, DriverPhase.STARTING),
            reported=None,
        )
        phase, _, do, d = look(o)
        assert (phase, do, d.requeue_after) == (Phase.STARTING, [], 240)
        assert look(replace(o, prepared=at_gate()))[2] == [OpenGate]

    @pytest.mark.parametrize(("silent", "do"), [(0.0, []), (40.0, [DeletePod])])
    def test_one_that_was_at_its_gate_is_waited_for_until_it_is_silent(
        self, silent: float, do: list[Any]
    ) -> None:
        """A controller that has just started has not heard of it. No driver begins beside it."""
        o = seen(
            status=ran(phase="Restarting", restarts=failed(again=-MINUTE)) | named(deadline=None),
            pods=[],
            prepared=None,
            prepared_silent=silent,
            reported=None,
        )
        assert look(o)[2] == do
        assert CreateDriver in look(replace(o, standbys=()))[2]

    def test_but_not_for_ever(self) -> None:
        o = seen(
            status=ran(phase="Restarting", restarts=failed(again=-MINUTE)) | named(deadline=at(-MINUTE)),
            pods=[],
            prepared=None,
            reported=None,
        )
        assert look(o)[3].actions == (DeletePod("orders-driver-2", "pod-2"),)
        create = look(replace(o, standbys=()))[3].actions[-1]
        assert isinstance(create, CreateDriver)
        assert (create.config.prepared, create.config.epoch) == (False, 3)

    def test_without_one_the_backoff_is_waited_for(self) -> None:
        o = seen(pods=[dead()], reported=None, there=False, status=ran())
        d = look(o)[3]
        phase, _, do, d = look(after(o, d))
        assert (phase, do, d.requeue_after) == (Phase.RESTARTING, [], 10)


class TestEviction:
    def evicted(self, **more: Any) -> Observed:
        reported = replace(
            terminating(request="eviction-1", completed=EVICTED, evicted=True), phase=DriverPhase.TERMINATED
        )
        pods = [replace(alive(), deleting=True)]
        fields: dict[str, Any] = {"index": index(EVICTED), "reported": reported, "pods": pods}
        fields |= {"acknowledged": frozenset({"checkpoint-3-completed"})}
        return seen(**{**fields, **more})

    def test_it_is_a_hand_over(self) -> None:
        _, _, do, d = look(self.evicted())
        assert do == [OpenGate]
        (action,) = d.actions
        assert isinstance(action, OpenGate)
        assert action.gate.restore == Restore(latest=EVICTED, exact=True)
        assert d.status.handed_over is not None
        assert (d.status.handed_over.uid, d.status.epoch, d.status.restarts) == ("pod-1", 2, None)

    @pytest.mark.parametrize(
        "lacks",
        [
            {"index": index(record(2, 1, None))},
            {"reported": terminating(request="eviction-1", completed=EVICTED, evicted=True)},
            {"prepared": None},
        ],
    )
    def test_not_before_it_has_closed_and_its_savepoint_is_in_the_index(self, lacks: dict[str, Any]) -> None:
        assert OpenGate not in look(self.evicted(**lacks))[2]

    def test_one_that_has_exited_is_followed_without_waiting_for_its_pod(self) -> None:
        report = replace(driver(DriverPhase.TERMINATED), completed=EVICTED)
        gone = exited(0, 1, report=report, specification=made(OLD), deleting=True)
        assert look(self.evicted(pods=[gone], reported=None))[2] == [OpenGate]


class TestItsEnd:
    @pytest.mark.parametrize(
        "spec",
        [
            {"state": "Stopped"},
            {"state": "Drained"},
            {"state": "Cancelled"},
            {"suspend": True},
            {"driver": {"standby": False}},
        ],
    )
    def test_who_wants_no_driver_wants_no_standby(self, spec: dict[str, Any]) -> None:
        o = seen(spec=spec)
        d = look(o)[3]
        assert d.actions == (DeletePod("orders-driver-2", "pod-2"),)
        assert look(after(o, d, standbys=(), prepared=None))[3].status.standby is None

    def test_a_job_that_has_come_to_its_own_end_has_none(self) -> None:
        o = seen(pods=[], index=index(OUT_OF_INPUT), reported=None)
        assert look(o)[3].actions == (DeletePod("orders-driver-2", "pod-2"),)


class TestUpgrades:
    @pytest.mark.parametrize("mode", ["Savepoint", "Checkpoint"])
    def test_the_old_one_goes_with_the_stop_and_the_next_comes_behind_it(self, mode: str) -> None:
        o = seen(image=NEW, spec={"upgrade": {"mode": mode}})
        d = look(o)[3]
        assert d.actions == (DeletePod("orders-driver-2", "pod-2"),)
        assert look(after(o, d, standbys=(), prepared=None))[2] == [SendTermination]

    def test_with_a_hand_over_the_next_driver_is_the_standby(self) -> None:
        o = seen(image=NEW, spec={"upgrade": {"mode": "Handover"}})
        d = look(o)[3]
        assert d.actions == (DeletePod("orders-driver-2", "pod-2"),)
        _, _, do, d = look(o := after(o, d, standbys=(), prepared=None))
        assert do == [EnsureSecret, CreateDriver]
        create = d.actions[-1]
        assert isinstance(create, CreateDriver)
        assert create.specification == made(NEW)
        epoch = create.config.epoch
        o = after(o, d, standbys=(waiting(epoch, image=NEW),), prepared=at_gate(epoch))
        phase, _, do, d = look(o)
        assert (phase, do) == (Phase.STOPPING, [SendTermination])

    def test_one_of_the_next_epoch_waits_for_it(self) -> None:
        o = seen(image=NEW, spec={"upgrade": {"mode": "NextEpoch"}}, standbys=(waiting(image=NEW),))
        phase, _, do, d = look(o)
        assert (phase, do) == (Phase.RUNNING, [])
        assert step(d) is not None


def test_the_message_of_the_failure_promises_no_backoff() -> None:
    o = seen(pods=[dead()], reported=None)
    d = look(o)[3]
    ready = d.status.conditions[0].message
    assert ready.startswith("Restart 1 at once. ")
