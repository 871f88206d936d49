"""Observes a job: reads its StreamJob, driver pods and index from the API server, and adds the driver's last status.

The three reads are concurrent API calls. Nothing comes from a watch: a watch may lag, and what follows may be
destructive.

A list is slow while much is written: since Kubernetes 1.31 the API server answers it from its cache, after
waiting for etcd to confirm that the cache is up to date, which etcd does every 0.1 s. An object requested by
name comes from etcd within milliseconds. A request of the user that only has to reach the driver therefore
uses a fast-path read, `glance`, which reads the one pod by name (ADR 18).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from ...api import Phase, Specification, StreamJob
from ...api.types import moment
from ...protocol import codec
from ...protocol import index as indices
from ...protocol.errors import FormatError
from ...protocol.index import Index
from ...protocol.messages import DriverPhase, DriverStatus, Problem
from ..api_server.kube import Kube
from ..drivers.connections import Drivers
from ..objects import names
from ..reports.log_redaction import last_words

Obj = dict[str, Any]
ENDED = ("Succeeded", "Failed")  # phases of a pod
# In every other phase the status already has a report of the driver, so a running driver is about to answer.
UNHEARD = (None, Phase.PENDING, Phase.STARTING, Phase.RESTARTING)


@dataclass(frozen=True)
class Exit:
    """How the driver's container ended.

    :param code: exit code of the container.
    :param reason: the kubelet's reason.
    :param tail: end of the driver's log if there is no report, else empty.
    :param report: the driver's final status; None if it left none that is readable and belongs to this job
        and epoch.
    :param at: when the container ended.
    """

    code: int
    reason: str
    tail: str
    report: DriverStatus | None
    at: datetime | None

    @property
    def script_code(self) -> int:
        """The exit code of the script; that of the container if the driver did not report one."""
        said = self.report.exit_code if self.report is not None else None
        return self.code if said is None else said

    @property
    def failed(self) -> bool:
        """Whether the driver itself reports a failure: its script failed, or ended while a query was dead.
        The script may have exited with 0 in the second case.
        """
        report = self.report
        return report is not None and (
            report.phase is DriverPhase.FAILED or report.exit_code not in (None, 0)
        )


@dataclass(frozen=True)
class Unschedulable:
    """The scheduler finds no node for the pod."""

    message: str
    since: datetime


@dataclass(frozen=True)
class Pod:
    """A driver pod, reduced to its driver: sidecars neither keep it alive nor end it.

    :param version: the pod's resourceVersion.
    :param generation: the job's generation from which the pod was created.
    :param phase: the phase of the driver's container, in terms of a pod's phase.
    :param beside: the driver's container has ended, but the pod has not: sidecars still run.
    :param grace: seconds of grace of a pod that is being deleted.
    :param waiting: reason and message why the driver's container does not start.
    :param specification: what the pod was created from; None if its annotation is missing or unreadable.
    """

    name: str
    uid: str
    version: str
    epoch: int
    generation: int
    phase: str
    beside: bool = False
    ip: str | None = None
    deleting: bool = False
    grace: int | None = None
    node: str | None = None
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    waiting: tuple[str, str] | None = None
    unschedulable: Unschedulable | None = None
    exit: Exit | None = None
    specification: Specification | None = None

    @property
    def over(self) -> bool:
        """The driver has terminated and never restarts (restartPolicy: Never)."""
        return self.phase in ENDED

    @property
    def started(self) -> bool:
        """The driver's container has run, so it may have changed something."""
        return self.started_at is not None or self.exit is not None or self.phase == "Running"


@dataclass(frozen=True)
class Observed:
    """One job at one moment.

    :param pods: its driver pods, ascending by epoch.
    :param index: None if its ConfigMap is missing or unusable.
    :param index_version: resourceVersion of the index's ConfigMap; None if there is none.
    :param index_problem: why the index cannot be used; None also for a job that has no index yet.
    :param driver: the last status of the newest epoch's driver; None if it has not answered yet.
    :param silent: seconds for which that driver has not answered; 0 while it answers.
    :param acknowledged: tokens of the commands that the driver has accepted, so that they are not sent
        repeatedly.
    :param index_term: term of the controller that last wrote the index; 0 if unknown.
    :param restored_from: the savepoints that the namespace's StreamJobs name in restoreFrom; None if not
        looked up.
    :param namespace_ends: the namespace is being deleted: nothing can be created in it any more.
    """

    job: StreamJob
    pods: tuple[Pod, ...] = ()
    index: Index | None = None
    index_version: str | None = None
    index_problem: Problem | None = None
    driver: DriverStatus | None = None
    silent: float = 0.0
    acknowledged: frozenset[str] = frozenset()
    index_term: int = 0
    restored_from: frozenset[str] | None = None
    namespace_ends: bool = False

    @property
    def epoch(self) -> int:
        """The newest epoch in status, pods and index, so that a lost status does not move it back."""
        pods = [p.epoch for p in self.pods]
        known = [self.index.latest.epoch] if self.index and self.index.latest else []
        return max([self.job.status.epoch, *pods, *known])

    @property
    def pod(self) -> Pod | None:
        """The driver pod of the newest epoch."""
        return next((p for p in self.pods if p.epoch == self.epoch), None)

    @property
    def word(self) -> DriverStatus | None:
        """The last status of the newest epoch's driver: its final report if there is one, else its last
        answer.
        """
        pod = self.pod
        if pod is not None and pod.exit is not None and pod.exit.report is not None:
            return pod.exit.report
        return self.driver


async def observe(
    kube: Kube, drivers: Drivers, namespace: str, name: str, uid: str | None
) -> Observed | None:
    """Read everything about a job.

    :param uid: the job's last known uid, by which the pods are selected; None if unknown.
    :returns: None if the job does not exist.
    """
    raw = kube.get_job(namespace, name)
    if uid is None:
        obj = await raw
        if obj is None:
            return None
        uid = str(obj["metadata"]["uid"])
        pods, config_map = await _parts(kube, namespace, name, uid)
    else:
        obj, (pods, config_map) = await asyncio.gather(raw, _parts(kube, namespace, name, uid))
        if obj is None:
            return None
        if obj["metadata"]["uid"] != uid:
            # The job was deleted and recreated under the same name: what was read belongs to the old one.
            return await observe(kube, drivers, namespace, name, None)
    seen = _put_together(StreamJob.parse(obj), pods, config_map)
    pod = seen.pod
    if pod is None or pod.over:
        drivers.forget(uid)
        return replace(seen, driver=drivers.last_word(uid, seen.epoch))
    return await _with_its_word(seen, pod, drivers)


async def glance(
    kube: Kube, drivers: Drivers, namespace: str, name: str, uid: str, pod: str
) -> Observed | None:
    """The fast-path read: the job, its index and one driver pod, each by name, without a list.

    Other pods that should not exist remain unseen, so the result suffices to send a command to the driver,
    and for nothing else.

    :param pod: name of the pod of the newest epoch.
    :returns: None if this is not the recorded, live driver of this job; then use `observe`.
    """
    obj, found, config_map = await asyncio.gather(
        kube.get_job(namespace, name),
        kube.get_pod(namespace, pod),
        kube.get_config_map(namespace, names.index_config_map(name)),
    )
    if obj is None or found is None or obj["metadata"]["uid"] != uid:
        return None
    seen = _put_together(StreamJob.parse(obj), [found], config_map)
    known, there = seen.job.status.driver, seen.pod
    if known is None or there is None or known.uid != there.uid or there.over or there.deleting:
        return None
    return await _with_its_word(seen, there, drivers)


def _put_together(job: StreamJob, pods: list[Obj], config_map: Obj | None) -> Observed:
    index, version, problem = read_index(config_map, job)
    parsed = tuple(sorted((p for p in map(parse_pod, pods) if p), key=lambda p: p.epoch))
    return Observed(job, parsed, index, version, problem, index_term=_term(config_map))


async def _with_its_word(seen: Observed, pod: Pod, drivers: Drivers) -> Observed:
    meta = seen.job.metadata
    view = drivers.follow(meta.uid, meta.namespace, meta.name, pod.name, pod.ip, pod.epoch)
    if view.status is None and pod.started and seen.job.status.phase not in UNHEARD:
        view = await drivers.first_word(meta.uid)
    return replace(seen, driver=view.status, silent=view.silent, acknowledged=view.acknowledged)


async def _parts(kube: Kube, namespace: str, name: str, uid: str) -> tuple[list[Obj], Obj | None]:
    return await asyncio.gather(
        kube.list_pods(namespace, names.driver_selector(uid)),
        kube.get_config_map(namespace, names.index_config_map(name)),
    )


def read_index(config_map: Obj | None, job: StreamJob) -> tuple[Index | None, str | None, Problem | None]:
    """Read the index from its ConfigMap.

    :returns: the index, the ConfigMap's resourceVersion, and why the index cannot be used. All three are None
        for a job that has no checkpoint yet and no ConfigMap.
    """
    name = names.index_config_map(job.metadata.name)
    where = f"ConfigMap {name}"
    if config_map is None:
        if job.status.checkpoint is None:
            return None, None, None
        return (
            None,
            None,
            Problem(
                "IndexMissing",
                f"{where} is gone; it recorded checkpoint {job.status.checkpoint.latest} of this job",
                "Restore it from a backup, or make a new StreamJob with restoreFrom.savepoint",
            ),
        )
    version = str(config_map["metadata"]["resourceVersion"])
    owner = (config_map["metadata"].get("labels") or {}).get(names.LABEL_UID)
    if owner != job.metadata.uid:
        return (
            None,
            version,
            Problem(
                "NameTaken",
                f"{where} exists and belongs to something else",
                "Delete or rename it, or give the StreamJob another name",
            ),
        )
    try:
        index = _parsed((config_map.get("data") or {}).get(indices.KEY, ""), where)
    except FormatError as e:
        remedy = e.remedy or "Restore it from a backup, or make a new StreamJob with restoreFrom.savepoint"
        return None, version, Problem(e.reason, e.message, remedy)
    if index.job_uid != job.metadata.uid:
        problem = Problem(
            "ForeignIndex", f"{where} holds another job's index", "Restore this job's from a backup"
        )
        return None, version, problem
    return index, version, None


@lru_cache(maxsize=16)
def _parsed(text: str, where: str) -> Index:
    """Parse the index. Cached: it changes seldom and is read several times after each change.

    :raises FormatError: the text is malformed or of a newer version.
    """
    return indices.loads(text, where)


def _term(config_map: Obj | None) -> int:
    annotations = config_map["metadata"].get("annotations") if config_map else None
    text = (annotations or {}).get(names.ANNOTATION_TERM, "")
    return int(text) if text.isdigit() else 0


def parse_pod(pod: Obj) -> Pod | None:
    """The parts of a driver pod that we use; None if it has no valid epoch label."""
    meta, status = pod["metadata"], pod.get("status") or {}
    epoch = (meta.get("labels") or {}).get(names.LABEL_EPOCH, "")
    annotations = meta.get("annotations") or {}
    if not epoch.isdigit():
        return None
    container: Obj = next(
        (c for c in status.get("containerStatuses") or () if c["name"] == names.CONTAINER), {}
    )
    state = container.get("state") or {}
    ended = state.get("terminated")
    waiting = state.get("waiting")
    started = (state.get("running") or ended or {}).get("startedAt")
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        version=meta["resourceVersion"],
        epoch=int(epoch),
        generation=int(annotations.get(names.ANNOTATION_GENERATION, "0")),
        phase=_phase(status.get("phase", "Pending"), state),
        beside=ended is not None and status.get("phase") not in ENDED,
        ip=status.get("podIP"),
        deleting="deletionTimestamp" in meta,
        grace=meta.get("deletionGracePeriodSeconds"),
        node=(pod.get("spec") or {}).get("nodeName"),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        started_at=moment(started) if started else None,
        waiting=(waiting.get("reason", ""), waiting.get("message", "")) if waiting else None,
        unschedulable=_unschedulable(status.get("conditions") or ()),
        exit=_exit(ended, meta, int(epoch)) if ended else None,
        specification=Specification.parse(annotations.get(names.ANNOTATION_SPECIFICATION)),
    )


def _phase(of_the_pod: str, state: Obj) -> str:
    """The phase of the driver's container. A sidecar may keep the pod running after the driver has ended or
    before it starts, and may itself fail.
    """
    if "terminated" in state:
        return "Failed" if state["terminated"]["exitCode"] else "Succeeded"
    return "Pending" if of_the_pod == "Running" and "waiting" in state else of_the_pod


def _unschedulable(conditions: Iterable[Obj]) -> Unschedulable | None:
    for condition in conditions:
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return Unschedulable(condition.get("message", ""), moment(condition["lastTransitionTime"]))
    return None


def _exit(ended: Obj, meta: Obj, epoch: int) -> Exit:
    text = ended.get("message") or ""
    report: DriverStatus | None
    try:
        report = codec.loads(DriverStatus, text)
    except FormatError:
        report = None
    uid = (meta.get("labels") or {}).get(names.LABEL_UID)
    if report is not None and (report.job_uid != uid or report.epoch != epoch):
        report = None  # written for another job or epoch: it says nothing about this one
    at = ended.get("finishedAt")
    tail = "" if report else last_words(text)
    return Exit(int(ended["exitCode"]), ended.get("reason", ""), tail, report, moment(at) if at else None)
