"""What is read for one job only, when somebody looks at it: index, Events, pods, and what the user may do.

Each part is read by a kubectl of its own, all at once. A part that cannot be read says why.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from threading import Lock
from typing import Any

from ...protocol.errors import StreamJobError
from .. import access, tools
from ..kubectl import JOBS, Access, Kubectl
from ..options import Options
from ..views import checkpoints, events, job, pods, savepoint, times
from ..views.timeline import Entry, timeline
from .specification import differences

Obj = dict[str, Any]
SPECIFICATION = "streamjob.dev/specification"
PERMISSION_SECONDS = 60.0
EVENTS = 200  # the newest
CHANGES = Access("patch", "streamjobs", "streamjob.dev")


class Details:
    """Reads details with the user's kubectl, and changes jobs with it."""

    def __init__(self, chosen: Options, clock: Callable[[], float] = time.monotonic) -> None:
        self._chosen, self._clock = chosen, clock
        self._lock = Lock()
        self._may: dict[tuple[str, str], tuple[float, bool]] = {}

    def patch(self, found: Obj, change: Obj) -> Obj:
        """Change a job.

        :returns: the job as the API server has it then.
        :raises KubectlError: it is not allowed, not valid, or somebody was faster.
        """
        return self._of(found).patch(JOBS, found["metadata"]["name"], change)

    def read(self, found: Obj) -> Obj:
        """The details of a job. A part that cannot be read is `{"problem": …}` instead."""
        kubectl, of_job = self._of(found), job.job(found)
        parts: dict[str, Callable[[], Any]] = {
            "index": lambda: kubectl.find("configmap", of_job.index),
            "events": lambda: access.events(kubectl, of_job),
            "pods": lambda: access.pods(kubectl, of_job),
        }
        found_parts = access.together(*(partial(_or_problem, read) for read in parts.values()))
        read = dict(zip(parts, found_parts, strict=True))
        return {
            "index": _index(read["index"]),
            "events": _unless_problem(read["events"], _events),
            "pods": _unless_problem(read["pods"], lambda pods: _pods(found, pods)),
            "timeline": _timeline(of_job, read),
        }

    def savepoints(self, found: Obj) -> list[Obj]:
        """The savepoints that the storage has, with their sizes and what they do not share.

        :raises CommandError: they cannot be read.
        """
        of_job = job.job(found)
        root = savepoint.folder(of_job)
        if root is None:
            return []
        listed: list[Obj] = json.loads(
            tools.output(self._options(found), of_job, ["savepoint", "list", root])
        )
        return [{key: s.get(key) for key in ("uri", "problem", "size", "own")} for s in listed]

    def _options(self, found: Obj) -> Options:
        return replace(self._chosen, namespace=found["metadata"]["namespace"])

    def _of(self, found: Obj) -> Kubectl:
        return self._options(found).kubectl

    def permissions(self, found: Obj) -> Obj:
        """Whether the user may change this job. Asked again after a minute.

        :raises KubectlError: nobody can say.
        """
        key = (found["metadata"]["namespace"], found["metadata"]["name"])
        with self._lock:
            asked, allowed = self._may.get(key, (None, False))
        if asked is None or self._clock() - asked > PERMISSION_SECONDS:
            (allowed,) = self._of(found).may(replace(CHANGES, name=key[1]))
            with self._lock:
                self._may[key] = (self._clock(), allowed)
        return {"change": allowed}


def _or_problem(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except StreamJobError as e:
        return {"problem": str(e)}


def _unless_problem(read: Any, then: Callable[[Any], Any]) -> Any:
    return read if isinstance(read, dict) and "problem" in read else _or_problem(lambda: then(read))


def _index(config_map: Obj | None) -> Obj:
    """The index as the controller has written it; empty before the first checkpoint."""
    if config_map is None or "problem" in config_map:
        return config_map or {"checkpoints": [], "deleted": []}
    found = checkpoints.index(config_map)
    if found.problem:
        return {"problem": f"The index: {found.problem}"}
    plain: Obj = json.loads(config_map["data"][checkpoints.KEY])
    return {"checkpoints": plain["checkpoints"], "deleted": plain.get("deleted", [])}


def _events(found: list[Obj]) -> list[Obj]:
    """The newest Events of the job and its pods, newest first."""
    return [
        {
            "type": "Warning" if event.warning else "Normal",
            "reason": event.reason,
            "message": event.message,
            "about": event.name if event.kind == "Pod" else "",
            "time": _text(event.time),
            "count": event.count,
        }
        for event in reversed(events.events(found)[-EVENTS:])
    ]


def _timeline(of_job: job.Job, read: Obj) -> list[Obj]:
    """What is known of the job's life, from what could be read."""
    known = {name: part if isinstance(part, list) else [] for name, part in read.items()}
    config_map = read["index"]
    unreadable = isinstance(config_map, dict) and "problem" in config_map
    found = timeline(
        of_job,
        checkpoints.index(None if unreadable else config_map),
        events.events(known["events"]),
        pods.pods(known["pods"]),
        times.now(),
    )
    return [_entry(entry) for entry in found]


def _entry(entry: Entry) -> Obj:
    return {
        "kind": entry.kind,
        "title": entry.title,
        "text": entry.detail,
        "outcome": entry.outcome,
        "from": _text(entry.begin),
        "until": _text(entry.end),
        "epoch": entry.epoch,
    }


def _text(time: datetime | None) -> str | None:
    return time.isoformat() if time else None


def _pods(found: Obj, objects: list[Obj]) -> Obj:
    """The job's pods, drivers first; and how the running driver's specification differs from the spec."""
    return {
        "pods": [_pod(pod) for pod in pods.pods(objects)],
        "upgrade": _or_problem(lambda: _upgrade(found, objects)),
    }


def _pod(pod: pods.Pod) -> Obj:
    waits = pod.waiting[0] if pod.waiting else "Unschedulable" if pod.unschedulable else ""
    return {
        "name": pod.name,
        "component": pod.role,
        "epoch": pod.epoch,
        "phase": "Terminating" if pod.deleting else pod.phase,
        "reason": waits or pod.killed or pod.reason,
        "node": pod.node or "",
        "startedAt": _text(pod.began),
        "endedAt": _text(pod.ended),
        "code": pod.code,
    }


def _upgrade(found: Obj, objects: list[Obj]) -> list[Obj] | None:
    """Fields in which the newest running driver differs from the spec. None: no driver runs."""
    runs = [
        pod
        for pod in objects
        if _labels(pod).get(pods.COMPONENT) == "driver"
        and (pod.get("status") or {}).get("phase") in ("Pending", "Running")
        and SPECIFICATION in (pod["metadata"].get("annotations") or {})
    ]
    if not runs:
        return None
    newest = max(runs, key=lambda pod: int(_labels(pod).get(pods.EPOCH) or 0))
    differs = differences(newest["metadata"]["annotations"][SPECIFICATION], found["spec"])
    return [{"field": d.field, "runs": d.runs, "wanted": d.wanted} for d in differs]


def _labels(pod: Obj) -> Obj:
    labels: Obj = pod["metadata"].get("labels") or {}
    return labels
