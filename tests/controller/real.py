"""A namespace on the real API server and the controller's processes in it. The test plays driver and kubelet.

No node takes the driver's pod (its nodeSelector names none), so that the test writes its status: this is
the controller alone, without the start of a Spark.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import random
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from kubernetes.aio import client
from kubernetes.aio import config as kube_config
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from dev import ports
from streamjob.controller.objects import names
from streamjob.controller.objects.certs import Material
from streamjob.protocol.formats import codec
from streamjob.protocol.formats import index as indices
from streamjob.protocol.formats.records import (
    CheckpointRecord,
    JobRef,
    OperatorKind,
    OperatorRecord,
    StageRecord,
    TaskRecord,
)
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import CONTROL_PORT, Mode
from streamjob.protocol.messages.driver_config import DriverConfig
from streamjob.protocol.messages.driver_status import DriverPhase, TerminationStatus, TerminationStep
from streamjob.runtime.process.config import with_stages

from .fake_driver import FakeDriver

NEEDS_A_CLUSTER = [
    pytest.mark.cluster,
    pytest.mark.skipif(not os.environ.get("KUBECONFIG"), reason="KUBECONFIG names no cluster (make cluster)"),
    pytest.mark.skipif(bool(os.environ.get("CLUSTER")), reason="uses the kubeconfig's current context"),
]
JOBS = ("streamjob.dev", "v1alpha1")
NOWHERE = {"spec": {"nodeSelector": {"streamjob.dev/nowhere": "true"}}}
Obj = dict[str, Any]


class Cluster:
    """A namespace on a real API server, a controller that serves it, and a driver for its one job."""

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self.core, self.objects = client.CoreV1Api(api), client.CustomObjectsApi(api)
        self.api, self.namespace = api, namespace
        self.driver: FakeDriver | None = None
        self.controller: Controller | None = None
        # An address of its own on this machine, so that its driver can listen where every driver does.
        self.address = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}.{random.randint(1, 254)}"

    # --- the user -------------------------------------------------------------------------------------------

    async def apply(self, **spec: Any) -> None:
        body = {
            "apiVersion": "streamjob.dev/v1alpha1",
            "kind": "StreamJob",
            "metadata": {"name": "orders"},
            "spec": {
                "image": "nowhere:1",
                "application": {"file": "/a.py"},
                "driver": {"template": NOWHERE, "serviceAccountName": "default"},
                "storage": {"checkpoints": "file:///data/cp", "savepoints": "file:///data/sp"},
                **spec,
            },
        }
        await self.objects.create_namespaced_custom_object(*JOBS, self.namespace, "streamjobs", body)

    async def job(self) -> Obj | None:
        try:
            return await self.objects.get_namespaced_custom_object(
                *JOBS, self.namespace, "streamjobs", "orders"
            )
        except client.ApiException as e:
            if e.status == 404:
                return None
            raise

    async def patch(self, state: str, **spec: Any) -> None:
        await self.objects.patch_namespaced_custom_object(
            *(*JOBS, self.namespace, "streamjobs", "orders", {"spec": {"state": state, **spec}}),
            _content_type="application/merge-patch+json",
        )

    async def delete(self) -> None:
        await self.objects.delete_namespaced_custom_object(*JOBS, self.namespace, "streamjobs", "orders")

    async def phase(self, wanted: str) -> Obj:
        async def reached() -> Obj | None:
            job = await self.job()
            return job if job and job.get("status", {}).get("phase") == wanted else None

        return await eventually(reached, f"phase {wanted}")

    # --- the kubelet ----------------------------------------------------------------------------------------

    async def pods(self) -> list[Any]:
        found = await self.core.list_namespaced_pod(
            self.namespace, label_selector=f"{names.LABEL_JOB}=orders"
        )
        return list(found.items)

    async def pod(self, epoch: int) -> Any:
        async def there() -> Any:
            return next((p for p in await self.pods() if p.metadata.name == f"orders-driver-{epoch}"), None)

        return await eventually(there, f"driver of epoch {epoch}")

    async def set_pod(self, epoch: int, phase: str, state: Obj) -> None:
        container = {
            "name": "driver",
            "image": "x",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": state,
        }
        status = {
            "phase": phase,
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "containerStatuses": [container],
        }
        await self.core.patch_namespaced_pod_status(
            f"orders-driver-{epoch}", self.namespace, {"status": status}
        )

    async def driver_config(self, epoch: int) -> DriverConfig:
        """The configuration in the pod of this epoch."""
        (container,) = (await self.pod(epoch)).spec.containers
        found = next(e.value for e in container.env if e.name == "STREAMJOB_CONFIG")
        return with_stages(codec.loads(DriverConfig, found), indices.dumps(await self.index()))

    async def run_driver(self, epoch: int) -> tuple[FakeDriver, DriverConfig]:
        """The pod's container starts: with what the controller gave it, and nothing else."""
        config = await self.driver_config(epoch)
        secret = (await self.core.read_namespaced_secret("orders-control", self.namespace)).data
        token, certificate, key = (
            base64.b64decode(secret[k]).decode() for k in ("token", "tls.crt", "tls.key")
        )
        if self.driver is not None:
            await self.driver.stop()
        material = Material(token, certificate, key)
        self.driver = FakeDriver(material, config.job.uid, config.epoch, host=self.address, port=CONTROL_PORT)
        await self.driver.start()
        await self.set_pod(epoch, "Running", {"running": {"startedAt": "2026-01-01T00:00:00Z"}})
        return self.driver, config

    async def exit_driver(self, epoch: int, code: int = 0) -> None:
        assert self.driver is not None
        await self.driver.stop()
        ended = {"exitCode": code, "message": codec.dumps(self.driver.status), "reason": "Completed"}
        ended |= {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:01:00Z"}
        await self.set_pod(epoch, "Failed" if code else "Succeeded", {"terminated": ended})

    async def index(self) -> indices.Index:
        found = await self.core.read_namespaced_config_map("orders-checkpoints", self.namespace)
        return indices.loads(found.data[indices.KEY], "the index")


async def eventually(what: Callable[[], Awaitable[Any]], name: str, seconds: float = 300) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := await what():
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"{name} did not come")


@pytest.fixture
async def world() -> AsyncIterator[Cluster]:
    async with a_world() as world:
        yield world


@contextlib.asynccontextmanager
async def a_world(*, controlled: bool = True) -> AsyncIterator[Cluster]:
    """A new namespace, with a controller or without; it is deleted with all that is in it."""
    await kube_config.load_kube_config()
    namespace = f"reconcile-{uuid.uuid4().hex[:8]}"
    async with client.ApiClient() as api:
        world = Cluster(api, namespace)
        await world.core.create_namespace({"metadata": {"name": namespace}})
        with controller(namespace) if controlled else contextlib.nullcontext() as world.controller:
            try:
                yield world
            finally:
                if world.driver is not None:
                    await world.driver.stop()
                if await world.job() is not None:
                    with controller(namespace):  # the first may have been killed
                        await world.patch("Cancelled")
                        await world.delete()
                        await eventually(lambda: gone(world), "the end of the job")
                await world.core.delete_namespace(namespace)


class Controller(subprocess.Popen[bytes]):
    """A controller's process; what it logs is in the file `log`."""

    def __init__(
        self,
        namespace: str,
        log: Path | None = None,
        *options: str,
        kubeconfig: Path | None = None,
        start: tuple[str, ...] = ("-m", "streamjob.controller"),
    ) -> None:
        address = f"127.0.0.1:{ports.free()}"
        self.url = f"http://{address}"
        command = [
            sys.executable,
            *start,
            "--namespace",
            namespace,
            "--listen",
            address,
        ]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "operator")}
        if kubeconfig is not None:
            environment["KUBECONFIG"] = str(kubeconfig)
        with contextlib.ExitStack() as files:
            stderr = files.enter_context(log.open("wb")) if log else None
            super().__init__([*command, *options], env=environment, stderr=stderr)

    async def samples(self) -> list[Sample]:
        """What it tells Prometheus."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/metrics") as answer:
            text = await answer.text()
        return [s for family in text_string_to_metric_families(text) for s in family.samples]


@contextlib.contextmanager
def controller(namespace: str, log: Path | None = None, *options: str, **more: Any) -> Iterator[Controller]:
    """A controller of this namespace until the block ends: then it is killed with SIGKILL."""
    process = Controller(namespace, log, *options, **more)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def gone(world: Cluster) -> bool:
    return await world.job() is None


def final(job: JobRef, number: int, epoch: int, scenario: Scenario, request: str) -> CheckpointRecord:
    operator = OperatorRecord("windows/source-0", OperatorKind.SOURCE, "rate", scenario.is_drain)
    stage = StageRecord("windows", (TaskRecord(0, "file:///data/cp/w/0", 5),), (operator,))
    return CheckpointRecord(
        number, epoch, scenario, request, f"file:///{request}", "2026-01-01T00:00:00Z", (stage,)
    )


async def end(world: Cluster, driver: FakeDriver, config: DriverConfig, mode: Mode) -> CheckpointRecord:
    """The driver carries out the request that it got, as the runtime does."""

    async def requested() -> Any:
        return next((c for c in driver.commands if not isinstance(c, int)), None)

    request = await eventually(requested, "the request")
    assert request.mode is mode
    number = config.next_checkpoint
    scenario = Scenario.DRAIN if mode is Mode.DRAIN else Scenario.STOP
    record = final(config.job, number, config.epoch, scenario, request.request_id)
    reported = TerminationStatus(
        request.request_id, mode, TerminationStep.COMPLETING, "the savepoint is written", number, None
    )
    await driver.change(phase=DriverPhase.TERMINATING, termination=reported, completed=record)

    async def confirmed() -> bool:
        return number in driver.commands

    await eventually(confirmed, "the confirmation")
    assert (await world.index()).latest == record, (
        "it is in the index before the driver gets the confirmation"
    )
    await world.exit_driver(config.epoch)
    return record
