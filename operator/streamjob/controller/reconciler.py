"""Reconciles jobs: one short-lived asyncio task for each job that is due. It observes, decides, writes the
status, acts, and starts over until nothing is left to do.

One pass costs 3 concurrent reads (StreamJob, pods by label, index ConfigMap), 1 write if the status changes,
and 1 call for each action. An idle job costs nothing. A stop, from the user's patch until the driver has the
request, costs 3 reads (the pod by name: a fast-path read, `glance`), 1 status write (the intent) and 1 PUT to
the driver.

Enqueueing a job during a pass is not lost: another pass follows. The echo of our own write enqueues nothing.

Only the leader reconciles. In a new term it enqueues every job, and fences a job before the first change to
it (`charge`). Before each effect it checks that it still leads, so that a process that was frozen finds out.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone

import aiohttp
from pydantic import ValidationError

from ..api import Phase, Status, StreamJob
from ..protocol.errors import StreamJobError
from ..protocol.messages import Problem
from . import actions, logs, metrics, names, retention
from .act import act, credentials
from .actions import Action
from .case import AT_ONCE_AGAIN, Decision
from .charge import take_charge
from .decide import decide
from .drivers import Drivers, open_session
from .events import events
from .kube import Conflict, Forbidden, Kube, KubeError, NamespaceTerminating
from .leader import Leader, NotLeading, Superseded
from .line import DriverRefused, DriverUnreachable
from .memory import give_memory_back
from .observe import Observed, glance, observe
from .recorder import Recorder
from .status import fail, not_made, settle
from .words import sentence

log = logging.getLogger(__name__)

AT_ONCE = 32  # concurrent reconciles
STEPS = 25  # consecutive passes for one job before others get their turn
BACKOFF_FIRST, BACKOFF_MAX = 0.5, 60.0
CANARY_SECONDS = 20.0
# The periodic resync lists at most CANARY_RATE jobs per second on average, so many jobs lengthen its
# interval. The limit CANARY_MAX is half of the age at which the probes fail.
CANARY_RATE, CANARY_MAX = 25.0, 45.0
# Consecutive refusals (some seconds) before a condition reports one: an API server that has just started
# knows no permissions for a moment.
REFUSALS = 4
QUIET_ERRORS = (0, 429)  # and 5xx: the API server is in trouble, so a condition could not be written either


@dataclass
class Task:
    """The work item of one job: what runs or is due, and what was seen last."""

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


class Reconciler:
    """All jobs, by namespace and name. Use it in one event loop only, whose time all waits use.

    :param now: the wall clock.
    :param session: opens the HTTP session for the drivers; see `Drivers`.
    """

    def __init__(
        self,
        kube: Kube,
        leader: Leader,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        session: Callable[[], aiohttp.ClientSession] = open_session,
    ) -> None:
        self.kube = kube
        self.leader = leader
        self.drivers = Drivers(
            lambda namespace, job: credentials(kube, namespace, job),
            self.wake,
            jobs=lambda: len(self._tasks),
            term=lambda: leader.term,
            session=session,
        )
        metrics.LEADER_TERM.set_function(lambda: leader.term)
        self._now = now
        self._recorder = Recorder(kube)
        self._tasks: dict[tuple[str, str], Task] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._alive = asyncio.get_running_loop().time()
        self._canary: asyncio.Task[None] | None = None
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

    # --- terms of leadership --------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Start a term. The first periodic resync enqueues every job."""
        self._alive = asyncio.get_running_loop().time()
        self._canary = asyncio.create_task(self._sing(), name="canary")

    async def _end(self) -> None:
        tasks = [t.running for t in self._tasks.values() if t.running]
        tasks += [self._canary] if self._canary else []
        for entry in self._tasks.values():
            if entry.timer:
                entry.timer.cancel()
        self._tasks.clear()
        self._canary = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        metrics.JOBS.clear()
        await self.drivers.close()

    # --- enqueueing -----------------------------------------------------------------------------------------

    def wake(self, namespace: str, name: str, version: str | None = None, *, pod: str | None = None) -> None:
        """Enqueue the job if we lead.

        :param version: resourceVersion of the StreamJob in its event; a version that we already know enqueues
            nothing.
        :param pod: the same for a driver pod.
        """
        if self._canary is None:
            return
        task = self._tasks.setdefault((namespace, name), Task())
        if (version is not None and version == task.version) or (pod is not None and pod in task.pods):
            return
        if version is not None:
            task.patched = True
            task.since = task.since or asyncio.get_running_loop().time()
        if task.timer is not None:
            task.timer.cancel()
            task.timer = None
        if task.running is not None:
            task.dirty = True
            return
        task.running = asyncio.create_task(self._run(namespace, name, task), name=f"{namespace}/{name}")

    def _wake_later(self, namespace: str, name: str, task: Task, delay: float) -> None:
        loop = asyncio.get_running_loop()
        task.timer = loop.call_later(delay, lambda: self.wake(namespace, name))

    async def _run(self, namespace: str, name: str, task: Task) -> None:
        """Reconcile until nothing is due now. Then schedule the requeue, or drop a deleted job."""
        logs.JOB.set((namespace, name))
        delay: float | None = None
        try:
            while True:
                task.dirty = False
                async with self._slots:
                    delay = await self._guarded(namespace, name, task)
                if not task.dirty:
                    break
                delay = None
        finally:
            task.running = task.since = None
        if delay is not None:
            self._wake_later(namespace, name, task, delay)
        elif task.uid is None:
            self._tasks.pop((namespace, name), None)

    async def _guarded(self, namespace: str, name: str, task: Task) -> float | None:
        """Reconcile without raising. A failure is retried with exponential backoff, or after the time that
        the API server asks for.

        :returns: as `_pass`; None also if we no longer lead.
        """
        try:
            delay = await self._reconcile(namespace, name, task)
        except NotLeading as e:
            log.debug("%s", e)
            return None
        except Exception as e:
            if isinstance(e, KubeError) and e.retry_after is not None:
                pause = e.retry_after
            else:
                task.failures += 1
                pause = min(BACKOFF_FIRST * (1 << min(task.failures - 1, 10)), BACKOFF_MAX)
            if isinstance(e, DriverRefused) and e.term:
                e = Superseded("the driver", e.term)
            if isinstance(e, Superseded):
                self.leader.outdated(e.term)
            reason = e.reason if isinstance(e, StreamJobError) else StreamJobError.reason
            metrics.RECONCILE_ERRORS.labels(reason).inc()
            if isinstance(e, StreamJobError):
                log.warning("%s", e)
            else:
                log.exception("a reconcile failed")
            return pause
        task.failures = 0
        return delay

    # --- one reconcile --------------------------------------------------------------------------------------

    async def _reconcile(self, namespace: str, name: str, task: Task) -> float | None:
        for _ in range(STEPS):
            with metrics.RECONCILE_SECONDS.time():
                delay = await self._pass(namespace, name, task)
            if delay != AT_ONCE_AGAIN:
                return delay
        return BACKOFF_FIRST

    async def _pass(self, namespace: str, name: str, task: Task) -> float | None:
        """One pass: observe, decide, act.

        :returns: seconds until the requeue; None to wait for an event.
        """
        term = self.leader.term
        self.leader.check(term)
        patched, task.patched = task.patched, False
        try:
            if patched and await self._tell_the_driver(namespace, name, task, term):
                return AT_ONCE_AGAIN
            o = await observe(self.kube, self.drivers, namespace, name, task.uid)
        except Forbidden as e:
            await self._tell(namespace, name, e, task)
            raise
        self._alive = asyncio.get_running_loop().time()
        if o is None:
            self._forget(task)
            metrics.JOBS.forget(namespace, name)
            return None
        task.namespace_ends &= task.uid == o.job.metadata.uid
        task.uid, task.version = o.job.metadata.uid, o.job.metadata.resource_version
        task.pods = frozenset(pod.version for pod in o.pods)
        task.driver = o.pod.name if o.pod is not None else None
        now = self._now()
        if retention.about_to_go(o, now):
            o = replace(o, restored_from=await self.kube.list_restored(namespace))
        decision = decide(replace(o, namespace_ends=task.namespace_ends), now)
        return await self._do(o, decision, self._first(o, decision, term), task, term)

    async def _tell_the_driver(self, namespace: str, name: str, task: Task, term: int) -> bool:
        """The fast path: act at once if the decision asks only for commands to the driver. In a new term it
        fences the job instead, and the next pass sends the commands. Everything else, and what follows, needs
        a full `observe`.

        :returns: whether it acted.
        """
        if task.uid is None or task.driver is None:
            return False
        o = await glance(self.kube, self.drivers, namespace, name, task.uid, task.driver)
        if o is None:
            return False
        self._alive = asyncio.get_running_loop().time()
        decision = decide(o, self._now())
        first = self._first(o, decision, term)
        commands = bool(decision.actions) and all(isinstance(a, actions.COMMANDS) for a in decision.actions)
        if not commands:
            return False
        task.version = o.job.metadata.resource_version
        task.patched = first is not None  # then the command follows in the next pass
        await self._do(o, decision, first, task, term)
        return True

    def _first(self, o: Observed, decision: Decision, term: int) -> Decision | None:
        """The fencing that must precede this decision in a new term; None if it is not needed.

        :raises Superseded: the job knows a later term.
        """
        if o.job.status.term > term:
            raise Superseded("the job", o.job.status.term)
        changes = bool(decision.actions) or decision.status != o.job.status
        return take_charge(o, term) if changes else None

    async def _do(
        self, o: Observed, decision: Decision, first: Decision | None, task: Task, term: int
    ) -> float | None:
        """Write the status, then execute the actions. Returns the same as `_pass`."""
        namespace, name = o.job.metadata.namespace, o.job.metadata.name
        decision = first or decision
        refused: Action | None = None  # the action that the API server refuses, if one does
        try:
            self.leader.check(term)
            version = await self._write_status(o, decision.status, task)
            metrics.JOBS.saw(o.job, decision.status)
            job = o.job.model_copy(update={"status": decision.status})
            for action in decision.actions:
                self.leader.check(term)
                refused = action
                await act(self.kube, self.drivers, job, version, action)
                refused = None
                if isinstance(action, actions.COMMANDS) and task.since is not None:
                    metrics.COMMAND_SECONDS.observe(asyncio.get_running_loop().time() - task.since)
                    task.since = None
        except Conflict as e:
            log.debug("%s", e)
            return AT_ONCE_AGAIN
        except NamespaceTerminating:
            if task.namespace_ends:
                raise
            task.namespace_ends = True
            return AT_ONCE_AGAIN
        except StreamJobError as e:
            await self._tell(namespace, name, e, task, refused)
            raise
        return decision.wake if first is None and not decision.actions else AT_ONCE_AGAIN

    async def _write_status(self, o: Observed, status: Status, task: Task) -> str:
        """Write the status with optimistic locking if it differs, then post Events for what is new.

        :returns: the job's resourceVersion after the write.
        """
        meta = o.job.metadata
        if status == o.job.status:
            return meta.resource_version
        version = await self.kube.put_status(meta.namespace, meta.name, meta.resource_version, status.plain())
        task.version = version
        now = self._now()
        metrics.count(o.job, status, now.timestamp())
        for event in events(o.job.status, status):
            log.info("%s: %s", event.reason, event.message, extra={"reason": event.reason})
            # Events are for people: nothing waits for them.
            asyncio.create_task(self._recorder.post(o.job, event, now))  # noqa: RUF006
        return version

    async def _tell(
        self,
        namespace: str,
        name: str,
        error: StreamJobError,
        task: Task,
        refused: Action | None = None,
    ) -> None:
        """Report in the conditions what blocks the job, if a person has to fix it.

        :param refused: the action that the API server refused; None if it refused a read. A pod may have run
            while we could not read, so only a refused creation shows that a driver has not.
        """
        if isinstance(error, (DriverUnreachable, DriverRefused, NotLeading)):
            return  # the long poll reports a lasting failure; if we do not lead, another controller reports
        if isinstance(error, KubeError) and (error.code in QUIET_ERRORS or error.code >= 500):
            return
        if type(error) is Forbidden and task.failures + 1 < _refusals(error):
            return
        now = self._now()
        problem = Problem(error.reason, error.message, error.remedy, error.retryable)
        try:
            # Read the job again: its intent may have been written just before.
            fresh = await self.kube.get_job(namespace, name)
            if fresh is None or fresh["metadata"]["uid"] != (task.uid or fresh["metadata"]["uid"]):
                return
            job = StreamJob.parse(fresh)
            term = self.leader.term
            if not term or job.status.term not in (0, term):  # 0: no leader has fenced it yet
                return
            s = fail(job.status, problem, now)
            if isinstance(refused, actions.CreateDriver):
                s = not_made(s)
            s = settle(s, job, now, s.phase or Phase.PENDING, problem.reason, sentence(problem), stalled=True)
            await self._write_status(Observed(job), s, task)
        except (StreamJobError, ValidationError) as e:
            log.debug("could not tell: %s", e)

    def _forget(self, task: Task) -> None:
        if task.uid is not None:
            self.drivers.forget_job(task.uid)
        task.uid = task.version = None
        task.namespace_ends = False

    # --- liveness and periodic resync -----------------------------------------------------------------------

    @property
    def age(self) -> float:
        """Seconds since a reconcile or resync last reached the API server. In a standby: since it last saw
        the Lease.
        """
        alive = self.leader.alive if self._canary is None else self._alive
        return asyncio.get_running_loop().time() - alive

    async def _sing(self) -> None:
        """The periodic resync: real reads through the same client. It enqueues every job that changed, or
        whose driver pods changed, without an event reaching us. A watch may die silently and for good; kopf's
        does once the API server has refused it.
        """
        while True:
            try:
                jobs = await self.kube.list_jobs()
                self._alive = asyncio.get_running_loop().time()
                for job in jobs:
                    meta = job["metadata"]
                    self.wake(meta["namespace"], meta["name"], meta["resourceVersion"])
                there = {(j["metadata"]["namespace"], j["metadata"]["name"]) for j in jobs}
                for namespace, name in set(self._tasks) - there:
                    self.wake(namespace, name)
                pods: defaultdict[str, set[str]] = defaultdict(set)
                for pod in await self.kube.list_all_pods(names.ALL_DRIVERS):
                    meta = pod["metadata"]
                    pods[meta["labels"].get(names.LABEL_UID, "")].add(meta["resourceVersion"])
                for (namespace, name), task in list(self._tasks.items()):
                    if task.uid is not None and pods[task.uid] != task.pods:
                        self.wake(namespace, name)
            except Exception as e:
                log.warning("canary: %s", e)
            give_memory_back()
            await asyncio.sleep(min(max(CANARY_SECONDS, len(self._tasks) / CANARY_RATE), CANARY_MAX))


def _refusals(error: Forbidden) -> int:
    """How often in a row the API server has to refuse until that is reported.

    An API server that has just started may know a binding before its role. Then it names the role as missing,
    for some seconds or, on a busy machine, for longer.
    """
    return 2 * REFUSALS if "RBAC: " in error.message and "not found" in error.message else REFUSALS
