"""A new specification does not come up: the job goes back to what ran before, once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from streamjob.api import Phase, UpgradeStep
from streamjob.api.specification import digest
from streamjob.controller.rules.actions import (
    Action,
    CreateDriver,
    DeletePod,
    EnsureSecret,
    SendSavepoint,
    SendTermination,
)
from streamjob.controller.rules.observed import Pod
from streamjob.protocol.messages.driver_status import DriverPhase

from ...factories import (
    FATAL,
    MINUTE,
    SECOND,
    TRANSIENT,
    at,
    driver,
    exited,
    failed,
    index,
    is_ready,
    is_stalled,
    look,
    observed,
    pod,
    ran,
    waiting,
)
from .upgrades import NEW, OLD, TAKEN, alive, begun, made, step, upgrade, upgraded, wanting


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
    def test_a_driver_that_does_not_start_is_rolled_back(self, pods: list[Pod], reason: str) -> None:
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

    def test_what_no_wait_fixes_is_rolled_back_at_once(self) -> None:
        bad = waiting("InvalidImageName", 2, generation=2, specification=made(NEW))
        assert look(does_not_start([bad], late=False))[2] == [DeletePod]

    def test_so_is_a_pod_that_the_api_server_refuses(self) -> None:
        refused = {"driver": {"pod": "orders-driver-2", "phase": "NotMade"}}
        error = {"reason": "Invalid", "message": "env: bad name", "remedy": "Fix it", "time": at(-SECOND)}
        o = does_not_start([], late=False, **refused, lastError=error)
        phase, reason, do, d = look(o)
        assert (phase, reason, do, d.requeue_after) == (Phase.RESTARTING, "RolledBack", [], 0)
        *_, d = look(observed(wanting(status=d.status.plain()), index=index(TAKEN)))
        assert (begun(d).config.epoch, begun(d).specification) == (2, made()), "no pod of this name was made"

    @pytest.mark.parametrize(
        ("late", "since", "rolled_back"),
        [(True, -SECOND, True), (False, -SECOND, False), (True, -100 * MINUTE, False)],
    )
    def test_so_is_one_whose_configmap_or_secret_the_api_server_refuses(
        self, late: bool, since: timedelta, rolled_back: bool
    ) -> None:
        """For a quota, for instance. An error of another time says nothing about it."""
        error = {"reason": "Forbidden", "message": "exceeded quota", "remedy": "", "time": at(since)}
        o = does_not_start([], late=late, driver={"pod": "orders-driver-2"}, lastError=error)
        assert (look(o)[1] == "RolledBack") is rolled_back

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
        spec: dict[str, Any] = {"restart": {"policy": policy}}
        o = observed(wanting(status=status | upgrade("Starting"), **spec), pods=[end], index=index(TAKEN))
        phase, reason, do, d = look(o)
        assert (phase, reason, do) == (Phase.RESTARTING, expected, [])
        assert d.requeue_after == (0 if expected == "RolledBack" else 10)

    def test_that_the_old_one_died_of_its_stop_is_not_counted(self) -> None:
        """Its failure came after the change of the spec."""
        died = failed(1, generation=2, again=-SECOND)
        stopping = ran(1, "Restarting", restarts=died) | upgrade("Stopping")
        *_, d = look(observed(wanting(status=stopping), index=index(TAKEN)))
        assert begun(d).specification == made(NEW)
        pod = {"pod": "orders-driver-2", "uid": "pod-2"}
        wanted = wanting(status={**d.status.plain(), "driver": pod, "startedEpoch": 2})
        end = exited(137, 2, specification=made(NEW))
        phase, _, _, d = look(observed(wanted, pods=[end], index=index(TAKEN)))
        assert (phase, step(d)) == (Phase.RESTARTING, UpgradeStep.STARTING), "it has failed once"

    def test_then_the_old_one_begins_again(self) -> None:
        rest = failed(2, count=0, again=timedelta(), generation=2)
        spec: dict[str, Any] = {"driver": {"memory": "2Gi"}}
        status = ran(2, "Restarting", restarts=rest) | upgrade("RolledBack")
        status["upgrade"]["target"] = digest(wanting(**spec).spec)
        o = observed(wanting(status=status, **spec), pods=[exited(1, 2)], index=index(TAKEN))
        *_, d = look(o)
        assert (begun(d).config.epoch, begun(d).specification) == (3, made())
        assert begun(d).config.spark_conf["spark.driver.memory"] == "1024m", (
            "its configuration is of the old specification"
        )

    def test_and_runs_but_the_job_is_not_what_the_spec_asks_for(self) -> None:
        status = ran(3) | upgrade("RolledBack", error={"reason": "X", "message": "m", "time": at(-SECOND)})
        o = observed(
            wanting(status=status), pods=[alive(OLD, 3)], index=index(TAKEN), reported=driver(epoch=3)
        )
        phase, reason, do, d = look(o)
        assert (phase, reason, do) == (Phase.RUNNING, "RolledBack", [])
        assert is_stalled(d)
        assert not is_ready(d)
        assert "restart.nonce" in d.status.conditions[0].message

    def test_it_takes_savepoints_all_the_same(self) -> None:
        status = ran(3) | upgrade("RolledBack") | {"savepointNonce": 1}
        wanted = wanting(status=status, savepoint={"nonce": 2})
        o = observed(wanted, pods=[alive(OLD, 3)], index=index(TAKEN), reported=driver(epoch=3))
        assert look(o)[2] == [SendSavepoint]

    @pytest.mark.parametrize(
        ("spec", "sends"),
        [
            ({"state": "Running"}, False),
            ({"termination": {"stopTimeout": "1m"}}, False),
            ({"image": "orders:3"}, True),
            ({"restart": {"nonce": 1}}, True),
        ],
        ids=["the same", "something else", "fixed", "nonce"],
    )
    def test_the_same_is_not_tried_again_until_the_spec_changes(
        self, spec: dict[str, Any], sends: bool
    ) -> None:
        wanted = wanting(**{"image": NEW, "generation": 7, "status": ran(3) | upgrade("RolledBack"), **spec})
        o = observed(wanted, pods=[alive(OLD, 3)], index=index(TAKEN), reported=driver(epoch=3))
        assert look(o)[2] == ([SendTermination] if sends else [])

    def test_set_back_the_spec_is_what_runs(self) -> None:
        status = ran(3) | upgrade("RolledBack")
        o = observed(
            wanting(OLD, generation=3, status=status),
            pods=[alive(OLD, 3)],
            index=index(TAKEN),
            reported=driver(epoch=3),
        )
        phase, _, do, d = look(o)
        assert (phase, do, d.status.upgrade) == (Phase.RUNNING, [], None)
        assert is_ready(d)

    def test_a_new_driver_that_began_all_the_same_is_stopped(self) -> None:
        """It started in the moment of the rollback, so its pod was not deleted."""
        status = ran(2, "Restarting") | upgrade("RolledBack")
        o = observed(
            wanting(status=status), pods=[alive(NEW, 2)], index=index(TAKEN), reported=driver(epoch=2)
        )
        *_, do, d = look(o)
        assert do == [SendTermination]
        assert step(d) is UpgradeStep.ROLLED_BACK

    @pytest.mark.parametrize(
        ("state", "expected"), [("Stopped", []), ("Drained", [EnsureSecret, CreateDriver])]
    )
    def test_an_end_that_is_requested_meanwhile_is_reached(
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
