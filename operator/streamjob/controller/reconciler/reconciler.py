"""The reconciler: the work queue, the reconcile and the periodic resync, for as long as we lead.

Only the leader reconciles. In a new term it enqueues every job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timezone

import aiohttp

from ..api_server.kube import Kube
from ..api_server.leader import Leader, Superseded
from ..drivers.connection import DriverRefused
from ..drivers.connections import DriverConnections, open_session
from ..drivers.credentials import read_credentials
from ..objects.pod_parts import VANILLA, Platform
from ..objects.ui import UiKind
from ..process import metrics
from .act import Actor
from .reconcile import Reconcile
from .resync import resync
from .runtime_config_maps import RuntimeConfigMaps
from .ui_objects import ALL_KINDS, UiObjects
from .work_queue import WorkQueue


class Reconciler:
    """All jobs. Use it in one event loop only, whose time all waits use.

    :param platform: what the cluster does to pods by itself.
    :param ui: the kinds of objects that it may create for Spark's UI.
    :param now: the wall clock.
    :param session: opens the HTTP session for the drivers; see `DriverConnections`.
    """

    def __init__(
        self,
        kube: Kube,
        leader: Leader,
        *,
        platform: Platform = VANILLA,
        ui: frozenset[UiKind] = ALL_KINDS,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        session: Callable[[], aiohttp.ClientSession] = open_session,
    ) -> None:
        self.kube = kube
        self.leader = leader
        self.drivers = DriverConnections(
            lambda namespace, job: read_credentials(kube, namespace, job),
            self.enqueue,
            jobs=lambda: len(self._queue),
            term=lambda: leader.term,
            session=session,
        )
        metrics.LEADER_TERM.set_function(lambda: leader.term)
        self._runtimes = RuntimeConfigMaps(kube)
        self._ui = UiObjects(kube, ui)
        actor = Actor(kube, self.drivers, self._runtimes, self._ui, platform)
        reconcile = Reconcile(kube, leader, actor, self._answered, now)
        self._queue = WorkQueue(reconcile, self._failed)
        self._alive = asyncio.get_running_loop().time()
        self._resync: asyncio.Task[None] | None = None
        self._election: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self.kube.open()
        self._election = asyncio.create_task(self.leader.run(self._begin, self._end), name="election")

    async def close(self) -> None:
        """Stop all work, and only then release the Lease: another replica takes it at once."""
        if self._election is not None:
            self._election.cancel()
            await asyncio.gather(self._election, return_exceptions=True)
        await self._end()
        await self.leader.release()
        await self.kube.close()

    def enqueue(
        self, namespace: str, name: str, version: str | None = None, *, pod: str | None = None
    ) -> None:
        """Enqueue the job if we lead; see `WorkQueue.enqueue`."""
        self._queue.enqueue(namespace, name, version, pod=pod)

    @property
    def age(self) -> float:
        """Seconds since a reconcile or resync last reached the API server. In a standby: since it last saw
        the Lease.
        """
        alive = self.leader.alive if self._resync is None else self._alive
        return asyncio.get_running_loop().time() - alive

    def _begin(self) -> None:
        """Start a term. The first periodic resync enqueues every job."""
        self._answered()
        self._ui.begin()
        self._queue.open()
        work = resync(self.kube, self._queue, self._runtimes, self._ui, self._answered)
        self._resync = asyncio.create_task(work, name="resync")

    async def _end(self) -> None:
        """End a term: cancel all work, and close the connections to the drivers."""
        tasks = self._queue.close()
        tasks += [self._resync] if self._resync else []
        self._resync = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        metrics.JOBS.clear()
        await self.drivers.close()

    def _answered(self) -> None:
        """Note that the API server has answered."""
        self._alive = asyncio.get_running_loop().time()

    def _failed(self, error: Exception) -> Exception:
        """Tell the election if a reconcile failed because a job or its driver knows a later term."""
        if isinstance(error, DriverRefused) and error.term:
            error = Superseded("the driver", error.term)
        if isinstance(error, Superseded):
            self.leader.outdated(error.term)
        return error
