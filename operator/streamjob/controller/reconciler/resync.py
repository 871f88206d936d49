"""The periodic resync: enqueues every job that changed without an event reaching us."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable

from ..api_server.kube import Kube
from ..objects import names
from ..process.memory import give_memory_back
from .runtime_config_maps import RuntimeConfigMaps
from .ui_objects import UiObjects
from .work_queue import WorkQueue

log = logging.getLogger(__name__)

INTERVAL = 20.0  # seconds
# The resync lists at most RATE jobs per second on average, so many jobs lengthen its interval. The limit
# INTERVAL_MAX is half of the age at which the probes fail.
RATE, INTERVAL_MAX = 25.0, 45.0


async def resync(
    kube: Kube,
    queue: WorkQueue,
    runtimes: RuntimeConfigMaps,
    ui: UiObjects,
    answered: Callable[[], None],
) -> None:
    """Repeat until cancelled: real reads through the same client, of all jobs and of their driver pods.

    A watch may die silently and for good; kopf's does once the API server has refused it.

    :param answered: called when the API server has answered.
    """
    while True:
        try:
            jobs = await kube.list_jobs()
            answered()
            for job in jobs:
                meta = job["metadata"]
                queue.enqueue(meta["namespace"], meta["name"], meta["resourceVersion"])
            there = {(j["metadata"]["namespace"], j["metadata"]["name"]) for j in jobs}
            for namespace, name in set(queue.items) - there:
                queue.enqueue(namespace, name)
            pods: defaultdict[str, set[str]] = defaultdict(set)
            drivers = await kube.list_all_pods(names.ALL_DRIVERS)
            for pod in drivers:
                meta = pod["metadata"]
                pods[meta["labels"].get(names.LABEL_UID, "")].add(meta["resourceVersion"])
            for item in queue.items.values():
                if item.uid is not None and pods[item.uid] != item.pods:
                    queue.enqueue(item.namespace, item.name)
            for namespace, name in await ui.check():
                queue.enqueue(namespace, name)
            await runtimes.collect(jobs, drivers)
        except Exception as e:
            log.warning("the periodic resync failed: %s", e)
        give_memory_back()
        await asyncio.sleep(min(max(INTERVAL, len(queue) / RATE), INTERVAL_MAX))
