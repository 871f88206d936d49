"""What the script's threads see of a request that comes early."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from streamjob.protocol.engine import events as ev
from streamjob.protocol.formats.records import JobRef
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.messages.driver_config import Application, DriverConfig
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus
from streamjob.runtime.driver.driver import Driver
from streamjob.runtime.driver.status_board import StatusBoard

PATIENCE = 20.0


@pytest.fixture
def driver() -> Iterator[Driver]:
    job = JobRef("shop", "orders", "uid-1")
    board = StatusBoard(DriverStatus(1, job.uid, 1, DriverPhase.STARTING))
    made = Driver(DriverConfig(job, 1, Application("app.py"), "file:/checkpoints"), board)
    yield made
    made.terminated.set()


def test_a_termination_of_an_earlier_epoch_is_there_from_the_start() -> None:
    job = JobRef("shop", "orders", "uid-1")
    request = TerminationRequest("drain-1", 1, Mode.DRAIN, None)
    config = DriverConfig(job, 2, Application("app.py"), "file:/checkpoints", termination=request)
    made = Driver(config, StatusBoard(DriverStatus(1, job.uid, 2, DriverPhase.STARTING)))
    assert made.requests.drains
    assert made.requests.request is not None
    assert (made.requests.request.request_id, made.requests.request.epoch) == ("drain-1", 2)
    made.terminated.set()


def test_an_early_request_is_there_at_every_moment(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while it is handed to the coordinator: a query that starts at that moment must read nothing."""
    driver.terminate(TerminationRequest("stop-1", 1, Mode.STOP, None))
    assert driver.requests.asked_to_end
    seen: list[bool] = []
    looks = threading.Event()
    handle = driver._loop.coordinator.handle

    def slowly(event: ev.Event) -> object:
        if not isinstance(event, ev.TerminationRequested):
            return handle(event)

        def look() -> None:
            looks.set()
            seen.append(driver.requests.asked_to_end and driver.requests.stops)
            with driver._loop.changed:
                driver._loop.changed.notify_all()

        script = threading.Thread(target=look)
        script.start()
        assert looks.wait(PATIENCE)
        script.join(0.2)  # it has answered by now, or waits until the request is handed over
        return handle(event)

    monkeypatch.setattr(driver._loop.coordinator, "handle", slowly)
    driver.all_queries_started()
    with driver._loop.changed:
        assert driver._loop.changed.wait_for(lambda: seen, PATIENCE)
    assert seen == [True]


def test_the_known_checkpoints_cannot_be_reported_before_the_first_query(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    """No session is there to read them with. The controller asks again."""
    driver._loop.work.tell_records(3)
    assert "the known checkpoints cannot be reported" in caplog.text
