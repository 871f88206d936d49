"""The page docs/reference/transcript.md: what each command prints, with kubectl and recorded resources.

The states of the job are those that the controller's rules give it. STREAMJOB_WRITE=1 writes the page again;
otherwise each block is compared, without times, durations and identities. test_commands.py runs the commands
with the real controller.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from dev.cluster.layout import Layout
from streamjob.api import Phase
from streamjob.cli.errors import ExitCode
from streamjob.cli.printing.times import moment, written
from streamjob.controller.objects import names
from streamjob.controller.reports import events as reports
from streamjob.controller.rules.observed import Observed
from streamjob.protocol.formats import index as indices
from streamjob.protocol.formats.records import OperatorKind, OperatorRecord
from streamjob.protocol.lifecycle import Scenario, TaskState
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_status import (
    DriverPhase,
    Problem,
    StageStatus,
    TaskStatus,
    TerminationStatus,
    TerminationStep,
)
from streamjob.protocol.messages.figures import Lag, QueryFigures, SourceFigures

from ..controller.factories import (
    DRAINED,
    NOW,
    SECOND,
    UID,
    driver,
    exited,
    index,
    observed,
    ran,
    record,
    requested,
    running,
)
from ..controller.factories import job as a_job
from ..gitops.cases import resource
from ..ui.api_server import ApiServer, api_server
from .transcript import Terminal

Obj = dict[str, Any]
NAMESPACE = "streams"
OPERATORS = (
    OperatorRecord("source-0", OperatorKind.SOURCE, "source-0", False),
    OperatorRecord("state-0", OperatorKind.STATE, "stateStoreSave", False),
    OperatorRecord("sink", OperatorKind.SINK, "sink", False),
)
FIGURES = QueryFigures(
    1900.0,
    {"triggerExecution": 2.2, "addBatch": 1.9, "latestOffset": 0.1},
    5 << 20,
    245.0,
    "2026-01-02T03:04:01Z",
    (SourceFigures("source-0", Lag(rows=120, seconds=4.0)),),
)
STAGE = StageStatus(
    "windows",
    (TaskStatus(0, TaskState.RUNNING, 41),),
    OPERATORS,
    "2026-01-02T03:00:00Z",
    1250.0,
    12345,
    FIGURES,
)
STOP = record(2, 1, Scenario.STOP)
LIVE = replace(
    record(1, 1, None), request_id="savepoint-manual-1", savepoint="file:///data/sp/savepoint-manual-1"
)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """With kubectl's configuration for it."""
    built = Layout.from_environment().bin / "kubectl"
    program = os.environ.get("KUBECTL") or (str(built) if built.exists() else shutil.which("kubectl"))
    if program is None:
        pytest.skip("there is no kubectl (make cluster)")
    with api_server(tmp_path) as (found, kubeconfig):
        monkeypatch.setenv("KUBECTL", program)
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        monkeypatch.setenv("HOME", str(tmp_path))  # kubectl caches there what it has discovered
        yield found


# --- states -------------------------------------------------------------------------------------------------


def state(o: Observed, generation: int = 1, **spec: Any) -> Obj:
    """What the API server has once the controller has seen this, as of today."""
    obj = copy.deepcopy(resource(o))
    text = json.dumps(obj).replace('"shop"', f'"{NAMESPACE}"').replace("shop-", f"{NAMESPACE}-")
    obj = json.loads(text)
    obj["metadata"] |= {"uid": UID, "creationTimestamp": "2026-01-02T00:00:00Z", "generation": generation}
    obj["spec"] |= {"checkpoint": {"interval": "10m"}, **spec}
    obj["status"]["observedGeneration"] = generation
    return today(obj)


def today(obj: Obj) -> Obj:
    """With all times moved from the test's NOW to now."""
    shift = datetime.now(timezone.utc) - NOW

    def moved(found: re.Match[str]) -> str:
        time = moment(found[0])
        return written(time + shift if time else None) or ""

    moved_text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", moved, json.dumps(obj))
    found: Obj = json.loads(moved_text)
    return found


def runs(epoch: int = 1, *, generation: int = 1, **more: Any) -> Obj:
    reported = replace(driver(epoch=epoch, **more.pop("reported", {})), stages=(STAGE,))
    status = ran(epoch, **more)
    return state(
        observed(a_job(status=status), pods=[running(epoch)], reported=reported, index=index(LIVE)),
        generation,
    )


def starting(text: str = "Starting", *, generation: int = 1, epoch: int = 1) -> Obj:
    from ..controller.factories import pod

    return state(observed(a_job(status=ran(epoch, text)), pods=[pod(epoch)]), generation)


def ending(
    mode: Mode, step: TerminationStep | None, progress: str = "", *, generation: int = 2, **job: Any
) -> Obj:
    """A job on its way to Stopped or Drained."""
    termination = requested(mode.value)
    stage = STAGE
    if step in (TerminationStep.SNAPSHOT, TerminationStep.COMPLETING):
        stage = replace(STAGE, tasks=(TaskStatus(0, TaskState.WAITING_FOR_FINAL_CP, 42),))
    reported = driver(
        DriverPhase.TERMINATING,
        termination=TerminationStatus(termination["requestId"], mode, step, progress) if step else None,
    )
    reported = replace(reported, stages=(stage,))
    phase = "Draining" if mode is Mode.DRAIN else "Stopping"
    wanted = job or {"state": "Drained" if mode is Mode.DRAIN else "Stopped"}
    of = a_job(status=ran(phase=phase, termination=termination), **wanted)
    return state(observed(of, pods=[running()], reported=reported, index=index(LIVE)), generation, **wanted)


def ended(record_: Any, generation: int = 2, **job: Any) -> Obj:
    o = observed(a_job(status=ran(), **job), pods=[exited()], index=index(LIVE, record_))
    return state(o, generation, **job)


def config_map(*records: Any) -> Obj:
    found = indices.empty(UID)
    for one in records:
        found = indices.add(found, one)
    meta = {"name": names.index_config_map("orders"), "namespace": NAMESPACE}
    return today({"metadata": meta, "data": {indices.KEY: indices.dumps(found).replace('"', '\\"')}}) | {
        "data": {indices.KEY: json.dumps(today(json.loads(indices.dumps(found))))}
    }


# --- the page -----------------------------------------------------------------------------------------------


async def follow(terminal: Terminal, server: ApiServer, name: str, words: str, *states: Obj) -> int:
    """A command that waits: each state is there when the one before has been shown."""
    process = await terminal.start(*words.split())
    lines: list[str] = []
    assert process.stdout is not None
    pending = list(states)
    patched = len(server.patches)
    while line := (await process.stdout.readline()).decode():
        lines.append(line)
        if pending and len(server.patches) > patched:
            server.put("streamjobs", pending.pop(0))
    code = await process.wait()
    assert not pending, lines
    terminal.keep(name, words, "".join(lines), code)
    return code


async def test_what_jobs_are_doing(server: ApiServer) -> None:
    terminal = Terminal(NAMESPACE, UID)
    server.put("streamjobs", starting())
    assert (await terminal.run("starting", "status", "orders")).code == ExitCode.DONE
    failed = copy.deepcopy(state(observed(a_job(status=ran()), pods=[exited(137)])))
    failed["metadata"]["name"] = "payments"
    server.put("streamjobs", runs(), failed)
    server.put("configmaps", config_map(LIVE))
    assert "payments" in (await terminal.run("list", "status")).out
    assert "task 0 Running batch 41" in (await terminal.run("status", "status", "orders")).out
    assert "savepoint-manual-1" in (await terminal.run("savepoints", "savepoint", "list", "orders")).out
    assert (await terminal.run("confirm", "cancel", "orders")).code == ExitCode.USAGE
    assert not server.patches


def live_pod() -> Obj:
    labels = {names.LABEL_UID: UID, names.LABEL_EPOCH: "1", names.LABEL_COMPONENT: names.DRIVER}
    meta = {"name": "orders-driver-1", "namespace": NAMESPACE, "labels": labels}
    container = {"name": "driver", "state": {"running": {"startedAt": "2026-01-02T03:03:05Z"}}}
    spec = {"containers": [{"name": "driver"}]}
    status = {"phase": "Running", "containerStatuses": [container]}
    return today({"metadata": meta, "spec": spec, "status": status})


async def test_what_is_wrong(server: ApiServer) -> None:
    terminal = Terminal(NAMESPACE, UID)
    dead = Problem("QueryFailed", "windows: the broker is away", "Start the query again, or end the script")
    server.put("streamjobs", runs(reported={"degraded": dead}))
    server.put("configmaps", config_map(LIVE))
    server.put("pods", live_pod())
    assert (await terminal.run("diagnose", "diagnose", "orders")).code == ExitCode.PROBLEM


async def test_a_savepoint(server: ApiServer) -> None:
    def request(**more: Any) -> Obj:
        found = runs(generation=2)
        asked = {
            "requestId": "savepoint-manual-2",
            "cause": "Manual",
            "requestedAt": "2026-01-02T03:04:00Z",
            "deadline": "2026-01-02T03:34:00Z",
            "savepoint": f"file:///data/sp/{NAMESPACE}-orders-{UID[:8]}/savepoint-manual-2",
        }
        found["status"]["savepointRequest"] = today(asked | more)
        return found

    terminal = Terminal(NAMESPACE, UID)
    server.put("streamjobs", runs())
    words = "savepoint take orders --wait"
    done = request(checkpoint=3)
    states = (request(), request(progress="copied 12 of 31 files"), done)
    assert await follow(terminal, server, "take", words, *states) == ExitCode.DONE


async def test_an_upgrade(server: ApiServer) -> None:
    def of(
        obj: Obj, step: str, message: str, value: str = "Unknown", reason: str = "Upgrading", **more: Any
    ) -> Obj:
        obj = copy.deepcopy(obj)
        obj["spec"] |= {"image": "orders:2", "state": "Running"}
        obj["status"]["upgrade"] = {"step": step, "generation": 2, **today(more)}
        condition = {"type": "Upgraded", "status": value, "reason": reason, "message": message}
        obj["status"]["conditions"] = [*obj["status"]["conditions"], condition]
        return obj

    terminal = Terminal(NAMESPACE, UID)
    server.put("streamjobs", runs())
    stops = "The driver with the previous specification is stopping"
    begins = "Epoch 2 starts with the new specification, from savepoint upgrade-1-2"
    states = (
        of(ending(Mode.STOP, TerminationStep.BOUNDARY, "windows: batch 42 runs"), "Stopping", stops),
        of(ending(Mode.STOP, TerminationStep.SNAPSHOT, "copied 12 of 31 files"), "Stopping", stops),
        of(starting(generation=2, epoch=2), "Starting", begins, deadline="2026-01-02T03:09:00Z"),
        of(runs(2, generation=2), "Starting", begins),
        of(runs(2, generation=2), "Completed", "The new specification runs in epoch 2", "True", "Upgraded"),
    )
    words = "upgrade orders --image orders:2 --wait"
    assert await follow(terminal, server, "upgrade", words, *states) == ExitCode.DONE


async def test_stops_and_their_like(server: ApiServer) -> None:
    terminal = Terminal(NAMESPACE, UID)
    server.put("streamjobs", runs())
    steps = (
        (TerminationStep.BOUNDARY, "windows: batch 42 runs"),
        (TerminationStep.SNAPSHOT, "copied 12 of 31 files"),
        (TerminationStep.COMPLETING, ""),
    )
    states = [ending(Mode.STOP, *step) for step in steps]
    stopped = ended(STOP, state="Stopped")
    assert await follow(terminal, server, "stop", "stop orders --wait", *states, stopped) == ExitCode.DONE

    states = [starting(generation=3, epoch=2), runs(2, generation=3)]
    assert await follow(terminal, server, "resume", "resume orders --wait", *states) == ExitCode.DONE

    server.put("streamjobs", runs(generation=1))
    states = [ending(Mode.STOP, *step, suspend=True) for step in steps[:2]]
    suspended = ended(STOP, suspend=True)
    assert suspended["status"]["phase"] == Phase.SUSPENDED.value
    assert (
        await follow(terminal, server, "suspend", "suspend orders --wait", *states, suspended)
        == ExitCode.DONE
    )

    server.put("streamjobs", runs(generation=1))
    killed = state(
        observed(a_job(state="Cancelled", status=ran()), pods=[running(deleting=True)]), 2, state="Cancelled"
    )
    gone = state(observed(a_job(state="Cancelled", status=ran()), pods=[exited(137)]), 2, state="Cancelled")
    words = "cancel orders --yes --wait"
    assert await follow(terminal, server, "cancel", words, killed, gone) == ExitCode.DONE


async def test_a_drain(server: ApiServer) -> None:
    terminal = Terminal(NAMESPACE, UID)
    server.put("streamjobs", runs())
    asyncio.get_running_loop().call_later(
        0.5, server.put, "streamjobs", ending(Mode.DRAIN, TerminationStep.BOUNDARY, "windows: batch 42 runs")
    )
    late = await terminal.run("timeout", "drain", "orders", "--yes", "--timeout", "3s")
    assert late.code == ExitCode.TIMEOUT, late.out
    server.put("streamjobs", runs())
    steps = (
        (TerminationStep.BOUNDARY, "windows: batch 42 runs"),
        (TerminationStep.MAX_WATERMARK, "windows: 5120 rows flushed"),
        (TerminationStep.SNAPSHOT, "copied 12 of 31 files"),
        (TerminationStep.COMPLETING, ""),
    )
    states = [ending(Mode.DRAIN, *step) for step in steps]
    drained = ended(DRAINED, state="Drained")
    words = "drain orders --yes --wait"
    assert await follow(terminal, server, "drain", words, *states, drained) == ExitCode.DONE
    refused = await terminal.run("refused", "resume", "orders")
    assert refused.code == ExitCode.PROBLEM


async def test_what_has_happened(server: ApiServer) -> None:
    terminal = Terminal(NAMESPACE, UID)
    states = [
        runs(),
        ending(Mode.DRAIN, TerminationStep.BOUNDARY, "the batch runs"),
        ended(DRAINED, state="Drained"),
    ]
    status = states[-1]["status"]
    status["driver"] = today(
        {"pod": "orders-driver-1", "phase": "Succeeded", "startedAt": "2026-01-02T02:00:00Z"}
    )
    status["lastExit"] |= today({"time": "2026-01-02T03:04:02Z"})
    status["termination"] = today(requested("Drain", ago=51 * SECOND) | {"finalCheckpoint": 2})
    server.put("streamjobs", states[-1])
    live = replace(LIVE, completed_at="2026-01-02T02:40:00Z")
    server.put("configmaps", config_map(live, replace(DRAINED, completed_at="2026-01-02T03:04:00Z")))
    server.put("events", *told(states))
    assert "Draining" in (await terminal.run("events", "events", "orders")).out
    assert "drained with checkpoint" in (await terminal.run("timeline", "timeline", "orders")).out
    assert (await terminal.run("logs", "logs", "orders", "--epoch", "1")).code == ExitCode.PROBLEM
    assert (await terminal.run("last-words", "logs", "orders", "--last-words")).code == ExitCode.DONE


def told(states: list[Obj]) -> Iterator[Obj]:
    """The Events between these states, ten seconds each, as kubectl sees them."""
    old = a_job().status
    for n, obj in enumerate(states):
        new = type(old).model_validate(obj["status"])
        for event in reports.events(old, new):
            about = reports.event_object(a_job(), event, NOW)
            time = written(moment(states[0]["status"]["driver"]["startedAt"])) or ""
            yield {
                "metadata": {"name": about["metadata"]["name"] + str(n), "namespace": NAMESPACE},
                "involvedObject": {"kind": "StreamJob", "name": "orders", "uid": UID},
                "type": about["type"],
                "reason": about["reason"],
                "message": about["note"],
                "eventTime": time.replace("Z", f".{n:06d}Z"),
            }
        old = new
