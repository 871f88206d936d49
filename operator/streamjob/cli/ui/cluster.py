"""Jobs of a cluster, with the user's kubectl: one watch, and what is read for one job only.

Each part is read by a kubectl of its own, all at once. A part that cannot be read says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any

from ...protocol.errors import StreamJobError
from .. import tools
from ..access import cluster
from ..access.changes import change, refuse
from ..access.facts import read_facts
from ..diagnosis.diagnose import diagnose
from ..kubectl import JOBS, Access, Kubectl, Watch
from ..options import Options
from ..printing import times
from ..views import checkpoints, events, job, pods, savepoint
from ..views.timeline import timeline
from . import plain
from .requests import Request, patch
from .sources import Listener
from .specification import differences

Obj = dict[str, Any]
SPECIFICATION = "streamjob.dev/specification"
PERMISSION_SECONDS = 60.0
CHANGES = Access("patch", "streamjobs", "streamjob.dev")
LACKS = "You have no permission to change this job (patch streamjobs)"
LOOK_ONLY = "You may look, not change: your account lacks “patch streamjobs”."
NO_COMMAND = (Request.SAVEPOINT, Request.RESTART)  # of that very name


class ClusterJobs:
    """The jobs of one namespace or of all, kept up to date by one watch."""

    nothing = "There are no StreamJobs here. `kubectl streamjob ui -A` shows all namespaces."

    def __init__(self, kubectl: Kubectl, *, all_namespaces: bool) -> None:
        self._kubectl, self._all_namespaces = kubectl, all_namespaces
        self._watch: Watch | None = None

    def follow(self, listener: Listener) -> None:
        # A watch does not say what was deleted before it began.
        listener.replace(self._kubectl.list(JOBS, all_namespaces=self._all_namespaces))
        with self._kubectl.watch(JOBS, all_namespaces=self._all_namespaces) as self._watch:
            for event in self._watch:
                if event.kind == "DELETED":
                    listener.remove(event.object["metadata"]["uid"])
                else:
                    listener.put(event.object)

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()


class ClusterDetails:
    """Reads details with the user's kubectl, and changes jobs with it."""

    def __init__(self, chosen: Options, clock: Callable[[], float] = time.monotonic) -> None:
        self._chosen, self._clock = chosen, clock
        self._lock = Lock()
        self._may: dict[tuple[str, str], tuple[float, bool]] = {}

    def read(self, found: Obj) -> Obj:
        kubectl, of_job = self._options(found).kubectl, job.job(found)
        parts: dict[str, Callable[[], Any]] = {
            "index": lambda: kubectl.find("configmap", of_job.index),
            "events": lambda: cluster.events(kubectl, of_job),
            "pods": lambda: cluster.pods(kubectl, of_job),
        }
        found_parts = cluster.together(*(partial(_or_problem, read) for read in parts.values()))
        read = dict(zip(parts, found_parts, strict=True))
        return {
            "index": _index(read["index"]),
            "events": _unless_problem(read["events"], lambda them: plain.event_list(events.events(them))),
            "pods": _unless_problem(read["pods"], lambda them: _pods(found, them)),
            "timeline": _timeline(of_job, read),
        }

    def diagnosis(self, found: Obj) -> Obj:
        options = self._options(found)
        facts = read_facts(options, job.job(found))
        command = f"kubectl streamjob diagnose {found['metadata']['name']}{options.suffix}"
        return plain.diagnosis(facts.at, diagnose(facts), command)

    def savepoints(self, found: Obj) -> list[Obj]:
        of_job = job.job(found)
        root = savepoint.folder(of_job)
        return tools.savepoints(self._options(found), of_job, root) if root else []

    def permissions(self, found: Obj) -> Obj:
        """Asked again after a minute."""
        name, options = found["metadata"]["name"], self._options(found)
        allowed = self._may_change(found)
        commands = {
            request: f"kubectl streamjob {request.value} {name}{options.suffix} --wait"
            for request in Request
            if request not in NO_COMMAND
        }
        refused = {} if allowed else dict.fromkeys(Request, LACKS)
        return plain.permissions("" if allowed else LOOK_ONLY, refused, commands)

    def request(self, found: Obj, wanted: Request) -> Obj:
        """
        :raises NotPossible: the job's situation does not allow it.
        :raises KubectlError: the API server does not, or somebody was faster each time.
        """

        def build(newest: Obj) -> Obj:
            refuse(job.job(newest), wanted.value)
            return patch(wanted, newest)

        return change(self._options(found).kubectl, found, build)

    def _options(self, found: Obj) -> Options:
        return replace(self._chosen, namespace=found["metadata"]["namespace"])

    def _may_change(self, found: Obj) -> bool:
        key = (found["metadata"]["namespace"], found["metadata"]["name"])
        with self._lock:
            asked, allowed = self._may.get(key, (None, False))
        if asked is None or self._clock() - asked > PERMISSION_SECONDS:
            (allowed,) = self._options(found).kubectl.may(replace(CHANGES, name=key[1]))
            with self._lock:
                self._may[key] = (self._clock(), allowed)
        return allowed


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
        return config_map or plain.index(None)
    text = (config_map.get("data") or {}).get(checkpoints.KEY)
    return plain.index(text) if text else {"problem": f"The index: {checkpoints.index(config_map).problem}"}


def _timeline(of_job: job.Job, read: Obj) -> list[Obj]:
    """From what could be read."""
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
    return plain.timeline(found)


def _pods(found: Obj, objects: list[Obj]) -> Obj:
    """The job's pods, drivers first; and how the running driver's specification differs from the spec."""
    return {
        "pods": [plain.pod(pod) for pod in pods.pods(objects)],
        "upgrade": _or_problem(lambda: _upgrade(found, objects)),
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
