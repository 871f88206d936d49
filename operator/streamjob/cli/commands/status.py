"""`status`: what jobs are doing."""

from __future__ import annotations

from typing import Any

import click

from .. import options
from ..kubectl import JOBS
from ..printing import screen, times
from ..views.job import Job, job
from ..views.tree import table


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
    if name or watch or chosen.local:
        from . import status_of_job  # noqa: PLC0415  the list needs none of it, and is called most often

        if watch and not chosen.local:
            return status_of_job.watch(chosen, name, all_namespaces, selector)
        return status_of_job.show(chosen, name or "")
    jobs = [job(o) for o in chosen.kubectl.list(JOBS, selector=selector, all_namespaces=all_namespaces)]
    if chosen.json:
        screen.document([plain(j) for j in jobs])
    elif jobs:
        screen.table(table(jobs, times.now(), all_namespaces=all_namespaces))
    else:
        screen.note("There are no StreamJobs here; -A shows those of all namespaces")
    return None


def plain(found: Job) -> dict[str, Any]:
    """The job as the command writes it in JSON."""
    document: dict[str, Any] = screen.simple(found)
    parts = ("checkpoint", "savepoint", "savepointRequest", "termination", "upgrade", "executors", "lastExit")
    return document | {part: found.part(part) for part in parts if found.part(part)} | {"ready": found.ready}
