"""What leads to Spark's UI: creates, updates and deletes it, and remembers what it has applied.

A reconcile compares what is wanted with the memory and costs no call. What has changed without us is found by
a list of each allowed kind every CHECK_EVERY seconds, of the metadata only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...api import ConditionType, StreamJob
from ...protocol.errors import StreamJobError
from ...protocol.messages.driver_status import Problem
from ..api_server.errors import Conflict, KubeError, NamespaceTerminating, NameTaken, ObjectNotFound
from ..api_server.kube import Kube
from ..objects import Obj, names, owned, ui
from ..objects.ui import UiKind
from ..rules.observed import ObservedUi, UiFailure

log = logging.getLogger(__name__)

CHECK_EVERY = 120.0  # seconds
RETRY_FIRST, RETRY_MAX = 5.0, 300.0  # seconds until what has failed is tried again
ALL_KINDS = frozenset(UiKind)
NO_GATEWAY_API = Problem(
    "GatewayAPIMissing",
    "the cluster does not serve gateway.networking.k8s.io/v1, so it has no HTTPRoutes",
    "Install the Gateway API's CustomResourceDefinitions, or remove spec.ui.httpRoute",
    retryable=True,
)


@dataclass(frozen=True)
class _Applied:
    digest: str
    version: str  # the resourceVersion


@dataclass(frozen=True)
class _Failed:
    digest: str | None
    problem: Problem
    attempts: int
    until: float  # in the event loop's time


@dataclass
class _OfJob:
    """What is remembered of one job."""

    namespace: str
    name: str
    applied: dict[UiKind, _Applied] = field(default_factory=dict)
    failed: dict[UiKind, _Failed] = field(default_factory=dict)


class UiObjects:
    """What leads to the UIs of all jobs.

    :param allowed: the kinds that it may create.
    """

    def __init__(self, kube: Kube, allowed: frozenset[UiKind] = ALL_KINDS) -> None:
        self._kube = kube
        self._allowed = allowed
        self._jobs: dict[str, _OfJob] = {}  # by uid: those that have anything, should, or say so
        self._known = False  # whether a list has come since the term began
        self._next_check = 0.0  # in the event loop's time

    def begin(self) -> None:
        """Begin a term: others may have changed everything."""
        self._jobs.clear()
        self._known, self._next_check = False, 0.0

    def observed(self, job: StreamJob) -> ObservedUi | None:
        """What there is of the job's, from memory; None while that is not known."""
        meta, now = job.metadata, asyncio.get_running_loop().time()
        if job.spec.ui is not None or job.status.condition(ConditionType.UI_AVAILABLE) is not None:
            self._jobs.setdefault(meta.uid, _OfJob(meta.namespace, meta.name))
        if not self._known:
            return None
        there = self._jobs.get(meta.uid) or _OfJob(meta.namespace, meta.name)
        return ObservedUi(
            self._allowed,
            {kind: applied.digest for kind, applied in there.applied.items()},
            {
                k: UiFailure(f.digest, f.problem, f.until - now)
                for k, f in there.failed.items()
                if now < f.until
            },
        )

    def forget(self, uid: str) -> None:
        """Forget a job that is deleted: Kubernetes deletes what it owned."""
        self._jobs.pop(uid, None)

    async def apply(self, job: StreamJob, body: Obj) -> None:
        """Create or update one object. One read and one write; a failure is remembered.

        :raises Conflict: the object has changed meanwhile; observe again.
        :raises KubeError: the API server does not answer, or asks for a pause.
        """
        kind, digest = UiKind(body["kind"]), ui.digest(body)
        with self._remembering(job, kind, digest):
            found = await self._own(job, kind)
            version = found["metadata"]["resourceVersion"] if found is not None else None
            new = await self._kube.apply_ui(body, version)
            self._of(job).applied[kind] = _Applied(digest, new)

    async def delete(self, job: StreamJob, kind: UiKind) -> None:
        """Delete one object, if it is the job's. One read and one write; raises as `apply` does."""
        meta = job.metadata
        with self._remembering(job, kind, None):
            with contextlib.suppress(NameTaken):
                found = await self._own(job, kind)
                if found is not None:
                    version = found["metadata"]["resourceVersion"]
                    with contextlib.suppress(ObjectNotFound):
                        await self._kube.delete_ui(kind, meta.namespace, ui.name(meta.name), version)
            self._of(job).applied.pop(kind, None)

    async def check(self) -> set[tuple[str, str]]:
        """List what there is, if it is time to.

        :returns: namespace and name of the jobs to reconcile: they wait for the list, or something of theirs
            has changed.
        """
        now = asyncio.get_running_loop().time()
        if now < self._next_check or (self._known and not self._jobs):
            return set()
        changed: set[tuple[str, str]] = set()
        for kind in sorted(self._allowed):
            for uid in self._compare(kind, await self._list(kind)):
                changed.add((self._jobs[uid].namespace, self._jobs[uid].name))
        if not self._known:  # also those that were observed during the lists
            changed |= {(j.namespace, j.name) for j in self._jobs.values()}
        self._known, self._next_check = True, now + CHECK_EVERY
        return changed

    def _compare(self, kind: UiKind, found: dict[str, Obj]) -> Iterator[str]:
        """Note what there is of a kind.

        :returns: the uids of the jobs whose object is not the one that we know.
        """
        for uid, meta in found.items():
            there = self._jobs.setdefault(uid, _OfJob(meta["namespace"], meta["labels"][names.LABEL_JOB]))
            digest, version, known = (
                ui.digest({"metadata": meta}),
                meta["resourceVersion"],
                there.applied.get(kind),
            )
            if known is None:
                there.applied[kind] = _Applied(digest, version)
                yield uid
            elif known.version != version:
                # Perhaps only its status has changed. To apply it again tells, and then changes nothing.
                there.applied[kind] = _Applied("", version)
                yield uid
        for uid in self._jobs.keys() - found.keys():
            if self._jobs[uid].applied.pop(kind, None) is not None:
                yield uid

    async def _list(self, kind: UiKind) -> dict[str, Obj]:
        """The metadata of all objects of a kind, by the uid of their job."""
        try:
            items = await self._kube.list_ui(kind)
        except ObjectNotFound:
            return {}  # the cluster has no such kind
        found: dict[str, Obj] = {}
        for meta in (item["metadata"] for item in items):
            labels = meta["labels"]
            if meta["name"] == ui.name(labels.get(names.LABEL_JOB, "")):  # not a copy that somebody has made
                found[labels.get(names.LABEL_UID, "")] = meta
        return found

    async def _own(self, job: StreamJob, kind: UiKind) -> Obj | None:
        """The job's object of this kind.

        :raises NameTaken: another object has its name.
        """
        name = ui.name(job.metadata.name)
        found = await self._kube.get_ui(kind, job.metadata.namespace, name)
        if found is not None and not owned.is_owned(found, job):
            raise NameTaken(f"{kind.value} {name}")
        return found

    @contextlib.contextmanager
    def _remembering(self, job: StreamJob, kind: UiKind, digest: str | None) -> Iterator[None]:
        """Remember a failure that a person has to fix; it holds up nothing else."""
        failed = self._of(job).failed
        before = failed.pop(kind, None)
        try:
            yield
        except (Conflict, NamespaceTerminating):
            raise
        except StreamJobError as e:
            if isinstance(e, KubeError) and e.code in (0, 429):
                raise
            missing = kind is UiKind.HTTP_ROUTE and isinstance(e, ObjectNotFound)
            problem = NO_GATEWAY_API if missing else Problem(e.reason, f"{kind.value}: {e.message}", e.remedy)
            attempts = before.attempts + 1 if before is not None and before.digest == digest else 0
            wait = min(RETRY_FIRST * 2**attempts, RETRY_MAX)
            until = asyncio.get_running_loop().time() + wait
            failed[kind] = _Failed(digest, problem, min(attempts, 10), until)
            log.info("%s of %s: %s", kind.value, job.metadata.name, problem.message)

    def _of(self, job: StreamJob) -> _OfJob:
        meta = job.metadata
        return self._jobs.setdefault(meta.uid, _OfJob(meta.namespace, meta.name))
