"""Leader election on one Lease, by the rules of `lease`: renew while we lead, watch while another does.

Why not `kubernetes.aio.leaderelection`: it measures with the wall clock, has no fencing number
(`leaseTransitions` stays empty), does not release the Lease, and its requests have no time limit of their own
(ADR 11).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timezone

from ...protocol.errors import StreamJobError
from ..objects import Obj
from .errors import AlreadyExists, Conflict, ObjectNotFound
from .kube import Kube
from .lease import LAPSE, RENEW_EVERY, Candidate, Record

log = logging.getLogger(__name__)

CALL_TIMEOUT = 2.0  # seconds; short enough to repeat an unanswered renewal before trust ends


class NotLeading(StreamJobError):
    """Another replica leads, or none: this one must change nothing."""

    reason = "NotLeading"
    retryable = True


class Superseded(StreamJobError):
    """A job or its driver knows a later term than ours (V12)."""

    reason = "Superseded"
    retryable = True

    def __init__(self, what: str, term: int) -> None:
        super().__init__(f"{what} has heard of term {term}, later than ours")
        self.term = term


class Leader:
    """Takes part in the election for one Lease. Use it in one event loop only."""

    def __init__(self, kube: Kube, namespace: str, name: str, identity: str) -> None:
        self._kube, self._namespace, self._name = kube, namespace, name
        self._candidate = Candidate(identity)
        self._acquired = datetime.now(timezone.utc)
        self.alive = self._now()  # time of the last answer of the API server

    @staticmethod
    def _now() -> float:
        """The event loop's time, which is monotonic."""
        return asyncio.get_running_loop().time()

    @property
    def term(self) -> int:
        """The term in which we lead now, 0 if we do not. Check it before each effect."""
        return self._candidate.term(self._now())

    def check(self, term: int) -> None:
        """Check that we still lead in `term`.

        :raises NotLeading: we do not, or no longer.
        """
        if not term or self.term != term:
            raise NotLeading("another controller leads, or none")

    def outdated(self, term: int) -> None:
        """A job knows `term`, which is above ours. The next renewal resolves that: the API server refuses it,
        or it takes a term above `term`.
        """
        if self.term:
            log.warning(
                "a job has heard of term %d, we lead in term %d: has the Lease been deleted?", term, self.term
            )
            self._candidate.outdated(term)

    async def run(self, begin: Callable[[], None], end: Callable[[], Awaitable[None]]) -> None:
        """Take part until cancelled. Calls `begin` when a term of ours starts and `end` when it ends."""
        led = 0
        while True:
            try:
                await asyncio.wait_for(self._step(), CALL_TIMEOUT)
                self.alive = self._now()
            except Exception as e:  # no error ends the election: the next step tries again
                log.warning("the Lease %s/%s: %s", self._namespace, self._name, str(e) or "no answer")
            if led and led != self.term:
                log.warning("no longer leading in term %d", led)
                await end()
                led = 0
            if not led and (led := self.term):
                log.info("leading in term %d", led)
                begin()
            await asyncio.sleep(RENEW_EVERY)

    async def release(self) -> None:
        """Release the Lease, so that another replica need not wait. All our work must have stopped: another
        replica takes the Lease at once. A failure is only logged: the Lease then lapses.
        """
        record = self._candidate.release(self._now())
        if record is None:
            return
        try:
            await asyncio.wait_for(self._write(record), CALL_TIMEOUT)
            log.info("the Lease %s/%s is released", self._namespace, self._name)
        except (StreamJobError, asyncio.TimeoutError) as e:
            log.warning("the Lease %s/%s could not be released: %s", self._namespace, self._name, e)

    async def _step(self) -> None:
        """Renew the Lease. If that is refused, or we do not lead, read it and acquire it if allowed."""
        if self.term:
            try:
                return await self._write(self._candidate.next(self._now()))
            except (Conflict, ObjectNotFound):
                pass  # somebody else wrote or deleted the Lease
        found = await self._kube.get_lease(self._namespace, self._name)
        self._candidate.saw(_record(found) if found else None, self._now())
        try:
            await self._write(self._candidate.next(self._now()))
        except (Conflict, AlreadyExists, ObjectNotFound):
            log.debug("another candidate was faster")

    async def _write(self, record: Record | None) -> None:
        if record is None:
            return
        if record.term != self.term:
            self._acquired = datetime.now(timezone.utc)
        sent = self._now()
        body = _body(self._name, record, self._acquired)
        call = self._kube.put_lease if record.version else self._kube.create_lease
        self._candidate.wrote(_record(await call(self._namespace, body)), sent)


def _record(lease: Obj) -> Record:
    spec = lease.get("spec") or {}
    version = str(lease["metadata"]["resourceVersion"])
    return Record(spec.get("holderIdentity") or "", spec.get("leaseTransitions") or 0, version)


def _body(name: str, record: Record, acquired: datetime) -> Obj:
    meta = {"name": name} | ({"resourceVersion": record.version} if record.version else {})
    spec = {
        "leaseDurationSeconds": int(LAPSE),
        "acquireTime": _micro_time(acquired),
        "renewTime": _micro_time(datetime.now(timezone.utc)),
        "leaseTransitions": record.term,
    } | ({"holderIdentity": record.holder} if record.holder else {})
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}


def _micro_time(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
