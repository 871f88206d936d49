"""Writes the status of a job, and posts Events for what is new in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from pydantic import ValidationError

from ...api import Phase, Status, StreamJob
from ...protocol.errors import StreamJobError
from ...protocol.messages.driver_status import Problem
from ..api_server.errors import Forbidden, KubeError
from ..api_server.kube import Kube
from ..api_server.leader import Leader, NotLeading
from ..drivers.connection import DriverRefused, DriverUnreachable
from ..process import metrics
from ..reports.events import events
from ..reports.messages import sentence
from ..rules import actions
from ..rules.actions import Action
from ..rules.status import fail, not_made, settle, standby_failed
from .recorder import Recorder
from .work_queue import WorkItem

log = logging.getLogger(__name__)

# Consecutive refusals (some seconds) before a condition reports one: an API server that has just started
# knows no permissions for a moment.
REFUSALS = 4
QUIET_ERRORS = (0, 429)  # and 5xx: the API server is in trouble, so a condition could not be written either


class StatusWriter:
    """Writes statuses, with optimistic locking.

    :param now: the wall clock.
    """

    def __init__(self, kube: Kube, leader: Leader, now: Callable[[], datetime]) -> None:
        self._kube = kube
        self._leader = leader
        self._now = now
        self._recorder = Recorder(kube)

    async def write(self, job: StreamJob, status: Status, item: WorkItem) -> str:
        """Write the status if it differs from that of `job`, then post Events for what is new.

        :returns: the job's resourceVersion after the write.
        :raises Conflict: the job has changed since it was read.
        """
        meta = job.metadata
        if status == job.status:
            return meta.resource_version
        version = await self._kube.put_status(
            meta.namespace, meta.name, meta.resource_version, status.plain()
        )
        item.version = version
        now = self._now()
        metrics.count(job, status, now.timestamp())
        for event in events(job.status, status):
            log.info("%s: %s", event.reason, event.message, extra={"reason": event.reason})
            # Events are for people: nothing waits for them.
            asyncio.create_task(self._recorder.post(job, event, now))  # noqa: RUF006
        return version

    async def report(self, item: WorkItem, error: StreamJobError, refused: Action | None = None) -> None:
        """Report in the conditions what blocks the job, if a person has to fix it.

        :param refused: the action that the API server refused; None if it refused a read. A pod may have run
            while we could not read, so only a refused creation shows that a driver has not.
        """
        if isinstance(error, (DriverUnreachable, DriverRefused, NotLeading)):
            return  # the long poll reports a lasting failure; if we do not lead, another controller reports
        if isinstance(error, KubeError) and (error.code in QUIET_ERRORS or error.code >= 500):
            return
        if type(error) is Forbidden and item.failures + 1 < _refusals(error):
            return
        now = self._now()
        problem = Problem(error.reason, error.message, error.remedy, error.retryable)
        try:
            # Read the job again: its intent may have been written just before.
            fresh = await self._kube.get_job(item.namespace, item.name)
            if fresh is None or fresh["metadata"]["uid"] != (item.uid or fresh["metadata"]["uid"]):
                return
            job = StreamJob.parse(fresh)
            term = self._leader.term
            if not term or job.status.term not in (0, term):  # 0: no leader has fenced it yet
                return
            await self.write(job, _blocked(job, problem, now, refused), item)
        except (StreamJobError, ValidationError) as e:
            log.debug("the problem could not be reported: %s", e)


def _blocked(job: StreamJob, problem: Problem, now: datetime, refused: Action | None) -> Status:
    """The status of a job that the problem blocks. A standby that is refused does not block its job."""
    s = job.status
    if isinstance(refused, actions.CreateDriver):
        if s.standby is not None and refused.config.epoch == s.standby.epoch:
            return s.model_copy(update={"standby": standby_failed(s.standby, job, problem, now)})
        s = not_made(s)
    s = fail(s, problem, now)
    return settle(s, job, now, s.phase or Phase.PENDING, problem.reason, sentence(problem), stalled=True)


def _refusals(error: Forbidden) -> int:
    """How often in a row the API server has to refuse until that is reported.

    An API server that has just started knows no roles and bindings yet, or a binding before its role, for
    some seconds or, on a busy machine, for longer.
    """
    by_roles = "RBAC: " in error.message or " cannot " in error.message
    return 2 * REFUSALS if by_roles else REFUSALS
