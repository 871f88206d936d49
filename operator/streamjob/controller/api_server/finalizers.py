"""Removes the finalizers of jobs when the controller exits because its own namespace is being deleted.

This is the controller's last action, and it concerns only the jobs of that namespace. Nobody else could do
it: no other controller can start there, and a job with a finalizer would keep the namespace forever. Nothing
is lost: Kubernetes deletes a namespace's pods first, so the drivers have received SIGTERM as well and save by
themselves. Leadership does not matter, because only one thing is left to do.
"""

from __future__ import annotations

import logging

from ...protocol.errors import StreamJobError
from ..objects import names
from .errors import Conflict
from .kube import Kube

log = logging.getLogger(__name__)

ATTEMPTS = 5  # another replica, or a driver's final report, may change the job in between


async def remove_last_finalizers(kube: Kube, namespace: str) -> None:
    """Remove our finalizer from each job of `namespace`, if the namespace is being deleted."""
    await kube.open()
    try:
        if not await kube.is_ending(namespace):
            return
        for job in await kube.list_jobs():
            if job["metadata"]["namespace"] == namespace:
                await _remove_finalizer(kube, namespace, job["metadata"]["name"])
    except StreamJobError as e:
        log.warning("the finalizers of the namespace %s could not be removed: %s", namespace, e)
    finally:
        await kube.close()


async def _remove_finalizer(kube: Kube, namespace: str, name: str) -> None:
    for _ in range(ATTEMPTS):
        job = await kube.get_job(namespace, name)
        if job is None or names.FINALIZER not in (found := job["metadata"].get("finalizers", [])):
            return
        rest = [finalizer for finalizer in found if finalizer != names.FINALIZER]
        try:
            await kube.put_finalizers(namespace, name, job["metadata"]["resourceVersion"], rest)
        except Conflict:
            continue
        log.info(
            "the namespace %s is being deleted: removed the finalizer of the StreamJob %s", namespace, name
        )
        return
