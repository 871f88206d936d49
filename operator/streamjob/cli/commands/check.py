"""`check`: will another version of a job continue from its state?"""

from __future__ import annotations

import json
from typing import Any

import click

from .. import options
from ..access.job import read_index, read_job
from ..errors import CommandError, ExitCode
from ..printing import screen
from ..views.check_pod import changed, not_checked
from ..views.savepoint import location


class NothingToCheck(CommandError):
    reason = "NothingToCheck"
    exit_code = ExitCode.USAGE


@options.command(
    examples="""
    kubectl streamjob check orders --image registry.example/orders:2
    kubectl streamjob check -f orders.yaml
    kubectl streamjob check orders --image orders:2 --savepoint stop-3-7 --json
    """
)
@options.job_name(required=False)
@click.option("--image", metavar="IMAGE", help="the new image")
@click.option("-f", "--filename", "file", metavar="FILE", help="the new StreamJob; nothing of it is applied")
@click.option("--savepoint", metavar="NAME", help="as a new job that restores this savepoint")
@click.option(
    "--allow-non-restored-state", is_flag=True, help="the state of queries that are gone may be lost"
)
@click.pass_obj
def check(
    chosen: options.Options,
    name: str | None,
    image: str | None,
    file: str | None,
    savepoint: str | None,
    allow_non_restored_state: bool,
) -> int:
    """Say whether a new version of a job continues from its state. Nothing is changed.

    The script runs up to its first wait, in a pod of its own beside the running job, which misses no batch.
    Its queries are compared with the newest checkpoint and do not run; the volumes of the job are mounted
    read-only. What the script does before its first query, it does.

    Exit codes: 0 it goes on; 1 it does not, a query is refused or its state would be lost; 2 it could not be
    checked.
    """
    spec: dict[str, Any] = {}
    if file is not None:
        found = json.loads(chosen.kubectl.run("apply", "--dry-run=server", "-f", file, "-o", "json"))
        spec, named = found.get("spec", {}), (found.get("metadata") or {}).get("name")
        if found.get("kind") != "StreamJob" or (name or named) != named:
            text = f"{file} is not the one StreamJob {name or ''}".rstrip()
            raise NothingToCheck(text, remedy="Name a file that has it alone")
        name = named
    if not name or not (spec or image):
        raise NothingToCheck("nothing to check is named", remedy="Use NAME --image IMAGE, or -f FILE")
    before = read_job(chosen, name)
    after = changed(before, {**(spec or before.spec), **({"image": image} if image else {})})
    if ignored := not_checked(before.spec, after.spec):
        screen.note(f"No part of the check: spec.{', spec.'.join(ignored)}")
    words = ["--allow-non-restored-state"] if allow_non_restored_state else []
    if savepoint is not None:
        where = location(before, read_index(chosen, before), savepoint)
        if where is None:
            raise NothingToCheck(f"{name} has no savepoint yet", remedy="Leave --savepoint out")
        words += ["--savepoint", where]
    from .. import tools  # noqa: PLC0415  for commands that need a pod

    return tools.check(chosen, after, words)
