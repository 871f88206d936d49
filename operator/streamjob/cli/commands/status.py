"""`status`: what jobs are doing."""

from __future__ import annotations

from typing import Any

import click

from .. import options
from ..access import read_index, read_job
from ..kubectl import JOBS, Event
from ..printing import screen
from ..printing.live import Live
from ..printing.text import Node, Table
from ..views import times
from ..views.checkpoints import index
from ..views.job import Job, job
from ..views.tree import table, tree

TICK = 1.0  # seconds; ages on the screen grow


@options.command(
    examples="""\
    kubectl streamjob status
    kubectl streamjob status -A
    kubectl streamjob status orders --watch
    kubectl streamjob status orders --json | jq .stages[].sources
    """,
    json=True,
    local=True,
)
@options.job_name(required=False)
@click.option("-A", "--all-namespaces", is_flag=True, help="jobs of all namespaces")
@click.option("-l", "--selector", metavar="LABELS", default="", help="jobs with these labels")
@click.option("-w", "--watch", is_flag=True, help="show changes until Ctrl-C")
@click.pass_obj
def status(
    chosen: options.Options, name: str | None, all_namespaces: bool, selector: str, watch: bool
) -> None:
    """Show what jobs are doing.

    With a name: the job as a tree, with its epochs, stages, tasks, operators, lag, state and watermark.
    Without: a line for each job.
    """
    if watch and not chosen.local:
        return _watch(chosen, name, all_namespaces, selector)
    if name or chosen.local:
        found = read_job(chosen, name or "")
        ours = read_index(chosen, found)
        if chosen.json:
            screen.document(_plain(found))
        else:
            screen.tree(tree(found, ours, times.now()))
        return None
    jobs = [job(o) for o in chosen.kubectl.list(JOBS, selector=selector, all_namespaces=all_namespaces)]
    if chosen.json:
        screen.document([_plain(j) for j in jobs])
    elif jobs:
        screen.table(table(jobs, times.now(), all_namespaces=all_namespaces))
    else:
        screen.note("There are no StreamJobs here; -A shows those of all namespaces")
    return None


def _watch(chosen: options.Options, name: str | None, all_namespaces: bool, selector: str) -> None:
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
                                live.document({"event": event.kind, **_plain(job(event.object))})
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


def _plain(found: Job) -> dict[str, Any]:
    document: dict[str, Any] = screen.simple(found)
    parts = ("checkpoint", "savepoint", "savepointRequest", "termination", "upgrade", "executors", "lastExit")
    return document | {part: found.part(part) for part in parts if found.part(part)} | {"ready": found.ready}
