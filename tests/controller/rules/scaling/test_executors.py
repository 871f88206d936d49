"""The number of executors changes while a driver runs: it gets the number, and nothing restarts."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.api import ConditionType, Phase, Specification
from streamjob.controller.rules.actions import SendExecutors, SendTermination
from streamjob.controller.rules.context import Decision
from streamjob.protocol.messages.commands import ExecutorsRequest
from streamjob.protocol.messages.driver_status import (
    DriverPhase,
    DriverStatus,
    ExecutorsStatus,
    Problem,
    TerminationStep,
)

from ...factories import driver, index, is_ready, job, look, observed, ran, requested, running, terminating

Spec = dict[str, Any]


def dynamic(least: int, most: int) -> Spec:
    return {"dynamicAllocation": {"min": least, "max": most}}


def seen(made_from: Spec, spec: Spec, asked: tuple[int, int] | None, **more: Any) -> Any:
    """A driver made from one spec runs, and another is wanted."""
    executors = ExecutorsStatus(*asked, wanted=asked[0]) if asked else None
    pod = running(specification=Specification.of(job(executor=made_from).spec))
    reported = driver(more.pop("phase", DriverPhase.RUNNING), executors=executors)
    wanted = job(executor=spec, status=ran(), generation=2, **more)
    return look(observed(wanted, pods=[pod], index=index(), reported=reported))


def sent(d: Decision) -> list[ExecutorsRequest]:
    return [a.request for a in d.actions if isinstance(a, SendExecutors)]


@pytest.mark.parametrize(
    ("made_from", "spec", "asked", "bounds"),
    [
        ({"instances": 1}, {"instances": 3}, (1, 1), (3, 3)),
        # Back to what it was made from, after another number was sent.
        ({"instances": 1}, {"instances": 1}, (3, 3), (1, 1)),
        (dynamic(0, 2), dynamic(1, 4), (0, 2), (1, 4)),
        (dynamic(0, 2), dynamic(0, 1), (0, 2), (0, 1)),
    ],
)
def test_the_running_driver_gets_another_number(
    made_from: Spec, spec: Spec, asked: tuple[int, int], bounds: tuple[int, int]
) -> None:
    phase, reason, _, d = seen(made_from, spec, asked)
    assert (phase, reason) == (Phase.RUNNING, "Running")
    assert sent(d) == [ExecutorsRequest(1, *bounds)]
    assert d.status.upgrade is None


def test_bounds_in_the_settings_of_an_older_job_stay() -> None:
    """sparkConf is refused such settings now. A job that has them already keeps them."""
    conf = {f"spark.dynamicAllocation.{k}": v for k, v in {"enabled": "true", "maxExecutors": "9"}.items()}
    older = job(executor={"instances": 2}, sparkConf=conf, status=ran())
    pod = running(specification=Specification.of(older.spec))
    reported = driver(DriverPhase.RUNNING, executors=ExecutorsStatus(1, 9, wanted=1))
    assert sent(look(observed(older, pods=[pod], index=index(), reported=reported))[3]) == []


def test_once() -> None:
    assert seen({"instances": 1}, {"instances": 3}, (3, 3))[3].actions == ()


@pytest.mark.parametrize(
    ("made_from", "spec"),
    [
        ({}, {"instances": 1}),
        ({"instances": 1}, {}),
        ({"instances": 2}, dynamic(2, 2)),
        (dynamic(1, 2), {"instances": 2}),
        (dynamic(1, 2), {"dynamicAllocation": {"min": 1, "max": 2, "idleTimeout": "5s"}}),
        ({"instances": 1}, {"instances": 1, "template": {"spec": {"priorityClassName": "a"}}}),
    ],
)
def test_what_a_driver_cannot_change_is_an_upgrade(made_from: Spec, spec: Spec) -> None:
    assert seen(made_from, spec, (1, 1))[2] == [SendTermination]


def test_a_driver_that_waits_for_its_replacement_keeps_its_number() -> None:
    """Not that of its annotation, which is from its start."""
    d = seen({"instances": 1}, dynamic(2, 4), (3, 3), upgrade={"mode": "NextEpoch"})[3]
    assert (d.status.phase, sent(d)) == (Phase.RUNNING, [])


def test_only_a_driver_that_runs_is_asked() -> None:
    starting = seen({"instances": 1}, {"instances": 3}, (1, 1), phase=DriverPhase.STARTING)
    assert starting[2] == []
    stopping = seen({"instances": 1}, {"instances": 3}, (1, 1), state="Stopped")
    assert stopping[2] == [SendTermination]
    assert seen({"instances": 1}, {"instances": 3}, None)[2] == [], "it has no executors"


def test_the_status_has_the_executors_of_the_running_driver() -> None:
    d = seen(dynamic(0, 4), dynamic(0, 4), (0, 4))[3]
    assert d.status.executors is not None
    assert d.status.executors.plain() == {"wanted": 0, "running": 0, "min": 0, "max": 4}
    silent = observed(job(executor=dynamic(0, 4), status=d.status.plain()), pods=[running()], index=index())
    assert look(silent)[3].status.executors == d.status.executors, "another controller has not heard it yet"
    gone = look(observed(job(state="Stopped", status=d.status.plain()), index=index()))[3]
    assert gone.status.executors is None


@pytest.mark.parametrize(("wanted", "running_now", "told"), [(2, 0, True), (2, 1, False), (0, 0, False)])
def test_a_job_whose_executors_do_not_come_says_so(wanted: int, running_now: int, told: bool) -> None:
    """It runs, and its queries wait for them."""
    executors = ExecutorsStatus(0, 2, wanted, running_now)
    reported = driver(DriverPhase.RUNNING, executors=executors)
    o = observed(
        job(executor=dynamic(0, 2), status=ran()), pods=[running()], index=index(), reported=reported
    )
    phase, reason, _, d = look(o)
    assert (phase, reason) == (Phase.RUNNING, "Running")
    assert ("none of the 2 executors" in d.status.conditions[0].message) == told


NONE = ExecutorsStatus(2, 2, wanted=2)
MISSING = Problem("ExecutorsMissing", "the job wants 2 executors and has none", "See their pods")


def condition(d: Decision, kind: ConditionType) -> tuple[str, str, str]:
    found = d.status.condition(kind)
    assert found is not None
    return found.status, found.reason, found.message


def test_a_job_that_can_run_no_batch_is_running_and_not_ready() -> None:
    """Until an executor comes: the driver then withdraws its warning."""
    reported = driver(executors=NONE, warnings=(MISSING,))
    o = observed(job(executor={"instances": 2}, status=ran()), pods=[running()], reported=reported)
    phase, _, _, d = look(o)
    assert phase is Phase.RUNNING
    told = "the job wants 2 executors and has none. See their pods."
    assert condition(d, ConditionType.READY) == ("False", "ExecutorsMissing", told)
    assert condition(d, ConditionType.STALLED)[0] == "False", "executors may come without a person"
    came = driver(executors=ExecutorsStatus(2, 2, 2, running=1))
    after = observed(job(executor={"instances": 2}, status=d.status.plain()), pods=[running()], reported=came)
    assert is_ready(look(after)[3])


def stopping(reported: DriverStatus) -> str:
    wanted = job(state="Stopped", executor={"instances": 2}, status=ran(termination=requested()))
    o = observed(wanted, pods=[running()], reported=reported)
    return condition(look(o)[3], ConditionType.RECONCILING)[2]


def test_a_stop_whose_batch_no_executor_runs_says_so_at_once() -> None:
    """What it waits for, whose move it is, and what a cancel costs."""
    told = stopping(terminating(executors=NONE))
    assert told.startswith(
        "the batch runs. No batch can run: none of the 2 executors that it wants is there."
    )
    assert "Kubernetes' while their pods wait for a node, else yours" in told
    assert "set spec.state to Cancelled: no savepoint is written" in told
    assert "the next driver continues from the last committed batches" in told


@pytest.mark.parametrize(
    "reported",
    [
        terminating(executors=ExecutorsStatus(2, 2, 2, running=1)),
        terminating(executors=ExecutorsStatus(0, 2, 0)),
        terminating(executors=NONE, step=TerminationStep.SNAPSHOT),
        terminating(),
        driver(DriverPhase.STARTING, executors=NONE),
    ],
)
def test_a_stop_that_needs_no_executor_speaks_of_none(reported: DriverStatus) -> None:
    assert "executors" not in stopping(reported)
