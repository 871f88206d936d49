"""The conditions when the API server refuses a call, and what is concluded from it."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.api import Specification
from streamjob.controller.api_server.errors import Forbidden
from streamjob.controller.reconciler.status_writer import REFUSALS, StatusWriter
from streamjob.controller.reconciler.work_queue import WorkItem
from streamjob.controller.rules.actions import CreateDriver
from streamjob.controller.rules.driver_config import driver_config
from streamjob.controller.rules.status import NOT_MADE

from .. import factories


class Kube:
    """The API server as far as `StatusWriter.report` asks it."""

    def __init__(self, status: dict[str, Any]) -> None:
        self._job = factories.job(status=status)
        self.written: dict[str, Any] = {}

    async def get_job(self, namespace: str, name: str) -> dict[str, Any]:
        return {
            "metadata": self._job.metadata.model_dump(by_alias=True, exclude_none=True, mode="json"),
            "spec": self._job.spec.model_dump(by_alias=True, exclude_none=True, mode="json"),
            "status": self._job.status.plain(),
        }

    async def put_status(self, namespace: str, name: str, version: str, status: dict[str, Any]) -> str:
        self.written = status
        return "11"

    async def create_event(self, *_: Any) -> None: ...


class Leader:
    term = 1


def creation(epoch: int) -> CreateDriver:
    job = factories.job()
    return CreateDriver(driver_config(job, None, epoch, 0, None), Specification.of(job.spec))


@pytest.mark.parametrize(("refused", "phase"), [(None, None), (creation(2), NOT_MADE)])
async def test_only_a_refused_creation_shows_that_a_driver_has_not_run(
    refused: CreateDriver | None, phase: str | None
) -> None:
    """A refused read shows nothing: an earlier controller may have created the pod, which may have run."""
    kube = Kube({"phase": "Starting", "epoch": 2, "startedEpoch": 1, "driver": {"pod": "orders-driver-2"}})
    writer = StatusWriter(kube, Leader(), lambda: factories.NOW)  # type: ignore[arg-type]
    item = WorkItem("shop", "orders", uid=factories.UID, failures=REFUSALS)
    await writer.report(item, Forbidden(403, "pods is forbidden"), refused)
    assert kube.written["lastError"]["reason"] == "Forbidden"
    assert kube.written["driver"].get("phase") == phase


async def test_a_standby_that_is_refused_has_failed_and_its_job_runs_on() -> None:
    standby = {"pod": "orders-driver-3", "epoch": 3}
    kube = Kube({"phase": "Running", "epoch": 2, "startedEpoch": 2, "standby": standby})
    writer = StatusWriter(kube, Leader(), lambda: factories.NOW)  # type: ignore[arg-type]
    item = WorkItem("shop", "orders", uid=factories.UID, failures=REFUSALS)
    await writer.report(item, Forbidden(403, "exceeded quota: memory"), creation(3))
    assert (kube.written["phase"], kube.written.get("lastError")) == ("Running", None)
    assert kube.written["standby"]["error"]["reason"] == "Forbidden"
    assert kube.written["standby"]["failures"] == 1


@pytest.mark.parametrize(
    ("message", "refusals", "reported"),
    [
        ("pods is forbidden: no rule", REFUSALS - 1, False),
        ("pods is forbidden: no rule", REFUSALS, True),
        ('pods is forbidden: User "streamjob" cannot get resource "pods"', 2 * REFUSALS - 1, False),
        ('pods is forbidden: User "streamjob" cannot get resource "pods"', 2 * REFUSALS, True),
        ('pods is forbidden: RBAC: role "streamjob" not found', REFUSALS, False),
        ('pods is forbidden: RBAC: role "streamjob" not found', 2 * REFUSALS, True),
    ],
)
async def test_a_refusal_is_reported_when_it_lasts(message: str, refusals: int, reported: bool) -> None:
    """An API server that has just started knows no bindings yet, then bindings before their roles."""
    kube = Kube({"phase": "Running", "epoch": 1, "startedEpoch": 1})
    writer = StatusWriter(kube, Leader(), lambda: factories.NOW)  # type: ignore[arg-type]
    item = WorkItem("shop", "orders", uid=factories.UID, failures=refusals - 1)
    await writer.report(item, Forbidden(403, message))
    assert bool(kube.written) is reported
