"""`savepoint`: take, list, describe, verify, export, delete."""

from __future__ import annotations

from functools import partial

import click

from .. import options
from ..access.changes import change, refuse
from ..access.job import read_index, read_job
from ..errors import CommandError, ExitCode
from ..following import follow
from ..group import Group
from ..kubectl import JOBS, Obj
from ..printing import screen, times
from ..printing.asking import confirm
from ..table import CommandSpec
from ..views.job import Job, job, once_more
from ..views.savepoint import document, folder, location, look, table
from .endings import waiting

ENTRIES = {
    "take": CommandSpec("savepoint", "Take a savepoint of a running job, which continues"),
    "list": CommandSpec("savepoint", "List the savepoints of a job, newest first"),
    "describe": CommandSpec("savepoint", "Show what a savepoint holds: stages, operators, positions, sizes"),
    "verify": CommandSpec("savepoint", "Compare every file of a savepoint with its hash"),
    "export": CommandSpec("savepoint", "Write a self-contained copy of a savepoint"),
    "delete": CommandSpec("savepoint", "Delete a savepoint and the files that no other one shares"),
}


class NoSavepoint(CommandError):
    """The job has no such savepoint, or none at all."""

    reason = "NoSavepoint"


@click.group(
    cls=Group, entries=ENTRIES, prefix="savepoint_", short_help="Take, list, check and delete savepoints"
)
@options.cluster
def savepoint() -> None:
    """Take, list, check and delete savepoints.

    `take` and `list` need the API server only. The others read the storage: in the running driver's pod if
    that has 400 MiB of memory left, else in a pod of their own, with the image and volumes of the driver.
    """


@options.command(
    name="take",
    examples="""
    kubectl streamjob savepoint take orders
    kubectl streamjob savepoint take orders --wait --timeout 10m
    """,
)
@options.job_name()
@waiting
@click.pass_obj
def savepoint_take(chosen: options.Options, name: str, wait: bool, timeout: float | None) -> int:
    """Take a savepoint of a running job, which continues.

    With --wait the progress is shown until it is in the index. Its name ends with the generation of the
    StreamJob that requested it, which never comes again: the first one is rarely number 1.
    """
    after = change(chosen.kubectl, chosen.kubectl.get(JOBS, name), _another)
    generation = after["metadata"]["generation"]
    if not (wait or timeout is not None):
        if chosen.json:
            screen.document({"name": name, "requested": True, "generation": generation})
        else:
            screen.put([f"{name}: a savepoint is requested"])
            screen.note(
                f"See it with `kubectl streamjob status {name}{chosen.suffix} --watch`, or use --wait"
            )
        return ExitCode.DONE
    stays = f"The savepoint stays requested; see `kubectl streamjob status {name}{chosen.suffix}`"
    return follow(chosen, name, partial(look, generation), timeout=timeout, stays=stays)


def _another(found: Obj) -> Obj:
    """The patch that requests one more: two people must not get one savepoint."""
    refuse(job(found), "savepoint")
    version = found["metadata"]["resourceVersion"]
    return {
        "metadata": {"resourceVersion": version},
        "spec": {"savepoint": once_more(found["spec"], "savepoint")},
    }


@options.command(
    name="list",
    local=True,
    examples="""
    kubectl streamjob savepoint list orders
    kubectl streamjob savepoint list orders --storage
    """,
)
@options.job_name()
@click.option("--deleted", is_flag=True, help="also those that were deleted because they had expired")
@click.option("--storage", is_flag=True, help="what the storage has: also incomplete ones, and sizes")
@click.pass_obj
def savepoint_list(chosen: options.Options, name: str, deleted: bool, storage: bool) -> int:
    """List the savepoints of a job, newest first.

    They come from the job's index. Those that a full index has dropped are on the storage all the same:
    --storage finds them.
    """
    found = read_job(chosen, name)
    if storage:
        root = f"{chosen.local}/savepoints" if chosen.local else folder(found)
        if root is None:
            raise NoSavepoint(f"{name} has no storage of savepoints")
        return _run(chosen, found, "list", root)
    index = read_index(chosen, found)
    if index.problem and not index.checkpoints:
        screen.note(f"The index of {found.name}: {index.problem}")
    if chosen.json:
        screen.document([document(c) for c in index.savepoints])
    elif index.savepoints or (deleted and index.deleted):
        screen.table(table(index, times.now(), deleted=deleted))
    else:
        screen.note(f"{found.name} has no savepoints")
    return ExitCode.DONE


_SAVEPOINT = click.argument(
    "which", metavar="[SAVEPOINT]", default="latest", shell_complete=options.complete_savepoints
)


@options.command(
    name="describe",
    local=True,
    examples="""
    kubectl streamjob savepoint describe orders
    kubectl streamjob savepoint describe orders stop-3-7
    """,
)
@options.job_name()
@_SAVEPOINT
@click.pass_obj
def savepoint_describe(chosen: options.Options, name: str, which: str) -> int:
    """Show what a savepoint holds: stages, operators, positions, sizes.

    SAVEPOINT is a name as `savepoint list` shows it, a location, or nothing for the newest.
    """
    return _one(chosen, name, which, "describe")


@options.command(
    name="verify",
    local=True,
    examples="""
    kubectl streamjob savepoint verify orders latest
    """,
)
@options.job_name()
@_SAVEPOINT
@click.pass_obj
def savepoint_verify(chosen: options.Options, name: str, which: str) -> int:
    """Compare every file of a savepoint with its hash.

    Exit code 1: it cannot be restored; the broken files are named.
    """
    return _one(chosen, name, which, "verify")


@options.command(
    name="export",
    local=True,
    examples="""
    kubectl streamjob savepoint export orders latest s3a://backup/orders
    """,
)
@options.job_name()
@click.argument("which", metavar="SAVEPOINT", shell_complete=options.complete_savepoints)
@click.argument("target", metavar="TARGET")
@click.pass_obj
def savepoint_export(chosen: options.Options, name: str, which: str, target: str) -> int:
    """Write a self-contained copy of a savepoint.

    It is verified meanwhile. TARGET is a location that the job's pods can write to.
    """
    return _one(chosen, name, which, "export", target)


@options.command(
    name="delete",
    local=True,
    examples="""
    kubectl streamjob savepoint delete orders savepoint-manual-4
    """,
)
@options.job_name()
@click.argument("which", metavar="SAVEPOINT", shell_complete=options.complete_savepoints)
@click.option("-y", "--yes", is_flag=True, help="do not ask")
@click.pass_obj
def savepoint_delete(chosen: options.Options, name: str, which: str, yes: bool) -> int:
    """Delete a savepoint and the files that no other one shares.

    Remove savepoints in no other way: what they share is counted.
    """
    found = read_job(chosen, name)
    uri = _location(chosen, found, which)
    newest = found.part("savepoint").get("latest") == uri
    why = "A deleted savepoint cannot be restored." + (
        f" It is the newest of {found.name}." if newest else ""
    )
    if not confirm(f"delete {uri}", why, yes=yes):
        return ExitCode.PROBLEM
    return _run(chosen, found, "delete", uri)


def _one(chosen: options.Options, name: str, which: str, command: str, *more: str) -> int:
    found = read_job(chosen, name)
    return _run(chosen, found, command, _location(chosen, found, which), *more)


def _location(chosen: options.Options, found: Job, which: str) -> str:
    uri = location(found, read_index(chosen, found), which)
    if uri is None:
        raise NoSavepoint(
            f"{found.name} has no savepoint yet",
            remedy=f"Take one: savepoint take {found.name}, or stop the job",
        )
    return uri


def _run(chosen: options.Options, found: Job, command: str, *words: str) -> int:
    from ..tools import run  # noqa: PLC0415

    return run(chosen, found, ["savepoint", command, *words])
