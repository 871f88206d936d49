"""O1 on the real API server: the controller dies after each of its effects in turn, and another continues.

An effect is a call that changes something, there or in the driver. A death between two reads is one
between two effects. Here a clock enqueues the job instead of kopf, and the controller leads without an
election: those have tests of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from streamjob.controller.api_server.kube import Kube
from streamjob.controller.drivers.connections import open_session
from streamjob.controller.reconciler.reconciler import Reconciler
from streamjob.protocol.messages.commands import Mode
from tests.world.controller_process import Alone

from ..real import NEEDS_A_CLUSTER, Cluster, a_world, end, eventually, gone

pytestmark = [*NEEDS_A_CLUSTER, pytest.mark.timeout(1800)]
SIDE_BY_SIDE = 4
EVERY = 0.05  # seconds
ENDS = {Mode.STOP: "Stopped", Mode.DRAIN: "Drained"}


class Life:
    """Of one process: it ends after this number of effects, before it has the last answer; None for never."""

    def __init__(self, effects: int | None) -> None:
        self._left = effects
        self.ended = asyncio.Event()
        self.effects: list[str] = []

    async def before(self) -> None:
        if self.ended.is_set():
            await asyncio.Event().wait()

    async def after(self, effect: str) -> None:
        self.effects.append(effect)
        if self._left is not None and len(self.effects) >= self._left:
            self.ended.set()
            await asyncio.Event().wait()


class MortalKube(Kube):
    def __init__(self, namespace: str, life: Life) -> None:
        super().__init__([namespace])
        self._life = life

    async def _send(self, method: str, path: str, body: Any, content: str, accept: str) -> dict[str, Any]:
        await self._life.before()
        answer = await super()._send(method, path, body, content, accept)
        if method != "GET" and "/events" not in path:  # nothing waits for an Event
            await self._life.after(f"{method} {path.rpartition('/')[2]}")
        return answer


def mortal_session(life: Life) -> Callable[[], aiohttp.ClientSession]:
    """To a driver."""
    trace = aiohttp.TraceConfig()

    async def start(_: Any, __: Any, ___: Any) -> None:
        await life.before()

    async def ended(_: Any, __: Any, params: aiohttp.TraceRequestEndParams) -> None:
        if params.method == "PUT":
            await life.after(f"PUT {params.url.path}")

    trace.on_request_start.append(start)
    trace.on_request_end.append(ended)

    def session() -> aiohttp.ClientSession:
        opened = open_session()
        opened.trace_configs.append(trace)
        trace.freeze()
        return opened

    return session


@contextlib.asynccontextmanager
async def living(world: Cluster, term: int, life: Life) -> AsyncIterator[None]:
    """A controller in this process, until the block ends: it removes no finalizer at its end."""
    kube = MortalKube(world.namespace, life)
    reconciler = Reconciler(kube, Alone(term), session=mortal_session(life))  # type: ignore[arg-type]
    await reconciler.open()

    async def enqueue() -> None:
        while True:
            reconciler.enqueue(world.namespace, "orders")
            await asyncio.sleep(EVERY)

    enqueuing = asyncio.create_task(enqueue())
    try:
        yield
    finally:
        enqueuing.cancel()
        await reconciler.close()


@dataclass(frozen=True)
class Outcome:
    """All that is left of a job's life, but for times and names that are made up."""

    phase: str
    epoch: int
    final_checkpoint: int
    ready: str
    index: list[tuple[int, int, str, str | None]]
    received: list[object]
    pods: int
    made: int


async def live(world: Cluster, mode: Mode) -> Outcome:
    """Of a job that is started and ended; whoever controls it."""
    await world.apply()
    pod = await world.pod(1)
    driver, config = await world.run_driver(1)
    await world.phase("Running")
    await world.patch(ENDS[mode])
    await end(world, driver, config, mode)
    status = (await world.phase(ENDS[mode]))["status"]
    commands = [c if isinstance(c, int) else c.request_id for c in driver.commands]
    secrets = await world.core.list_namespaced_secret(world.namespace)
    maps = await world.core.list_namespaced_config_map(world.namespace, label_selector="streamjob.dev/job")
    assert pod.metadata.name == "orders-driver-1"
    outcome = Outcome(
        phase=status["phase"],
        epoch=status["epoch"],
        final_checkpoint=status["termination"]["finalCheckpoint"],
        ready=next(c["status"] for c in status["conditions"] if c["type"] == "Ready"),
        index=[
            (r.checkpoint, r.epoch, r.scenario.value if r.scenario else "", r.request_id)
            for r in (await world.index()).checkpoints
        ],
        received=list(dict.fromkeys(commands)),  # it recognizes a repeated command
        pods=len(await world.pods()),
        made=len(secrets.items) + len(maps.items),
    )
    await world.delete()
    await eventually(lambda: gone(world), "the end of the job")
    return outcome


async def killed_after(effects: int | None, mode: Mode) -> tuple[Outcome, list[str]]:
    """What comes of it, and what the first controller has done."""
    async with a_world(controlled=False) as world:
        life = Life(effects)
        outcome = asyncio.create_task(live(world, mode))
        dead = asyncio.create_task(life.ended.wait())
        async with living(world, 1, life):
            await asyncio.wait({outcome, dead}, return_when=asyncio.FIRST_COMPLETED)
        dead.cancel()
        async with living(world, 2, Life(None)):
            return await outcome, life.effects


@pytest.mark.parametrize(
    "mode",
    [pytest.param(m, id=e, marks=[] if m is Mode.DRAIN else pytest.mark.slow) for m, e in ENDS.items()],
)
async def test_o1_killed_after_each_effect(
    mode: Mode, record_property: Callable[[str, object], None]
) -> None:
    calm, effects = await killed_after(None, mode)
    assert calm.ready == "True"
    some = asyncio.Semaphore(SIDE_BY_SIDE)

    async def play(number: int) -> Outcome:
        async with some:
            return (await killed_after(number, mode))[0]

    numbers = range(1, len(effects) + 1)
    outcomes = await asyncio.gather(*map(play, numbers), return_exceptions=True)
    record_property("figure", f"controller killed after each of {len(effects)} effects of a {mode.value}")
    wrong = {f"{n}: {effects[n - 1]}": o for n, o in zip(numbers, outcomes, strict=True) if o != calm}
    assert not wrong, f"instead of {calm}: {wrong}"
    assert len(effects) > 8, effects
