"""A job: its StreamJob, as the API server has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..printing.times import moment

Obj = Mapping[str, Any]

TERMINAL = ("Suspended", "Stopped", "Drained", "Finished", "Cancelled", "Failed")
ENDS = ("Drained", "Finished")  # no driver starts any more
ENDING = ("Stopping", "Draining", "Cancelling")
# Steps of a termination, by status.termination.step; a stop fires no timers.
STEPS = {
    "WaitingForBoundary": "the running batch ends",
    "FiringTimers": "timers fire: every window is emitted",
    "WritingSavepoint": "the savepoint is written",
    "WaitingForIndex": "the checkpoint is recorded in the index",
    "Closed": "the driver exits",
}


@dataclass(frozen=True)
class Condition:
    """A condition of the status."""

    type: str
    status: str
    reason: str
    message: str
    since: datetime | None

    @property
    def true(self) -> bool:
        return self.status == "True"


@dataclass(frozen=True)
class Task:
    """A shard of a stage, with its state in the life cycle."""

    index: int
    state: str
    batch: int | None


@dataclass(frozen=True)
class Source:
    """What a source holds that is not committed."""

    uid: str
    lag_rows: int | None
    lag_files: int | None
    lag_bytes: int | None
    lag_seconds: float | None


@dataclass(frozen=True)
class Operator:
    """A source, a stateful operator or a sink."""

    uid: str
    kind: str
    name: str
    finished: bool


@dataclass(frozen=True)
class Stage:
    """A query."""

    uid: str
    tasks: tuple[Task, ...]
    operators: tuple[Operator, ...]
    sources: tuple[Source, ...]
    upstream: tuple[str, ...]
    batch: int | None
    watermark: datetime | None
    watermark_delay: float | None
    rows_per_second: float | None
    processed_per_second: float | None
    batch_seconds: float | None
    parts_of_batch: Mapping[str, float]
    state_rows: int | None
    state_bytes: int | None
    last_commit: datetime | None

    @property
    def lag_seconds(self) -> float | None:
        known = [s.lag_seconds for s in self.sources if s.lag_seconds is not None]
        return max(known, default=None)


@dataclass(frozen=True)
class Problem:
    """An error or a warning, with its remedy."""

    reason: str
    message: str
    remedy: str = ""
    time: datetime | None = None


@dataclass(frozen=True)
class Job:
    """What a person wants to know of a StreamJob.

    :param obj: the resource itself.
    :param wanted: the requested state; Suspended if `spec.suspend` applies.
    """

    obj: Obj
    namespace: str
    name: str
    uid: str
    created: datetime | None
    deleting: datetime | None
    generation: int
    observed_generation: int
    wanted: str
    phase: str
    epoch: int
    image: str
    conditions: Mapping[str, Condition]
    stages: tuple[Stage, ...]
    warnings: tuple[Problem, ...]
    last_error: Problem | None

    @property
    def spec(self) -> Obj:
        found: Obj = self.obj.get("spec") or {}
        return found

    @property
    def status(self) -> Obj:
        found: Obj = self.obj.get("status") or {}
        return found

    def part(self, name: str) -> Obj:
        """A part of the status, such as `termination`; empty if it is not there."""
        found: Obj = self.status.get(name) or {}
        return found

    def is_true(self, kind: str) -> bool:
        condition = self.conditions.get(kind)
        return condition is not None and condition.true

    @property
    def seen(self) -> bool:
        """Whether the controller has seen the newest spec."""
        return self.observed_generation >= self.generation

    @property
    def ready(self) -> bool:
        return self.seen and self.is_true("Ready")

    @property
    def reason(self) -> Condition | None:
        """The condition that says most about the job as it is."""
        for kind in ("Stalled", "Degraded"):
            if self.is_true(kind):
                return self.conditions[kind]
        return self.conditions.get("Ready")

    @property
    def runs(self) -> bool:
        """Whether a driver runs queries. Figures of one that is gone are those of the past."""
        driver = self.part("driver")
        return (
            self.phase in ("Running", "Stopping", "Draining") and driver.get("phase", "Running") == "Running"
        )

    @property
    def failure(self) -> Problem | None:
        """Why the newest driver that failed has failed. `last_error` may be newer: why the next one waits."""
        restarts = self.part("restarts")
        error = restarts.get("error")
        if error or not restarts.get("count"):
            return _problem(error) if error else None
        return None if self.is_true("Stalled") and self.phase != "Failed" else self.last_error

    @property
    def failures(self) -> int:
        """Failures in a row up to now, if the job is about to start again after the last of them."""
        restarts = self.part("restarts")
        starts = self.phase == "Restarting" or (
            self.phase in ("Pending", "Starting") and restarts.get("epoch") == self.epoch - 1
        )
        return restarts.get("count") or 0 if starts else 0

    @property
    def crash_loops(self) -> bool:
        return self.failures > 1

    @property
    def failed_before(self) -> Problem | None:
        """Why the driver before the one that starts has failed."""
        starts = self.phase in ("Pending", "Starting")
        return self.failure if starts and self.part("restarts").get("epoch") == self.epoch - 1 else None

    @property
    def open_error(self) -> Problem | None:
        """The last error while it matters: the status keeps it after the job has recovered from it.

        It has recovered if it was ready since, or has completed a checkpoint. The error's time is that of its
        first occurrence, so one that is back is known by what the operator says now, or by the restart. While
        a driver starts, it is the failure of the one before.
        """
        error, ready = self.last_error, self.conditions.get("Ready")
        if error is None or error.time is None or self.phase in ("Restarting", "Failed"):
            return error
        if ready is not None and not ready.true and error.message.rstrip(". \n") in ready.message:
            return error
        if self.phase in ("Pending", "Starting"):
            return self.failed_before  # what kept the pod from starting is over: Ready does not say it
        unready = ready.since if ready is not None and not ready.true else None
        checkpoint = moment(self.part("checkpoint").get("completedAt"))
        over = self.ready or any(t is not None and t > error.time for t in (unready, checkpoint))
        return None if over else error

    @property
    def waits_for_pod(self) -> str | None:
        """The pod of the last driver, which has exited, if the next one waits until it is gone."""
        driver = self.part("driver")
        gone = self.phase == "Pending" and driver.get("phase") in ("Succeeded", "Failed")
        return driver["pod"] if gone else None

    @property
    def runs_image(self) -> str | None:
        """The image of the driver if the spec has another one: until an upgrade, and after its rollback."""
        upgrade = self.part("upgrade")
        if upgrade.get("step") not in ("Pending", "Preparing", "Stopping", "RolledBack"):
            return None
        try:
            found = json.loads(upgrade.get("previous") or "{}").get("image")
        except (ValueError, AttributeError):
            return None
        return found if found != self.image else None

    @property
    def rolls_back_at(self) -> datetime | None:
        """When the operator gives up an upgrade whose driver does not come up, without anybody's help."""
        upgrade = self.part("upgrade")
        return moment(upgrade.get("deadline")) if upgrade.get("step") in ("Starting", "Preparing") else None

    @property
    def standby(self) -> str | None:
        """What the driver does that is being prepared to take over."""
        found = self.part("standby")
        if not found:
            return None
        error = (found.get("error") or {}).get("reason")
        if found.get("nextAt"):
            return f"{found['pod']} has failed ({error}); the next one is made at {found['nextAt']}"
        if found.get("prepared"):
            return f"{found['pod']} waits at its first query"
        if error is not None:
            return f"{found['pod']} is not prepared ({error})"
        return f"{found['pod']} is being prepared ({found.get('phase') or 'not made yet'})"

    @property
    def driver(self) -> str | None:
        """The name of the driver's pod."""
        return self.part("driver").get("pod")

    @property
    def index(self) -> str:
        """The name of the ConfigMap with the job's checkpoints."""
        return f"{self.name}-checkpoints"

    @property
    def folder(self) -> str:
        """The job's own folder, below those of `spec.storage`."""
        return f"{self.namespace}-{self.name}-{self.uid[:8]}"


def said_of(step: str | None) -> str:
    """A step of a termination in words; None: the driver does not have the request yet."""
    return "not sent to the driver yet" if step is None else STEPS.get(step, step)


def once_more(spec: Obj, part: str) -> dict[str, int]:
    """The change of a part of the spec that requests another savepoint, or another restart."""
    return {"nonce": ((spec.get(part) or {}).get("nonce") or 0) + 1}


def job(obj: Obj) -> Job:
    """The view of a StreamJob."""
    meta, spec, status = obj.get("metadata") or {}, obj.get("spec") or {}, obj.get("status") or {}
    state = spec.get("state") or "Running"
    error = status.get("lastError")
    conditions = [_condition(c) for c in status.get("conditions") or ()]
    return Job(
        obj=obj,
        namespace=meta.get("namespace", ""),
        name=meta.get("name", ""),
        uid=meta.get("uid", ""),
        created=moment(meta.get("creationTimestamp")),
        deleting=moment(meta.get("deletionTimestamp")),
        generation=meta.get("generation") or 0,
        observed_generation=status.get("observedGeneration") or 0,
        wanted="Suspended" if state == "Running" and spec.get("suspend") else state,
        phase=status.get("phase") or "Pending",
        epoch=status.get("epoch") or 0,
        image=spec.get("image", ""),
        conditions={c.type: c for c in conditions},
        stages=tuple(_stage(s) for s in status.get("stages") or ()),
        warnings=tuple(_problem(w) for w in status.get("warnings") or ()),
        last_error=_problem(error) if error else None,
    )


def _condition(obj: Obj) -> Condition:
    return Condition(
        obj.get("type", ""),
        obj.get("status", "Unknown"),
        obj.get("reason", ""),
        obj.get("message", ""),
        moment(obj.get("lastTransitionTime")),
    )


def _problem(obj: Obj) -> Problem:
    return Problem(
        obj.get("reason", ""), obj.get("message", ""), obj.get("remedy", ""), moment(obj.get("time"))
    )


def _stage(obj: Obj) -> Stage:
    parts = obj.get("batchSeconds") or {}
    return Stage(
        uid=obj.get("uid", ""),
        tasks=tuple(
            Task(t.get("index", 0), t.get("state", ""), t.get("batch")) for t in obj.get("tasks") or ()
        ),
        operators=tuple(
            Operator(o.get("uid", ""), o.get("kind", ""), o.get("name", ""), bool(o.get("finished")))
            for o in obj.get("operators") or ()
        ),
        sources=tuple(
            Source(
                s.get("uid", ""),
                s.get("lagRows"),
                s.get("lagFiles"),
                s.get("lagBytes"),
                s.get("lagSeconds"),
            )
            for s in obj.get("sources") or ()
        ),
        upstream=tuple(obj.get("upstream") or ()),
        batch=obj.get("batch"),
        watermark=moment(obj.get("watermark")),
        watermark_delay=obj.get("watermarkDelaySeconds"),
        rows_per_second=obj.get("inputRowsPerSecond"),
        processed_per_second=obj.get("processedRowsPerSecond"),
        batch_seconds=parts.get("triggerExecution"),
        parts_of_batch={k: v for k, v in parts.items() if k != "triggerExecution"},
        state_rows=obj.get("stateRows"),
        state_bytes=obj.get("stateBytes"),
        last_commit=moment(obj.get("lastCommitAt")),
    )
