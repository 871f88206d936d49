"""The gate of a prepared driver: nothing begins before it, and it is opened once."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from streamjob.protocol.formats.records import CheckpointRecord, JobRef, StageRecord, TaskRecord
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.messages.driver_config import Application, DriverConfig, Gate, Restore
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus
from streamjob.runtime.driver.driver import Driver
from streamjob.runtime.driver.start.gate_keeper import GateConflict
from streamjob.runtime.driver.status_board import StatusBoard

PATIENCE = 20.0
JOB = JobRef("shop", "orders", "uid-1")


def prepared(board: StatusBoard) -> Driver:
    config = DriverConfig(JOB, 2, Application("app.py"), "file:/checkpoints", prepared=True)
    return Driver(config, board)


def test_a_prepared_driver_waits_until_it_is_told_what_to_go_on_from() -> None:
    board = StatusBoard(DriverStatus(1, JOB.uid, 2, DriverPhase.STARTING))
    made = prepared(board)
    scripts = [threading.Thread(target=made._gate.wait, daemon=True) for _ in range(2)]
    for script in scripts:
        script.start()
    status = board.status
    while status.phase is not DriverPhase.PREPARED:
        status = board.wait(status.version, PATIENCE)
    task = TaskRecord(0, "file:/checkpoints/late/0", 4)
    stages = (StageRecord("late", (task,), ()),)
    record = CheckpointRecord(7, 1, None, "", None, "2026-01-01T00:00:00Z", stages)
    request = TerminationRequest("drain-1", 1, Mode.DRAIN, None)
    gate = Gate("handover-2", 2, Restore(latest=record, exact=True), 8, request)
    made.open(gate)
    made.open(gate)
    for script in scripts:
        script.join(PATIENCE)
        assert not script.is_alive()
    assert board.status.phase is DriverPhase.STARTING
    told = made._loop.coordinator
    assert (told.next_checkpoint, told.awaits_tasks) == (8, True)
    assert made._loop.work.restore_points.config.restore == gate.restore
    assert made.requests.request is not None
    assert (made.requests.request.request_id, made.requests.request.epoch) == ("drain-1", 2)
    with pytest.raises(GateConflict, match="opened by handover-2"):
        made.open(replace(gate, token="failover-2"))
    made.terminated.set()


def test_a_stop_that_came_before_the_gate_is_not_forgotten_for_an_older_drain() -> None:
    made = prepared(StatusBoard(DriverStatus(1, JOB.uid, 2, DriverPhase.STARTING)))
    made.terminate(TerminationRequest("stop-2", 2, Mode.STOP, None))
    made.open(Gate("failover-2", 2, termination=TerminationRequest("drain-1", 1, Mode.DRAIN, None)))
    assert made.requests.stops
    made.terminated.set()


def test_a_driver_without_a_gate_refuses_to_be_told() -> None:
    config = DriverConfig(JOB, 1, Application("app.py"), "file:/checkpoints", next_checkpoint=5)
    made = Driver(config, StatusBoard(DriverStatus(1, JOB.uid, 1, DriverPhase.STARTING)))
    made._gate.wait()
    with pytest.raises(GateConflict, match="has begun"):
        made.open(Gate("handover-1", 1))
    assert made._loop.coordinator.next_checkpoint == 5
    made.terminated.set()


def test_shards_are_declared_behind_the_gate() -> None:
    """A script that has not come that far is not prepared."""
    board = StatusBoard(DriverStatus(1, JOB.uid, 2, DriverPhase.STARTING))
    made = prepared(board)
    made._loop.publish()
    assert board.status.phase is DriverPhase.STARTING
    declares = threading.Thread(target=made.declared.declare, args=("shards", 2), daemon=True)
    declares.start()
    declares.join(0.2)  # as far as it comes
    waits = board.status
    assert waits.phase is DriverPhase.PREPARED
    assert "shards" not in made.declared, "what its shards have left to read is not known yet"
    made.open(Gate("handover-2", 2))
    declares.join(PATIENCE)
    assert "shards" in made.declared
    made.terminated.set()
