"""The last thing that a controller does: if it ends because its own namespace is being deleted, it lets go of the jobs in it.

Nobody else could: no other controller can begin there, and a job with a finalizer would keep the namespace for ever. Nothing is
lost by it: Kubernetes deletes a namespace's pods first, so the drivers have been told as well, and save by themselves. Whether we
lead does not matter, for there is only one thing left to do.
"""

from __future__ import annotations

import logging

from ..protocol.errors import StreamJobError
from . import names
from .kube import Conflict, Kube

log = logging.getLogger(__name__)

ATTEMPTS = 5  # the other replica, or the driver's last words, may come in between


async def say_farewell(kube: Kube, namespace: str) -> None:
    """Take our finalizer off each job of `namespace`, if that is being deleted."""
    await kube.open()
    try:
        if not await kube.is_ending(namespace):
            return
        for job in await kube.list_jobs():
            if job["metadata"]["namespace"] == namespace:
                await _let_go(kube, namespace, job["metadata"]["name"])
    except StreamJobError as e:
        log.warning("the last look at the namespace %s: %s", namespace, e)
    finally:
        await kube.close()


async def _let_go(kube: Kube, namespace: str, name: str) -> None:
    for _ in range(ATTEMPTS):
        job = await kube.get_job(namespace, name)
        if job is None or names.FINALIZER not in (found := job["metadata"].get("finalizers", [])):
            return
        rest = [finalizer for finalizer in found if finalizer != names.FINALIZER]
        try:
            await kube.put_finalizers(namespace, name, job["metadata"]["resourceVersion"], rest)
        except Conflict:
            continue
        log.info("the namespace %s is being deleted: let go of the StreamJob %s", namespace, name)
        return
