"""`status` of one job, and `status --watch`."""

from __future__ import annotations

from .. import options
from ..access.job import read_index, read_job
from ..kubectl import JOBS, Event
from ..printing import screen, times
from ..printing.live import Live
from ..printing.text import Node, Table
from ..views.checkpoints import index
from ..views.job import Job, job
from ..views.tree import table, tree
from .status import plain

TICK = 1.0  # seconds; ages on the screen grow


def show(chosen: options.Options, name: str) -> None:
    """Print the job as a tree."""
    found = read_job(chosen, name)
    ours = read_index(chosen, found)
    if chosen.json:
        screen.document(plain(found))
    else:
        screen.tree(tree(found, ours, times.now()))


def watch(chosen: options.Options, name: str | None, all_namespaces: bool, selector: str) -> None:
    """Show changes until Ctrl-C.

    :param name: of the only job, None for those that the selector chooses.
    """
    found: dict[tuple[str, str], Job] = {}
    if name:
        read_job(chosen, name)  # says at once if there is none
    with Live(chosen.json) as live:
        while True:
            watching = chosen.kubectl.watch(
                JOBS, name or "", selector=selector, all_namespaces=all_namespaces
            )
            with watching:
                try:
                    while True:
                        event = watching.next(TICK)
                        if event is not None:
                            _take(found, event)
                            if chosen.json:
                                live.document({"event": event.kind, **plain(job(event.object))})
                        if not chosen.json and (found or not name):
                            live.show(_picture(list(found.values()), name, all_namespaces))
                except EOFError:
                    found.clear()


def _take(found: dict[tuple[str, str], Job], event: Event) -> None:
    view = job(event.object)
    if event.kind == "DELETED":
        found.pop((view.namespace, view.name), None)
    else:
        found[view.namespace, view.name] = view


def _picture(jobs: list[Job], name: str | None, all_namespaces: bool) -> Node | Table:
    now = times.now()
    if name and jobs:
        return tree(jobs[0], index(None), now)
    return table(sorted(jobs, key=lambda j: (j.namespace, j.name)), now, all_namespaces=all_namespaces)
