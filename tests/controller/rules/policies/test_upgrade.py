"""The specification changes while a driver runs: it stops, and another begins."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from streamjob.api import ConditionType, Phase, Specification, UpgradeStep
from streamjob.controller.rules.actions import CreateDriver, DeletePod, EnsureSecret, SendTermination
from streamjob.controller.rules.decide import decide
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_status import SETTING_PINNED, DriverPhase, Problem

from ...factories import (
    FATAL,
    MINUTE,
    NOW,
    SECOND,
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
)
from .upgrades import NEW, OLD, TAKEN, alive, begun, made, step, upgrade, upgraded, wanting


class TestStopping:
    def test_a_running_driver_is_stopped_with_savepoint(self) -> None:
        o = observed(wanting(status=ran()), pods=[alive()], index=index(), reported=driver())
        phase, _, do, d = look(o)
        assert (phase, do) == (Phase.STOPPING, [SendTermination])
        (action,) = d.actions
        assert isinstance(action, SendTermination)
        assert (action.request.request_id, action.request.mode) == ("upgrade-1-2", Mode.STOP)
        assert action.request.savepoint is not None
        assert action.request.savepoint.endswith("/upgrade-1-2")
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
                    "volumes": [{"name": "a", "emptyDir": {}}],
                }
            },
            {
                "storage": {
                    "checkpoints": "file:///data/cp",
                    "savepoints": "file:///data/sp",
                    "volumeMounts": [{"name": "a", "mountPath": "/a"}],
                }
            },
            {"application": {"file": "/app/orders.py", "envFrom": [{"secretRef": {"name": "s"}}]}},
        ],
        ids=lambda spec: next(iter(spec)),
    )
    def test_by_each_part_of_the_specification(self, spec: dict[str, Any]) -> None:
        o = observed(wanting(OLD, status=ran(), **spec), pods=[alive()], index=index(), reported=driver())
        assert look(o)[2] == [SendTermination]

    @pytest.mark.parametrize(
        "spec",
        [
            {"termination": {"stopTimeout": "1m", "gracePeriod": "7s"}},
            {"restart": {"limit": 3, "nonce": 1}},
            {"checkpoint": {"interval": "1m"}},
            {"upgrade": {"mode": "Checkpoint"}},
            {"storage": {"checkpoints": "file:///data/cp", "savepoints": "file:///elsewhere"}},
        ],
        ids=lambda spec: next(iter(spec)),
    )
    def test_but_nothing_else_restarts_it(self, spec: dict[str, Any]) -> None:
        o = observed(wanting(OLD, status=ran(), **spec), pods=[alive()], index=index(), reported=driver())
        phase, _, do, d = look(o)
        assert (phase, do, d.status.upgrade) == (Phase.RUNNING, [], None)
        assert d.status.condition(ConditionType.UPGRADED) is None

    def test_nor_does_an_operator_that_knows_nothing_of_what_it_was_made_from(self) -> None:
        o = observed(wanting(status=ran()), pods=[running()], index=index(), reported=driver())
        assert look(o)[:3] == (Phase.RUNNING, "Running", [])

    def test_mode_checkpoint_copies_nothing(self) -> None:
        spec: dict[str, Any] = {"upgrade": {"mode": "Checkpoint"}}
        o = observed(wanting(status=ran(), **spec), pods=[alive()], index=index(), reported=driver())
        (action,) = look(o)[3].actions
        assert isinstance(action, SendTermination)
        assert action.request.savepoint is None

    def test_but_a_stop_that_comes_before_it_was_sent_does(self) -> None:
        status = ran(termination=requested() | {"requestId": "upgrade-1-2", "savepoint": None})
        o = observed(
            wanting(state="Stopped", status=status), pods=[alive()], index=index(), reported=driver()
        )
        (action,) = look(o)[3].actions
        assert isinstance(action, SendTermination)
        assert (action.request.request_id, action.request.savepoint is None) == ("stop-1-2", False)

    def test_mode_next_epoch_waits_and_reports_it(self) -> None:
        spec: dict[str, Any] = {"upgrade": {"mode": "NextEpoch"}}
        o = observed(wanting(status=ran(), **spec), pods=[alive()], index=index(), reported=driver())
        phase, reason, do, d = look(o)
        assert (phase, reason, do) == (Phase.RUNNING, "Running", [])
        assert upgraded(d) == ("False", "UpgradePending")
        *_, d = look(observed(wanting(status=ran() | upgrade("Pending"), **spec), index=index(TAKEN)))
        assert (begun(d).specification, d.status.upgrade) == (made(NEW), None)

    def test_one_that_was_never_sent_can_be_revoked(self) -> None:
        status = ran(termination=requested() | {"requestId": "upgrade-1-2"}) | upgrade("Stopping")
        o = observed(
            wanting(OLD, generation=3, status=status), pods=[alive()], index=index(), reported=driver()
        )
        phase, _, do, d = look(o)
        assert (phase, do, d.status.termination, d.status.upgrade) == (Phase.RUNNING, [], None, None)

    @pytest.mark.parametrize("state", ["Running", "Stopped", "Drained"])
    def test_it_completes_an_acknowledged_request(self, state: str) -> None:
        status = ran(termination=requested() | {"requestId": "upgrade-1-2"}) | upgrade("Stopping")
        reported = terminating(request="upgrade-1-2")
        acknowledged = frozenset({"upgrade-1-2"})
        o = observed(
            wanting(state=state, generation=3, status=status),
            pods=[alive()],
            index=index(),
            reported=reported,
            acknowledged=acknowledged,
        )
        assert look(o)[:3] == (Phase.STOPPING, "Stopping", [])

    def test_a_cancel_cuts_it_short(self) -> None:
        status = ran(termination=requested() | {"requestId": "upgrade-1-2"}) | upgrade("Stopping")
        o = observed(
            wanting(state="Cancelled", generation=3, status=status), pods=[alive()], reported=terminating()
        )
        assert look(o)[2] == [DeletePod]


class TestBeginning:
    def test_another_one_begins_at_the_savepoint(self) -> None:
        status = ran(termination=requested() | {"requestId": "upgrade-1-2"}) | upgrade("Stopping")
        phase, _, do, d = look(observed(wanting(status=status), index=index(TAKEN)))
        assert (phase, do) == (Phase.STARTING, [EnsureSecret, CreateDriver])
        assert (begun(d).config.epoch, begun(d).specification) == (2, made(NEW))
        assert begun(d).config.restore.exact
        assert d.status.upgrade is not None
        assert (step(d), d.status.upgrade.savepoint) == (UpgradeStep.STARTING, TAKEN.savepoint)
        assert d.status.upgrade.previous == made().text
        assert str(TAKEN.savepoint) in str(d.status.condition(ConditionType.UPGRADED))

    @pytest.mark.parametrize("state", ["Stopped", "Drained"])
    def test_unless_the_user_wants_an_end_by_now(self, state: str) -> None:
        status = ran(termination=requested() | {"requestId": "upgrade-1-2"}) | upgrade("Stopping")
        phase, _, _, d = look(observed(wanting(state=state, generation=3, status=status), index=index(TAKEN)))
        if state == "Stopped":
            assert (phase, d.actions) == (Phase.STOPPED, ())
        else:
            assert begun(d).specification == made(NEW)
            assert begun(d).config.termination is not None

    def test_the_old_driver_dies_before_its_savepoint(self) -> None:
        """Nothing is lost: the new one begins at the checkpoint directories. The status has no savepoint."""
        status = ran(phase="Restarting", restarts=failed(again=-SECOND, generation=2))
        status |= {"termination": requested() | {"requestId": "upgrade-1-2"}, **upgrade("Stopping")}
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
            reported=driver(epoch=2),
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
        o = observed(
            wanting(status=status), pods=[alive(NEW, 2)], index=index(TAKEN), reported=driver(epoch=2)
        )
        *_, d = look(o)
        assert step(d) is expected
        assert d.requeue_after == (1 if expected is UpgradeStep.STARTING else None)

    def test_the_condition_says_which_settings_have_no_effect(self) -> None:
        pinned = Problem(SETTING_PINNED, "spark.sql.shuffle.partitions is 2 and stays so", "Set it back")
        other = Problem("SinkMoved", "the output is elsewhere", "")
        status = ran(2) | upgrade("Completed", epoch=2)
        report = driver(epoch=2, warnings=(other, pinned))
        *_, d = look(observed(wanting(status=status), pods=[alive(NEW, 2)], index=index(), reported=report))
        condition = d.status.condition(ConditionType.UPGRADED)
        assert condition is not None
        assert (condition.status, condition.reason) == ("True", "Upgraded")
        assert condition.message == (
            "The new specification runs in epoch 2. But spark.sql.shuffle.partitions is 2 and stays so. "
            "Set it back."
        )

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
            reported=driver(epoch=2),
        )
        *_, d = look(o)
        assert upgraded(d) == ("True", "Upgraded")
        assert d.status.upgrade is not None
        assert d.status.upgrade.previous is None, "what ran before is needed no more"


def test_a_change_while_no_driver_runs_has_nothing_to_go_back_to() -> None:
    status = ran(phase="Stopped", pod=False, termination=requested(finalCheckpoint=1))
    *_, d = look(observed(wanting(status=status), index=index(record())))
    assert (begun(d).specification, d.status.upgrade) == (made(NEW), None)


def test_a_specification_is_the_same_in_any_order_and_survives_a_round_trip() -> None:
    one = made(sparkConf={"a": "1", "b": "2"}, driver={"template": {"metadata": {"labels": {"x": None}}}})
    two = made(sparkConf={"b": "2", "a": "1"}, driver={"template": {"metadata": {"labels": {"x": None}}}})
    assert one.text == two.text
    assert Specification.parse(one.text) == one
    assert Specification.parse("{}") is None, "of a version that this one cannot read"


def test_it_replaces_its_part_of_a_spec_and_keeps_the_rest() -> None:
    spec = made().onto(wanting(restart={"nonce": 3}).spec)
    assert (spec.image, spec.restart.nonce, spec.storage.savepoints) == (OLD, 3, "file:///data/sp")


def test_each_step_is_decided_only_once() -> None:
    """What is recorded is not recorded again by the next reconcile."""
    o = observed(wanting(status=ran()), pods=[alive()], index=index(), reported=driver())
    first = decide(o, NOW)
    second = decide(
        observed(wanting(status=first.status.plain()), pods=[alive()], index=index(), reported=driver()),
        NOW + MINUTE,
    )
    assert (second.status.upgrade, second.status.termination) == (
        first.status.upgrade,
        first.status.termination,
    )
