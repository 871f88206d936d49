"""A job whose driver ends before its script has started a query: it has nothing new to save."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from streamjob.api import ConditionType, Phase
from streamjob.controller.rules.actions import CreateDriver, DeletePod, SendTermination
from streamjob.controller.rules.context import Decision
from streamjob.controller.rules.observed import Observed
from streamjob.protocol.formats.records import CheckpointRecord, TaskRecord
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus

from ..factories import (
    SECOND,
    TRANSIENT,
    driver,
    exited,
    failed,
    index,
    job,
    look,
    observed,
    ran,
    record,
    requested,
    running,
)

STOP: dict[str, Any] = {"state": "Stopped"}
SUSPEND: dict[str, Any] = {"suspend": True}
DRAIN: dict[str, Any] = {"state": "Drained"}
IDLE: DriverStatus = replace(driver(DriverPhase.STARTING, 2), stages=())
LAST = record(scenario=Scenario.STOP)


def asked(spec: dict[str, Any], *records: CheckpointRecord, **status: Any) -> Observed:
    """A job that was asked to end, whose second driver has started no query."""
    mode = "Drain" if spec is DRAIN else "Stop"
    kind = "suspend" if spec is SUSPEND else mode.lower()
    open_one = requested(mode, epoch=2) | {"requestId": f"{kind}-2-1"}
    return observed(
        job(status=ran(2, "Stopping", termination=open_one, **status), **spec),
        pods=[running(2)],
        index=index(*records),
        reported=IDLE,
        acknowledged=[open_one["requestId"]],
    )


def left(o: Observed, code: int = 0, *, unchanged: int | None = 1, **report: Any) -> Observed:
    """Its driver has left, and its pod is gone."""
    told = replace(IDLE, **{"exit_code": code, "unchanged_since": unchanged, **report})
    o = then(o, look(replace(o, pods=(exited(code, 2, report=told),), driver=None))[3])
    return replace(o, pods=(), driver=None)


def then(o: Observed, d: Decision) -> Observed:
    return replace(o, job=o.job.model_copy(update={"status": d.status}))


def ready(d: Decision) -> str:
    condition = d.status.condition(ConditionType.READY)
    assert condition is not None
    return condition.message


def test_it_is_waited_for() -> None:
    phase, _, do, d = look(asked(STOP, LAST))
    assert (phase, do) == (Phase.STOPPING, [])
    assert "its script has started no query yet" in ready(d)


@pytest.mark.parametrize("code", [0, 3], ids=["in order", "whatever the script made of SystemExit"])
def test_the_job_is_stopped_with_its_last_checkpoint(code: int) -> None:
    o = left(asked(STOP, LAST), code)
    phase, _, do, d = look(o)
    assert (phase, do, d.status.termination, d.status.restarts) == (Phase.STOPPED, [], None, None)
    assert ready(d) == (
        "Stopped with checkpoint 1; its script has started no query since, so it needs no newer savepoint"
    )
    assert look(then(o, d))[3].status == d.status, "it stays so"
    resumed = look(observed(job(status=d.status.plain()), index=index(LAST)))[3]
    (config,) = [a.config for a in resumed.actions if isinstance(a, CreateDriver)]
    assert (config.epoch, config.restore.exact) == (3, True), "and so it may be for any number of epochs"


def test_one_that_has_never_begun() -> None:
    o = left(asked(STOP), unchanged=0)
    phase, *_, d = look(o)
    assert (phase, ready(d)) == (Phase.STOPPED, "Stopped before it began")
    resumed = look(observed(job(status=d.status.plain()), index=index()))[3]
    (config,) = [a.config for a in resumed.actions if isinstance(a, CreateDriver)]
    assert config.restore.exact


def test_a_suspended_job_is_suspended() -> None:
    phase, *_, d = look(left(asked(SUSPEND, LAST)))
    assert phase is Phase.SUSPENDED
    assert ready(d).startswith("Suspended with checkpoint 1; its script has started no query since")


@pytest.mark.parametrize(
    ("last", "unchanged"),
    [(LAST, None), (LAST, 0), (record(scenario=None), 1), (record(transactions=("t-1",)), 1), (None, None)],
    ids=["one had crashed", "of another checkpoint", "a periodic one", "to be committed", "none yet"],
)
def test_what_a_crash_has_left_is_not_stopped(last: CheckpointRecord | None, unchanged: int | None) -> None:
    """Nobody would know of it: `Stopped` means that the savepoint has everything."""
    o = asked(STOP, *([last] if last else ()))
    phase, _, _, d = look(left(o, unchanged=unchanged))
    assert phase is Phase.RESTARTING
    assert d.status.restarts is not None
    assert d.status.restarts.count == 1


def test_a_stop_after_a_crash_says_what_it_waits_for() -> None:
    o = asked(STOP, record(scenario=None), restarts=failed(2))
    assert "and only queries can save what an earlier driver has left" in ready(look(o)[3])


@pytest.mark.parametrize(
    ("code", "report"),
    [(1, {"phase": DriverPhase.FAILED}), (0, {"phase": DriverPhase.RUNNING})],
    ids=["failed", "a query had started"],
)
def test_another_end_is_no_stop(code: int, report: dict[str, Any]) -> None:
    assert look(left(asked(STOP, LAST), code, **report))[0] is Phase.RESTARTING


@pytest.mark.parametrize(("unchanged", "phase"), [(1, Phase.STARTING), (None, Phase.RESTARTING)])
def test_an_eviction_then_is_a_stop_like_others_unless_one_has_crashed_before(
    unchanged: int | None, phase: Phase
) -> None:
    o = observed(job(status=ran(2)), pods=[running(2)], index=index(LAST), reported=IDLE)
    found, *_, d = look(left(o, evicted=True, unchanged=unchanged))
    assert found is phase
    if unchanged is None:
        assert "the driver was evicted before its script had started a query. Nothing has to be" in ready(d)


def test_a_script_that_fails_before_its_first_query_has_changed_nothing() -> None:
    """It is a failure, and the next driver begins exactly where this one did."""
    o = observed(job(status=ran(2)), pods=[running(2)], index=index(LAST), reported=IDLE)
    o = left(o, 1, phase=DriverPhase.FAILED, problem=TRANSIENT)
    assert o.job.status.restarts is not None
    later = replace(o, job=job(status=o.job.status.plain() | {"restarts": failed(2, again=-SECOND)}))
    (config,) = [a.config for a in look(later)[3].actions if isinstance(a, CreateDriver)]
    assert config.restore.exact


def test_a_drain_waits_for_its_queries() -> None:
    o = asked(DRAIN, LAST)
    assert "its script has started no query yet, and only queries can be drained" in ready(look(o)[3])
    phase, _, do, d = look(left(o))
    assert (phase, do[-1]) == (Phase.STARTING, CreateDriver), "the next one drains"
    assert d.status.termination == o.job.status.termination


def exhausted() -> CheckpointRecord:
    (stage,) = LAST.stages
    return replace(LAST, stages=(replace(stage, tasks=(TaskRecord(0, "file:///x", 7, exhausted=True),)),))


@pytest.mark.parametrize(("spec", "phase"), [({}, Phase.FINISHED), (DRAIN, Phase.DRAINED)])
def test_a_job_is_over_when_its_driver_says_that_nothing_was_left(spec: dict[str, Any], phase: Phase) -> None:
    o = (
        asked(spec, exhausted())
        if spec
        else observed(job(status=ran(2)), pods=[running(2)], index=index(exhausted()), reported=IDLE)
    )
    o = left(o, phase=DriverPhase.TERMINATED)
    found, _, do, d = look(o)
    assert (found, do) == (phase, [])
    assert look(then(o, d))[3].status == d.status, "it stays so"


@pytest.mark.parametrize(("last", "code"), [(LAST, 0), (exhausted(), 3), (replace(exhausted(), epoch=2), 0)])
def test_otherwise_it_is_not(last: CheckpointRecord, code: int) -> None:
    o = observed(job(status=ran(2)), pods=[running(2)], index=index(last), reported=IDLE)
    assert look(left(o, code, phase=DriverPhase.TERMINATED))[0] is not Phase.FINISHED


def test_a_deletion_asks_first_if_a_stop_has_begun() -> None:
    """Its driver leaves by itself then, and the job goes."""
    o = asked(STOP, LAST)
    deleted = job(deleted=timedelta(seconds=1), status=o.job.status.plain(), **STOP)
    o = replace(o, job=deleted, acknowledged=frozenset())
    assert look(o)[2] == [SendTermination]
    assert DeletePod not in look(left(o))[2]
