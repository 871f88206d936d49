"""The driver's JVM does not answer, and the driver says so: SIGSTOP, a long garbage collection."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.api import ConditionType, Phase
from streamjob.controller.rules.context import Decision
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus, Problem, TerminationStep

from ..factories import (
    driver,
    exited,
    index,
    is_ready,
    is_stalled,
    job,
    look,
    observed,
    ran,
    requested,
    running,
    terminating,
)

FROZEN = Problem(
    "JvmNotResponding",
    "the driver's JVM has not answered since 2026-01-02T03:04:05Z: process 71 is stopped (SIGSTOP)",
    "Whoever has stopped it has to continue it: `kill -CONT 71`",
)
TOLD = f"{FROZEN.message}. {FROZEN.remedy}."
NO_EXECUTOR = Problem("ExecutorsMissing", "the job wants 2 executors and has none", "See their pods")


def condition(d: Decision, kind: ConditionType) -> tuple[str, str, str]:
    found = d.status.condition(kind)
    assert found is not None
    return found.status, found.reason, found.message


def test_a_job_whose_jvm_does_not_answer_is_running_and_not_ready_until_it_does() -> None:
    """Executors that it has lost meanwhile are not the cause."""
    reported = driver(warnings=(NO_EXECUTOR, FROZEN))
    phase, _, do, d = look(observed(job(status=ran()), pods=[running()], index=index(), reported=reported))
    assert (phase, do) == (Phase.RUNNING, [])
    assert condition(d, ConditionType.READY) == ("False", "JvmNotResponding", TOLD)
    assert not is_stalled(d), "it may go on without a person"
    after = observed(job(status=d.status.plain()), pods=[running()], index=index(), reported=driver())
    assert is_ready(look(after)[3])


def stopping(reported: DriverStatus, *, deadline_passed: bool = False) -> tuple[str, str, Decision]:
    mode = reported.termination.mode if reported.termination else Mode.STOP
    state = "Drained" if mode is Mode.DRAIN else "Stopped"
    asked: dict[str, Any] = requested(mode.value)
    if deadline_passed:
        asked["deadline"] = "2026-01-02T03:00:00Z"
    o = observed(job(state=state, status=ran(termination=asked)), pods=[running()], reported=reported)
    d = look(o)[3]
    return *condition(d, ConditionType.RECONCILING)[1:], d


@pytest.mark.parametrize("mode", [Mode.STOP, Mode.DRAIN])
@pytest.mark.parametrize("step", [TerminationStep.BOUNDARY, TerminationStep.SNAPSHOT])
def test_a_stop_says_what_it_waits_for_and_what_a_cancel_costs(mode: Mode, step: TerminationStep) -> None:
    *_, told, d = stopping(terminating(mode, step=step, warnings=(FROZEN,)))
    assert told == (
        f"the batch runs. {TOLD} To wait no longer, set spec.state to Cancelled: no savepoint is written, "
        "sinks without transactions may get the running batch twice, and the next driver continues from the "
        "last committed batches (there is no checkpoint yet)."
    )
    assert d.status.last_error is not None
    assert d.status.last_error.remedy == FROZEN.remedy, "the command shows it while it waits"


def test_a_request_that_the_script_has_not_come_to_says_so_too() -> None:
    assert TOLD in stopping(driver(warnings=(FROZEN,)))[1]
    waits = stopping(driver(DriverPhase.STARTING, warnings=(FROZEN,)))[1]
    assert TOLD in waits
    assert "Cancelled" not in waits, "no batch runs that a cancel could repeat"


def test_once_everything_is_saved_a_cancel_costs_nothing() -> None:
    for step in (TerminationStep.COMPLETING, TerminationStep.CLOSED):
        told = stopping(terminating(step=step, warnings=(FROZEN,)))[1]
        assert TOLD in told
        assert "no savepoint is written" not in told


def test_the_limit_of_the_stop_holds() -> None:
    reason, told, _ = stopping(terminating(warnings=(FROZEN,)), deadline_passed=True)
    assert reason == "TerminationTimedOut"
    assert TOLD in told


def test_a_start_that_hangs_says_so() -> None:
    reported = driver(DriverPhase.STARTING, warnings=(FROZEN,))
    d = look(observed(job(status=ran()), pods=[running()], index=index(), reported=reported))[3]
    assert TOLD in condition(d, ConditionType.RECONCILING)[2]


def test_a_driver_that_has_ended_has_no_jvm_that_could_answer() -> None:
    frozen = driver(warnings=(FROZEN, Problem("Other", "stays")))
    d = look(observed(job(status=ran()), pods=[running()], index=index(), reported=frozen))[3]
    assert [w.reason for w in d.status.warnings] == ["JvmNotResponding", "Other"]
    for pods in ([], [exited(137)]):
        after = look(observed(job(state="Cancelled", status=d.status.plain()), pods=pods, index=index()))[3]
        assert [w.reason for w in after.status.warnings] == ["Other"]


def test_an_eviction_that_was_too_short_because_of_it_says_so() -> None:
    report = terminating(request="eviction-1", evicted=True, warnings=(FROZEN,))
    o = observed(job(status=ran()), pods=[exited(137, report=report)], index=index())
    _, reason, _, d = look(o)
    assert reason == "Evicted"
    assert d.status.last_error is not None
    assert FROZEN.message in d.status.last_error.message
    assert "gracePeriod" not in d.status.last_error.remedy, "more time would not have helped"
