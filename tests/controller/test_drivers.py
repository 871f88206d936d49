"""The line to a driver, over real TLS: what is trusted, what is refused, what happens when it is slow or dead."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timezone

import pytest

from streamjob.controller import certs, drivers
from streamjob.controller.certs import Material
from streamjob.controller.drivers import (
    Credentials,
    DriverRefused,
    Drivers,
    DriverUnreachable,
    completed_token,
)
from streamjob.protocol.messages import DriverPhase, DriverStatus, Mode, TerminationRequest

from .fake_driver import HOST, FakeDriver

UID = "job-uid"
STOP = TerminationRequest("stop-1-1", 1, Mode.STOP, "file:///s")


class Control:
    """The controller's side: `Drivers` for one job, and how often it was woken."""

    def __init__(self, material: Material, port: int) -> None:
        self.material = material
        self.woken = 0
        self.term = 1
        self.drivers = Drivers(self._credentials, self._changed, term=lambda: self.term, port=port)

    async def _credentials(self, namespace: str, job: str) -> Credentials:
        assert (namespace, job) == ("shop", "orders")
        return Credentials(self.material.token, self.material.certificate)

    def _changed(self, namespace: str, job: str) -> None:
        self.woken += 1

    def follow(self, epoch: int = 1, uid: str = UID) -> drivers.View:
        return self.drivers.follow(uid, "shop", "orders", f"orders-driver-{epoch}", HOST, epoch)

    async def status(self, seconds: float = 3.0) -> DriverStatus | None:
        """What is known of the driver, once something is, or None."""
        await eventually(lambda: self.follow().status is not None, seconds)
        return self.follow().status


async def eventually(what: Callable[[], bool], seconds: float = 3.0) -> bool:
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        await asyncio.sleep(0.01)
    return what()


@pytest.fixture(scope="module")
def material() -> Material:
    return certs.new(datetime.now(timezone.utc))


@pytest.fixture
async def driver(material: Material) -> AsyncIterator[FakeDriver]:
    fake = await FakeDriver(material, UID, 1).start()
    yield fake
    await fake.stop()


@pytest.fixture
async def control(material: Material, driver: FakeDriver) -> AsyncIterator[Control]:
    control = Control(material, driver.port)
    yield control
    await control.drivers.close()


async def test_its_status_is_at_hand_and_news_wake_the_job(control: Control, driver: FakeDriver) -> None:
    assert control.follow().status is None
    assert await control.status() == driver.status
    before = control.woken
    await driver.change(phase=DriverPhase.TERMINATING)
    assert await eventually(lambda: control.woken > before)
    status = control.follow().status
    assert status is not None
    assert status.phase is DriverPhase.TERMINATING


async def test_commands_arrive_and_are_remembered(control: Control, driver: FakeDriver) -> None:
    await control.status()
    await control.drivers.terminate(UID, STOP)
    await control.drivers.complete(UID, 7, 1)
    assert driver.commands == [STOP, 7]
    assert control.follow().acknowledged == {"stop-1-1", completed_token(7)}
    status = control.follow().status
    assert status is not None
    assert status.phase is DriverPhase.TERMINATED, "the answer to a command is the newest status"


async def test_a_command_opens_no_connection(control: Control, driver: FakeDriver) -> None:
    await control.status()
    opened = set(driver.connections)
    for _ in range(20):
        await control.drivers.complete(UID, 7, 1)
    assert driver.connections == opened


async def test_a_command_takes_milliseconds(control: Control, driver: FakeDriver) -> None:
    await control.status()
    await control.drivers.terminate(UID, STOP)
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        await control.drivers.terminate(UID, STOP)
        times.append(time.perf_counter() - begin)
    assert sorted(times)[10] < 0.05


async def test_a_wrong_token_is_refused(control: Control, driver: FakeDriver, material: Material) -> None:
    control.material = Material("guessed", material.certificate, "")
    control.follow()
    with pytest.raises(DriverRefused, match="401"):
        await control.drivers.terminate(UID, STOP)
    assert driver.commands == []
    assert await control.status(0.3) is None


async def test_a_secret_that_was_made_anew_is_read_again(control: Control, material: Material) -> None:
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
    assert driver.term == 4, "the first poll says so"
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
    driver.delay = 30
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
    monkeypatch.setattr(drivers, "SILENT_AFTER", 0.3)
    await control.status()
    await driver.stop()
    before = control.woken
    assert await eventually(lambda: control.woken > before, 10)
    assert control.follow().silent >= 0.3
    with pytest.raises(DriverUnreachable):
        await control.drivers.terminate(UID, STOP)


async def test_one_that_comes_back_is_heard_again(
    control: Control, driver: FakeDriver, material: Material
) -> None:
    await control.status()
    await driver.stop()
    again = FakeDriver(material, UID, 1, port=driver.port)
    again.status = DriverStatus(9, UID, 1, DriverPhase.RUNNING)
    await again.start()
    assert await eventually(lambda: (control.follow().status or again.status).version == 9, 5)
    await again.stop()


async def test_no_address_no_command(control: Control) -> None:
    with pytest.raises(DriverUnreachable, match="no address"):
        await control.drivers.terminate("nobody", STOP)


async def test_its_last_word_outlives_it(control: Control, driver: FakeDriver) -> None:
    await control.status()
    control.drivers.forget(UID)
    assert control.drivers.last_word(UID, 1) == driver.status
    assert control.drivers.last_word(UID, 2) is None
    control.drivers.forget_job(UID)
    assert control.drivers.last_word(UID, 1) is None


def test_no_secret_is_printed(material: Material) -> None:
    shown = f"{material} {Credentials(material.token, material.certificate)}"
    assert material.token not in shown
    assert "PRIVATE KEY" not in shown
