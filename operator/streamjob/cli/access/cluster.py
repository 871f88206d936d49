"""Reads what the cluster has of a job beside its resource: pods and Events."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ..kubectl import Kubectl, Objects
from ..kubectl_errors import KubectlError
from ..views.job import Job
from ..views.pods import UID

T = TypeVar("T")


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
