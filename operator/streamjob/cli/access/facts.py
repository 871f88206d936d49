"""Reads what a diagnosis goes by."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial

from ..diagnosis.facts import Facts, Log
from ..kubectl import Kubectl, Objects
from ..kubectl_errors import KubectlError
from ..options import Options
from ..printing import times
from ..views import controllers as controller_views
from ..views import events as event_views
from ..views import pods as pod_views
from ..views.job import Job
from .cluster import events, pods, unless_refused
from .job import read_index

LINES = 200  # of a log, for a diagnosis


def read_facts(chosen: Options, found: Job) -> Facts:
    """What a diagnosis goes by. What may not be read is missing, and said."""
    if chosen.local:
        return Facts(found, read_index(chosen, found), times.now(), local=True)
    kubectl, unread = chosen.kubectl, list[str]()
    index = read_index(chosen, found)
    if index.problem and "forbidden" in index.problem:
        unread.append(index.problem)
    happened: Objects = unless_refused(lambda: events(kubectl, found), [], unread)
    before = len(unread)
    of_pods = pod_views.pods(unless_refused(lambda: pods(kubectl, found), [], unread))
    pods_known = len(unread) == before
    live = [p for p in pod_views.drivers(of_pods) if p.phase == "Running"]
    failed = [p for p in pod_views.drivers(of_pods) if p.ended and p.code != 0]
    acting = _controllers(kubectl, unread if not found.seen else [])
    return Facts(
        found,
        index,
        times.now(),
        event_views.events(happened),
        of_pods,
        pods_known,
        _log(kubectl, live[-1], unread) if live else (),
        Log(failed[-1].epoch, _log(kubectl, failed[-1], unread), failed[-1].ended) if failed else None,
        tuple(unread),
        f"kubectl streamjob logs {found.name}{chosen.suffix}",
        acting,
    )


def _controllers(kubectl: Kubectl, unread: list[str]) -> tuple[controller_views.Controller, ...] | None:
    """All controllers of the cluster; None if the user may not read that."""
    try:
        deployments = kubectl.list("deployments", selector=controller_views.SELECTOR, all_namespaces=True)
    except KubectlError as e:
        unread.append(e.message.splitlines()[0])
        return None
    leases = {}
    for place in map(controller_views.lease_of, deployments):
        with suppress(KubectlError):
            leases[place] = replace(kubectl, namespace=place[0]).find("lease", place[1])
    return tuple(controller_views.controllers(deployments, leases))


def _log(kubectl: Kubectl, pod: pod_views.Pod, unread: list[str]) -> tuple[str, ...]:
    read = partial(kubectl.logs, pod.name, pod.container, tail=LINES)
    return tuple(unless_refused(partial(list, read()), list[str](), unread))
