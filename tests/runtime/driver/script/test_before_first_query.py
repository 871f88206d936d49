"""A job whose script has started no query: when it may end, and what people read of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from streamjob.protocol.formats.records import (
    CheckpointRecord,
    JobRef,
    OperatorKind,
    OperatorRecord,
    StageRecord,
    TaskRecord,
)
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.messages.driver_config import Application, DriverConfig, Gate, Restore
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus
from streamjob.runtime.driver.driver import Driver
from streamjob.runtime.driver.script.before_first_query import Patience, why_needed
from streamjob.runtime.driver.status_board import StatusBoard

JOB = JobRef("shop", "orders", "uid-1")
TASK = TaskRecord(0, "file:/checkpoints/live/0", 4)


def stage(uid: str, *, finished: bool = False, **task: object) -> StageRecord:
    operators = (OperatorRecord("source-0", OperatorKind.SOURCE, "rate", finished),)
    return StageRecord(uid, (replace(TASK, finished=finished, **task),), operators)  # type: ignore[arg-type]


LIVE, OVER = stage("live"), stage("over", finished=True)
EXHAUSTED, OWES = stage("rounds", exhausted=True), stage("over", finished=True, transactions=("t-1",))


def restored(*stages: StageRecord, exact: bool = True) -> Restore:
    record = CheckpointRecord(7, 1, Scenario.STOP, "", None, "2026-01-01T00:00:00Z", stages)
    return Restore(latest=record, exact=exact)


@pytest.mark.parametrize("restore", [Restore(exact=True), restored(), restored(LIVE), restored(OVER)])
def test_a_stop_of_what_was_stopped_before_needs_no_query(restore: Restore) -> None:
    assert why_needed(restore, Mode.STOP) is None


@pytest.mark.parametrize("restore", [Restore(), restored(LIVE, exact=False), restored(LIVE, OWES)])
def test_a_stop_after_a_crash_needs_its_queries(restore: Restore) -> None:
    """They commit what is prepared, and the savepoint has what has run since the checkpoint. Otherwise a job
    that begins from the last savepoint would run it a second time.
    """
    needed = why_needed(restore, Mode.STOP)
    assert needed == "only queries can save what an earlier driver has left"


@pytest.mark.parametrize("mode", [None, Mode.DRAIN])
def test_a_job_is_over_when_nothing_is_left(mode: Mode | None) -> None:
    def needed(*stages: StageRecord, exact: bool = True) -> str:
        return why_needed(restored(*stages, exact=exact), mode) or ""

    assert needed(OVER) == ""
    assert needed(OVER, EXHAUSTED) == ""
    assert needed(OVER, exact=False) == "", "what has finished stays so"
    assert needed(OVER, LIVE) == "the checkpoint has something left of 'live'"
    assert needed(OWES) == "the checkpoint has something left of 'over'", "its rows would never come"
    assert "'rounds'" in needed(EXHAUSTED, exact=False), "one that died may have read on"
    assert needed() == why_needed(Restore(), mode) == "the job has no checkpoint of its own"


@pytest.mark.parametrize(("timeout", "limit"), [(None, 30), (600.0, 30), (15.0, 5)])
def test_a_script_has_time_to_start_its_first_query(timeout: float | None, limit: int) -> None:
    patience, request = Patience(), TerminationRequest("stop-1", 1, Mode.STOP, None, timeout)
    assert not patience.is_over(None, 0)
    assert not patience.is_over(request, 100)
    assert not patience.is_over(request, 100 + limit)
    assert patience.is_over(request, 101 + limit)
    assert not patience.is_over(replace(request, request_id="stop-2"), 101 + limit), "another request"


@pytest.fixture
def driver() -> Iterator[Callable[..., Driver]]:
    made: list[Driver] = []

    def make(restore: Restore, *, prepared: bool = False) -> Driver:
        config = DriverConfig(
            JOB, 2, Application("app.py"), "file:/checkpoints", restore=restore, prepared=prepared
        )
        made.append(Driver(config, StatusBoard(DriverStatus(1, JOB.uid, 2, DriverPhase.STARTING))))
        return made[-1]

    yield make
    for one in made:
        one.terminated.set()


@pytest.mark.parametrize(
    ("stages", "mode", "phase"),
    [
        ((OVER,), None, DriverPhase.TERMINATED),
        ((OVER,), Mode.DRAIN, DriverPhase.TERMINATED),
        ((OVER,), Mode.STOP, DriverPhase.STARTING),
        ((LIVE,), Mode.STOP, DriverPhase.STARTING),
        ((LIVE,), Mode.DRAIN, DriverPhase.STARTING),
    ],
)
def test_only_a_job_that_is_not_to_be_resumed_is_over(
    driver: Callable[..., Driver], stages: tuple[StageRecord, ...], mode: Mode | None, phase: DriverPhase
) -> None:
    job = driver(restored(*stages))
    if mode is not None:
        job.terminate(TerminationRequest(f"{mode.value}-1", 2, mode, None))
    job.why_needs_query()
    assert job.board.status.phase is phase


def test_a_prepared_driver_does_not_know_what_it_goes_on_from(driver: Callable[..., Driver]) -> None:
    job = driver(Restore(), prepared=True)
    job.terminate(TerminationRequest("stop-1", 2, Mode.STOP, None))
    assert not any(job.outlasts_patience(now) for now in (0.0, 1000.0))
    assert job.why_needs_query() == "it waits at its gate"
    assert job.unchanged_since is None
    job.open(Gate("failover-2", 2, restored(LIVE), 8))
    assert not job.outlasts_patience(1001.0), "its time begins now"
    assert job.outlasts_patience(1032.0)
    assert job.why_needs_query() is None
    assert job.unchanged_since == 7


def test_what_has_admitted_a_query_may_have_changed_its_directories(driver: Callable[..., Driver]) -> None:
    assert driver(restored(LIVE, exact=False)).unchanged_since is None
    assert driver(Restore(exact=True)).unchanged_since == 0
    job = driver(restored(LIVE))
    assert job.unchanged_since == 7
    job.on_admitted()
    assert job.unchanged_since is None
