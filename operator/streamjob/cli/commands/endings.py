"""`stop`, `drain`, `resume`, `cancel` and `suspend`."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from .. import options
from ..access.changes import refuse
from ..access.job import read_job
from ..errors import ExitCode
from ..following import follow
from ..kubectl import JOBS
from ..printing import screen, times
from ..printing.asking import confirm
from ..printing.times import moment, now, until
from ..views.ending import GOALS, Goal, look
from ..views.job import Job, once_more
from ..views.progress import Outcome


class Duration(click.ParamType):  # type: ignore[type-arg]  # older clicks have no argument
    """A duration, such as 90s or 1h30m."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = value if isinstance(value, float) else times.seconds(value)
        if found is None:
            self.fail(f"{value!r} is no duration, such as 90s, 10m or 1h30m", param, ctx)
        return found


def waiting(function: Any) -> Any:
    """A decorator: the options --wait and --timeout."""
    function = click.option(
        "--timeout",
        metavar="TIME",
        type=Duration(),
        help="with --wait: no longer than this, such as 10m (exit code 4)",
    )(function)
    return click.option("-w", "--wait", is_flag=True, help="show the progress until it is done")(function)


def _ending(verb: str, text: str, examples: str) -> Any:
    def run(chosen: options.Options, name: str, wait: bool, timeout: float | None, yes: bool = False) -> int:
        return request(chosen, name, GOALS[verb], wait=wait or timeout is not None, timeout=timeout, yes=yes)

    run.__doc__ = text
    function: Any = waiting(click.pass_obj(run))
    if GOALS[verb].final:
        function = click.option("-y", "--yes", is_flag=True, help="do not ask")(function)
    return options.command(examples=examples, local=verb != "resume", name=verb)(options.job_name()(function))


stop = _ending(
    "stop",
    """Stop a job with a savepoint.

    The running batch ends, a savepoint is written, the driver exits. `resume` continues from there.
    """,
    """
    kubectl streamjob stop orders --wait
    kubectl streamjob stop orders --timeout 10m && kubectl delete streamjob orders
    streamjob stop --local .streamjob/orders
    """,
)
drain = _ending(
    "drain",
    """Emit every open window and end a job for good.

    No new input is read, timers fire up to the end of time, a savepoint is written, the driver exits. A
    drained job does not run again.
    """,
    """
    kubectl streamjob drain orders --wait
    kubectl streamjob drain orders --yes --timeout 30m
    """,
)
resume = _ending(
    "resume",
    """Run a job again that was stopped, suspended, cancelled, or has failed.

    It continues from its latest checkpoint. A job that has failed gets another restart.nonce, and so does one
    that waits for its next attempt (Restarting): it begins at once.
    """,
    """
    kubectl streamjob resume orders --wait
    """,
)
cancel = _ending(
    "cancel",
    """Kill a job's driver without a savepoint.

    Works at any time, also in the middle of a stop or drain.
    """,
    """
    kubectl streamjob cancel orders
    kubectl streamjob cancel orders --yes --wait
    """,
)
suspend = _ending(
    "suspend",
    """Stop a job with a savepoint until it is resumed.

    As in a Kubernetes Job: spec.suspend becomes true. Queue controllers use the same field.
    """,
    """
    kubectl streamjob suspend orders --wait
    kubectl streamjob resume orders
    """,
)


def request(
    chosen: options.Options, name: str, goal: Goal, *, wait: bool, timeout: float | None, yes: bool
) -> int:
    """Ask for it, and follow it if somebody waits.

    :returns: the exit code.
    """
    if chosen.local:
        from ..local.end import end  # noqa: PLC0415

        return end(chosen.local, goal, wait=wait, timeout=timeout, yes=yes)
    before = read_job(chosen, name)
    at_first = look(goal, before, now())
    if before.wanted == goal.wanted and at_first.outcome is Outcome.REACHED:
        return _nothing_to_do(chosen, before, goal, at_first.waits_for)
    refuse(before, goal.verb)
    if before.wanted != goal.wanted or goal.verb == "resume":
        if goal.final and not confirm(f"{goal.verb} {before.namespace}/{before.name}", goal.final, yes=yes):
            return ExitCode.PROBLEM
        chosen.kubectl.patch(JOBS, name, {"spec": _change(before, goal)})
    if not wait:
        return _requested(chosen, before, goal)
    stays = (
        f"{name} stays requested to {goal.verb}. See `kubectl streamjob status {name}{chosen.suffix}`"
        + _undo(goal, name, chosen)
    )
    return follow(chosen, name, partial(look, goal), timeout=timeout, stays=stays)


def _nothing_to_do(chosen: options.Options, before: Job, goal: Goal, text: str) -> int:
    if chosen.json:
        screen.document({"name": before.name, "requested": False, "phase": before.phase, "message": text})
    else:
        screen.put([f"Nothing to do: {text}"])
    return ExitCode.DONE


def _requested(chosen: options.Options, before: Job, goal: Goal) -> int:
    if chosen.json:
        screen.document({"name": before.name, "requested": True, "wanted": goal.wanted})
        return ExitCode.DONE
    due = moment(before.part("restarts").get("nextAt"))
    at_once = goal.verb == "resume" and due is not None and _backs_off(before)
    waited = (
        f": the next driver starts now, not in {until(due, now())}" if due is not None and at_once else ""
    )
    screen.put([f"{before.name}: {goal.verb} is requested{waited}"])
    screen.note(f"See it with `kubectl streamjob status {before.name}{chosen.suffix} --watch`, or use --wait")
    return ExitCode.DONE


def _change(before: Job, goal: Goal) -> dict[str, object]:
    change = dict(goal.change)
    if goal.verb == "resume" and (before.phase == "Failed" or _backs_off(before)):
        change["restart"] = once_more(before.spec, "restart")
    return change


def _backs_off(before: Job) -> bool:
    """Whether the next driver waits after a failure. Another nonce begins at once, but would also try a
    specification again that was rolled back.
    """
    return before.phase == "Restarting" and before.part("upgrade").get("step") != "RolledBack"


def _undo(goal: Goal, name: str, chosen: options.Options) -> str:
    undo = {"stop": "resume", "suspend": "resume", "cancel": "resume", "resume": "stop", "drain": "cancel"}[
        goal.verb
    ]
    how = "breaks it off" if goal.verb == "drain" else "takes it back"
    return f"; `kubectl streamjob {undo} {name}{chosen.suffix}` {how}"
