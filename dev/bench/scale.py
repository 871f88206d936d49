"""One controller process and many StreamJobs on a real API server: memory, start-up, how long a patch takes
to reach its driver.

There is no Spark: one HTTPS server plays all drivers. It listens on every address of 127.0.0.0/8. Each
driver's pod has its own address, and the server recognizes the job by the address at which a call arrives.
There is no kubelet either: nobody schedules the pods, and this program writes their status. The drivers'
figures do not change; those of a real job do, and cost three reads and a write every 25 s.
"""

from __future__ import annotations

import asyncio
import os
import resource
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from kubernetes.aio import client, config
from prometheus_client.parser import text_string_to_metric_families

from dev import ports
from dev.bench.figures import Figures
from dev.demo import site as demo
from dev.demo.console import Console
from streamjob.controller.objects import certs, names
from streamjob.controller.objects.certs import Material
from streamjob.protocol.formats import codec
from streamjob.protocol.messages.commands import CONTROL_PORT, TERM_HEADER, TerminationRequest
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus

AT_ONCE = 32  # our own concurrent calls
RATE, PATCHES = 10.0, 200  # patches per second, and their maximum number
REST = 100.0  # seconds to watch an idle controller: two long polls of each driver, which come in bunches
SETTLED = 0.05  # share of a core, over a second
PATIENCE = 1800.0
RESOURCE = ("streamjob.dev", "v1alpha1")
PREFIX = "job-"
MERGE = "application/merge-patch+json"
Obj = dict[str, Any]


@dataclass
class Drivers:
    """All drivers.

    :param jobs: status of each driver, by address.
    :param terms: latest controller term that each driver has seen, by uid of the job.
    :param told: when each driver received the request to end, by uid of the job.
    """

    material: Material
    jobs: dict[str, DriverStatus] = field(default_factory=dict)
    terms: dict[str, int] = field(default_factory=dict)
    told: dict[str, float] = field(default_factory=dict)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_get("/v1/status", self._status)
        app.router.add_put("/v1/termination", self._terminate)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = Path(folder) / "crt", Path(folder) / "key"
            certificate.write_text(self.material.certificate)
            key.write_text(self.material.key)
            tls.load_cert_chain(certificate, key)
        await web.TCPSite(runner, "0.0.0.0", CONTROL_PORT, ssl_context=tls, backlog=4096).start()
        try:
            yield
        finally:
            await runner.cleanup()

    def _heard(self, request: web.Request) -> tuple[str, DriverStatus]:
        assert request.transport is not None
        address = request.transport.get_extra_info("sockname")[0]
        status = self.jobs[address]
        self.terms[status.job_uid] = int(request.headers[TERM_HEADER])
        return address, status

    async def _status(self, request: web.Request) -> web.Response:
        address, status = self._heard(request)
        if status.version <= int(request.query["after"]):
            await asyncio.sleep(float(request.query["timeout"]))
        return web.Response(text=codec.dumps(self.jobs[address]))

    async def _terminate(self, request: web.Request) -> web.Response:
        address, status = self._heard(request)
        codec.loads(TerminationRequest, await request.read())
        self.told.setdefault(status.job_uid, time.monotonic())
        self.jobs[address] = replace(status, version=status.version + 1, phase=DriverPhase.TERMINATING)
        return web.Response(status=202, text=codec.dumps(self.jobs[address]))


class Site:
    """A namespace with `size` jobs, whose drivers are played by `drivers`."""

    def __init__(self, api: client.ApiClient, namespace: str, size: int, drivers: Drivers) -> None:
        self.core, self.objects = client.CoreV1Api(api), client.CustomObjectsApi(api)
        self.namespace, self.drivers = namespace, drivers
        self.jobs = [f"{PREFIX}{n}" for n in range(size)]
        self.uids: dict[str, str] = {}

    async def make(self) -> None:
        await self.core.create_namespace({"metadata": {"name": self.namespace}})
        await each(self.jobs, self._make)

    async def _make(self, name: str) -> None:
        """Create a job, and the Secret that the controller would create; here all jobs have the same
        credentials.
        """
        made: Obj = {}

        async def served() -> bool:
            """Whether the job is created. The API server serves a new CustomResourceDefinition only after a
            moment.
            """
            try:
                made.update(
                    await self.objects.create_namespaced_custom_object(
                        *RESOURCE, self.namespace, "streamjobs", manifest(name)
                    )
                )
            except client.ApiException as e:
                if e.status != 404:
                    raise
            return bool(made)

        await until(served, "the custom resource")
        uid = self.uids[name] = made["metadata"]["uid"]
        m = self.drivers.material
        data = {names.TOKEN_KEY: m.token, names.CERTIFICATE_KEY: m.certificate, names.PRIVATE_KEY_KEY: m.key}
        labels = {names.LABEL_JOB: name, names.LABEL_UID: uid}
        meta = {"name": names.control_secret(name), "labels": labels}
        await self.core.create_namespaced_secret(self.namespace, {"metadata": meta, "stringData": data})

    async def run_drivers(self) -> None:
        """Mark each pod as running as soon as the controller has created it."""
        await each(self.jobs, self._run_driver)

    async def _run_driver(self, name: str) -> None:
        n = int(name.removeprefix(PREFIX))
        address = f"127.{1 + n // 62500}.{n // 250 % 250}.{1 + n % 250}"
        self.drivers.jobs[address] = DriverStatus(1, self.uids[name], 1, DriverPhase.RUNNING)
        state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        container = {"name": names.CONTAINER, "image": "x", "imageID": "", "ready": True, "restartCount": 0}
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
        status |= {"containerStatuses": [{**container, "state": state}]}

        async def running() -> bool:
            try:
                await self.core.patch_namespaced_pod_status(
                    names.driver_pod(name, 1), self.namespace, {"status": status}
                )
            except client.ApiException as e:
                if e.status != 404:
                    raise
                return False
            return True

        await until(running, f"the pod of {name}", every=0.5)

    async def stop(self, name: str) -> tuple[float, float]:
        """Patch a job as its user does. Return when the patch was sent, and when it was answered."""
        began = time.monotonic()
        await self.objects.patch_namespaced_custom_object(
            *(*RESOURCE, self.namespace, "streamjobs", name, {"spec": {"state": "Stopped"}}),
            _content_type=MERGE,
        )
        return began, time.monotonic()

    async def remove(self) -> None:
        async def let_go(name: str) -> None:
            await self.objects.patch_namespaced_custom_object(
                *(*RESOURCE, self.namespace, "streamjobs", name, {"metadata": {"finalizers": None}}),
                _content_type=MERGE,
            )

        await each(self.uids, let_go)
        await self.core.delete_namespace(self.namespace)


def manifest(name: str) -> Obj:
    spec = {
        "image": "nowhere:1",
        "application": {"file": "/app.py"},
        "driver": {"serviceAccountName": "default", "template": {"spec": {"schedulerName": "nobody"}}},
        "storage": {"checkpoints": "file:///data/cp", "savepoints": "file:///data/sp"},
    }
    meta = {"name": name}
    return {"apiVersion": "/".join(RESOURCE), "kind": "StreamJob", "metadata": meta, "spec": spec}


class Controller(subprocess.Popen[bytes]):
    """The controller in its own process, as in its pod."""

    def __init__(self, namespace: str) -> None:
        command = [sys.executable, "-m", "streamjob.controller", "--namespace", namespace]
        self._port = ports.free()
        super().__init__([*command, "--listen", f"127.0.0.1:{self._port}"], stderr=subprocess.DEVNULL)

    async def commands(self, share: float) -> float:
        """A quantile of the controller's own part: from the event of a patch until the driver has accepted
        the command. Interpolates between the bounds of buckets, as Prometheus does.

        :param share: which quantile, from 0 to 1.
        :returns: seconds.
        """
        url = f"http://127.0.0.1:{self._port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            families = text_string_to_metric_families(await answer.text())
        name = "streamjob_command_seconds_bucket"
        buckets = {
            float(s.labels["le"]): s.value for family in families for s in family.samples if s.name == name
        }
        wanted = share * max(buckets.values())
        low, below = 0.0, 0.0
        for bound, count in sorted(buckets.items()):
            if count >= wanted:
                return low + (min(bound, 60.0) - low) * (wanted - below) / max(count - below, 1.0)
            low, below = bound, count
        raise AssertionError("the last bucket has them all")

    @property
    def memory(self) -> float:
        """Resident memory in MB."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6

    @property
    def cpu(self) -> float:
        """Seconds of processor time since the controller started."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(size: int, runs: int) -> Figures:
    """Measure on the local cluster, because the drivers' addresses belong to this machine. Boots it if it is
    not up.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a connection to each driver; inherited
    figures, console = Figures(), Console()
    with ExitStack() as afterwards:
        place = demo.reach_cluster(replace(demo.Settings.from_environment(), context=""), "default", console)
        if place.booted:
            afterwards.callback(demo.end_cluster, console)
        if demo.define(place) and not place.booted:
            afterwards.callback(demo.undefine, place)
        os.environ.update(place.kubectl.environment())  # the controllers' processes read it
        for run in range(runs):
            print(f"  {size:,} StreamJobs: run {run + 1} of {runs}", flush=True)
            asyncio.run(_measure(place.kubectl.kubeconfig, size, figures))
    return figures


async def _measure(kubeconfig: str | None, size: int, figures: Figures) -> None:
    await config.load_kube_config(kubeconfig)  # without the path, it uses the variable's value at its import
    drivers = Drivers(certs.new(datetime.now(timezone.utc)))
    async with client.ApiClient() as api, drivers.served():
        site = Site(api, f"scale-{uuid.uuid4().hex[:8]}", size, drivers)
        try:
            await site.make()
            await _begin(site, figures)
            await _serve(site, figures)
        finally:
            await site.remove()


async def _begin(site: Site, figures: Figures) -> None:
    """Measure a controller that finds new jobs, none of which has started."""
    began, controller = time.monotonic(), Controller(site.namespace)
    try:
        await site.run_drivers()
        await all_followed(site, 1)
        figures.add("all jobs new: controller started → all drivers made and followed (s)", since(began))
    finally:
        controller.terminate()  # an orderly exit, so that its successor need not wait for the Lease to expire
        await asyncio.to_thread(controller.wait)


async def _serve(site: Site, figures: Figures) -> None:
    """Measure a second controller: it takes over, becomes idle, and then handles patches."""
    began, controller = time.monotonic(), Controller(site.namespace)
    try:
        await all_followed(site, 2)
        figures.add("all jobs running: controller started → all drivers followed (s)", since(began))
        await settled(controller)
        figures.add("… → it has looked at them all, and rests (s)", since(began))
        figures.add("processor time of that (s)", controller.cpu)
        before = controller.cpu
        await asyncio.sleep(REST)
        figures.add("at rest: share of one core (%)", 100 * (controller.cpu - before) / REST)
        figures.add("at rest: resident memory (MB)", controller.memory)
        told, calls = await patched(site)
        for what, values in (
            (f"patch → driver told, {RATE:g} patches/s", told),
            ("the patch call alone", calls),
        ):
            cuts = statistics.quantiles(values, n=100, method="inclusive")
            figures.add(f"{what}, p50 (s)", cuts[49])
            figures.add(f"{what}, p99 (s)", cuts[98])
        for share in (0.5, 0.99):
            name = f"of which event → driver has answered the command, p{100 * share:g} (s)"
            figures.add(name, await controller.commands(share))
        figures.add("afterwards: resident memory (MB)", controller.memory)
    finally:
        controller.kill()
        await asyncio.to_thread(controller.wait)


async def patched(site: Site) -> tuple[list[float], list[float]]:
    """Stop jobs one after another, spread evenly over all of them.

    :returns: seconds until each driver has the request, and seconds of each patch call.
    """
    chosen = site.jobs[:: max(len(site.jobs) // PATCHES, 1)][:PATCHES]
    start = time.monotonic()
    pending = []
    for n, name in enumerate(chosen):
        await asyncio.sleep(max(start + n / RATE - time.monotonic(), 0.0))
        pending.append(asyncio.create_task(site.stop(name)))
    sent = await asyncio.gather(*pending)
    told = site.drivers.told

    async def all_told() -> bool:
        return all(site.uids[name] in told for name in chosen)

    await until(all_told, "every driver's being told")
    return (
        [told[site.uids[name]] - begin for name, (begin, _) in zip(chosen, sent, strict=True)],
        [end - begin for begin, end in sent],
    )


async def all_followed(site: Site, term: int) -> None:
    """Wait until a controller of this term, or a later one, has called every driver."""

    async def heard() -> bool:
        return sum(t >= term for t in site.drivers.terms.values()) == len(site.jobs)

    await until(heard, f"all {len(site.jobs)} drivers' hearing of term {term}")


async def settled(controller: Controller) -> None:
    """Wait until the controller is nearly idle."""
    before = controller.cpu

    async def quiet() -> bool:
        nonlocal before
        await asyncio.sleep(1)
        used, before = controller.cpu - before, controller.cpu
        return used < SETTLED

    await until(quiet, "the controller's rest")


async def each(items: Iterable[str], call: Callable[[str], Awaitable[None]]) -> None:
    """Call for each item, at most `AT_ONCE` at the same time."""
    some = asyncio.Semaphore(AT_ONCE)

    async def one(item: str) -> None:
        async with some:
            await call(item)

    await asyncio.gather(*(one(item) for item in items))


async def until(what: Callable[[], Awaitable[bool]], name: str, every: float = 0.05) -> None:
    end = time.monotonic() + PATIENCE
    while not await what():
        if time.monotonic() > end:
            raise TimeoutError(f"{name} did not come within {PATIENCE:.0f} s")
        await asyncio.sleep(every)


def since(began: float) -> float:
    return time.monotonic() - began
