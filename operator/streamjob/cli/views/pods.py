"""Pods of a job's drivers and executors, as far as a person wants to know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..printing.times import moment

# Labels of the operator's pods.
COMPONENT, EPOCH, UID = "streamjob.dev/component", "streamjob.dev/epoch", "streamjob.dev/uid"
CONTAINERS = ("driver", "spark-kubernetes-executor", "executor")


@dataclass(frozen=True)
class Pod:
    """A pod.

    :param waiting: reason and message of what keeps its container from running.
    :param unschedulable: why no node takes it.
    :param began, ended: of Spark's container.
    :param killed: reason of the last end of the container, such as OOMKilled, also if it runs again.
    """

    name: str
    role: str
    epoch: int | None
    phase: str
    node: str | None
    created: datetime | None
    deleting: datetime | None
    waiting: tuple[str, str] | None
    unschedulable: str | None
    began: datetime | None
    ended: datetime | None
    code: int | None
    killed: str | None
    reason: str
    container: str

    @property
    def started(self) -> bool:
        """Whether its container has run, or runs: there is a log."""
        return self.began is not None or self.ended is not None


def pods(objects: Iterable[dict[str, Any]]) -> tuple[Pod, ...]:
    """Drivers first, by epoch, then executors by name."""
    found = [_pod(o) for o in objects]
    return tuple(sorted(found, key=lambda p: (p.role != "driver", p.epoch or 0, p.name)))


def drivers(found: Iterable[Pod]) -> tuple[Pod, ...]:
    return tuple(p for p in found if p.role == "driver")


def executors(found: Iterable[Pod]) -> tuple[Pod, ...]:
    return tuple(p for p in found if p.role == "executor")


def _pod(obj: dict[str, Any]) -> Pod:
    meta, status = obj.get("metadata") or {}, obj.get("status") or {}
    labels = meta.get("labels") or {}
    statuses = list(container_statuses(obj))
    main = next((s for name in CONTAINERS for s in statuses if s.get("name") == name), {})
    state, last = main.get("state") or {}, main.get("lastState") or {}
    ended = state.get("terminated") or {}
    epoch = labels.get(EPOCH)
    return Pod(
        name=meta.get("name", ""),
        role=labels.get(COMPONENT) or labels.get("spark-role") or "",
        epoch=int(epoch) if epoch and epoch.isdigit() else None,
        phase=status.get("phase") or "Pending",
        node=(obj.get("spec") or {}).get("nodeName"),
        created=moment(meta.get("creationTimestamp")),
        deleting=moment(meta.get("deletionTimestamp")),
        waiting=next(reasons_to_wait(statuses), None),
        unschedulable=next(_unschedulable(status), None),
        began=moment((state.get("running") or ended).get("startedAt")),
        ended=moment(ended.get("finishedAt")),
        code=ended.get("exitCode"),
        killed=ended.get("reason") or (last.get("terminated") or {}).get("reason"),
        reason=status.get("reason") or "",
        container=main.get("name") or "driver",
    )


def container_statuses(obj: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Of its init containers, then of the others."""
    status = obj.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def reasons_to_wait(statuses: Iterable[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Reason and message of what keeps containers from running."""
    for status in statuses:
        found = (status.get("state") or {}).get("waiting")
        if found and found.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            yield found["reason"], found.get("message") or ""


def of_claims(message: str) -> bool:
    """Whether the scheduler takes no node because a claim is missing or has no volume."""
    return "persistentvolumeclaim" in message.lower()


def _unschedulable(status: dict[str, Any]) -> Iterator[str]:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield condition.get("message") or condition.get("reason") or "no node takes it"
