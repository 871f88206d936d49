"""Jobs that run without Kubernetes, from their folders."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import tools
from ..access.facts import read_facts
from ..diagnosis.diagnose import diagnose
from ..local import folder as local
from ..local.end import ask, not_possible
from ..options import Options
from ..printing import times
from ..views import checkpoints, job
from ..views.timeline import timeline
from . import plain
from .requests import Request
from .sources import Listener

Obj = dict[str, Any]
LOOK_SECONDS = 0.3  # a folder tells nobody that it has changed
NOTE = "The job runs on this machine, without Kubernetes."


class LocalJobs:
    """The job in a folder, or those in the folders below it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._closed = folder.absolute(), threading.Event()
        self._states: dict[Path, tuple[object, ...]] = {}

    @property
    def nothing(self) -> str:
        return f"No job has run in {self._folder}. Jobs have folders in `.streamjob` where they were started."

    def follow(self, listener: Listener) -> None:
        self._states = self._read_states()
        listener.replace([found for path in self._states if (found := resource(path))])
        while not self._closed.is_set():
            self.look(listener)
            self._closed.wait(LOOK_SECONDS)

    def look(self, listener: Listener) -> None:
        """Tell of what has changed since the last look."""
        states = self._read_states()
        for path in self._states.keys() - states.keys():
            listener.remove(uid(path))
        for path, state in states.items():
            if self._states.get(path) != state and (found := resource(path)):
                listener.put(found)
        self._states = states

    def close(self) -> None:
        self._closed.set()

    def _read_states(self) -> dict[Path, tuple[object, ...]]:
        """Before the jobs: what is written while a job is read is another state at the next look."""
        return {path: local.state(path) for path in local.jobs(self._folder)}


class LocalDetails:
    """Reads the folder; asks the process by signals."""

    def __init__(self, chosen: Options) -> None:
        self._chosen = chosen

    def read(self, found: Obj) -> Obj:
        folder = local.read_folder(_path(found))
        index = checkpoints.parsed(folder.index) if folder.index else checkpoints.Index()
        return {
            "index": plain.index(folder.index),
            "timeline": plain.timeline(timeline(job.job(found), index, (), (), times.now())),
        }

    def diagnosis(self, found: Obj) -> Obj:
        options = self._options(found)
        facts = read_facts(options, job.job(found))
        return plain.diagnosis(facts.at, diagnose(facts), f"streamjob diagnose{options.suffix}")

    def savepoints(self, found: Obj) -> list[Obj]:
        return tools.savepoints(self._options(found), job.job(found), local.savepoints(_path(found)))

    def permissions(self, found: Obj) -> Obj:
        suffix = self._options(found).suffix
        refused, commands = dict[Request, str](), dict[Request, str]()
        for request in Request:
            if why := not_possible(request.value):
                refused[request] = ". ".join(f"{text[0].upper()}{text[1:]}" for text in why)
            else:
                commands[request] = f"streamjob {request.value}{suffix} --wait"
        return plain.permissions(NOTE, refused, commands)

    def request(self, found: Obj, wanted: Request) -> Obj:
        """
        :raises OnlyAtStart: this cannot be asked of a local job.
        :raises NotRunning: there is none.
        """
        path = _path(found)
        ask(local.read_folder(_path(found)), wanted.value)
        return resource(path) or found

    def _options(self, found: Obj) -> Options:
        return replace(self._chosen, local=_path(found))


def resource(path: Path) -> Obj | None:
    """The job in this folder, None if there is none."""
    try:
        folder = local.read(path)
        if folder is None:
            return None
        found = local.resource(folder)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None  # it is being deleted, or another version has written it
    # Of two copies of a folder both have the job's uid.
    found["metadata"]["uid"] = uid(path)
    return found


def uid(path: Path) -> str:
    return str(path)


def _path(found: Obj) -> Path:
    return Path(found["metadata"]["namespace"], found["metadata"]["name"])
