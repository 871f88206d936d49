"""What is read for one job only, when somebody looks at it: its index, Events, pods, and what the user may do.

Each part is read by a kubectl of its own, all at once. A part that cannot be read says why; the others are shown.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock
from typing import Any

from ...protocol.errors import StreamJobError
from ..kubectl import JOBS, Access, Kubectl
from .specification import Difference, differences

Obj = dict[str, Any]
INDEX_KEY = "index.json"
SPECIFICATION = "streamjob.dev/specification"
COMPONENT, EPOCH = "streamjob.dev/component", "streamjob.dev/epoch"
PERMISSION_SECONDS = 60.0
EVENTS = 200  # the newest
CHANGES = Access("patch", "streamjobs", "streamjob.dev")


class Details:
    """Reads details with the user's kubectl, and changes jobs with it."""

    def __init__(self, kubectl: Kubectl, clock: Callable[[], float] = time.monotonic) -> None:
        self._kubectl, self._clock = kubectl, clock
        self._lock = Lock()
        self._may: dict[tuple[str, str], tuple[float, bool]] = {}

    def patch(self, job: Obj, change: Obj) -> Obj:
        """Change a job.

        :returns: the job as the API server has it then.
        :raises KubectlError: it is not allowed, not valid, or somebody was faster.
        """
        return self._of(job).patch(JOBS, job["metadata"]["name"], change)

    def read(self, job: Obj) -> Obj:
        """The details of a job. A part that cannot be read is `{"problem": …}` instead."""
        kubectl = self._of(job)
        parts: dict[str, Callable[[], Any]] = {
            "index": lambda: _index(kubectl, job),
            "events": lambda: _events(kubectl, job),
            "pods": lambda: _pods(kubectl, job),
            "may": lambda: self._permissions(kubectl, job),
        }
        with ThreadPoolExecutor(len(parts)) as pool:
            asked = {name: pool.submit(read) for name, read in parts.items()}
            return {name: _or_problem(future.result) for name, future in asked.items()}

    def _of(self, job: Obj) -> Kubectl:
        return replace(self._kubectl, namespace=job["metadata"]["namespace"])

    def _permissions(self, kubectl: Kubectl, job: Obj) -> Obj:
        """Whether the user may change this job."""
        key = (job["metadata"]["namespace"], job["metadata"]["name"])
        with self._lock:
            asked, allowed = self._may.get(key, (None, False))
        if asked is None or self._clock() - asked > PERMISSION_SECONDS:
            (allowed,) = kubectl.may(replace(CHANGES, name=key[1]))
            with self._lock:
                self._may[key] = (self._clock(), allowed)
        return {"change": allowed}


def _or_problem(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except StreamJobError as e:
        return {"problem": str(e)}


def _index(kubectl: Kubectl, job: Obj) -> Obj:
    """The index as the controller has written it; empty before the first checkpoint."""
    found = kubectl.find("configmap", f"{job['metadata']['name']}-checkpoints")
    text = ((found or {}).get("data") or {}).get(INDEX_KEY)
    try:
        plain: Obj = json.loads(text) if text else {}
        return {"checkpoints": plain.get("checkpoints", []), "deleted": plain.get("deleted", [])}
    except (ValueError, AttributeError):
        return {"problem": f"{INDEX_KEY} is not JSON"}


def _events(kubectl: Kubectl, job: Obj) -> list[Obj]:
    """The newest Events of the job, newest first."""
    found = kubectl.list("events", fields=f"involvedObject.uid={job['metadata']['uid']}")
    short = [
        {
            "type": event.get("type", "Normal"),
            "reason": event.get("reason", ""),
            "message": event.get("message", ""),
            "time": _time(event),
            "count": (event.get("series") or {}).get("count") or event.get("count") or 1,
        }
        for event in found
    ]
    return sorted(short, key=lambda e: str(e["time"]), reverse=True)[:EVENTS]


def _time(event: Obj) -> str | None:
    """When it last happened."""
    return (
        (event.get("series") or {}).get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
    )


def _pods(kubectl: Kubectl, job: Obj) -> Obj:
    """The job's pods, drivers first; and how the running driver's specification differs from the spec."""
    found = kubectl.list("pods", selector=f"streamjob.dev/uid={job['metadata']['uid']}")
    found.sort(key=lambda p: (_labels(p).get(COMPONENT) != "driver", p["metadata"]["name"]))
    return {"pods": [_pod(pod) for pod in found], "upgrade": _upgrade(job, found)}


def _pod(pod: Obj) -> Obj:
    status, labels = pod.get("status") or {}, _labels(pod)
    containers = status.get("containerStatuses") or []
    waiting = [(c.get("state") or {}).get("waiting") or {} for c in containers]
    return {
        "name": pod["metadata"]["name"],
        "component": labels.get(COMPONENT) or labels.get("spark-role") or "",
        "epoch": labels.get(EPOCH),
        "phase": "Terminating"
        if pod["metadata"].get("deletionTimestamp")
        else status.get("phase", "Unknown"),
        "reason": next((w["reason"] for w in waiting if w.get("reason")), status.get("reason") or ""),
        "node": (pod.get("spec") or {}).get("nodeName") or "",
        "startedAt": status.get("startTime"),
        "restarts": sum(c.get("restartCount", 0) for c in containers),
    }


def _upgrade(job: Obj, pods: list[Obj]) -> list[Obj] | None:
    """Fields in which the newest running driver differs from the spec. None: no driver runs."""
    runs = [
        pod
        for pod in pods
        if _labels(pod).get(COMPONENT) == "driver"
        and (pod.get("status") or {}).get("phase") in ("Pending", "Running")
        and SPECIFICATION in (pod["metadata"].get("annotations") or {})
    ]
    if not runs:
        return None
    newest = max(runs, key=lambda pod: int(_labels(pod).get(EPOCH) or 0))
    found: list[Difference] = differences(newest["metadata"]["annotations"][SPECIFICATION], job["spec"])
    return [{"field": d.field, "runs": d.runs, "wanted": d.wanted} for d in found]


def _labels(pod: Obj) -> Obj:
    labels: Obj = pod["metadata"].get("labels") or {}
    return labels
