"""Factories for a job whose specification has changed, in addition to those of `factories`."""

from __future__ import annotations

from typing import Any

from streamjob.api import ConditionType, Specification, StreamJob, UpgradeStep
from streamjob.api.specification import digest
from streamjob.controller.rules.actions import CreateDriver
from streamjob.controller.rules.context import Decision
from streamjob.controller.rules.observed import Pod
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus

from ...factories import MINUTE, UID, at, job, record, running

OLD, NEW = "orders:1", "orders:2"
TAKEN = record(1, 1, request="upgrade-1-2")


def wanting(image: str = NEW, *, generation: int = 2, **more: Any) -> StreamJob:
    return job(image=image, generation=generation, **more)


def made(image: str = OLD, **spec: Any) -> Specification:
    return Specification.of(job(image=image, **spec).spec)


def alive(image: str = OLD, epoch: int = 1, **more: Any) -> Pod:
    return running(epoch, specification=made(image), **more)


def standby(epoch: int = 2, base: Any = running, image: str = NEW, **more: Any) -> Pod:
    """A driver that was prepared."""
    return base(epoch, specification=made(image), prepared=True, **more)


def at_gate(epoch: int = 2) -> DriverStatus:
    """As it reports at its gate."""
    return DriverStatus(4, UID, epoch, DriverPhase.PREPARED)


def upgrade(step: str, image: str = NEW, **more: Any) -> dict[str, Any]:
    """As the status has it, of a job that had `OLD`."""
    fields = {"step": step, "generation": 2, "target": digest(wanting(image).spec), "previous": made().text}
    if step == "Starting":
        fields |= {"epoch": 2, "deadline": at(5 * MINUTE)}
    return {"upgrade": {**fields, **more}}


def begun(d: Decision) -> CreateDriver:
    return next(a for a in d.actions if isinstance(a, CreateDriver))


def step(d: Decision) -> UpgradeStep | None:
    return d.status.upgrade.step if d.status.upgrade else None


def upgraded(d: Decision) -> tuple[str, str]:
    condition = d.status.condition(ConditionType.UPGRADED)
    assert condition is not None
    return condition.status, condition.reason
