"""V12, call by call: a leader is cut off while its request is in flight, another leader continues, then the
request arrives.

The table of ADR 11 names for each call what refuses it. Real processes, a real API server, and a wire that
holds one request back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode, RecordsRequest, SavepointDeletion, SavepointRequest
from streamjob.protocol.messages.driver_status import (
    DriverPhase,
    SavepointStatus,
    TerminationStatus,
    TerminationStep,
)

from ..fake_driver import FakeDriver
from ..real import NEEDS_A_CLUSTER, Cluster, a_world, controller, eventually, final
from .wire import Wire

pytestmark = [*NEEDS_A_CLUSTER, pytest.mark.timeout(1800)]
SIDE_BY_SIDE = 3
CREATED, NOT_FOUND, CONFLICT = 201, 404, 409


@dataclass
class Scene:
    """`world` with a leader behind a `wire`."""

    world: Cluster
    wire: Wire


async def begin(s: Scene) -> None:
    await s.world.apply()


async def begun(s: Scene) -> None:
    await s.world.pod(1)


async def cancelled_before_it_began(s: Scene) -> None:
    """To a stop a driver that nobody has seen may have run: it would be made, to have a savepoint."""
    await s.world.patch("Cancelled")
    await s.world.phase("Cancelled")


async def stop(s: Scene) -> None:
    await s.world.patch("Stopped")


async def stopping(s: Scene) -> None:
    await s.world.phase("Stopping")


async def stop_and_stopping(s: Scene) -> None:
    await stop(s)
    await stopping(s)


async def cancel(s: Scene) -> None:
    await s.world.patch("Cancelled")


async def run_again(s: Scene) -> None:
    await s.world.phase("Cancelled")
    await s.world.patch("Running")
    await s.world.pod(2)


async def announce(s: Scene) -> None:
    """The script has ended its query by itself; the checkpoint is durable."""
    driver = s.world.driver
    assert driver is not None
    job = (await s.world.driver_config(1)).job
    reported = TerminationStatus("stop-1-1", Mode.STOP, TerminationStep.COMPLETING, "", 1)
    record = replace(final(job, 1, 1, Scenario.STOP, "stop-1-1"), request_id=None)
    await driver.change(phase=DriverPhase.TERMINATING, termination=reported, completed=record)


async def indexed(s: Scene) -> None:
    async def confirmed() -> bool:
        return s.world.driver is not None and 1 in s.world.driver.commands

    await eventually(confirmed, "the new leader's confirmation")


async def savepoint_beside_the_run(s: Scene, number: int) -> None:
    """The driver reports it as durable and gets the confirmation: then the status has it too."""
    driver, job = s.world.driver, (await s.world.driver_config(1)).job
    assert driver is not None
    request = f"savepoint-{number}"
    record = replace(final(job, number, 1, Scenario.STOP, request), scenario=None)
    await driver.change(savepoint=SavepointStatus(request, completed=record, over=True))

    async def confirmed() -> bool:
        return number in driver.commands

    await eventually(confirmed, f"the confirmation of checkpoint {number}")


async def ask_for_a_savepoint(s: Scene) -> None:
    await s.world.patch("Running", savepoint={"nonce": 1})


async def have_one_too_many(s: Scene) -> None:
    await savepoint_beside_the_run(s, 1)
    await savepoint_beside_the_run(s, 2)
    await s.world.patch("Running", savepoint={"retained": {"count": 1}})


async def lose_the_index(s: Scene) -> None:
    await savepoint_beside_the_run(s, 1)
    await s.world.core.delete_namespaced_config_map("orders-checkpoints", s.world.namespace)
    assert s.world.driver is not None
    await s.world.driver.change()  # the leader enqueues the job


async def lead(s: Scene) -> None:
    """Renewals come by themselves."""


@dataclass(frozen=True)
class Late:
    """A request that arrives late. `provoke` makes the leader send it; `settle` happens until it arrives.
    `answer`: the answer of the API server."""

    method: str
    path: str
    provoke: Callable[[Scene], Awaitable[None]]
    settle: Callable[[Scene], Awaitable[None]]
    answer: int = CONFLICT
    runs: bool = True


LATE = {
    "finalizer": Late("PATCH", "/streamjobs/orders", begin, begun, runs=False),
    "secret": Late("POST", "/secrets", begin, begun, runs=False),
    "new index": Late("POST", "/configmaps", begin, begun, runs=False),
    "driver": Late("POST", "/pods", begin, begun, runs=False),
    "driver that nobody wants": Late("POST", "/pods", begin, cancelled_before_it_began, CREATED, runs=False),
    "status": Late("PUT", "/streamjobs/orders/status", stop, stopping),
    "index": Late("PUT", "/configmaps/orders-checkpoints", announce, indexed),
    "deletion": Late("DELETE", "/pods/orders-driver-1", cancel, run_again, NOT_FOUND),
    "lease": Late("PUT", "/leases/streamjob", lead, stop_and_stopping),
}


FEW = ("driver that nobody wants", "index", "lease")  # accepted, refused, and in no way of the new leader


@pytest.mark.parametrize(
    "calls", [FEW, pytest.param(tuple(LATE), marks=pytest.mark.slow)], ids=["few", "all"]
)
async def test_what_an_old_leader_sent_changes_nothing(tmp_path: Path, calls: tuple[str, ...]) -> None:
    """Some at a time, each in a world of its own: most of the time they wait for a Lease to lapse."""
    some = asyncio.Semaphore(SIDE_BY_SIDE)

    async def play(name: str, late: Late) -> int:
        folder = tmp_path / name
        folder.mkdir()
        async with some:
            return await arrives(late, folder)

    answers = await asyncio.gather(*(play(name, LATE[name]) for name in calls), return_exceptions=True)
    assert dict(zip(calls, answers, strict=True)) == {name: LATE[name].answer for name in calls}


async def arrives(late: Late, folder: Path) -> int:
    """The API server's answer to the late request. What it refuses has changed nothing."""
    async with (
        a_world(controlled=False) as world,
        Wire(world.api.configuration).open(folder / "kubeconfig") as wire,
    ):
        with controller(world.namespace, kubeconfig=folder / "kubeconfig"):
            scene = Scene(world, wire)
            if late.runs:
                await world.apply()
                await world.run_driver(1)
                await world.phase("Running")
            wire.holds = lambda method, path: method == late.method and path.endswith(late.path)
            await late.provoke(scene)
            await asyncio.wait_for(wire.held.wait(), 300)
            with controller(world.namespace):
                await late.settle(scene)
                answer = await wire.deliver()
                if answer == CREATED:  # nothing refuses a pod because of what has become of its job
                    await eventually(lambda: no_driver(scene), "the end of a driver that nobody wants")
                    status = (await world.phase("Cancelled"))["status"]
                    assert status["epoch"] == 1
    return answer


COMMANDS = {
    "/v1/savepoint": (ask_for_a_savepoint, SavepointRequest),
    "/v1/deletions": (have_one_too_many, SavepointDeletion),
    "/v1/records": (lose_the_index, RecordsRequest),
}


@pytest.mark.parametrize(
    "paths", [("/v1/savepoint",), pytest.param(tuple(COMMANDS), marks=pytest.mark.slow)], ids=["one", "all"]
)
async def test_what_an_old_leader_sent_to_the_driver_changes_nothing(
    tmp_path: Path, paths: tuple[str, ...]
) -> None:
    """The command is in flight while another controller takes over and sends the same: it has one effect.

    tests/runtime/process/servers/test_control_server.py tests the runtime's own endpoint with each command.
    """

    async def play(path: str) -> tuple[list[type], list[str]]:
        folder = tmp_path / path.rpartition("/")[2]
        folder.mkdir()
        return await delivered_late(path, COMMANDS[path][0], folder)

    results = await asyncio.gather(*map(play, paths), return_exceptions=True)
    assert dict(zip(paths, results, strict=True)) == {path: ([COMMANDS[path][1]], [path]) for path in paths}


async def delivered_late(
    path: str, provoke: Callable[[Scene], Awaitable[None]], folder: Path
) -> tuple[list[type], list[str]]:
    """Return the kinds of commands that the driver accepted, and the paths of those that it refused.

    Confirmations of checkpoints are left out.
    """
    async with (
        a_world(controlled=False) as world,
        Wire(world.api.configuration).open(folder / "kubeconfig") as wire,
    ):
        with controller(world.namespace, kubeconfig=folder / "kubeconfig"):
            await world.apply()
            driver, _ = await world.run_driver(1)
            await world.phase("Running")
            driver.holds = path
            driver.may_answer.clear()
            await provoke(Scene(world, wire))
            await asyncio.wait_for(driver.requested.wait(), 300)
            wire.holds = lambda method, path: method == "PUT" and path.endswith("/leases/streamjob")
            await asyncio.wait_for(wire.held.wait(), 300)
            with controller(world.namespace):

                async def followed() -> bool:
                    return driver.term > 1

                await eventually(followed, "another leader's call to the driver")
                driver.may_answer.set()

                async def done() -> bool:
                    return bool(kinds(driver)) and bool(driver.refused)

                await eventually(done, f"both calls of {path}")
                return kinds(driver), driver.refused


def kinds(driver: FakeDriver) -> list[type]:
    return [type(c) for c in driver.commands if not isinstance(c, int)]


async def no_driver(s: Scene) -> bool:
    return await s.world.pods() == []
