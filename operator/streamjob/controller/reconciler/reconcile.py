"""One reconcile of a job: observe, decide, write the status, act, and again until nothing is left to do.

Each round costs 3 concurrent reads (StreamJob, pods by label, index ConfigMap), 1 write if the status
changes, and 1 call for each action. An idle job costs nothing. A stop, from the user's patch until the driver
has the request, costs 3 reads (the pod by name: the fast-path read), 1 status write (the intent) and 1 PUT to
the driver.

Before the first change to a job in a new term, the job is fenced (`rules.fencing`). Before each effect we
check that we still lead, so that a process that was frozen finds out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from ...protocol.errors import StreamJobError
from ..api_server.errors import Conflict, Forbidden, NamespaceTerminating
from ..api_server.kube import Kube
from ..api_server.leader import Leader, Superseded
from ..process import metrics
from ..rules import actions, ui
from ..rules.actions import Action
from ..rules.context import AT_ONCE_AGAIN, Decision
from ..rules.decide import decide
from ..rules.fencing import fence
from ..rules.observed import Observed
from ..rules.policies import retention
from .act import Actor
from .observe import fast_path_read, observe
from .status_writer import StatusWriter
from .work_queue import BACKOFF_FIRST, WorkItem

log = logging.getLogger(__name__)

STEPS = 25  # consecutive rounds for one job before others get their turn


class Reconcile:
    """Reconciles the job of a work item.

    :param answered: called when the API server has answered.
    :param now: the wall clock.
    """

    def __init__(
        self,
        kube: Kube,
        leader: Leader,
        actor: Actor,
        answered: Callable[[], None],
        now: Callable[[], datetime],
    ) -> None:
        self._kube = kube
        self._leader = leader
        self._act = actor
        self._drivers, self._ui = actor.drivers, actor.ui
        self._answered = answered
        self._now = now
        self._status = StatusWriter(kube, leader, now)

    async def __call__(self, item: WorkItem) -> float | None:
        """Reconcile.

        :returns: seconds until the requeue; None to wait for an event.
        """
        for _ in range(STEPS):
            with metrics.RECONCILE_SECONDS.time():
                delay = await self._round(item)
            if delay != AT_ONCE_AGAIN:
                return delay
        return BACKOFF_FIRST

    async def _round(self, item: WorkItem) -> float | None:
        term = self._leader.term
        self._leader.check(term)
        patched, item.patched = item.patched, False
        try:
            if patched and await self._fast_path(item, term):
                return AT_ONCE_AGAIN
            observed = await observe(self._kube, self._drivers, item.namespace, item.name, item.uid)
        except Forbidden as e:
            await self._status.report(item, e)
            raise
        self._answered()
        if observed is None:
            self._forget(item)
            return None
        _note(item, observed)
        now = self._now()
        if retention.about_to_go(observed, now):
            observed = replace(observed, restored_from=await self._kube.list_restored(item.namespace))
        observed = replace(observed, namespace_ends=item.namespace_ends, ui=self._ui.observed(observed.job))
        decision = ui.follow(observed, decide(observed, now), now)
        return await self._carry_out(observed, decision, self._fencing(observed, decision, term), item, term)

    async def _fast_path(self, item: WorkItem, term: int) -> bool:
        """Act at once if the decision asks only for commands to the driver. In a new term, fence the job
        instead; the next round sends the commands. Everything else, and what follows, needs a full `observe`.

        :returns: whether it acted.
        """
        if item.uid is None or item.driver is None:
            return False
        observed = await fast_path_read(
            self._kube, self._drivers, item.namespace, item.name, item.uid, item.driver
        )
        if observed is None:
            return False
        self._answered()
        decision = decide(observed, self._now())
        first = self._fencing(observed, decision, term)
        commands = bool(decision.actions) and all(isinstance(a, actions.COMMANDS) for a in decision.actions)
        if not commands:
            return False
        item.version = observed.job.metadata.resource_version
        item.patched = first is not None  # then the command follows in the next round
        await self._carry_out(observed, decision, first, item, term)
        return True

    def _fencing(self, observed: Observed, decision: Decision, term: int) -> Decision | None:
        """The fencing that must precede this decision in a new term; None if it is not needed.

        :raises Superseded: the job knows a later term.
        """
        if observed.job.status.term > term:
            raise Superseded("the job", observed.job.status.term)
        changes = bool(decision.actions) or decision.status != observed.job.status
        return fence(observed, term) if changes else None

    async def _carry_out(
        self, observed: Observed, decision: Decision, first: Decision | None, item: WorkItem, term: int
    ) -> float | None:
        """Write the status, then carry out the actions; `first` instead, if it is given.

        :returns: seconds until the requeue; None to wait for an event.
        """
        decision = first or decision
        refused: Action | None = None  # the action that the API server refuses, if one does
        try:
            self._leader.check(term)
            version = await self._status.write(observed.job, decision.status, item)
            metrics.JOBS.saw(observed.job, decision.status)
            job = observed.job.model_copy(update={"status": decision.status})
            for action in decision.actions:
                self._leader.check(term)
                refused = action
                await self._act(job, version, action)
                refused = None
                if isinstance(action, actions.COMMANDS) and item.since is not None:
                    metrics.COMMAND_SECONDS.observe(asyncio.get_running_loop().time() - item.since)
                    item.since = None
        except Conflict as e:
            log.debug("%s", e)
            return AT_ONCE_AGAIN
        except NamespaceTerminating:
            if item.namespace_ends:
                raise
            item.namespace_ends = True
            return AT_ONCE_AGAIN
        except StreamJobError as e:
            await self._status.report(item, e, refused)
            raise
        return decision.requeue_after if first is None and not decision.actions else AT_ONCE_AGAIN

    def _forget(self, item: WorkItem) -> None:
        """Forget the job: it is deleted."""
        if item.uid is not None:
            self._drivers.forget_job(item.uid)
            self._ui.forget(item.uid)
        item.uid = item.version = None
        item.namespace_ends = False
        metrics.JOBS.forget(item.namespace, item.name)


def _note(item: WorkItem, observed: Observed) -> None:
    """Note in the work item what was observed."""
    item.namespace_ends &= item.uid == observed.job.metadata.uid
    item.uid, item.version = observed.job.metadata.uid, observed.job.metadata.resource_version
    item.pods = frozenset(pod.version for pod in (*observed.pods, *observed.standbys))
    item.driver = observed.pod.name if observed.pod is not None else None
