"""The kopf triggers. kopf only watches and enqueues; it writes no finalizer, annotation or Event.

All handlers are `on.event` handlers: cheap and stateless. The periodic resync makes up for missed events.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, cast

import kopf

from ..api import GROUP, PLURAL, VERSION
from .objects import names
from .reconciler.reconciler import Reconciler


def register(reconciler: Reconciler) -> kopf.OperatorRegistry:
    """All triggers, as a registry for `kopf.operator`."""
    registry = kopf.OperatorRegistry()

    async def login(**context: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**context) or kopf.login_with_kubeconfig(**context)

    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure(settings)
        await reconciler.open()

    async def stop(**_: Any) -> None:
        await reconciler.close()

    async def job_changed(namespace: str, name: str, meta: dict[str, Any], **_: Any) -> None:
        reconciler.enqueue(namespace, name, meta.get("resourceVersion"))

    async def driver_changed(
        type: str | None, namespace: str, labels: dict[str, str], meta: dict[str, Any], **_: Any
    ) -> None:
        # A watch is renewed every few minutes and then reports every pod again.
        pod = None if type == "DELETED" else meta.get("resourceVersion")
        reconciler.enqueue(namespace, labels[names.LABEL_JOB], pod=pod)

    drivers = {names.LABEL_COMPONENT: names.DRIVER, names.LABEL_JOB: kopf.PRESENT}
    kopf.on.login(registry=registry)(login)
    kopf.on.startup(registry=registry)(start)
    kopf.on.cleanup(registry=registry)(stop)
    kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)(job_changed)
    kopf.on.event("v1", "pods", labels=drivers, registry=registry)(driver_changed)
    return registry


class NothingKept(kopf.DiffBaseStorage):  # type: ignore[misc]
    """Disables kopf's diffs. We never use them, but kopf would copy each object for them: a third of its
    time.
    """

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:
        return cast("kopf.BodyEssence", {})

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        pass


def configure(settings: kopf.OperatorSettings) -> None:
    """Configure kopf. Each setting avoids a known pitfall."""
    settings.posting.enabled = False  # log lines are not Events
    settings.scanning.disabled = True  # we have no cluster-wide permissions for discovery
    settings.peering.standalone = True  # peering is not a lease
    settings.persistence.diffbase_storage = NothingKept()
    # kopf has a task for each object that had an event, and the task holds the object; a list creates all of
    # them at once. Longer-lived objects are allocated between them and keep their memory from being returned
    # when they end.
    settings.queueing.idle_timeout = 0.1
    settings.watching.chunk_size = 50
    settings.watching.label_selectors["v1", "pods"] = names.ALL_DRIVERS  # no executors, no foreign pods
    settings.watching.server_timeout = 300  # seconds; then the watch is renewed and everything listed again
    settings.watching.client_timeout = 360
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    settings.process.ultimate_exiting_timeout = 10
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
