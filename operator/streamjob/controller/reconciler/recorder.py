"""Posts Events.

One that repeats itself is counted in its series, as `kubectl describe` shows it: `x3 over 2m`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from datetime import datetime, timedelta

from ...api import StreamJob
from ...protocol.errors import StreamJobError
from ..api_server.errors import ObjectNotFound
from ..api_server.kube import Kube
from ..reports.events import event_object, microseconds
from ..reports.messages import KubernetesEvent

log = logging.getLogger(__name__)
SERIES = timedelta(minutes=6)  # an Event that comes again later is a new one, as client-go has it
KNOWN_MAX = 1024  # Events of all jobs that are remembered

Key = tuple[str, KubernetesEvent]


class Recorder:
    """Remembers the latest Events: the name of each, how often it has come, and when last."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._known: OrderedDict[Key, tuple[str, int, datetime]] = OrderedDict()

    async def post(self, job: StreamJob, event: KubernetesEvent, now: datetime) -> None:
        """Post the Event. Nothing waits for it, and a lost one is not repeated."""
        try:
            await self._post(job, event, now)
        except StreamJobError as e:
            log.debug("an Event was not taken: %s", e)

    async def _post(self, job: StreamJob, event: KubernetesEvent, now: datetime) -> None:
        key, namespace = (job.metadata.uid, event), job.metadata.namespace
        name, count, last = self._known.pop(key, ("", 0, now))
        if name and now - last < SERIES:
            # Remembered before the call: another one of them may be due while it runs.
            self._remember(key, (name, count + 1, now))
            series = {"count": count + 1, "lastObservedTime": microseconds(now)}
            try:
                await self._kube.patch_event(namespace, name, {"series": series})
                return
            except ObjectNotFound:
                self._known.pop(key, None)  # it has expired, or was never taken
        body = event_object(job, event, now)
        self._remember(key, (body["metadata"]["name"], 1, now))
        await self._kube.create_event(namespace, body)

    def _remember(self, key: Key, entry: tuple[str, int, datetime]) -> None:
        self._known[key] = entry
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
