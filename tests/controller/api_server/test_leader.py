"""Two controllers and one Lease on a real API server: one acts, and an old leader changes nothing."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from kubernetes.aio import client

from streamjob.protocol.messages.commands import Mode

from ..fake_driver import FakeDriver
from ..real import NEEDS_A_CLUSTER, Cluster, Controller, controller, end, eventually, world

__all__ = ["world"]
pytestmark = NEEDS_A_CLUSTER
Record = Callable[[str, object], None]


class Pair:
    """A leader and a standby of one namespace. What the leader logs can be read."""

    def __init__(self, world: Cluster, leader: Controller, standby: Controller, log: Path) -> None:
        self.world, self.leader, self.standby, self.log = world, leader, standby, log

    async def logs(self, text: str) -> None:
        async def there() -> bool:
            return text in self.log.read_text()

        await eventually(there, f"{text!r} in the leader's log")

    async def lease(self) -> Any:
        found = await client.CoordinationV1Api(self.world.api).read_namespaced_lease(
            "streamjob", self.world.namespace
        )
        return found.spec

    async def everything(self) -> list[object]:
        """All that a controller could change, as far as one can see whether it was changed."""
        core, namespace = self.world.core, self.world.namespace
        job = await self.world.job()
        assert job is not None
        lists = [
            await core.list_namespaced_pod(namespace),
            await core.list_namespaced_secret(namespace),
            await core.list_namespaced_config_map(namespace),
        ]
        versions = [o.metadata.resource_version for found in lists for o in found.items]
        assert self.world.driver is not None
        return [job, *versions, list(self.world.driver.commands)]

    async def taken_over(self, driver: FakeDriver) -> None:
        """The standby leads, has taken charge of the job, and the driver has heard of it."""

        async def in_charge() -> bool:
            job = await self.world.job()
            return job is not None and job["status"]["term"] == 2 and driver.term == 2

        await eventually(in_charge, "the standby's taking over")


@pytest.fixture
async def pair(world: Cluster, tmp_path: Path) -> AsyncIterator[Pair]:
    """The controller that `world` has started gives way to two whose logs are kept."""
    assert world.controller is not None
    world.controller.kill()
    world.controller.wait()
    with contextlib.suppress(client.ApiException):
        await client.CoordinationV1Api(world.api).delete_namespaced_lease("streamjob", world.namespace)
    log = tmp_path / "leader.log"
    with controller(world.namespace, log) as leader:
        pair = Pair(world, leader, leader, log)
        await pair.logs("leading in term 1")
        with controller(world.namespace) as pair.standby:
            yield pair


@pytest.mark.slow
async def test_a_killed_leader_is_followed_in_the_middle_of_a_stop(
    world: Cluster, pair: Pair, record_property: Record
) -> None:
    await world.apply()
    driver, config = await world.run_driver(1)
    await world.phase("Running")
    await world.patch("Stopped")
    await driver.requested.wait()
    pair.leader.kill()
    began = time.monotonic()
    await pair.taken_over(driver)
    took = time.monotonic() - began
    record_property("figure", f"leader killed until the standby has taken charge of a job: {took:.1f} s")
    await end(world, driver, config, Mode.STOP)
    await world.phase("Stopped")
    assert len({c.request_id for c in driver.commands if not isinstance(c, int)}) == 1


async def test_a_leader_that_was_frozen_changes_nothing(world: Cluster, pair: Pair) -> None:
    """V12, O9. The leader is frozen after it has sent a stop, which arrives after the user revoked it."""
    await world.apply()
    driver, _ = await world.run_driver(1)
    await world.phase("Running")
    driver.may_answer.clear()
    await world.patch("Stopped")
    await driver.requested.wait()
    pair.leader.send_signal(signal.SIGSTOP)
    await world.patch("Running")
    await pair.taken_over(driver)
    await world.phase("Running")
    before = await pair.everything()
    driver.may_answer.set()
    pair.leader.send_signal(signal.SIGCONT)
    await pair.logs("no longer leading in term 1")
    assert await pair.everything() == before
    assert driver.commands == []
    assert (await pair.lease()).lease_transitions == 2
    await world.patch("Stopped")
    await eventually(lambda: _told(driver), "the request of the one that leads")


async def test_one_that_ends_in_order_is_followed_at_once(
    world: Cluster, pair: Pair, record_property: Record
) -> None:
    await world.apply()
    driver, _ = await world.run_driver(1)
    await world.phase("Running")
    old = (await pair.lease()).holder_identity
    await eventually(lambda: _ready(pair.standby), "a standby that is ready")
    assert driver.term == 1, "it does not act"
    pair.leader.terminate()
    pair.leader.wait()
    began = time.monotonic()
    assert (await pair.lease()).holder_identity != old, "the standby has to wait until the Lease has lapsed"

    async def heard() -> bool:
        return driver.term == 2

    await eventually(heard, "the standby's first call to the driver")
    took = time.monotonic() - began
    record_property("figure", f"leader ended in order until the standby speaks to a driver: {took:.1f} s")
    assert (await pair.lease()).holder_identity not in (None, old)


@pytest.mark.slow
async def test_a_lease_deleted_by_hand_is_made_again_above_the_terms_that_jobs_know(
    world: Cluster, pair: Pair
) -> None:
    await world.apply()
    driver, _ = await world.run_driver(1)
    await world.phase("Running")
    pair.leader.kill()
    pair.standby.kill()
    driver.term = 7
    await client.CoordinationV1Api(world.api).delete_namespaced_lease("streamjob", world.namespace)
    with controller(world.namespace):
        await world.patch("Stopped")
        await eventually(lambda: _told(driver), "the request")
    assert (await pair.lease()).lease_transitions == 8


async def _ready(process: Controller) -> bool:
    async with aiohttp.ClientSession() as session:
        try:
            async with session.get(f"{process.url}/healthz") as answer:
                return answer.status == 200
        except aiohttp.ClientConnectorError:
            return False


async def _told(driver: FakeDriver) -> bool:
    return bool(driver.commands)
