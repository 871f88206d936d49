"""Factories of what is observed: `observed(job(state="Stopped"), pods=[running()], reported=driver())`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from streamjob.api import ConditionType, Phase, StreamJob
from streamjob.controller.objects import names
from streamjob.controller.rules.actions import Action
from streamjob.controller.rules.context import Decision
from streamjob.controller.rules.decide import decide
from streamjob.controller.rules.driver_config import driver_config
from streamjob.controller.rules.observed import DriverExit, Observed, Pod, Unschedulable
from streamjob.protocol.formats import index as indices
from streamjob.protocol.formats.index import Index
from streamjob.protocol.formats.records import (
    CheckpointRecord,
    OperatorKind,
    OperatorRecord,
    StageRecord,
    TaskRecord,
)
from streamjob.protocol.lifecycle import Scenario, TaskState
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import DriverConfig
from streamjob.protocol.messages.driver_status import (
    DriverPhase,
    DriverStatus,
    Problem,
    StageStatus,
    TaskStatus,
    TerminationStatus,
    TerminationStep,
)
from streamjob.protocol.times import timestamp

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
UID = "0a1b2c3d-0000-4000-8000-000000000000"
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def at(delta: timedelta) -> str:
    return timestamp(NOW + delta)


def job(
    *,
    state: str = "Running",
    status: dict[str, Any] | None = None,
    generation: int = 1,
    finalizer: bool = True,
    deleted: timedelta | None = None,
    **spec: Any,
) -> StreamJob:
    """A StreamJob `orders` in namespace `shop`. `deleted`: how long ago."""
    meta: dict[str, Any] = {"name": "orders", "namespace": "shop", "uid": UID, "resourceVersion": "10"}
    meta |= {"generation": generation, "finalizers": [names.FINALIZER] if finalizer else []}
    if deleted is not None:
        meta["deletionTimestamp"] = timestamp(NOW - deleted)
    return StreamJob.parse(
        {
            "metadata": meta,
            "spec": {
                "state": state,
                "image": "orders:1",
                "runtime": "Image",
                "application": {"file": "/app/orders.py"},
                "storage": {"checkpoints": "file:///data/cp", "savepoints": "file:///data/sp"},
                **spec,
            },
            "status": status or {},
        }
    )


def ran(epoch: int = 1, phase: str = "Running", *, pod: bool = True, **more: Any) -> dict[str, Any]:
    """The status of a job whose driver of `epoch` has been seen (`pod`) and has run."""
    seen = (
        {"driver": {"pod": f"orders-driver-{epoch}", "uid": f"pod-{epoch}", "phase": "Running"}}
        if pod
        else {}
    )
    return {"phase": phase, "epoch": epoch, "startedEpoch": epoch, **seen, **more}


def requested(mode: str = "Stop", epoch: int = 1, *, ago: timedelta = MINUTE, **more: Any) -> dict[str, Any]:
    """A recorded termination."""
    request = f"{mode.lower()}-{epoch}-1"
    return {
        "requestId": request,
        "mode": mode,
        "requestedAt": at(-ago),
        "deadline": at(10 * MINUTE - ago),
        "savepoint": f"file:///data/sp/shop-orders-{UID[:8]}/{request}",
        **more,
    }


def failed(
    epoch: int = 1, *, count: int = 1, again: timedelta | None = None, generation: int = 1
) -> dict[str, Any]:
    entry: dict[str, Any] = {"count": count, "epoch": epoch, "generation": generation}
    return entry | ({"nextAt": at(again)} if again is not None else {})


def pod(epoch: int = 1, **more: Any) -> Pod:
    """A pod that was created a moment ago."""
    fields = {"version": "5", "generation": 1, "phase": "Pending", "waiting": ("ContainerCreating", "")}
    return Pod(name=f"orders-driver-{epoch}", uid=f"pod-{epoch}", epoch=epoch, **{**fields, **more})


def running(epoch: int = 1, **more: Any) -> Pod:
    return pod(
        epoch, **{"phase": "Running", "ip": "10.0.0.9", "waiting": None, "started_at": NOW - MINUTE, **more}
    )


def waiting(reason: str, epoch: int = 1, **more: Any) -> Pod:
    return pod(epoch, **{"waiting": (reason, "because"), **more})


def unschedulable(ago: timedelta) -> Pod:
    return pod(waiting=None, unschedulable=Unschedulable("0/3 nodes are available", NOW - ago))


def exited(
    code: int = 0,
    epoch: int = 1,
    *,
    report: DriverStatus | None = None,
    reason: str = "",
    tail: str = "",
    **more: Any,
) -> Pod:
    phase = "Failed" if code else "Succeeded"
    end = DriverExit(code, reason, tail, report, NOW)
    return running(epoch, **{"phase": phase, "exit": end, **more})


def driver(
    phase: DriverPhase = DriverPhase.RUNNING,
    epoch: int = 1,
    *,
    termination: TerminationStatus | None = None,
    completed: CheckpointRecord | None = None,
    **more: Any,
) -> DriverStatus:
    stages = (
        StageStatus("windows", (TaskStatus(0, TaskState.RUNNING, 7),), watermark="2026-01-02T03:00:00Z"),
    )
    return DriverStatus(3, UID, epoch, phase, stages, termination, completed, **more)


def terminating(
    mode: Mode = Mode.STOP,
    epoch: int = 1,
    *,
    request: str | None = None,
    step: TerminationStep = TerminationStep.BOUNDARY,
    progress: str = "the batch runs",
    problem: Problem | None = None,
    **more: Any,
) -> DriverStatus:
    """A driver that is carrying out a termination."""
    request = request or f"{mode.value.lower()}-{epoch}-1"
    reported = TerminationStatus(request, mode, step, progress, problem=problem)
    return driver(DriverPhase.TERMINATING, epoch, termination=reported, **more)


def record(
    number: int = 1,
    epoch: int = 1,
    scenario: Scenario | None = Scenario.STOP,
    *,
    request: str | None = "stop-1-1",
    stages: bool = True,
    transactions: tuple[str, ...] = (),
) -> CheckpointRecord:
    done = scenario is not None and scenario.is_drain
    stage = StageRecord(
        "windows",
        (TaskRecord(0, "file:///data/cp/x/windows/0", 7, transactions=transactions),),
        (OperatorRecord("windows/source-0", OperatorKind.SOURCE, "RateStream", done),),
    )
    savepoint = f"file:///data/sp/x/{request}" if request else None
    return CheckpointRecord(
        number, epoch, scenario, request, savepoint, "2026-01-02T03:04:00Z", (stage,) if stages else ()
    )


def large_record(tasks: int = 2_000) -> CheckpointRecord:
    """A record whose stage has this number of shards."""
    small = record()
    (stage,) = small.stages
    shards = tuple(
        TaskRecord(n, f"s3a://streams/checkpoints/shop-orders-{UID[:8]}/windows/{n}", 7, finished=n % 2 == 0)
        for n in range(tasks)
    )
    return replace(small, stages=(replace(stage, tasks=shards),))


def index(*records: CheckpointRecord) -> Index:
    found = indices.empty(UID)
    for r in records:
        found = indices.add(found, r)
    return found


def config(epoch: int = 1, started: int = 0, known: Index | None = None, **spec: Any) -> DriverConfig:
    """The configuration of the driver of `epoch`, after a driver of the epoch `started` has run."""
    return driver_config(job(**spec), known, epoch, started, None)


def observed(
    job: StreamJob,
    *,
    pods: list[Pod] | None = None,
    index: Index | None = None,
    reported: DriverStatus | None = None,
    **more: Any,
) -> Observed:
    version = "20" if index is not None else None
    more = {"restored_from": frozenset(), **more}
    return Observed(job, tuple(pods or ()), index, version, driver=reported, **more)


DRAINED = record(2, 1, Scenario.DRAIN, request="drain-1-1")
OUT_OF_INPUT = record(2, 1, Scenario.END_OF_INPUT, request=None)
TRANSIENT = Problem("QueryFailed", "the broker is away", "Wait for it", retryable=True)
FATAL = Problem("ScriptFailed", "syntax error in line 3", "Fix the script")


def look(o: Observed) -> tuple[Phase | None, str, list[type[Action]], Decision]:
    """Phase, reason of Ready, kinds of actions, and the whole decision."""
    d = decide(o, NOW)
    ready = d.status.condition(ConditionType.READY)
    return d.status.phase, ready.reason if ready else "", [type(a) for a in d.actions], d


def is_stalled(d: Decision) -> bool:
    condition = d.status.condition(ConditionType.STALLED)
    return condition is not None and condition.status == "True"


def is_ready(d: Decision) -> bool:
    condition = d.status.condition(ConditionType.READY)
    return condition is not None and condition.status == "True"
