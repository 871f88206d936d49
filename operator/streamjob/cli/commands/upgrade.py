"""`upgrade`: another image, with its steps."""

from __future__ import annotations

from functools import partial

import click

from .. import options
from ..access.changes import refuse
from ..access.job import read_job
from ..errors import ExitCode
from ..following import follow
from ..kubectl import JOBS
from ..printing import screen
from ..views.upgrade import look
from .endings import waiting


@options.command(
    examples="""
    kubectl streamjob upgrade orders --image registry.example/orders:2 --wait
    kubectl streamjob upgrade orders --image orders:2 --allow-non-restored-state
    """
)
@options.job_name()
@click.option("--image", metavar="IMAGE", required=True, help="the new image of driver and executors")
@click.option(
    "--allow-non-restored-state",
    is_flag=True,
    help="the new script need not start every query of the checkpoint; state of missing queries is lost",
)
@waiting
@click.pass_obj
def upgrade(
    chosen: options.Options,
    name: str,
    image: str,
    allow_non_restored_state: bool,
    wait: bool,
    timeout: float | None,
) -> int:
    """Run a job with another image.

    The driver stops with a savepoint, and another one starts from it. If that does not come up, the job
    returns to the previous image (exit code 1). With spec.upgrade.mode Handover the other one starts first,
    and the driver that runs is only stopped when that is prepared.
    """
    before = read_job(chosen, name)
    refuse(before, "upgrade")
    if before.image == image:
        screen.note(f"{name} has the image {image} already")
        return ExitCode.DONE
    change: dict[str, object] = {"image": image}
    if allow_non_restored_state:
        change["restoreFrom"] = {"allowNonRestoredState": True}
    after = chosen.kubectl.patch(JOBS, name, {"spec": change})
    if not (wait or timeout is not None):
        if chosen.json:
            screen.document({"name": name, "requested": True, "image": image, "previous": before.image})
        else:
            screen.put([f"{name}: the image changes from {before.image} to {image}"])
            screen.note(
                f"See it with `kubectl streamjob status {name}{chosen.suffix} --watch`, or use --wait"
            )
        return ExitCode.DONE
    stays = (
        f"The upgrade goes on. See `kubectl streamjob status {name}{chosen.suffix}`; "
        f"`kubectl streamjob upgrade {name} --image {before.image}{chosen.suffix}` takes it back"
    )
    return follow(chosen, name, partial(look, after["metadata"]["generation"]), timeout=timeout, stays=stays)
