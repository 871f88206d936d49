"""The specification changes while a driver runs: it stops, another begins, and if that does not come up the job goes back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from streamjob.api import ConditionType, Phase, Specification, StreamJob, UpgradeStep
from streamjob.api.specification import digest
from streamjob.controller.actions import (
    Action,
    CreateDriver,
    DeletePod,
    EnsureSecret,
    SendSavepoint,
    SendTermination,
)
from streamjob.controller.case import Decision
from streamjob.controller.decide import decide
from streamjob.controller.observe import Pod
from streamjob.protocol.messages import DriverPhase, Mode

from .given import (
    FATAL,
    MINUTE,
    NOW,
    SECOND,
    TRANSIENT,
    asked,
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
    pod,
    ran,
    record,
    running,
    terminating,
    waiting,
)

OLD, NEW = "orders:1", "orders:2"
TAKEN = record(1, 1, request="upgrade-1-2")


def wanting(image: str = NEW, *, generation: int = 2, **more: Any) -> StreamJob:
    return job(image=image, generation=generation, **more)


def made(image: str = OLD, **spec: Any) -> Specification:
    return Specification.of(job(image=image, **spec).spec)


def alive(image: str = OLD, epoch: int = 1, **more: Any) -> Pod:
    return running(epoch, specification=made(image), **more)


def upgrade(step: str, image: str = NEW, **more: Any) -> dict[str, Any]:
    """As the status has it, of a job that had `OLD`."""
    fields = {"step": step, "generation": 2, "target": digest(wanting(image).spec), "previous": made().text}
    if step == "Starting":
        fields |= {"epoch": 2, "deadline": at(5 * MINUTE)}
    return {"upgrade": {**fields, **more}}


def begun(d: Decision) -> CreateDriver:
    return next(a for a in d.actions if isinstance(a, CreateDriver))


def step(d: Decision) -> UpgradeStep | None:
    return d.status.upgrade.step if d.status.upgrade else None


def upgraded(d: Decision) -> tuple[str, str]:
    condition = d.status.condition(ConditionType.UPGRADED)
    assert condition is not None
    return condition.status, condition.reason


class TestStopping:
    def test_a_running_driver_is_stopped_with_savepoint(self) -> None:
        o = observed(wanting(status=ran()), pods=[alive()], index=index(), says=driver())
        phase, _, do, d = look(o)
        assert (phase, do) == (Phase.STOPPING, [SendTermination])
        (told,) = d.actions
        assert isinstance(told, SendTermination)
        assert (told.request.request_id, told.request.mode) == ("upgrade-1-2", Mode.STOP)
        assert told.request.savepoint is not None
        assert told.request.savepoint.endswith("/upgrade-1-2")
        # The intent is in the status, with what to go back to.
        assert d.status.upgrade is not None
        assert (step(d), d.status.upgrade.previous) == (UpgradeStep.STOPPING, made().text)
        assert upgraded(d) == ("Unknown", "Upgrading")

    @pytest.mark.parametrize(
        "spec",
        [
            {"application": {"file": "/app/other.py"}},
            {"application": {"file": "/app/orders.py", "args": ["x"]}},
            {"sparkConf": {"spark.sql.shuffle.partitions": "3"}},
            {"driver": {"memory": "2Gi"}},
            {"driver": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}},
            {"executor": {"instances": 2}},
            {
                "storage": {
                    "checkpoints": "file:///data/cp",
                    "savepoints": "file:///data/sp",
                    "volumes": [{"name": "a", "mountPath": "/a", "emptyDir": {}}],
                }
            },
        ],
        ids=lambda spec: next(iter(spec)),
    )
    def test_by_each_part_of_the_specification(self, spec: dict[str, Any]) -> None:
        o = observed(wanting(OLD, status=ran(), **spec), pods=[alive()], index=index(), says=driver())
        assert look(o)[2] == [SendTermination]

    @pytest.mark.parametrize(
        "spec",
        [
            {"termination": {"stopTimeout": "1m", "gracePeriod": 7}},
            {"restart": {"limit": 3, "nonce": 1}},
            {"checkpoint": {"interval": "1m"}},
            {"upgrade": {"mode": "Checkpoint"}},
            {"storage": {"checkpoints": "file:///data/cp", "savepoints": "file:///elsewhere"}},
        ],
        ids=lambda spec: next(iter(spec)),
    )
    def test_but_nothing_else_restarts_it(self, spec: dict[str, Any]) -> None:
        o = observed(wanting(OLD, status=ran(), **spec), pods=[alive()], index=index(), says=driver())
        phase, _, do, d = look(o)
        assert (phase, do, d.status.upgrade) == (Phase.RUNNING, [], None)
        assert d.status.condition(ConditionType.UPGRADED) is None

    def test_nor_does_an_operator_that_knows_nothing_of_what_it_was_made_from(self) -> None:
        o = observed(wanting(status=ran()), pods=[running()], index=index(), says=driver())
        assert look(o)[:3] == (Phase.RUNNING, "Running", [])

    def test_mode_checkpoint_copies_nothing(self) -> None:
        spec = {"upgrade": {"mode": "Checkpoint"}}
        o = observed(wanting(status=ran(), **spec), pods=[alive()], index=index(), says=driver())
        (told,) = look(o)[3].actions
        assert isinstance(told, SendTermination)
        assert told.request.savepoint is None

    def test_but_a_stop_that_comes_before_it_was_told_does(self) -> None:
        status = ran(termination=asked() | {"requestId": "upgrade-1-2", "savepoint": None})
        o = observed(wanting(state="Stopped", status=status), pods=[alive()], index=index(), says=driver())
        (told,) = look(o)[3].actions
        assert isinstance(told, SendTermination)
        assert (told.request.request_id, told.request.savepoint is None) == ("stop-1-2", False)

    def test_mode_next_epoch_waits_and_says_so(self) -> None:
        spec = {"upgrade": {"mode": "NextEpoch"}}
        o = observed(wanting(status=ran(), **spec), pods=[alive()], index=index(), says=driver())
        phase, reason, do, d = look(o)
        assert (phase, reason, do) == (Phase.RUNNING, "Running", [])
        assert upgraded(d) == ("False", "UpgradePending")
        *_, d = look(observed(wanting(status=ran() | upgrade("Pending"), **spec), index=index(TAKEN)))
        assert (begun(d).specification, d.status.upgrade) == (made(NEW), None)

    def test_one_that_was_never_told_can_be_taken_back(self) -> None:
        status = ran(termination=asked() | {"requestId": "upgrade-1-2"}) | upgrade("Stopping")
        o = observed(wanting(OLD, generation=3, status=status), pods=[alive()], index=index(), says=driver())
        phase, _, do, d = look(o)
        assert (phase, do, d.status.termination, d.status.upgrade) == (Phase.RUNNING, [], None, None)

    @pytest.mark.parametrize("state", ["Running", "Stopped", "Drained"])
    def test_what_it_was_told_it_finishes(self, state: str) -> None:
        status = ran(termination=asked() | {"requestId": "upgrade-1-2"}) | upgrade("Stopping")
        says = terminating(request="upgrade-1-2")
        told = frozenset({"upgrade-1-2"})
        o = observed(
            wanting(state=state, generation=3, status=status),
            pods=[alive()],
            index=index(),
            says=says,
            acknowledged=told,
        )
        assert look(o)[:3] == (Phase.STOPPING, "Stopping", [])

    def test_a_cancel_cuts_it_short(self) -> None:
        status = ran(termination=asked() | {"requestId": "upgrade-1-2"}) | upgrade("Stopping")
        o = observed(
            wanting(state="Cancelled", generation=3, status=status), pods=[alive()], says=terminating()
        )
        assert look(o)[2] == [DeletePod]


class TestBeginning:
    def test_another_one_begins_at_the_savepoint(self) -> None:
        status = ran(termination=asked() | {"requestId": "upgrade-1-2"}) | upgrade("Stopping")
        phase, _, do, d = look(observed(wanting(status=status), index=index(TAKEN)))
        assert (phase, do) == (Phase.STARTING, [EnsureSecret, CreateDriver])
        assert (begun(d).config.epoch, begun(d).specification) == (2, made(NEW))
        assert begun(d).config.restore.exact
        assert d.status.upgrade is not None
        assert (step(d), d.status.upgrade.savepoint) == (UpgradeStep.STARTING, TAKEN.savepoint)
        assert d.status.upgrade.previous == made().text
        assert TAKEN.savepoint in str(d.status.condition(ConditionType.UPGRADED))

    @pytest.mark.parametrize("state", ["Stopped", "Drained"])
    def test_unless_the_user_wants_an_end_by_now(self, state: str) -> None:
        status = ran(termination=asked() | {"requestId": "upgrade-1-2"}) | upgrade("Stopping")
        phase, _, _, d = look(observed(wanting(state=state, generation=3, status=status), index=index(TAKEN)))
        if state == "Stopped":
            assert (phase, d.actions) == (Phase.STOPPED, ())
        else:
            assert begun(d).specification == made(NEW)
            assert begun(d).config.termination is not None

    def test_the_old_driver_dies_before_its_savepoint(self) -> None:
        """Nothing is lost: the new one begins at the checkpoint directories, and it is said that there is no savepoint."""
        status = ran(phase="Restarting", restarts=failed(again=-SECOND, generation=2))
        status |= {"termination": asked() | {"requestId": "upgrade-1-2"}, **upgrade("Stopping")}
        *_, d = look(observed(wanting(status=status), index=index()))
        assert begun(d).specification == made(NEW)
        assert begun(d).config.termination is None
        assert not begun(d).config.restore.exact
        assert "without a savepoint" in str(d.status.condition(ConditionType.UPGRADED))

    def test_a_change_that_is_set_back_is_none(self) -> None:
        status = ran() | upgrade("Stopping")
        *_, d = look(observed(wanting(OLD, generation=3, status=status), index=index(TAKEN)))
        assert (begun(d).specification, d.status.upgrade) == (made(), None)

    def test_a_second_change_does_not_forget_what_ran(self) -> None:
        """The new one, which has not come up yet, is nothing to go back to."""
        status = ran(2) | upgrade("Starting")
        o = observed(
            wanting("orders:3", generation=3, status=status),
            pods=[alive(NEW, 2)],
            index=index(TAKEN),
            says=driver(epoch=2),
        )
        *_, do, d = look(o)
        assert do == [SendTermination]
        assert d.status.upgrade is not None
        assert d.status.upgrade.previous == made().text

    @pytest.mark.parametrize(("since", "expected"), [(59, UpgradeStep.STARTING), (60, UpgradeStep.COMPLETED)])
    def test_it_has_come_up_when_it_has_run_for_a_while(self, since: int, expected: UpgradeStep) -> None:
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Running",
            "message": "",
            "observedGeneration": 2,
        }
        ready["lastTransitionTime"] = at(timedelta(seconds=-since))
        status = ran(2, conditions=[ready]) | upgrade("Starting")
        o = observed(wanting(status=status), pods=[alive(NEW, 2)], index=index(TAKEN), says=driver(epoch=2))
        *_, d = look(o)
        assert step(d) is expected
        assert d.wake == (1 if expected is UpgradeStep.STARTING else None)

    def test_but_not_if_it_has_failed_while_nobody_looked(self) -> None:
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Running",
            "message": "",
            "observedGeneration": 2,
        }
        ready["lastTransitionTime"] = at(-5 * MINUTE)
        status = ran(2, conditions=[ready]) | upgrade("Starting")
        end = exited(1, 2, report=driver(DriverPhase.FAILED, 2, problem=FATAL), specification=made(NEW))
        *_, d = look(observed(wanting(status=status), pods=[end], index=index(TAKEN)))
        assert step(d) is UpgradeStep.ROLLED_BACK

    def test_or_has_completed_a_checkpoint(self) -> None:
        status = ran(2) | upgrade("Starting")
        o = observed(
            wanting(status=status),
            pods=[alive(NEW, 2)],
            index=index(TAKEN, record(2, 2, None, request=None)),
            says=driver(epoch=2),
        )
        *_, d = look(o)
        assert upgraded(d) == ("True", "Upgraded")
        assert d.status.upgrade is not None
        assert d.status.upgrade.previous is None, "what ran before is needed no more"


def does_not_start(pods: list[Pod], *, late: bool = True, **more: Any) -> Any:
    deadline = at(-SECOND if late else MINUTE)
    status = ran(2, "Starting", startedEpoch=1) | upgrade("Starting", deadline=deadline) | more
    return observed(wanting(status=status), pods=pods, index=index(TAKEN))


class TestGoingBack:
    @pytest.mark.parametrize(
        ("pods", "reason"),
        [
            ([waiting("ErrImagePull", 2, generation=2, specification=made(NEW))], "ImagePullBackOff"),
            ([pod(2, generation=2, specification=made(NEW))], "DriverNotStarted"),
        ],
        ids=["image", "volume"],
    )
    def test_a_driver_that_does_not_start_is_given_up(self, pods: list[Pod], reason: str) -> None:
        assert look(does_not_start(pods, late=False))[2] == []
        phase, why, _, d = look(does_not_start(pods))
        assert (phase, why) == (Phase.RESTARTING, "RolledBack")
        assert d.actions == (DeletePod("orders-driver-2", "pod-2", "5"),), "unless it starts just now"
        assert step(d) is UpgradeStep.ROLLED_BACK
        assert upgraded(d) == ("False", "RolledBack")
        assert d.status.last_error is not None
        assert d.status.last_error.reason == reason
        assert reason in d.status.conditions[-1].message

    def test_one_that_starts_just_now_is_not(self) -> None:
        assert look(does_not_start([alive(NEW, 2)]))[2] == []

    def test_what_no_wait_mends_is_given_up_at_once(self) -> None:
        bad = waiting("InvalidImageName", 2, generation=2, specification=made(NEW))
        assert look(does_not_start([bad], late=False))[2] == [DeletePod]

    def test_so_is_a_pod_that_the_api_server_refuses(self) -> None:
        refused = {"driver": {"pod": "orders-driver-2", "phase": "NotMade"}}
        error = {"reason": "Invalid", "message": "env: bad name", "remedy": "Mend it", "time": at(-SECOND)}
        o = does_not_start([], late=False, **refused, lastError=error)
        phase, reason, do, d = look(o)
        assert (phase, reason, do, d.wake) == (Phase.RESTARTING, "RolledBack", [], 0)
        *_, d = look(observed(wanting(status=d.status.plain()), index=index(TAKEN)))
        assert (begun(d).config.epoch, begun(d).specification) == (2, made()), "no pod of this name was made"

    @pytest.mark.parametrize(
        ("problem", "count", "policy", "expected"),
        [
            (TRANSIENT, 0, "OnFailure", "QueryFailed"),
            (TRANSIENT, 1, "OnFailure", "RolledBack"),
            (TRANSIENT, 0, "Never", "RolledBack"),
            (FATAL, 0, "OnFailure", "RolledBack"),
        ],
    )
    def test_one_that_fails(self, problem: Any, count: int, policy: str, expected: str) -> None:
        """Once may be chance."""
        status = ran(3, restarts=failed(2, count=count, generation=2)) if count else ran(3)
        end = exited(1, 3, report=driver(DriverPhase.FAILED, 3, problem=problem), specification=made(NEW))
        spec = {"restart": {"policy": policy}}
        o = observed(wanting(status=status | upgrade("Starting"), **spec), pods=[end], index=index(TAKEN))
        phase, reason, do, d = look(o)
        assert (phase, reason, do) == (Phase.RESTARTING, expected, [])
        assert d.wake == (0 if expected == "RolledBack" else 10)

    def test_then_the_old_one_begins_again(self) -> None:
        rest = failed(2, count=0, again=timedelta(), generation=2)
        spec = {"driver": {"memory": "2Gi"}}
        status = ran(2, "Restarting", restarts=rest) | upgrade("RolledBack")
        status["upgrade"]["target"] = digest(wanting(**spec).spec)
        o = observed(wanting(status=status, **spec), pods=[exited(1, 2)], index=index(TAKEN))
        assert look(o)[2] == [DeletePod]
        *_, d = look(observed(wanting(status=status, **spec), index=index(TAKEN)))
        assert (begun(d).config.epoch, begun(d).specification) == (3, made())
        assert begun(d).config.spark_conf["spark.driver.memory"] == "1024m", "it is told what it is made from"

    def test_and_runs_but_the_job_is_not_what_the_spec_asks_for(self) -> None:
        status = ran(3) | upgrade("RolledBack", error={"reason": "X", "message": "m", "time": at(-SECOND)})
        o = observed(wanting(status=status), pods=[alive(OLD, 3)], index=index(TAKEN), says=driver(epoch=3))
        phase, reason, do, d = look(o)
        assert (phase, reason, do) == (Phase.RUNNING, "RolledBack", [])
        assert is_stalled(d)
        assert not is_ready(d)
        assert "restart.nonce" in d.status.conditions[0].message

    def test_it_takes_savepoints_all_the_same(self) -> None:
        status = ran(3) | upgrade("RolledBack") | {"savepointTrigger": 1}
        wanted = wanting(status=status, savepoint={"trigger": 2})
        o = observed(wanted, pods=[alive(OLD, 3)], index=index(TAKEN), says=driver(epoch=3))
        assert look(o)[2] == [SendSavepoint]

    @pytest.mark.parametrize(
        ("spec", "sends"),
        [
            ({"state": "Running"}, False),
            ({"termination": {"stopTimeout": "1m"}}, False),
            ({"image": "orders:3"}, True),
            ({"restart": {"nonce": 1}}, True),
        ],
        ids=["the same", "something else", "mended", "nonce"],
    )
    def test_the_same_is_not_tried_again_until_the_spec_changes(
        self, spec: dict[str, Any], sends: bool
    ) -> None:
        wanted = wanting(**{"image": NEW, "generation": 7, "status": ran(3) | upgrade("RolledBack"), **spec})
        o = observed(wanted, pods=[alive(OLD, 3)], index=index(TAKEN), says=driver(epoch=3))
        assert look(o)[2] == ([SendTermination] if sends else [])

    def test_set_back_the_spec_is_what_runs(self) -> None:
        status = ran(3) | upgrade("RolledBack")
        o = observed(
            wanting(OLD, generation=3, status=status),
            pods=[alive(OLD, 3)],
            index=index(TAKEN),
            says=driver(epoch=3),
        )
        phase, _, do, d = look(o)
        assert (phase, do, d.status.upgrade) == (Phase.RUNNING, [], None)
        assert is_ready(d)

    def test_a_new_driver_that_began_all_the_same_is_stopped(self) -> None:
        """It started in the moment in which it was given up, so its pod was not deleted."""
        status = ran(2, "Restarting") | upgrade("RolledBack")
        o = observed(wanting(status=status), pods=[alive(NEW, 2)], index=index(TAKEN), says=driver(epoch=2))
        *_, do, d = look(o)
        assert do == [SendTermination]
        assert step(d) is UpgradeStep.ROLLED_BACK

    @pytest.mark.parametrize(
        ("state", "expected"), [("Stopped", []), ("Drained", [EnsureSecret, CreateDriver])]
    )
    def test_an_end_that_is_asked_for_meanwhile_is_reached(
        self, state: str, expected: list[type[Action]]
    ) -> None:
        status = ran(1, "Restarting", pod=False) | upgrade("RolledBack")
        _, _, do, d = look(observed(wanting(state=state, generation=3, status=status), index=index(TAKEN)))
        assert do == expected
        if expected:
            assert begun(d).specification == made()

    def test_a_job_that_was_deleted_goes(self) -> None:
        bad = waiting("ErrImagePull", 2, specification=made(NEW))
        status = ran(2, "Starting", startedEpoch=1) | upgrade("Starting")
        o = observed(wanting(deleted=SECOND, status=status), pods=[bad], index=index(TAKEN))
        assert look(o)[2] == [DeletePod]


def test_a_change_while_no_driver_runs_has_nothing_to_go_back_to() -> None:
    status = ran(phase="Stopped", pod=False, termination=asked(finalCheckpoint=1))
    *_, d = look(observed(wanting(status=status), index=index(record())))
    assert (begun(d).specification, d.status.upgrade) == (made(NEW), None)


def test_a_specification_says_the_same_in_any_order_and_survives_a_round_trip() -> None:
    one = made(sparkConf={"a": "1", "b": "2"}, driver={"template": {"metadata": {"labels": {"x": None}}}})
    two = made(sparkConf={"b": "2", "a": "1"}, driver={"template": {"metadata": {"labels": {"x": None}}}})
    assert one.text == two.text
    assert Specification.parse(one.text) == one
    assert Specification.parse("{}") is None, "of a version that this one cannot read"


def test_it_goes_onto_a_spec_and_leaves_the_rest() -> None:
    spec = made().onto(wanting(restart={"nonce": 3}).spec)
    assert (spec.image, spec.restart.nonce, spec.storage.savepoints) == (OLD, 3, "file:///data/sp")


def test_each_step_is_decided_only_once() -> None:
    """What is recorded is not recorded anew at the next look."""
    o = observed(wanting(status=ran()), pods=[alive()], index=index(), says=driver())
    first = decide(o, NOW)
    second = decide(
        observed(wanting(status=first.status.plain()), pods=[alive()], index=index(), says=driver()),
        NOW + MINUTE,
    )
    assert (second.status.upgrade, second.status.termination) == (
        first.status.upgrade,
        first.status.termination,
    )
