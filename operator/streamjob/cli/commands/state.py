"""`state`: rows of a savepoint or checkpoint, by key."""

from __future__ import annotations

import click

from .. import options
from ..access.job import read_index, read_job
from ..errors import CommandError
from ..group import Group
from ..table import CommandSpec
from ..views.checkpoints import Index
from ..views.job import Job
from ..views.savepoint import location
from ..views.tool_pod import MEMORY_OF_SPARK

CHECKPOINT = "checkpoint"
ENTRIES = {
    "show": CommandSpec("state", "Show rows of a query's state, by key"),
    "stores": CommandSpec("state", "List the stateful operators of a query, and their stores"),
}


class NoState(CommandError):
    """There is nothing from which state could be read."""

    reason = "NoState"


@click.group(cls=Group, entries=ENTRIES, prefix="state_", short_help="Show the state of a job's queries")
@options.cluster
def state() -> None:
    """Show the state of a job's queries.

    It is read by Spark (4.0 or newer) in a pod of its own with the job's image, which is deleted afterwards;
    with --local by the pyspark of this environment. Nothing is changed.
    """


def _common(function: object) -> object:
    for option in (
        click.option("--batch", type=int, metavar="N", help="of a checkpoint: the state after this batch"),
        click.option("--task", type=int, metavar="N", default=0, help="shard of the stage"),
        click.option("--stage", metavar="NAME", help="the query; needed if several have state"),
        click.argument(
            "which", metavar="[SAVEPOINT]", default="latest", shell_complete=options.complete_savepoints
        ),
    ):
        function = option(function)  # type: ignore[type-var]
    return options.job_name()(function)


@options.command(
    name="show",
    local=True,
    examples="""
    kubectl streamjob state show orders
    kubectl streamjob state show orders stop-3-7 --stage windows --key user=anna
    kubectl streamjob state show orders checkpoint --stage windows --limit 5 --json
    """,
)
@_common
@click.option("--operator", type=int, metavar="N", default=0, help="number of the stateful operator")
@click.option("--store", metavar="NAME", default="default", help="store of the operator, of a join")
@click.option("--variable", metavar="NAME", help="state variable of transformWithState")
@click.option("--key", metavar="FIELD=VALUE", multiple=True, help="rows whose key has this value; repeatable")
@click.option("--limit", type=int, metavar="N", default=20, help="so many rows at most")
@click.pass_obj
def state_show(
    chosen: options.Options,
    name: str,
    which: str,
    stage: str | None,
    task: int,
    batch: int | None,
    operator: int,
    store: str,
    variable: str | None,
    key: tuple[str, ...],
    limit: int,
) -> int:
    """Show rows of a query's state, by key.

    SAVEPOINT is a name as `savepoint list` shows it, a location, nothing for the newest, or `checkpoint` for
    the newest checkpoint of a job that runs.
    """
    words = ["--operator", str(operator), "--store", store, "--limit", str(limit)]
    words += ["--variable", variable] if variable else []
    words += [word for pair in key for word in ("--key", pair)]
    return _run(chosen, name, which, stage, task, batch, "show", *words)


@options.command(
    name="stores",
    local=True,
    examples="""
    kubectl streamjob state stores orders
    kubectl streamjob state stores orders checkpoint --stage windows
    """,
)
@_common
@click.pass_obj
def state_stores(
    chosen: options.Options, name: str, which: str, stage: str | None, task: int, batch: int | None
) -> int:
    """List the stateful operators of a query, and their stores."""
    return _run(chosen, name, which, stage, task, batch, "stores")


def _run(
    chosen: options.Options,
    name: str,
    which: str,
    stage: str | None,
    task: int,
    batch: int | None,
    command: str,
    *words: str,
) -> int:
    found = read_job(chosen, name)
    index = read_index(chosen, found)
    if which == CHECKPOINT:
        uri, last = checkpoint(found, index, stage, task)
        batch = last if batch is None else batch
        place = [uri, "--batch", str(batch)]
    else:
        where = location(found, index, which)
        if where is None:
            raise NoState(
                f"{found.name} has no savepoint yet",
                remedy="Use `checkpoint` in its place, or take a savepoint",
            )
        place = [where, "--task", str(task), *(["--stage", stage] if stage else [])]
    arguments = ["state", command, *place, *words]
    from ..tools import run  # noqa: PLC0415

    return run(chosen, found, arguments, memory=MEMORY_OF_SPARK)


def checkpoint(found: Job, index: Index, stage: str | None, task: int) -> tuple[str, int]:
    """The checkpoint directory of a task and its last batch, as the newest checkpoint has them.

    :raises NoState: there is no checkpoint, or it does not say which stage is meant.
    """
    latest = index.latest
    stages = {s.get("uid"): s for s in latest.stages} if latest is not None else {}
    stateful = [
        uid for uid, s in stages.items() if any(o.get("kind") == "State" for o in s.get("operators") or ())
    ]
    if stage is None and len(stateful) == 1:
        stage = stateful[0]
    tasks = (stages.get(stage) or {}).get("tasks") or ()
    chosen = next((t for t in tasks if t.get("index") == task and t.get("batch") is not None), None)
    if chosen is None:
        raise NoState(
            f"the newest checkpoint of {found.name} has no task {task} of "
            + (f"stage {stage}" if stage else "the only stage with state"),
            remedy=f"Choose a stage: {', '.join(map(str, stateful))}"
            if stateful
            else "Wait for a checkpoint",
        )
    return chosen["location"], chosen["batch"]
