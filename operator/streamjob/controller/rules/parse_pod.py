"""Parses a driver pod, as the API server returns it, to the parts that are used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TypeVar

from ...api import Specification
from ...protocol.errors import FormatError
from ...protocol.formats import codec
from ...protocol.messages import final_report
from ...protocol.messages.driver_status import Problem
from ...protocol.times import moment
from ..objects import Obj, names
from ..reports.log_redaction import end_of_log
from .observed import DriverExit, Pod, Unschedulable

T = TypeVar("T")


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
        beside=ended is not None and _others_run(status),
        ip=status.get("podIP"),
        deleting="deletionTimestamp" in meta,
        grace=meta.get("deletionGracePeriodSeconds"),
        node=(pod.get("spec") or {}).get("nodeName"),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        started_at=moment(started) if started else None,
        waiting=(waiting.get("reason", ""), waiting.get("message", "")) if waiting else None,
        unschedulable=_unschedulable(status.get("conditions") or ()),
        unmounted_since=_unmounted(status.get("conditions") or ()),
        exit=_exit(ended, meta, int(epoch)) if ended else None,
        specification=Specification.parse(annotations.get(names.ANNOTATION_SPECIFICATION)),
        prepared=names.LABEL_PREPARED in (meta.get("labels") or {}),
    )


def _phase(of_the_pod: str, state: Obj) -> str:
    """The phase of the driver's container. A sidecar may keep the pod running after the driver has ended or
    before it starts, and may itself fail.
    """
    if "terminated" in state:
        return "Failed" if state["terminated"]["exitCode"] else "Succeeded"
    return "Pending" if of_the_pod == "Running" and "waiting" in state else of_the_pod


def _others_run(status: Obj) -> bool:
    """Whether any container but the driver's has not ended.

    The phase does not say so: the kubelet reports a pod as Running for a moment after its last container has
    ended, and PodGC marks the pods of a node that is gone as Failed.
    """
    kinds = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    containers = [c for kind in kinds for c in status.get(kind) or ()]
    return any("terminated" not in (c.get("state") or {}) for c in containers if c["name"] != names.CONTAINER)


def _unschedulable(conditions: Iterable[Obj]) -> Unschedulable | None:
    for condition in conditions:
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return Unschedulable(condition.get("message", ""), moment(condition["lastTransitionTime"]))
    return None


def _unmounted(conditions: Iterable[Obj]) -> datetime | None:
    """The kubelet sets this condition to True when the pod has its volumes, its sandbox and its network."""
    for condition in conditions:
        if condition["type"] == "PodReadyToStartContainers" and condition["status"] == "False":
            return moment(condition["lastTransitionTime"])
    return None


def _exit(ended: Obj, meta: Obj, epoch: int) -> DriverExit:
    text = ended.get("message") or ""
    report, refusal = _parsed(final_report.read, text), _parsed(_problem, text)
    uid = (meta.get("labels") or {}).get(names.LABEL_UID)
    if report is not None and (report.job_uid != uid or report.epoch != epoch):
        report = None  # written for another job or epoch: it says nothing about this one
    at = ended.get("finishedAt")
    tail = "" if report or refusal else end_of_log(text)
    when = moment(at) if at else None
    return DriverExit(int(ended["exitCode"]), ended.get("reason", ""), tail, report, when, refusal)


def _problem(text: str) -> Problem:
    return codec.loads(Problem, text)


def _parsed(parse: Callable[[str], T], text: str) -> T | None:
    try:
        return parse(text)
    except FormatError:
        return None
