"""The connection to a driver, over real TLS: what is trusted, what is refused, and a slow or dead driver."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from dev import ports
from streamjob.controller.drivers import connection, connections
from streamjob.controller.drivers.connection import DriverRefused, DriverUnreachable
from streamjob.controller.drivers.connections import DriverConnections
from streamjob.controller.drivers.credentials import DriverCredentials
from streamjob.controller.objects import certs
from streamjob.controller.objects.certs import Material
from streamjob.controller.rules.actions import completed_token
from streamjob.protocol.messages.commands import ExecutorsRequest, Mode, TerminationRequest
from streamjob.protocol.messages.driver_config import Gate
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus, ExecutorsStatus

from ..fake_driver import HOST, FakeDriver

UID = "job-uid"
PATIENCE = 60.0  # seconds for what an idle machine does in milliseconds
STOP = TerminationRequest("stop-1-1", 1, Mode.STOP, "file:///s")


class Control:
    """The controller's side: `DriverConnections` for one job, and how often it was enqueued."""

    def __init__(self, material: Material, port: int) -> None:
        self.material = material
        self.enqueued = 0
        self.term = 1
        self.jobs = 1
        self.drivers = DriverConnections(
            self._credentials,
            self._changed,
            jobs=lambda: self.jobs,
            term=lambda: self.term,
            port=port,
        )

    async def _credentials(self, namespace: str, job: str) -> DriverCredentials:
        assert (namespace, job) == ("shop", "orders")
        return DriverCredentials(self.material.token, self.material.certificate)

    def _changed(self, namespace: str, job: str) -> None:
        self.enqueued += 1

    def follow(self, epoch: int = 1, uid: str = UID) -> connection.DriverView:
        return self.drivers.follow(uid, "shop", "orders", f"orders-driver-{epoch}", HOST, epoch)

    async def status(self, seconds: float = PATIENCE) -> DriverStatus | None:
        """What is known of the driver, once something is, or None."""
        await eventually(lambda: self.follow().status is not None, seconds)
        return self.follow().status


async def eventually(what: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        await asyncio.sleep(0.01)
    return what()


@pytest.fixture(scope="module")
def material() -> Material:
    return certs.new(datetime.now(timezone.utc))


@pytest.fixture
async def driver(material: Material) -> AsyncIterator[FakeDriver]:
    # A port that is still its own when it comes back.
    fake = await FakeDriver(material, UID, 1, port=ports.free()).start()
    yield fake
    await fake.stop()


@pytest.fixture
async def control(material: Material, driver: FakeDriver) -> AsyncIterator[Control]:
    control = Control(material, driver.port)
    yield control
    await control.drivers.close()


async def test_its_status_is_at_hand_and_a_change_enqueues_the_job(
    control: Control, driver: FakeDriver
) -> None:
    assert control.follow().status is None
    assert await control.status() == driver.status
    before = control.enqueued
    await driver.change(phase=DriverPhase.TERMINATING)
    assert await eventually(lambda: control.enqueued > before)
    status = control.follow().status
    assert status is not None
    assert status.phase is DriverPhase.TERMINATING


@pytest.mark.parametrize("rate", [1e-3, 1e3])
async def test_figures_alone_enqueue_a_job_at_a_rate_that_all_jobs_share(
    rate: float, control: Control, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "FIGURES_RATE", rate)
    monkeypatch.setattr(connection, "POLL_SECONDS", 0.05)
    await control.status()
    await driver.change(phase=DriverPhase.RUNNING)
    assert await eventually(lambda: getattr(control.follow().status, "version", 0) == driver.status.version)
    before = control.enqueued
    driver.status = replace(driver.status, deleted=("file:///s",))  # as of a poll that ran its time
    assert await eventually(lambda: control.follow().status == driver.status), "at hand they are at once"
    often = rate == 1e3
    assert await eventually(lambda: control.enqueued > before, PATIENCE if often else 0.5) == often
    before = control.enqueued
    await driver.change(phase=DriverPhase.TERMINATING)
    assert await eventually(lambda: control.enqueued > before), "other changes enqueue the job at once"


async def test_commands_arrive_and_their_acknowledgements_are_remembered(
    control: Control, driver: FakeDriver
) -> None:
    await control.status()
    await control.drivers.terminate(UID, STOP)
    await control.drivers.complete(UID, 7, 1)
    assert driver.commands == [STOP, 7]
    assert control.follow().acknowledged == {"stop-1-1", completed_token(7)}
    status = control.follow().status
    assert status is not None
    assert status.phase is DriverPhase.TERMINATED, "the answer to a command is the newest status"


async def test_a_prepared_driver_keeps_its_connection_when_its_epoch_begins(
    control: Control, driver: FakeDriver
) -> None:
    def standby() -> connection.DriverView:
        return control.drivers.follow_standby(UID, "shop", "orders", "orders-driver-1", HOST, 1)

    assert await eventually(lambda: standby().status is not None)
    with pytest.raises(DriverUnreachable):
        await control.drivers.terminate(UID, STOP)  # which is for the driver that runs
    await control.drivers.open(UID, Gate("gate-1", 1))
    opened = set(driver.connections)
    view = control.follow()
    assert view.acknowledged == {"gate-1"}
    assert view.status is not None
    assert view.status.phase is DriverPhase.STARTING
    control.drivers.forget_standby(UID)  # there is none any more
    await control.drivers.terminate(UID, STOP)
    assert driver.commands == [Gate("gate-1", 1), STOP]
    assert driver.connections == opened


async def test_a_command_opens_no_connection(control: Control, driver: FakeDriver) -> None:
    await control.status()
    opened = set(driver.connections)
    for _ in range(20):
        await control.drivers.complete(UID, 7, 1)
    assert driver.connections == opened


async def test_the_answer_to_a_request_for_executors_has_what_was_asked_for(
    control: Control, driver: FakeDriver
) -> None:
    """The next reconcile does not ask again."""
    await control.status()
    await control.drivers.executors(UID, ExecutorsRequest(driver.epoch, 1, 4))
    assert driver.commands == [ExecutorsRequest(driver.epoch, 1, 4)]
    status = control.follow().status
    assert status is not None
    assert status.executors == ExecutorsStatus(1, 4, wanted=1)


async def test_of_many_jobs_even_the_first_driver_has_one_connection_and_a_command_opens_another_for_itself(
    control: Control, driver: FakeDriver
) -> None:
    control.jobs = connections.MANY + 1
    await control.status()
    (first,) = driver.connections
    for _ in range(3):
        await control.drivers.terminate(UID, STOP)
    assert driver.commands == [STOP] * 3
    assert await eventually(lambda: all(c.is_closing() for c in driver.connections - {first}))
    assert not first.is_closing()


async def test_who_waits_for_the_first_status_is_not_enqueued_for_it(
    control: Control, driver: FakeDriver
) -> None:
    assert control.follow().status is None
    view = await control.drivers.first_status(UID)
    assert view.status == driver.status
    assert control.enqueued == 0
    await driver.change(phase=DriverPhase.TERMINATING)
    assert await eventually(lambda: control.enqueued == 1)


async def test_a_driver_that_does_not_answer_is_not_waited_for_twice(
    control: Control, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    wait = asyncio.wait

    async def noted(futures: Any, *, timeout: float) -> Any:
        waits.append(timeout)
        return await wait(futures, timeout=timeout)

    monkeypatch.setattr(connection, "FIRST_STATUS", 0.1)
    driver.delay = 3600
    control.follow()
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "wait", noted)
        for _ in range(2):
            assert (await control.drivers.first_status(UID)).status is None
    assert sum(waits) < 0.15, "a clock may fire a little early"


async def test_a_command_takes_milliseconds(control: Control, driver: FakeDriver) -> None:
    await control.status()
    await control.drivers.terminate(UID, STOP)
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        await control.drivers.terminate(UID, STOP)
        times.append(time.perf_counter() - begin)
    assert min(times) < 0.05, "a busy machine may hold up some of them, and not all"


async def test_a_wrong_token_is_refused(control: Control, driver: FakeDriver, material: Material) -> None:
    control.material = Material("guessed", material.certificate, "")
    control.follow()
    with pytest.raises(DriverRefused, match="401"):
        await control.drivers.terminate(UID, STOP)
    assert driver.commands == []
    assert await control.status(0.3) is None


async def test_a_secret_that_was_replaced_is_read_again(control: Control, material: Material) -> None:
    control.material = Material("old", material.certificate, "")
    assert await control.status(0.3) is None
    control.material = material
    assert await control.status() is not None


async def test_another_certificate_is_refused(
    control: Control, driver: FakeDriver, material: Material
) -> None:
    other = certs.new(datetime.now(timezone.utc))
    control.material = Material(material.token, other.certificate, "")
    control.follow()
    with pytest.raises(DriverUnreachable, match="certificate"):
        await control.drivers.terminate(UID, STOP)
    assert driver.commands == []
    assert driver.connections == set(), "not even the token was shown"


@pytest.mark.parametrize(("uid", "epoch"), [("another", 1), (UID, 2)])
async def test_a_driver_of_another_job_or_epoch_is_not_believed(
    control: Control, driver: FakeDriver, uid: str, epoch: int
) -> None:
    driver.status = DriverStatus(1, uid, epoch, DriverPhase.RUNNING)
    assert await control.status(0.5) is None


async def test_a_command_for_another_epoch_is_refused_by_it(control: Control, driver: FakeDriver) -> None:
    await control.status()
    with pytest.raises(DriverRefused, match="StaleEpoch") as refusal:
        await control.drivers.complete(UID, 7, 9)
    assert refusal.value.code == 412


async def test_every_call_shows_the_term_in_which_we_lead(control: Control, driver: FakeDriver) -> None:
    control.term = 4
    await control.status()
    assert driver.term == 4, "the first poll has it"
    control.term = 3
    await driver.change()
    assert await eventually(lambda: control.follow().status == driver.status), "reading is for everybody"
    with pytest.raises(DriverRefused, match="StaleTerm") as refusal:
        await control.drivers.terminate(UID, STOP)
    assert (refusal.value.code, refusal.value.term) == (412, 4)
    assert driver.commands == []
    assert driver.term == 4


async def test_an_older_status_does_not_replace_a_newer(control: Control, driver: FakeDriver) -> None:
    await control.status()
    await driver.change(phase=DriverPhase.TERMINATING)
    await eventually(lambda: (control.follow().status or driver.status).phase is DriverPhase.TERMINATING)
    driver.status = DriverStatus(1, UID, 1, DriverPhase.RUNNING)
    await control.drivers.terminate(UID, STOP)
    status = control.follow().status
    assert status is not None
    assert status.version >= 2


async def test_a_slow_driver_holds_up_nobody(
    control: Control, driver: FakeDriver, material: Material
) -> None:
    driver.delay = 3600
    control.follow()
    command = asyncio.create_task(control.drivers.terminate(UID, STOP))
    quick = await FakeDriver(material, UID, 1).start()
    other = Control(material, quick.port)
    assert await other.status() is not None
    command.cancel()
    await other.drivers.close()
    await quick.stop()


async def test_a_dead_driver_is_reported_once_it_was_silent_for_long(
    control: Control, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SILENT_AFTER", 0.3)
    await control.status()
    await driver.stop()
    before = control.enqueued
    assert await eventually(lambda: control.enqueued > before)
    assert control.follow().silent >= 0.3
    with pytest.raises(DriverUnreachable):
        await control.drivers.terminate(UID, STOP)


async def test_of_many_drivers_none_is_silent_because_it_is_polled_less_often(
    control: Control, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(connection, "POLL_SECONDS_OF_MANY", 3600.0)
    monkeypatch.setattr(connection, "SILENT_AFTER", 0.2)
    monkeypatch.setattr(connections, "MANY", 0)
    await control.status()
    assert not await eventually(lambda: control.follow().silent > 0, 0.5)


async def test_one_that_comes_back_is_read_again(
    control: Control, driver: FakeDriver, material: Material
) -> None:
    await control.status()
    await driver.stop()
    again = FakeDriver(material, UID, 1, port=driver.port)
    again.status = DriverStatus(9, UID, 1, DriverPhase.RUNNING)
    await again.start()
    assert await eventually(lambda: (control.follow().status or again.status).version == 9)
    await again.stop()


async def test_no_address_no_command(control: Control) -> None:
    with pytest.raises(DriverUnreachable, match="no address"):
        await control.drivers.terminate("nobody", STOP)


async def test_its_last_status_outlives_it(control: Control, driver: FakeDriver) -> None:
    await control.status()
    control.drivers.forget(UID)
    assert control.drivers.last_status(UID, 1) == driver.status
    assert control.drivers.last_status(UID, 2) is None
    control.drivers.forget_job(UID)
    assert control.drivers.last_status(UID, 1) is None
