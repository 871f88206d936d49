"""Final checkpoints are written one at a time, and an aborted one is not written any further."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from streamjob.protocol.engine import effects as fx
from streamjob.protocol.engine import events as ev
from streamjob.protocol.formats.records import (
    JobRef,
    OperatorKind,
    OperatorRecord,
    StageRecord,
    TaskRecord,
)
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.driver_config import Application, DriverConfig
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus
from streamjob.protocol.restore.recovery import NonRestoredState
from streamjob.runtime.driver import checkpoints
from streamjob.runtime.driver.checkpoints import Checkpoints
from streamjob.runtime.driver.live_savepoints import LiveSavepoints
from streamjob.runtime.driver.status import Notes
from streamjob.runtime.driver.status_board import StatusBoard
from streamjob.runtime.query.runs import Runs

JOB = JobRef("shop", "orders", "uid-1")
FILES: Any = object()
PATIENCE = 20.0  # seconds


class Engine:
    """A coordinator that says which checkpoints are pending."""

    script_ended = False

    def __init__(self) -> None:
        self.pending: set[int] = set()

    def is_pending(self, number: int) -> bool:
        return number in self.pending

    def downstream_first(self) -> list[str]:
        return []


class Carried:
    stages: tuple[StageRecord, ...] = ()

    def records(self, files: Any, started: Any) -> tuple[StageRecord, ...]:
        return self.stages


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def carried() -> Carried:
    return Carried()


@pytest.fixture
def taken(engine: Engine, carried: Carried) -> Checkpoints:
    board = StatusBoard(DriverStatus(1, JOB.uid, 1, DriverPhase.RUNNING))
    config = DriverConfig(JOB, 1, Application("app.py"), "file:/checkpoints")
    runs: Any = Runs()
    made = Checkpoints(
        config,
        engine,  # type: ignore[arg-type]
        runs,
        Notes(),
        board,
        carried,  # type: ignore[arg-type]
        lambda task: lambda text: None,
        threading.RLock(),
        LiveSavepoints(board),
    )
    made.__class__ = type("Taken", (Checkpoints,), {"files": FILES})
    return made


def final(number: int, scenario: Scenario = Scenario.STOP) -> fx.StoreCheckpoint:
    return fx.StoreCheckpoint(number, frozenset(), scenario=scenario, savepoint="file:/savepoints/stop-1")


def test_a_final_checkpoint_waits_until_the_aborted_one_before_it_is_no_longer_written(
    taken: Checkpoints, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have the same savepoint: two writers would delete each other's files."""
    writing, writers = threading.Event(), []
    aborted = threading.Event()

    def write(files: Any, job: Any, record: Any, *rest: Any, check: Any, **more: Any) -> Any:
        writers.append(record.checkpoint)
        assert len(writers) == 1, writers
        try:
            writing.set()
            if record.checkpoint == 1:
                aborted.wait(PATIENCE)
            check()
        finally:
            writers.remove(record.checkpoint)
        return SimpleNamespace(files=(), size=0, checkpoint=record)

    monkeypatch.setattr(checkpoints, "write_savepoint", write)
    engine.pending = {1}
    results: dict[int, ev.Event | None] = {}

    def store(number: int) -> None:
        results[number] = taken.store(final(number))

    first = threading.Thread(target=store, args=(1,))
    first.start()
    assert writing.wait(PATIENCE)
    engine.pending = {2}
    second = threading.Thread(target=store, args=(2,))
    second.start()
    aborted.set()
    first.join(PATIENCE)
    second.join(PATIENCE)
    assert results == {1: None, 2: ev.CheckpointDurable(2)}


def test_a_drain_that_leaves_state_of_a_query_behind_fails(
    taken: Checkpoints, engine: Engine, carried: Carried
) -> None:
    """It would be lost: a drained job is never resumed."""
    windows = OperatorRecord("state-0", OperatorKind.STATE, "stateStoreSave", False)
    task = TaskRecord(0, "file:/checkpoints/load/0", 3, exhausted=True)
    carried.stages = (StageRecord("load", (task,), (windows,), carried_from=1),)
    engine.pending = {1}
    with pytest.raises(NonRestoredState, match="'load'"):
        taken.store(final(1, Scenario.DRAIN))
    position = OperatorRecord("source-0", OperatorKind.SOURCE, "source-0", False)
    carried.stages = (StageRecord("load", (task,), (position,), carried_from=1),)
    taken._refuse_unwanted(1, live=False)
    assert [s.finished for s in taken._stages_of(final(1, Scenario.DRAIN))] == [True], "nothing is left of it"


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("script_ended", [True, False])
def test_a_savepoint_of_a_job_that_is_over_is_an_end(
    taken: Checkpoints, engine: Engine, carried: Carried, monkeypatch: pytest.MonkeyPatch,
    finished: bool, script_ended: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr(
        checkpoints,
        "write_savepoint",
        lambda files, job, record, *rest, **more: SimpleNamespace(files=(), size=0, checkpoint=record),
    )
    monkeypatch.setattr(checkpoints, "delete_half_written", lambda *given: None)
    task = TaskRecord(0, "file:/checkpoints/load/0", 3, finished)
    sink = OperatorRecord("sink", OperatorKind.SINK, "sink", finished)
    carried.stages = (StageRecord("load", (task,), (sink,)),)
    engine.script_ended = script_ended
    taken.live_savepoints.begin("live")
    taken.store(fx.StoreCheckpoint(1, frozenset(), request_id="live", savepoint="file:/savepoints/live"))
    record = taken._records[1]
    assert (record.leaves_nothing, record.over) == (finished and script_ended, False)


def test_the_record_of_an_interrupted_run_has_the_batch_that_was_pre_committed(taken: Checkpoints) -> None:
    """Not the one that it commits meanwhile: its rows are in no transaction of the record."""
    commits, transactions = [5, 6], SimpleNamespace(pre_commit=lambda checkpoint, batch: batch)
    directory = SimpleNamespace(latest_commit=lambda: commits.pop(0))
    run: Any = SimpleNamespace(transactions=transactions, directory=directory)
    taken._runs.update(failed=run, stands=run)
    effect = fx.StoreCheckpoint(3, frozenset(), {"stands": 4}, pre_commit={"failed": 3, "stands": 2})
    assert taken._pre_commit(effect).batches == {"failed": 5, "stands": 4}
