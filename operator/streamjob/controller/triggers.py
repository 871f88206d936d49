"""What kopf is for: it watches and wakes. It writes nothing: no finalizer, no annotation, no Event of kopf's.

Only `on.event` handlers, because they are the cheap and stateless ones; a missed event is made up for by the canary.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, cast

import kopf

from ..api import GROUP, PLURAL, VERSION
from . import names
from .reconciler import Reconciler


def register(reconciler: Reconciler) -> kopf.OperatorRegistry:
    """The registry of all triggers, for `kopf.operator`."""
    registry = kopf.OperatorRegistry()

    async def login(**context: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**context) or kopf.login_with_kubeconfig(**context)

    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure(settings)
        await reconciler.open()

    async def stop(**_: Any) -> None:
        await reconciler.close()

    async def job_changed(namespace: str, name: str, meta: dict[str, Any], **_: Any) -> None:
        reconciler.wake(namespace, name, meta.get("resourceVersion"))

    async def driver_changed(
        type: str | None, namespace: str, labels: dict[str, str], meta: dict[str, Any], **_: Any
    ) -> None:
        # Every few minutes a watch is renewed and tells of every pod anew.
        pod = None if type == "DELETED" else meta.get("resourceVersion")
        reconciler.wake(namespace, labels[names.LABEL_JOB], pod=pod)

    drivers = {names.LABEL_COMPONENT: names.DRIVER, names.LABEL_JOB: kopf.PRESENT}
    kopf.on.login(registry=registry)(login)
    kopf.on.startup(registry=registry)(start)
    kopf.on.cleanup(registry=registry)(stop)
    kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)(job_changed)
    kopf.on.event("v1", "pods", labels=drivers, registry=registry)(driver_changed)
    return registry


class NothingKept(kopf.DiffBaseStorage):  # type: ignore[misc]
    """We never ask kopf what has changed, and yet it would copy each object for that: a third of its time."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:
        return cast("kopf.BodyEssence", {})

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        pass


def configure(settings: kopf.OperatorSettings) -> None:
    """Each line against a pitfall that is known of kopf."""
    settings.posting.enabled = False  # log lines are not Events
    settings.scanning.disabled = True  # no cluster-wide rights for discovery
    settings.peering.standalone = True  # peering is not a lease
    settings.persistence.diffbase_storage = NothingKept()
    # For each object that there was an event of kopf has a task, which keeps the object: of a list, all at once. What lives
    # longer comes to lie between them, and keeps their memory from being given back when they are gone.
    settings.queueing.idle_timeout = 0.1
    settings.watching.chunk_size = 50
    settings.watching.label_selectors["v1", "pods"] = names.ALL_DRIVERS  # no executors, nobody else's
    settings.watching.server_timeout = 300  # a watch is renewed (and everything listed) that often
    settings.watching.client_timeout = 360
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    settings.process.ultimate_exiting_timeout = 10
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
