"""A query is dead and its script neither restarts it nor ends: the job is degraded and runs on."""

from __future__ import annotations

from dataclasses import replace

from streamjob.api import Condition, ConditionType, Phase, Status
from streamjob.controller.reports.events import events
from streamjob.controller.rules.context import Decision
from streamjob.controller.rules.decide import decide
from streamjob.controller.rules.observed import Observed
from streamjob.protocol.messages.driver_status import Problem
from streamjob.protocol.times import timestamp

from ..factories import (
    MINUTE,
    NOW,
    TRANSIENT,
    driver,
    exited,
    is_ready,
    is_stalled,
    job,
    observed,
    ran,
    requested,
    running,
    terminating,
)

DEAD = Problem("QueryFailed", "windows: password=abc the broker is away", "Wait for it", retryable=True)
HEALTHY = observed(job(status=ran()), pods=[running()], reported=driver())
DEGRADED = replace(HEALTHY, driver=driver(degraded=DEAD))


def of(s: Status) -> Condition | None:
    return s.condition(ConditionType.DEGRADED)


def after(o: Observed, d: Decision) -> Observed:
    """The same, seen again when the status is written."""
    return replace(o, job=o.job.model_copy(update={"status": d.status}))


def reasons(old: Status, new: Status) -> list[tuple[bool, str]]:
    return [(e.warning, e.reason) for e in events(old, new) if e.reason in ("Degraded", "Recovered")]


def test_a_job_with_a_dead_query_is_running_and_degraded_but_not_ready() -> None:
    d = decide(DEGRADED, NOW)
    condition = of(d.status)
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "QueryFailed")
    assert condition.message == "windows: password=*** the broker is away. Wait for it."
    assert d.status.phase is Phase.RUNNING
    ready = d.status.condition(ConditionType.READY)
    assert ready is not None
    assert (ready.status, ready.reason, ready.message) == ("False", "QueryFailed", condition.message)
    assert not is_stalled(d)
    assert d.status.last_error is None, "nothing has failed as a whole"


def test_a_healthy_job_has_no_such_condition() -> None:
    assert of(decide(HEALTHY, NOW).status) is None


def test_it_stays_with_its_time_and_is_reported_once() -> None:
    first = decide(DEGRADED, NOW)
    assert reasons(HEALTHY.job.status, first.status) == [(True, "Degraded")]
    again = decide(after(DEGRADED, first), NOW + MINUTE)
    condition = of(again.status)
    assert condition is not None
    assert condition.last_transition_time == timestamp(NOW)
    assert reasons(first.status, again.status) == []


def test_another_query_that_dies_is_reported() -> None:
    first = decide(DEGRADED, NOW)
    worse = replace(after(DEGRADED, first), driver=driver(degraded=TRANSIENT))
    second = decide(worse, NOW + MINUTE)
    condition = of(second.status)
    assert condition is not None
    assert condition.last_transition_time == timestamp(NOW)
    assert reasons(first.status, second.status) == [(True, "Degraded")]


def test_a_query_that_is_started_again_ends_it() -> None:
    first = decide(DEGRADED, NOW)
    healthy = decide(replace(after(DEGRADED, first), driver=driver()), NOW + MINUTE)
    assert of(healthy.status) is None
    assert is_ready(healthy)
    assert reasons(first.status, healthy.status) == [(False, "Recovered")]


def test_a_driver_that_has_yet_to_answer_a_new_controller_changes_nothing() -> None:
    first = decide(DEGRADED, NOW)
    unknown = decide(replace(after(DEGRADED, first), driver=None), NOW)
    assert of(unknown.status) == of(first.status)


def test_it_stays_while_the_job_is_stopped() -> None:
    first = decide(DEGRADED, NOW)
    status = ran(termination=requested(), conditions=[c.plain() for c in first.status.conditions])
    o = observed(
        job(state="Stopped", status=status), pods=[running()], reported=replace(terminating(), degraded=DEAD)
    )
    d = decide(o, NOW)
    assert (d.status.phase, of(d.status) is not None) == (Phase.STOPPING, True)


def test_it_ends_with_the_driver_without_an_event_of_recovery() -> None:
    first = decide(DEGRADED, NOW)
    gone = decide(replace(after(DEGRADED, first), pods=(exited(137),), driver=None), NOW)
    assert (gone.status.phase, of(gone.status)) == (Phase.RESTARTING, None)
    assert reasons(first.status, gone.status) == []
