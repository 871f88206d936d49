"""How the driver has ended, and what the job has come to by that: the exit code is the script's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamjob.api import Phase
from streamjob.controller.rules.actions import CreateDriver, DeletePod, EnsureSecret
from streamjob.controller.rules.driver_config import driver_config
from streamjob.controller.rules.observed import Observed, Pod
from streamjob.protocol.formats.index import Index
from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus, Problem

from ..factories import (
    DRAINED,
    OUT_OF_INPUT,
    driver,
    exited,
    index,
    job,
    look,
    observed,
    ran,
    record,
    requested,
    running,
    terminating,
)

STOPPED_ITSELF = record(2, 1, Scenario.STOP, request=None)
OWN_ENDS = [OUT_OF_INPUT, STOPPED_ITSELF]
DEAD = Problem("QueryFailed", "windows: boom", "See the driver's log", retryable=True)


def report(phase: DriverPhase = DriverPhase.TERMINATED, code: int | None = 0, **more: Any) -> DriverStatus:
    return driver(phase, exit_code=code, exit_reason="the script came to its end", **more)


def gone(o: Observed, status: Any) -> Observed:
    """The same, later: the pod is deleted."""
    return replace(o, pods=(), driver=None, job=job(state=o.job.spec.state.value, status=status.plain()))


def end(pod: Pod, known: Index, **more: Any) -> tuple[Phase | None, str, Observed]:
    """What the job comes to: phase and reason when nothing is left to do but to wait."""
    o = observed(job(status=ran(), **more), pods=[pod], index=known)
    _, _, actions, d = look(o)
    if actions == [DeletePod]:
        o = gone(o, d.status)
        return (*look(o)[:2], o)
    return d.status.phase, look(o)[1], gone(o, d.status)


@pytest.mark.parametrize("final", OWN_ENDS)
def test_a_script_that_ends_by_itself_with_0_has_finished(final: CheckpointRecord) -> None:
    phase, _, later = end(exited(report=report(completed=final)), index(final))
    assert phase is Phase.FINISHED
    last = later.job.status.last_exit
    assert last is not None
    assert (last.epoch, last.code, last.phase, last.reason) == (
        1,
        0,
        "Terminated",
        "the script came to its end",
    )


@pytest.mark.parametrize("final", OWN_ENDS)
@pytest.mark.parametrize(
    ("code", "reported"),
    [
        (3, report(DriverPhase.FAILED, 3, problem=DEAD)),
        (0, report(DriverPhase.FAILED, 0, problem=DEAD)),
        (0, report(DriverPhase.FAILED, 0, degraded=DEAD)),
        (0, report(DriverPhase.FAILED, 0)),
    ],
)
def test_a_job_whose_query_was_dead_when_the_script_ended_has_failed(
    final: CheckpointRecord, code: int, reported: DriverStatus
) -> None:
    """Whatever the exit code, and whatever the index has."""
    for known in (index(), index(final)):
        phase, reason, later = end(exited(code, report=reported), known)
        assert (phase, reason) == (Phase.RESTARTING, "QueryFailed")
        assert look(later)[0] is Phase.RESTARTING, "it stays so when the pod is gone"


def test_a_script_that_ends_by_itself_with_another_code_has_failed() -> None:
    phase, reason, later = end(exited(3, report=report(code=3)), index(OUT_OF_INPUT))
    assert (phase, reason) == (Phase.RESTARTING, "ScriptFailed")
    error = later.job.status.last_error
    assert error is not None
    assert error.message == "the script ended with exit code 3: the script came to its end"


def test_the_next_epoch_of_a_failed_end_runs_the_script_again() -> None:
    """Its queries have nothing left to do: that is no drained job, which a driver would refuse."""
    _, _, later = end(exited(3, report=report(code=3)), index(OUT_OF_INPUT))
    status = later.job.status.plain()
    status["restarts"]["nextAt"] = "2026-01-02T03:04:00Z"
    o = observed(job(status=status), index=index(OUT_OF_INPUT))
    phase, _, actions, d = look(o)
    assert (phase, actions) == (Phase.STARTING, [EnsureSecret, CreateDriver])
    config = next(a for a in d.actions if isinstance(a, CreateDriver)).config
    assert config.restore.latest == OUT_OF_INPUT
    assert (config.restore.exact, config.restore.again) == (False, True)
    restore = driver_config(job(), index(OUT_OF_INPUT), 2, 1, None).restore
    assert (restore.exact, restore.again) == (True, False)


def test_a_failed_end_of_an_epoch_before_is_no_failure_of_this_one() -> None:
    status = ran(2, lastExit={"epoch": 1, "code": 3, "phase": "Failed"})
    final = record(3, 2, Scenario.END_OF_INPUT, request=None)
    o = observed(job(status=status), index=index(OUT_OF_INPUT, final))
    assert look(o)[0] is Phase.FINISHED


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("phase", [DriverPhase.TERMINATED, DriverPhase.FAILED])
@pytest.mark.parametrize(
    ("state", "mode", "final"), [("Stopped", Mode.STOP, record()), ("Drained", Mode.DRAIN, DRAINED)]
)
def test_a_requested_end_stands_whatever_the_script_does_afterwards(
    state: str, mode: Mode, final: CheckpointRecord, phase: DriverPhase, code: int
) -> None:
    reported = replace(terminating(mode), phase=phase, exit_code=code, completed=final)
    status = ran(termination=requested(mode.value))
    o = observed(job(state=state, status=status), pods=[exited(code, report=reported)], index=index(final))
    _, _, actions, d = look(o)
    assert actions == [DeletePod]
    done = observed(job(state=state, status=d.status.plain()), index=index(final))
    assert look(done)[0] is Phase[state.upper()]
    assert d.status.last_exit is not None
    assert d.status.last_exit.code == code


@pytest.mark.parametrize("final", OWN_ENDS)
def test_a_driver_that_is_killed_behind_its_own_end_has_finished(final: CheckpointRecord) -> None:
    """The record is there because the script had ended."""
    phase, _, later = end(exited(137), index(final))
    assert phase is Phase.FINISHED
    assert later.job.status.last_exit is not None
    assert later.job.status.last_exit.code == 137


def test_a_driver_that_exits_with_0_and_without_a_final_checkpoint_has_failed() -> None:
    running_on = record(2, 1, None, request=None)
    phase, reason, later = end(exited(report=report()), index(running_on))
    assert (phase, reason) == (Phase.RESTARTING, "DriverExited")
    assert later.job.status.last_error is not None
    assert "the script came to its end" in later.job.status.last_error.message


ALL_FINISHED = replace(OUT_OF_INPUT, scenario=None)


@pytest.mark.parametrize("state", ["Running", "Stopped"])
def test_a_driver_that_had_only_the_rest_of_its_script_to_run_has_finished(state: str) -> None:
    """All queries had finished when the previous driver was killed: there is nothing to checkpoint."""
    o = observed(
        job(state=state, status=ran(2)),
        pods=[exited(epoch=2, report=report(epoch=2))],
        index=index(ALL_FINISHED),
    )
    _, _, actions, d = look(o)
    assert actions == [DeletePod]
    assert look(gone(o, d.status))[0] is Phase.FINISHED


@pytest.mark.parametrize(
    ("known", "pod"),
    [
        (ALL_FINISHED, exited(3, 2, report=report(epoch=2, code=3))),
        (ALL_FINISHED, exited(0, 2, report=report(DriverPhase.FAILED, 0, epoch=2))),
        (ALL_FINISHED, exited(137, 2)),
        (record(2, 1, None, request=None), exited(0, 2, report=report(epoch=2))),
    ],
)
def test_one_that_fails_in_the_rest_or_had_more_to_do_has_not(known: CheckpointRecord, pod: Pod) -> None:
    o = observed(job(status=ran(2)), pods=[pod], index=index(known))
    assert look(o)[0] is Phase.RESTARTING


def test_an_evicted_driver_is_not_blamed_for_its_exit_code() -> None:
    assert end(exited(1, report=report(code=None, evicted=True)), index())[1] == "Evicted"
    assert end(exited(137, report=report(code=None)), index())[1] == "DriverKilled"


@pytest.mark.parametrize(
    "pods",
    [
        [],  # kubectl delete --force
        [exited(137, 2, reason="ContainerStatusUnknown")],
        [running(2, phase="Failed")],  # the node is lost
    ],
)
def test_an_end_that_nobody_has_seen_is_the_last_one(pods: list[Pod]) -> None:
    status = ran(2, lastExit={"epoch": 1, "code": 3, "phase": "Failed"})
    phase, reason, _, d = look(observed(job(status=status), pods=pods, index=index()))
    assert (phase, reason) == (Phase.RESTARTING, "DriverLost")
    last = d.status.last_exit
    assert last is not None
    assert (last.epoch, last.code, last.phase) == (2, None, None)
    assert "gone before it could report" in last.reason
    later = observed(job(status=d.status.plain()), index=index())
    assert look(later)[3].status.last_exit == last


def test_a_driver_that_is_deleted_before_its_container_has_begun_has_not_been_killed() -> None:
    """When its image cannot be pulled, for one. The kubelet gives its container the exit code 137."""
    pod = exited(137, 2, reason="ContainerStatusUnknown", started_at=None, deleting=True)
    status = ran(2, "Restarting", pod=False, startedEpoch=1)  # we have decided to delete it
    d = look(observed(job(status=status), pods=[pod], index=index()))[3]
    assert (d.status.driver, d.status.last_exit, d.status.last_error) == (None, None, None)
    assert d.status.restarts is None
    after = look(observed(job(status=d.status.plain()), index=index()))[3]
    assert after.status.epoch == 3


def test_no_secret_is_shown() -> None:
    reported = replace(report(code=3), exit_reason="RuntimeError: password=hunter2 is wrong")
    _, _, later = end(exited(3, report=reported), index())
    status = later.job.status
    assert "hunter2" not in f"{status.last_exit} {status.last_error}"
    assert status.last_exit is not None
    assert "password=***" in status.last_exit.reason


def test_the_backoff_of_a_failed_end_is_that_of_any_failure() -> None:
    _, _, later = end(exited(3, report=report(code=3)), index(OUT_OF_INPUT), restart={"policy": "Never"})
    assert later.job.status.phase is Phase.FAILED
    first = end(exited(3, report=report(code=3)), index(OUT_OF_INPUT))[2].job.status.restarts
    assert first is not None
    assert (first.count, first.epoch) == (1, 1)


def test_an_image_that_cannot_run_the_runtime_is_not_tried_again() -> None:
    """What the launcher refuses, and a container that cannot start, are for a person."""
    refusal = Problem("PysparkMissing", "spec.image has no pyspark", "another image")
    refused = exited(2)
    assert refused.exit is not None
    refused = replace(refused, exit=replace(refused.exit, refusal=refusal))
    no_shell = exited(128, reason="StartError", tail='exec: "/bin/sh": no such file')
    for pod, reason in ((refused, "PysparkMissing"), (no_shell, "ContainerCannotStart")):
        phase, said, do, d = look(observed(job(status=ran()), pods=[pod], index=index()))
        assert (phase, said, do) == (Phase.FAILED, reason, [])
        assert d.status.last_error is not None
        assert "image" in d.status.last_error.remedy
