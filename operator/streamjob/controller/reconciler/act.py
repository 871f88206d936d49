"""Carries out what was decided: one action, one call.

A Secret or driver pod that exists and is ours counts as created. An index that exists although none was
observed is a `Conflict`: the next observation tells whose it is.
"""

from __future__ import annotations

import contextlib
from datetime import datetime, timezone

from ...api import StreamJob
from ..api_server.errors import AlreadyExists, Conflict, NameTaken, ObjectNotFound
from ..api_server.kube import Kube
from ..drivers.connections import DriverConnections
from ..objects import Obj, certs, names, owned
from ..objects.driver_pod import driver_pod
from ..objects.pod_parts import Platform
from ..rules import actions
from ..rules.actions import Action, deletion_token
from .runtime_config_maps import RuntimeConfigMaps
from .ui_objects import UiObjects


class Actor:
    """Carries out actions.

    :param drivers: the connections to the drivers, for commands.
    :param platform: what the cluster does to pods by itself.
    """

    def __init__(
        self,
        kube: Kube,
        drivers: DriverConnections,
        runtimes: RuntimeConfigMaps,
        ui: UiObjects,
        platform: Platform,
    ) -> None:
        self.drivers, self.ui = drivers, ui
        self._kube = kube
        self._runtimes = runtimes
        self._platform = platform

    async def __call__(self, job: StreamJob, version: str, action: Action) -> None:
        """Carry out one action.

        :param version: the job's resourceVersion after our last write.
        :raises Conflict: an object has changed since it was observed; observe again.
        :raises NameTaken: an object that is not ours has the name of the job's Secret or pod.
        """
        kube, meta = self._kube, job.metadata
        match action:
            case actions.SetFinalizer(present=True):
                wanted = [*meta.finalizers, names.FINALIZER]
                await kube.put_finalizers(meta.namespace, meta.name, version, wanted)
            case actions.SetFinalizer(present=False):
                rest = [f for f in meta.finalizers if f != names.FINALIZER]
                await kube.put_finalizers(meta.namespace, meta.name, version, rest)
            case actions.EnsureSecret():
                await _ensure_secret(kube, job)
            case actions.EnsureRuntime():
                await self._runtimes.ensure(meta.namespace)
            case actions.WriteIndex(index, None):
                try:
                    await kube.create_config_map(meta.namespace, owned.config_map(job, index, None))
                except AlreadyExists as e:
                    # Another controller of ours was faster, or the object is foreign: the next observation
                    # tells.
                    raise Conflict(e.code, e.message) from None
            case actions.WriteIndex(index, known):
                await kube.put_config_map(meta.namespace, owned.config_map(job, index, known))
            case actions.CreateDriver(config, specification):
                pod = driver_pod(job.made_from(specification), config, self._platform)
                await _create_driver(kube, job, pod)
            case actions.DeletePod(name, uid, known, grace):
                with contextlib.suppress(ObjectNotFound):
                    await kube.delete_pod(meta.namespace, name, uid, known, grace)
            case actions.ApplyUi(body):
                await self.ui.apply(job, body)
            case actions.DeleteUi(kind):
                await self.ui.delete(job, kind)
            case _:
                await _send(self.drivers, meta.uid, action)


async def _send(drivers: DriverConnections, uid: str, action: Action) -> None:
    """Send the driver the command of this action."""
    match action:
        case actions.OpenGate(gate):
            await drivers.open(uid, gate)
        case actions.SendTermination(request):
            await drivers.terminate(uid, request)
        case actions.SendSavepoint(request):
            await drivers.savepoint(uid, request)
        case actions.SendExecutors(request):
            await drivers.executors(uid, request)
        case actions.DeleteSavepoints(deletion):
            await drivers.delete(uid, deletion, deletion_token(deletion.savepoints))
        case actions.AskForRecords(request):
            await drivers.ask_for_records(uid, request)
        case actions.ConfirmCheckpoint(checkpoint, epoch):
            await drivers.complete(uid, checkpoint, epoch)


async def _ensure_secret(kube: Kube, job: StreamJob) -> None:
    meta = job.metadata
    material = certs.new(datetime.now(timezone.utc))
    try:
        await kube.create_secret(meta.namespace, owned.secret(job, material))
    except AlreadyExists:
        found = await kube.get_secret(meta.namespace, names.control_secret(meta.name))
        _check_owner(found, job, f"Secret {names.control_secret(meta.name)}")


async def _create_driver(kube: Kube, job: StreamJob, pod: Obj) -> None:
    meta = job.metadata
    try:
        await kube.create_pod(meta.namespace, pod)
    except AlreadyExists:
        ours = await kube.list_pods(meta.namespace, names.driver_selector(meta.uid))
        if pod["metadata"]["name"] not in {p["metadata"]["name"] for p in ours}:
            raise NameTaken(f"pod {pod['metadata']['name']}") from None


def _check_owner(found: Obj | None, job: StreamJob, what: str) -> None:
    if found is None:
        raise Conflict(409, f"the {what} was there a moment ago")
    if not owned.is_owned(found, job):
        raise NameTaken(what)
