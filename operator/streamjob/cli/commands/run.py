"""`run`: begins a round of a job with a schedule."""

from __future__ import annotations

import click

from .. import options
from ..access.changes import refuse
from ..access.job import read_job
from ..errors import ExitCode
from ..kubectl import JOBS
from ..printing import screen
from ..views.job import once_more


@options.command(
    examples="""
    kubectl streamjob run nightly
    kubectl streamjob status nightly --watch
    """
)
@options.job_name()
@click.pass_obj
def run(chosen: options.Options, name: str) -> int:
    """Begin a round of a job with a schedule now.

    If a round runs, another one begins when it has ended. The schedule goes on as before.
    """
    return begin(chosen, name)


def begin(chosen: options.Options, name: str) -> int:
    before = read_job(chosen, name)
    refuse(before, "run")
    chosen.kubectl.patch(JOBS, name, {"spec": {"schedule": once_more(before.spec, "schedule")}})
    if chosen.json:
        screen.document({"name": before.name, "requested": True})
        return ExitCode.DONE
    after = ", when the present one has ended" if before.part("rounds").get("began") else ""
    screen.put([f"{before.name}: a round is requested{after}"])
    screen.note(f"See it with `kubectl streamjob status {before.name}{chosen.suffix} --watch`")
    return ExitCode.DONE
