"""What is, read afresh: the StreamJob, its driver pods, its index, and the last that the driver said.

Three API calls, side by side. Nothing here is from a watch: a watch may be late, and what follows may destroy.

A list is slow where much is written: since Kubernetes 1.31 the API server answers it from its cache, and waits until etcd has
said that the cache is up to date, every 0.1 s. An object that is asked for by name comes from etcd, within milliseconds. So a
wish of the user's that has to reach the driver, and nothing else, is found with a `glance`: the one pod by its name (ADR 18).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from ..api import Phase, Specification, StreamJob
from ..api.types import moment
from ..protocol import codec
from ..protocol import index as indices
from ..protocol.errors import FormatError
from ..protocol.index import Index
from ..protocol.messages import DriverPhase, DriverStatus, Problem
from . import names
from .drivers import Drivers
from .kube import Kube
from .lastwords import last_words

Obj = dict[str, Any]
ENDED = ("Succeeded", "Failed")  # phases of a pod
# In all others the status has the driver's word, and a driver that runs is about to answer.
UNHEARD = (None, Phase.PENDING, Phase.STARTING, Phase.RESTARTING)


@dataclass(frozen=True)
class Exit:
    """How the driver's container ended. `report`: its final status, None if it left none that can be read: then `tail` is the
    end of its log."""

    code: int
    reason: str
    tail: str
    report: DriverStatus | None
    at: datetime | None

    @property
    def script_code(self) -> int:
        """The exit code of the script; of the container, where the driver could not say it."""
        said = self.report.exit_code if self.report is not None else None
        return self.code if said is None else said

    @property
    def failed(self) -> bool:
        """The driver itself says so: its script has failed, or left a dead query behind. A script that leaves with 0 may have."""
        report = self.report
        return report is not None and (
            report.phase is DriverPhase.FAILED or report.exit_code not in (None, 0)
        )


@dataclass(frozen=True)
class Unschedulable:
    """No node takes the pod."""

    message: str
    since: datetime


@dataclass(frozen=True)
class Pod:
    """A driver pod, as far as its driver goes: containers beside the driver's neither keep it alive nor end it.

    :param phase: of the driver's container, in the words of a pod's phase.
    :param beside: the driver's container has ended, and others of the pod still run.
    :param waiting: reason and message why the driver's container does not start.
    :param specification: what it was made from, None if it does not say.
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
        """It runs no more and never will again (restartPolicy: Never)."""
        return self.phase in ENDED

    @property
    def started(self) -> bool:
        """Its container has run, so it may have changed something."""
        return self.started_at is not None or self.exit is not None or self.phase == "Running"


@dataclass(frozen=True)
class Observed:
    """One job at one moment.

    :param index: None if its ConfigMap is not there, or cannot be read: then `index_problem` says why.
    :param driver: the last status of the driver of the newest epoch, None if it has not answered yet.
    :param silent: seconds for which that driver has not answered; 0 when it does.
    :param acknowledged: commands that the driver has taken, so that they are not sent again and again.
    :param index_term: term of the controller that wrote the index last.
    :param restored_from: the savepoints that the namespace's StreamJobs name in restoreFrom; None: not looked up.
    :param namespace_ends: the namespace is being deleted: nothing can be made in it any more.
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
        """The newest that anything shows, so that a status that got lost does not turn it back."""
        pods = [p.epoch for p in self.pods]
        known = [self.index.latest.epoch] if self.index and self.index.latest else []
        return max([self.job.status.epoch, *pods, *known])

    @property
    def pod(self) -> Pod | None:
        """The driver pod of the newest epoch."""
        return next((p for p in self.pods if p.epoch == self.epoch), None)

    @property
    def word(self) -> DriverStatus | None:
        """The last word of the newest epoch's driver: its final report, else its last answer."""
        pod = self.pod
        if pod is not None and pod.exit is not None and pod.exit.report is not None:
            return pod.exit.report
        return self.driver


async def observe(
    kube: Kube, drivers: Drivers, namespace: str, name: str, uid: str | None
) -> Observed | None:
    """Read everything about a job; None if it is gone. `uid` is what it was last time: pods are asked for by it."""
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
            # Deleted and made again under the same name: what was read belongs to another job.
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
    """The job as far as its driver's pod of this name tells, without a list. Others that should not be there are not seen: enough
    to tell the driver something, and for nothing else. None: look properly."""
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
    """The index, its resourceVersion, and why it cannot be used."""
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
    """It changes seldom, and is looked at several times after each change. :raises FormatError:"""
    return indices.loads(text, where)


def _term(config_map: Obj | None) -> int:
    annotations = config_map["metadata"].get("annotations") if config_map else None
    text = (annotations or {}).get(names.ANNOTATION_TERM, "")
    return int(text) if text.isdigit() else 0


def parse_pod(pod: Obj) -> Pod | None:
    """A driver pod as far as we look at it; None if its labels are not ours."""
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
    """That of the driver's container. A sidecar may keep the pod running when the driver has ended, or before it has begun, and
    may fail by itself."""
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
        report = None  # of another life: whatever wrote it, it says nothing about this one
    at = ended.get("finishedAt")
    tail = "" if report else last_words(text)
    return Exit(int(ended["exitCode"]), ended.get("reason", ""), tail, report, moment(at) if at else None)
