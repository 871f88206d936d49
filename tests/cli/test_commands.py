"""The commands on a real API server with the real controller. The test plays kubelet and driver."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from streamjob.cli.errors import ExitCode
from streamjob.cli.kubectl import Access, Event, Forbidden, Kubectl, NotFound, Refused, Watch
from streamjob.protocol.formats.records import CheckpointRecord, OperatorKind, OperatorRecord
from streamjob.protocol.lifecycle import Scenario, TaskState
from streamjob.protocol.messages.commands import Mode, SavepointRequest, TerminationRequest
from streamjob.protocol.messages.driver_config import DriverConfig
from streamjob.protocol.messages.driver_status import (
    DriverPhase,
    Problem,
    SavepointStatus,
    StageStatus,
    TaskStatus,
    TerminationStatus,
    TerminationStep,
)
from streamjob.protocol.messages.figures import Lag, QueryFigures, SourceFigures
from streamjob.protocol.times import timestamp

from ..controller.fake_driver import FakeDriver
from ..controller.real import NEEDS_A_CLUSTER, Cluster, a_world, eventually, final
from .transcript import Terminal

pytestmark = NEEDS_A_CLUSTER
OPERATORS = (
    OperatorRecord("source-0", OperatorKind.SOURCE, "Kafka[orders]", False),
    OperatorRecord("state-0", OperatorKind.STATE, "stateStoreSave", False),
    OperatorRecord("sink", OperatorKind.SINK, "Delta", False),
)


@pytest.fixture
async def world() -> AsyncIterator[Cluster]:
    async with a_world() as world:
        yield world


def now() -> str:
    return timestamp(datetime.now(timezone.utc))


def stage(state: TaskState = TaskState.RUNNING, *, finished: bool = False) -> StageStatus:
    return StageStatus(
        "windows",
        (TaskStatus(0, state, 41),),
        tuple(replace(o, finished=finished) for o in OPERATORS),
        "2026-01-02T03:00:00Z",
        1250.0,
        12345,
        QueryFigures(
            1900.0,
            {"triggerExecution": 2.2, "addBatch": 1.9, "latestOffset": 0.1},
            5 << 20,
            245.0,
            now(),
            (SourceFigures("source-0", Lag(rows=120, seconds=4.0)),),
        ),
    )


class Driver:
    """Plays the driver of an epoch."""

    def __init__(self, world: Cluster, fake: FakeDriver, config: DriverConfig) -> None:
        self.world, self.fake, self.config = world, fake, config

    @classmethod
    async def of(cls, world: Cluster, epoch: int) -> Driver:
        fake, config = await world.run_driver(epoch)
        await world.set_pod(epoch, "Running", {"running": {"startedAt": now()}})
        await fake.change(phase=DriverPhase.RUNNING, stages=(stage(),))
        return cls(world, fake, config)

    def record(self, scenario: Scenario, request: str | None, savepoint: str | None) -> CheckpointRecord:
        """The next checkpoint."""
        number = self.config.next_checkpoint
        self.config = replace(self.config, next_checkpoint=number + 1)
        record = final(self.config.job, number, self.config.epoch, scenario, request or "x")
        return replace(record, request_id=request, savepoint=savepoint, completed_at=now())

    async def checkpoint(self) -> None:
        """A periodic one."""
        record = replace(self.record(Scenario.STOP, None, None), scenario=None)
        await self.fake.change(completed=record)
        await eventually(lambda: self._confirmed(record.checkpoint), "the confirmation")
        # It is made for one checkpoint, that of its end.
        await self.fake.change(phase=DriverPhase.RUNNING)

    async def savepoint(self) -> None:
        """Carries out the request for a live savepoint."""
        request = await self._request(SavepointRequest)
        await self.fake.change(savepoint=SavepointStatus(request.request_id, "copied 12 of 31 files"))
        await self._seen("savepointRequest", "progress")
        record = replace(self.record(Scenario.STOP, request.request_id, request.savepoint), scenario=None)
        done = SavepointStatus(request.request_id, completed=record, over=True)
        await self.fake.change(savepoint=done)
        await eventually(lambda: self._confirmed(record.checkpoint), "the confirmation")

    async def end(self, mode: Mode) -> None:
        """Carries out the request to end, step by step; the controller sees each."""
        request = await self._request(TerminationRequest)
        assert request.mode is mode
        steps = [(TerminationStep.BOUNDARY, "windows: batch 42 runs")]
        if mode is Mode.DRAIN:
            steps.append((TerminationStep.MAX_WATERMARK, "windows: 5120 rows flushed"))
        steps.append((TerminationStep.SNAPSHOT, "copied 12 of 31 files"))
        for step, progress in steps:
            ending = stage(
                TaskState.WAITING_FOR_FINAL_CP if step is TerminationStep.SNAPSHOT else TaskState.RUNNING
            )
            status = TerminationStatus(request.request_id, mode, step, progress)
            await self.fake.change(phase=DriverPhase.TERMINATING, termination=status, stages=(ending,))
            await self._seen("termination", "step", step.value)
        scenario = Scenario.DRAIN if mode is Mode.DRAIN else Scenario.STOP
        record = self.record(scenario, request.request_id, request.savepoint)
        number = record.checkpoint
        status = TerminationStatus(request.request_id, mode, TerminationStep.COMPLETING, "", number)
        closed = (stage(TaskState.CLOSED, finished=mode is Mode.DRAIN),)
        await self.fake.change(termination=status, completed=record, stages=closed)
        await eventually(lambda: self._confirmed(number), "the confirmation")
        await self.world.exit_driver(self.config.epoch)

    async def _request(self, kind: Any) -> Any:
        async def requested() -> Any:
            return next((c for c in self.fake.commands if isinstance(c, kind)), None)

        return await eventually(requested, f"a {kind.__name__}")

    async def _confirmed(self, number: int) -> bool:
        return number in self.fake.commands

    async def _seen(self, part: str, name: str, value: str | None = None) -> None:
        async def seen() -> bool:
            found = ((await self.world.job() or {}).get("status", {}).get(part) or {}).get(name)
            return found == value if value else bool(found)

        await eventually(seen, f"{part}.{name}")


async def phase(world: Cluster, name: str) -> None:
    await world.phase(name)


async def test_the_life_of_a_job_by_commands(world: Cluster) -> None:
    """A start, a savepoint, a failure, an upgrade, a stop, and on again."""
    terminal = Terminal(world.namespace)
    await world.apply(image="registry.example/orders:1", checkpoint={"interval": "10s"})
    job = await world.phase("Starting")
    terminal.uid = job["metadata"]["uid"]
    assert (await terminal.run("", "status", "orders")).code == ExitCode.DONE

    driver = await Driver.of(world, 1)
    await driver.checkpoint()
    await phase(world, "Running")
    assert "orders" in (await terminal.run("", "status")).out
    tree = await terminal.run("", "status", "orders")
    assert "task 0 Running batch 41" in tree.out
    plain = json.loads((await terminal.run("", "status", "orders", "--json")).out)
    assert plain["stages"][0]["sources"] == [{"uid": "source-0", "lagRows": 120, "lagSeconds": 4.0}]

    taking = await terminal.start("savepoint", "take", "orders", "--wait")
    await driver.savepoint()
    taken = await terminal.end("", taking)
    assert taken.code == ExitCode.DONE, taken.out
    assert "savepoint-manual-2" in (await terminal.run("", "savepoint", "list", "orders")).out

    await driver.fake.change(degraded=Problem("QueryFailed", "windows: the broker is away", "See the broker"))
    await eventually(lambda: degraded(world, True), "the condition Degraded")
    diagnosis = await terminal.run("", "diagnose", "orders")
    assert diagnosis.code == ExitCode.PROBLEM
    assert "the broker is away" in diagnosis.out
    await driver.fake.change(degraded=None)
    await eventually(lambda: degraded(world, False), "the end of the condition")

    image = ("upgrade", "orders", "--image", "registry.example/orders:2", "--wait")
    upgrading = await terminal.start(*image)
    await driver.end(Mode.STOP)
    driver = await Driver.of(world, 2)
    await driver.checkpoint()
    upgraded = await terminal.end("", upgrading)
    assert upgraded.code == ExitCode.DONE, upgraded.out

    stopping = await terminal.start("stop", "orders", "--wait")
    await driver.end(Mode.STOP)
    stopped = await terminal.end("", stopping)
    assert stopped.code == ExitCode.DONE, stopped.out
    assert "Nothing to do" in (await terminal.run("", "stop", "orders")).out

    resuming = await terminal.start("resume", "orders", "--wait")
    driver = await Driver.of(world, 3)
    resumed = await terminal.end("", resuming)
    assert resumed.code == ExitCode.DONE, resumed.out


@pytest.mark.slow
async def test_suspensions_cancels_and_the_end_by_commands(world: Cluster) -> None:
    """What ends a job, and what is known of it afterwards."""
    terminal = Terminal(world.namespace)
    await world.apply(image="registry.example/orders:2", checkpoint={"interval": "10s"})
    job = await world.phase("Starting")
    terminal.uid = job["metadata"]["uid"]
    driver = await Driver.of(world, 1)
    await driver.checkpoint()
    await phase(world, "Running")

    suspending = await terminal.start("suspend", "orders", "--wait")
    await driver.end(Mode.STOP)
    assert (await terminal.end("", suspending)).code == ExitCode.DONE
    await terminal.run("", "resume", "orders")
    driver = await Driver.of(world, 2)
    await driver.checkpoint()
    await phase(world, "Running")

    assert (await terminal.run("", "cancel", "orders")).code == ExitCode.USAGE
    cancelling = await terminal.start("cancel", "orders", "--yes", "--wait")
    cancelled = await terminal.end("", cancelling)
    assert cancelled.code == ExitCode.DONE, cancelled.out
    await terminal.run("", "resume", "orders")
    driver = await Driver.of(world, 3)
    await driver.checkpoint()
    await phase(world, "Running")

    late = await terminal.run("", "drain", "orders", "--yes", "--timeout", "2s")
    assert late.code == ExitCode.TIMEOUT, late.out
    draining = await terminal.start("drain", "orders", "--wait")
    await driver.end(Mode.DRAIN)
    drained = await terminal.end("", draining)
    assert drained.code == ExitCode.DONE, drained.out

    refused = await terminal.run("", "resume", "orders")
    assert refused.code == ExitCode.PROBLEM
    assert "Make a new StreamJob" in refused.out
    told = await terminal.run("", "events", "orders")
    assert "Draining" in told.out
    life = json.loads((await terminal.run("", "timeline", "orders", "--json")).out)
    epochs = [e for e in life if e["kind"] == "epoch"]
    assert [e["epoch"] for e in epochs] == [1, 2, 3]
    assert [e["kind"] for e in life].count("drain") == 1
    await terminal.run("", "timeline", "orders")
    assert (await terminal.run("", "logs", "orders", "--last-words")).code == ExitCode.DONE
    missing = await terminal.run("", "logs", "orders", "--epoch", "1")
    assert missing.code == ExitCode.PROBLEM
    assert (await terminal.run("", "status", "nothing")).code == ExitCode.CLUSTER


async def degraded(world: Cluster, wanted: bool) -> bool:
    job = await world.job() or {}
    found = {c["type"] for c in job.get("status", {}).get("conditions", ())}
    return ("Degraded" in found) is wanted


async def test_another_request_ends_the_waiting(world: Cluster) -> None:
    terminal = Terminal(world.namespace)
    await world.apply()
    driver = await Driver.of(world, 1)
    await driver.checkpoint()
    await phase(world, "Running")
    waiting = await terminal.start("stop", "orders", "--wait")

    async def stopping() -> bool:
        return (await world.job() or {}).get("spec", {}).get("state") == "Stopped"

    await eventually(stopping, "the request")
    await world.patch("Cancelled")
    assert (await terminal.end("", waiting)).code == ExitCode.SUPERSEDED


async def test_ctrl_c_leaves_what_was_requested(world: Cluster) -> None:
    terminal = Terminal(world.namespace)
    await world.apply()
    await Driver.of(world, 1)
    await phase(world, "Running")
    waiting = await terminal.start("stop", "orders", "--wait")
    assert waiting.stdout is not None
    assert b"stop of orders" in await waiting.stdout.readline()
    waiting.send_signal(2)
    ran = await terminal.end("", waiting)
    assert ran.code == ExitCode.INTERRUPTED
    assert "orders stays requested to stop" in ran.out
    assert "resume orders` takes it back" in ran.out
    assert "Traceback" not in ran.out
    job = await world.job() or {}
    assert job["spec"]["state"] == "Stopped"


async def _rest(watch: Watch) -> AsyncIterator[Event]:
    """What a watch still has after it was closed."""
    for event in watch:
        yield event


async def test_kubectl_on_a_real_api_server() -> None:
    """What kubectl.py makes of kubectl's answers, and of its refusals."""
    async with a_world(controlled=False) as world:
        k = Kubectl(namespace=world.namespace)
        with pytest.raises(NotFound):
            await asyncio.to_thread(k.get, "streamjobs", "orders")
        assert await asyncio.to_thread(k.find, "streamjobs", "orders") is None
        await world.apply()
        with await asyncio.to_thread(k.watch, "streamjobs") as watch:
            first = await asyncio.to_thread(watch.next, 30)
            assert first is not None
            assert (first.kind, first.object["metadata"]["name"]) == ("ADDED", "orders")
            assert await asyncio.to_thread(watch.next, 0.1) is None
            change = {"spec": {"state": "Drained"}}
            patched = await asyncio.to_thread(k.patch, "streamjobs", "orders", change)
            assert patched["spec"]["state"] == "Drained"
            second = await asyncio.to_thread(watch.next, 30)
            assert second is not None
            assert (second.kind, second.object["spec"]["state"]) == ("MODIFIED", "Drained")
        assert [e async for e in _rest(watch)] == []
        with pytest.raises(Refused, match="a drain is an end") as e:
            await asyncio.to_thread(k.patch, "streamjobs", "orders", {"spec": {"state": "Running"}})
        assert not e.value.remedy, "the rule's own message says what to do"
        assert len(await asyncio.to_thread(k.list, "streamjobs")) == 1
        questions = (Access("patch", "streamjobs", "streamjob.dev"), Access("get", "pods", subresource="log"))
        assert await asyncio.to_thread(k.may, *questions) == (True, True)
        nobody = Kubectl(("--as", "nobody"), world.namespace)
        assert await asyncio.to_thread(k.may) == ()
        with pytest.raises(Forbidden, match="nobody"):
            await asyncio.to_thread(nobody.list, "streamjobs")
        await asyncio.to_thread(k.patch, "streamjobs", "orders", {"spec": {"state": "Cancelled"}})
