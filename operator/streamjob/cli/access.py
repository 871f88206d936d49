"""Reads a job and what belongs to it, from the cluster or from a folder."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from .diagnosis.facts import Facts
from .errors import CommandError
from .kubectl import JOBS, Kubectl, Objects
from .kubectl_errors import Forbidden, KubectlError
from .local import folder as local
from .options import Options
from .views import events as event_views
from .views import pods as pod_views
from .views import times
from .views.checkpoints import Index, index, parsed
from .views.job import Job, job
from .views.pods import COMPONENT, UID

T = TypeVar("T")

DRIVERS = f"{COMPONENT}=driver"
LINES = 200  # of a log, for a diagnosis


class NoSuchFolder(CommandError):
    """The folder holds no job."""

    reason = "NoJobHere"


def read_job(chosen: Options, name: str) -> Job:
    """The job.

    :raises NotFound: it does not exist.
    """
    if chosen.local:
        return job(local.resource(read_folder(chosen)))
    return job(chosen.kubectl.get(JOBS, name))


def read_index(chosen: Options, found: Job) -> Index:
    """The index of the job. One that may not be read has a `problem`."""
    if chosen.local:
        text = read_folder(chosen).index
        return parsed(text) if text else index(None)
    try:
        return index(chosen.kubectl.find("configmap", found.index))
    except Forbidden as e:
        return Index(problem=e.message)


def read_folder(chosen: Options) -> local.Folder:
    """The folder of a local job.

    :raises NoSuchFolder: it holds none.
    """
    assert chosen.local is not None
    found = local.read(chosen.local)
    if found is None:
        raise NoSuchFolder(
            f"{chosen.local} holds no job",
            remedy="Name the folder that `python -m streamjob.runtime --local` prints when it starts, by "
            "default .streamjob/SCRIPT",
        )
    return found


def read_facts(chosen: Options, found: Job) -> Facts:
    """What a diagnosis goes by. What may not be read is missing, and said."""
    if chosen.local:
        return Facts(found, read_index(chosen, found), times.now())
    kubectl, unread = chosen.kubectl, list[str]()
    index = read_index(chosen, found)
    if index.problem and "forbidden" in index.problem:
        unread.append(index.problem)
    happened: Objects = unless_refused(lambda: events(kubectl, found), [], unread)
    before = len(unread)
    of_pods = pod_views.pods(unless_refused(lambda: pods(kubectl, found), [], unread))
    pods_known = len(unread) == before
    live = [p for p in pod_views.drivers(of_pods) if p.phase == "Running"]
    ended = [p for p in pod_views.drivers(of_pods) if p.ended]
    return Facts(
        found,
        index,
        times.now(),
        event_views.events(happened),
        of_pods,
        pods_known,
        _log(kubectl, live[-1:], unread),
        _log(kubectl, ended[-1:], unread),
        tuple(unread),
    )


def _log(kubectl: Kubectl, of: Iterable[pod_views.Pod], unread: list[str]) -> tuple[str, ...]:
    for pod in of:
        read = partial(kubectl.logs, pod.name, pod.container, tail=LINES)
        return tuple(unless_refused(partial(list, read()), list[str](), unread))
    return ()


def pods(kubectl: Kubectl, found: Job) -> Objects:
    """The pods of the job's drivers and executors."""
    return kubectl.list("pods", selector=f"{UID}={found.uid}")


def events(kubectl: Kubectl, found: Job) -> Objects:
    """The Events of the job and of its pods, oldest first."""
    ours, of_pods = together(
        lambda: kubectl.list("events", fields=f"involvedObject.uid={found.uid}"),
        lambda: kubectl.list("events", fields="involvedObject.kind=Pod"),
    )
    names = (f"{found.name}-driver-", f"{found.name}-{found.uid[:8]}-")
    mine = [e for e in of_pods if (e.get("involvedObject") or {}).get("name", "").startswith(names)]
    return sorted([*ours, *mine], key=event_time)


def event_time(event: dict[str, Any]) -> str:
    """When an Event last happened (RFC 3339)."""
    series = event.get("series") or {}
    found = (
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or (event.get("metadata") or {}).get("creationTimestamp")
    )
    return found or ""


def together(*calls: Callable[[], T]) -> list[T]:
    """What each call returns. They run at the same time: each is a kubectl of its own.

    :raises KubectlError: the first that has failed.
    """
    found: dict[int, T] = {}
    failed: list[BaseException] = []

    def run(number: int, call: Callable[[], T]) -> None:
        try:
            found[number] = call()
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=run, args=item) for item in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return [found[number] for number in range(len(calls))]


def unless_refused(call: Callable[[], T], otherwise: T, notes: list[str]) -> T:
    """What the call returns. If kubectl fails, `otherwise`, and a note says what is missing."""
    try:
        return call()
    except KubectlError as e:
        notes.append(e.message.splitlines()[0])
        return otherwise
