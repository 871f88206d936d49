"""The work queue: which job is due, and when it is due again.

One short-lived asyncio task reconciles one job, and AT_ONCE jobs are reconciled at the same time. A job that
is enqueued during its reconcile is reconciled once more. A reconcile that fails is repeated after a backoff.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ...protocol.errors import StreamJobError
from ..api_server.errors import KubeError
from ..api_server.leader import NotLeading
from ..process import logs, metrics

log = logging.getLogger(__name__)

AT_ONCE = 32  # concurrent reconciles
BACKOFF_FIRST, BACKOFF_MAX = 0.5, 60.0


@dataclass
class WorkItem:
    """One job: what runs or is due, and what was seen last."""

    namespace: str
    name: str
    running: asyncio.Task[None] | None = None
    dirty: bool = False
    timer: asyncio.TimerHandle | None = None
    uid: str | None = None
    version: str | None = None  # the resourceVersion that we last saw or wrote
    pods: frozenset[str] = frozenset()  # resourceVersions of its driver pods as last observed
    driver: str | None = None  # name of the newest epoch's pod as last observed
    patched: bool = False  # the StreamJob has changed: its driver may need a command
    since: float | None = None  # loop time of the first unhandled event of the StreamJob
    failures: int = 0
    namespace_ends: bool = False  # its namespace is being deleted and has refused a creation; that is final


class WorkQueue:
    """The work items of all jobs, by namespace and name.

    :param reconcile: reconciles a job. It returns the seconds until the requeue, None to wait for an event.
    :param failed: called with the error of a failed reconcile; returns the error that it amounts to.
    """

    def __init__(
        self,
        reconcile: Callable[[WorkItem], Awaitable[float | None]],
        failed: Callable[[Exception], Exception],
    ) -> None:
        self._reconcile = reconcile
        self._failed = failed
        self._items: dict[tuple[str, str], WorkItem] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._is_open = False

    def __len__(self) -> int:
        return len(self._items)

    @property
    def items(self) -> dict[tuple[str, str], WorkItem]:
        """A copy, so that jobs may be enqueued while it is read."""
        return dict(self._items)

    def open(self) -> None:
        self._is_open = True

    def close(self) -> list[asyncio.Task[None]]:
        """Drop all work items.

        :returns: the tasks that still run; the caller cancels them.
        """
        self._is_open = False
        running = [item.running for item in self._items.values() if item.running]
        for item in self._items.values():
            if item.timer:
                item.timer.cancel()
        self._items.clear()
        return running

    def enqueue(
        self, namespace: str, name: str, version: str | None = None, *, pod: str | None = None
    ) -> None:
        """Enqueue the job, unless the queue is closed.

        :param version: resourceVersion of the StreamJob in its event; a version that we already know enqueues
            nothing.
        :param pod: the same for a driver pod.
        """
        if not self._is_open:
            return
        item = self._items.setdefault((namespace, name), WorkItem(namespace, name))
        if (version is not None and version == item.version) or (pod is not None and pod in item.pods):
            return
        if version is not None:
            item.patched = True
            item.since = item.since or asyncio.get_running_loop().time()
        if item.timer is not None:
            item.timer.cancel()
            item.timer = None
        if item.running is not None:
            item.dirty = True
            return
        item.running = asyncio.create_task(self._run(item), name=f"{namespace}/{name}")

    def _requeue_after(self, item: WorkItem, delay: float) -> None:
        loop = asyncio.get_running_loop()
        item.timer = loop.call_later(delay, lambda: self.enqueue(item.namespace, item.name))

    async def _run(self, item: WorkItem) -> None:
        """Reconcile until nothing is due now. Then schedule the requeue, or drop a deleted job."""
        logs.JOB.set((item.namespace, item.name))
        delay: float | None = None
        try:
            while True:
                item.dirty = False
                async with self._slots:
                    delay = await self._attempt(item)
                if not item.dirty:
                    break
                delay = None
        finally:
            item.running = item.since = None
        if delay is not None:
            self._requeue_after(item, delay)
        elif item.uid is None:
            self._items.pop((item.namespace, item.name), None)

    async def _attempt(self, item: WorkItem) -> float | None:
        """Reconcile without raising. A failure is repeated with exponential backoff, or after the time that
        the API server asks for.

        :returns: seconds until the requeue; None to wait for an event, also if we no longer lead.
        """
        try:
            delay = await self._reconcile(item)
        except NotLeading as e:
            log.debug("%s", e)
            return None
        except Exception as e:
            pause = _pause_after(item, e)
            error = self._failed(e)
            reason = error.reason if isinstance(error, StreamJobError) else StreamJobError.reason
            metrics.RECONCILE_ERRORS.labels(reason).inc()
            if isinstance(error, StreamJobError):
                log.warning("%s", error)
            else:
                log.exception("a reconcile failed")
            return pause
        item.failures = 0
        return delay


def _pause_after(item: WorkItem, error: Exception) -> float:
    """Seconds until a failed reconcile is repeated; counts the failure unless the server names the time."""
    if isinstance(error, KubeError) and error.retry_after is not None:
        return error.retry_after
    item.failures += 1
    return min(BACKOFF_FIRST * (1 << min(item.failures - 1, 10)), BACKOFF_MAX)
