"""The ConfigMaps that hold the runtime: one for each namespace with jobs, and for each version in use.

No job owns them: a list of a thousand owners would be written again, with the whole object, at each start of
a job. The leader creates one before it creates the pod that mounts it, and deletes it when nothing needs it
any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Iterable

from ..api_server.errors import AlreadyExists, Conflict, NamespaceTerminating, ObjectNotFound
from ..api_server.kube import Kube
from ..objects import Obj, names, runtime_files

log = logging.getLogger(__name__)

# Seconds until a new leader looks for what others left, and from then on. A namespace whose last job goes
# while we lead is looked at in the next resync.
FIRST_CHECK, CHECK_EVERY = 60.0, 600.0


class RuntimeConfigMaps:
    """Creates and deletes them. One lock for both: a new job must not find what is just being deleted."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._lock = asyncio.Lock()
        self._there: set[str] = set()  # namespaces that have one, as far as we know
        self._next_check: float | None = None  # in the event loop's time

    async def ensure(self, namespace: str) -> None:
        """Create the ConfigMap of this version. One small read if it exists."""
        async with self._lock:
            self._there.add(namespace)
            if await self._kube.has(namespace, "configmaps", runtime_files.name()):
                return
            await self._create(namespace)

    async def _create(self, namespace: str) -> None:
        with contextlib.suppress(AlreadyExists):  # another controller was faster
            await self._kube.create_config_map(namespace, runtime_files.config_map(namespace))

    async def collect(self, jobs: Iterable[Obj], pods: Iterable[Obj]) -> None:
        """Delete what nothing needs any more, if it is time to look, and create what somebody has deleted.

        :param jobs: all StreamJobs, with their metadata.
        :param pods: all drivers' pods, with their metadata.
        """
        busy = {job["metadata"]["namespace"] for job in jobs}
        now = asyncio.get_running_loop().time()
        if self._next_check is None:
            self._next_check = now + FIRST_CHECK
        if now < self._next_check and self._there <= busy:
            return
        self._next_check = now + CHECK_EVERY
        mounted = {
            (meta["namespace"], (meta.get("labels") or {}).get(names.LABEL_RUNTIME)) for meta in newest(pods)
        }
        async with self._lock:
            found = await self._kube.list_config_maps(names.ALL_RUNTIMES)
            # A job that has begun since `jobs` was listed exists now: its pod follows its ConfigMap.
            busy |= {job["metadata"]["namespace"] for job in await self._kube.list_jobs()}
            for meta in unneeded([item["metadata"] for item in found], busy, mounted):
                log.info("the runtime %s in the namespace %s is not needed any more", *_place(meta)[::-1])
                with contextlib.suppress(ObjectNotFound, Conflict):
                    await self._kube.delete_config_map(*_place(meta), meta["resourceVersion"])
            self._there = {item["metadata"]["namespace"] for item in found} & busy
            # Without it, a driver that has not started waits for ever, and so does each new executor.
            present = {_place(item["metadata"]) for item in found}
            for namespace, name in mounted - present:
                if name == runtime_files.name() and namespace in busy:
                    log.warning(
                        "the runtime %s in the namespace %s was deleted: it is made again", name, namespace
                    )
                    with contextlib.suppress(NamespaceTerminating):
                        await self._create(namespace)
                        self._there.add(namespace)


def newest(pods: Iterable[Obj]) -> Iterable[Obj]:
    """The metadata of each job's newest driver pod, and of the newest prepared one. Older ones stay for their
    logs and mount nothing.
    """
    found: dict[tuple[str, bool], Obj] = {}
    for meta in sorted((pod["metadata"] for pod in pods), key=_epoch):
        labels = meta.get("labels") or {}
        found[labels.get(names.LABEL_UID, ""), names.LABEL_PREPARED in labels] = meta
    return found.values()


def _epoch(meta: Obj) -> int:
    epoch = (meta.get("labels") or {}).get(names.LABEL_EPOCH, "")
    return int(epoch) if epoch.isdigit() else 0


def unneeded(
    found: Iterable[Obj], busy: Collection[str], mounted: Collection[tuple[str, str | None]]
) -> list[Obj]:
    """The ConfigMaps, by their metadata, that no driver mounts and no next driver will.

    :param busy: namespaces with jobs: their next drivers mount the one of this version.
    :param mounted: namespace and name of each that a driver's pod has.
    """

    def needed(namespace: str, name: str) -> bool:
        return (namespace, name) in mounted or (name == runtime_files.name() and namespace in busy)

    return [meta for meta in found if not needed(*_place(meta))]


def _place(meta: Obj) -> tuple[str, str]:
    return meta["namespace"], meta["name"]
