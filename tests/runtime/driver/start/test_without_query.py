"""A job that is asked to end and whose script starts nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from streamjob.protocol.engine import effects as fx
from streamjob.protocol.formats.records import CheckpointRecord, JobRef, StageRecord, TaskRecord
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.messages.driver_config import Application, DriverConfig, Gate, Restore
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus
from streamjob.runtime.driver.driver import Driver
from streamjob.runtime.driver.requests import PATIENCE
from streamjob.runtime.driver.status_board import StatusBoard

from ....spark.feeds import eventually

JOB = JobRef("shop", "orders", "uid-1")
LIVE = TaskRecord(0, "file:/checkpoints/live/0", 4)
OWES = replace(LIVE, transactions=("t-1",))
OVER = replace(LIVE, finished=True)


class Restored:
    """A driver with a restored checkpoint, whose storage answers, and whose effects are noted."""

    def __init__(self, task: TaskRecord | None, *, prepared: bool = False) -> None:
        stages = (StageRecord("live", (task,), ()),) if task else ()
        record = CheckpointRecord(7, 1, Scenario.STOP, "", None, "2026-01-01T00:00:00Z", stages)
        self.restore = Restore(latest=record, exact=True)
        own = Restore() if prepared else self.restore
        config = DriverConfig(
            JOB, 2, Application("app.py"), "file:/checkpoints", restore=own, prepared=prepared
        )
        self.driver = Driver(config, StatusBoard(DriverStatus(1, JOB.uid, 2, DriverPhase.STARTING)))
        self.effects: list[fx.Effect] = []
        self.driver._loop.work.carry_out = lambda effect, run: self.effects.append(effect)  # type: ignore[method-assign]
        self.reads, self.answers = 0, threading.Event()
        self.answers.set()
        self.driver._loop.work.checkpoints.without_query = self._without_query  # type: ignore[method-assign]
        self.fails = False

    def _without_query(self) -> Any:
        self.reads += 1
        assert self.answers.wait(60)
        if self.fails:
            raise OSError("the storage is gone")
        return object()

    def asked(self, mode: Mode, *seconds: float) -> bool:
        """Whether the job has begun to end, after looks at these times."""
        if self.driver.request is None:
            self.driver.terminate(TerminationRequest(f"{mode.value}-1", 2, mode, None))
        for now in seconds:
            self.driver.without_query.look(now)
            if self.answers.is_set():
                eventually(lambda: not self.driver.without_query._attempts, "an attempt has ended")
        return self.driver.has_begun


@pytest.fixture
def restored() -> Iterator[Callable[..., Restored]]:
    made: list[Restored] = []

    def make(task: TaskRecord | None = LIVE, *, prepared: bool = False) -> Restored:
        made.append(Restored(task, prepared=prepared))
        return made[-1]

    yield make
    for one in made:
        one.driver.terminated.set()


@pytest.mark.parametrize("task", [None, LIVE, OVER])
def test_a_stop_waits_only_so_long(restored: Callable[..., Restored], task: TaskRecord | None) -> None:
    job = restored(task)
    assert not job.asked(Mode.STOP, 100.0, 100.0 + PATIENCE)
    assert job.reads == 0, "no session was made for nothing"
    assert job.asked(Mode.STOP, 100.1 + PATIENCE)
    with job.driver._loop.changed:
        assert job.driver._loop.changed.wait_for(lambda: job.effects, 20.0)
    (store,) = job.effects
    assert isinstance(store, fx.StoreCheckpoint)
    assert (store.scenario, store.request_id) == (Scenario.STOP, "Stop-1")
    assert job.driver.board.status.phase is DriverPhase.TERMINATING


def test_a_stop_of_a_script_that_has_ended_need_not_wait(restored: Callable[..., Restored]) -> None:
    job = restored()
    assert not job.driver.without_query.stops(), "nobody has asked for it"
    assert not job.asked(Mode.STOP, 0.0)
    assert job.driver.without_query.stops()
    assert job.driver.has_tasks


def test_nothing_ends_without_a_request(restored: Callable[..., Restored]) -> None:
    job = restored()
    for now in (0.0, 1000.0):
        job.driver.without_query.look(now)
    assert not job.driver.has_begun


def test_what_is_prepared_is_committed_by_its_query_alone(restored: Callable[..., Restored]) -> None:
    """Otherwise each epoch would end with the same transactions, and another one begin to commit them."""
    job = restored(OWES)
    assert not job.asked(Mode.STOP, 0.0, 1000.0, 2000.0)
    assert job.reads == 1, "it stays so"


def test_a_look_waits_for_no_storage(restored: Callable[..., Restored]) -> None:
    """Who looks also watches over the time that a stop has."""
    job = restored()
    job.answers.clear()
    assert not job.asked(Mode.STOP, 0.0, 31.0, 62.0)
    eventually(lambda: job.reads, "somebody reads")
    assert not job.asked(Mode.STOP, 93.0)
    job.answers.set()
    eventually(lambda: job.driver.has_begun, "it stops")
    assert job.reads == 1


def test_what_ran_before_a_crash_has_to_run_again(
    restored: Callable[..., Restored], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = restored()
    monkeypatch.setattr(job.driver._loop.work.carried, "unrecorded", lambda files: ["late"])
    assert not job.asked(Mode.STOP, 0.0, 1000.0)


@pytest.mark.parametrize(("task", "ends"), [(LIVE, False), (OVER, True)])
def test_a_drain_needs_its_queries(
    restored: Callable[..., Restored], task: TaskRecord, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = restored(task)
    monkeypatch.setattr(job.driver._loop.work.carried, "left", lambda files: ["live"] if task is LIVE else [])
    assert job.asked(Mode.DRAIN, 0.0, 1000.0) is ends
    assert not job.effects, "its end is that of the script"


def test_a_prepared_driver_does_not_know_what_to_stop_with(restored: Callable[..., Restored]) -> None:
    job = restored(prepared=True)
    assert not job.asked(Mode.STOP, 0.0, 1000.0)
    job.driver.open(Gate("failover-2", 2, job.restore, 8))
    assert not job.asked(Mode.STOP, 1001.0, 1001.0 + PATIENCE)
    assert job.asked(Mode.STOP, 1001.1 + PATIENCE)


def test_a_storage_that_is_gone_is_asked_again(restored: Callable[..., Restored]) -> None:
    job = restored()
    job.fails = True
    assert not job.asked(Mode.STOP, 0.0, 31.0, 32.0, 60.0)
    assert job.reads == 1
    job.fails = False
    assert job.asked(Mode.STOP, 62.0)
