"""How far an upgrade has come."""

from __future__ import annotations

from datetime import datetime

from ..printing.times import moment
from .ending import GOALS
from .ending import look as look_at_ending
from .job import ENDS, Job
from .progress import (
    Mover,
    Outcome,
    Progress,
    running_batches,
    stalled_since,
    steps,
    unseen,
    waiting,
)

NAMES = (
    "the operator sees the new spec",
    "the running driver stops with a savepoint",
    "the new driver starts",
    "the new driver proves itself",
)
HANDOVER_NAMES = (
    "the operator sees the new spec",
    "the new driver is prepared beside the running one",
    "the running driver stops with a savepoint",
    "the prepared driver takes over",
    "the new driver proves itself",
)


def _names(job: Job) -> tuple[str, ...]:
    mode = (job.obj.get("spec") or {}).get("upgrade", {}).get("mode")
    return HANDOVER_NAMES if mode == "Handover" else NAMES


def look(generation: int, job: Job | None, at: datetime) -> Progress:
    """How far the upgrade is that this generation of the spec requested."""
    if job is None:
        return Progress("upgrade", Outcome.SUPERSEDED, "the StreamJob has been deleted")
    what = f"upgrade of {job.name}"
    if job.generation > generation and job.part("upgrade").get("generation", generation) > generation:
        return Progress(what, Outcome.SUPERSEDED, "somebody has changed the spec again")
    if (not_seen := unseen(job, at)) is not None:
        return Progress(what, Outcome.GOING, *not_seen, steps=steps(_names(job), 0))
    upgrade, condition = job.part("upgrade"), job.conditions.get("Upgraded")
    step, ours = upgrade.get("step"), (upgrade.get("generation") or 0) >= generation
    message = condition.message if condition is not None else ""
    if ours and step == "Completed":
        return Progress(what, Outcome.REACHED, message, steps=steps(_names(job), len(_names(job))))
    if ours and step == "RolledBack":
        error = upgrade.get("error") or {}
        return Progress(what, Outcome.FAILED, message, Mover.YOU, error.get("remedy") or "")
    if ours and step == "Pending":
        return Progress(what, Outcome.REACHED, message, Mover.YOU, steps=steps(NAMES, 1))
    if job.seen and job.phase in ENDS:
        text = f"the job is {job.phase}, which is an end: no driver starts with the new specification"
        return Progress(what, Outcome.FAILED, text, Mover.YOU)
    if not ours and job.ready and job.phase != "Running":
        text = f"the job is {job.phase}: the next driver begins with the new specification"
        return Progress(what, Outcome.REACHED, text)
    if not ours and job.ready and step != "Stopping":
        return Progress(
            what,
            Outcome.REACHED,
            "the driver that runs has this specification",
            steps=steps(_names(job), len(_names(job))),
        )
    if job.is_true("Stalled") and job.phase == "Failed":
        return Progress(what, Outcome.FAILED, job.conditions["Stalled"].message, Mover.YOU)
    return _going(what, job, step, at)


def _going(what: str, job: Job, step: str | None, at: datetime) -> Progress:
    text, mover, move = waiting(job, at)
    deadline = moment(job.part("upgrade").get("deadline"))
    names, stalled = _names(job), stalled_since(job)
    current = len(names) - 2
    batches: tuple[str, ...] = ()
    if job.rolls_back_at is not None:
        # The operator helps itself: whoever waits sees how it ends.
        if stalled is not None and step != "Preparing":
            text = f"{text.rstrip('. ')}. Unless it comes up, the job returns to the previous specification"
        stalled = None
    if job.phase == "Stopping" or step == "Stopping":
        current, deadline = len(names) - 3, moment(job.part("termination").get("deadline"))
        if job.phase == "Stopping":
            ending = look_at_ending(GOALS["stop"], _as_if_stopped(job), at)
            text, mover, move = ending.waits_for, ending.mover or mover, ending.move
            batches = running_batches(job, at)
    elif step == "Preparing":
        waits = job.part("upgrade").get("waitsFor")
        epoch = f"the driver of epoch {job.part('upgrade').get('epoch')}"
        text = f"{epoch} waits: {waits}" if waits else f"{epoch} is being prepared beside the running one"
        current, mover, move = 1, Mover.YOU if waits else Mover.JOB, ""
    elif job.phase == "Running" and step == "Starting":
        current, deadline = len(names) - 1, None
        text = "waits for its first checkpoint, or for the end of spec.upgrade.probation"
        mover, move = Mover.JOB, ""
    return Progress(
        what,
        Outcome.GOING,
        text,
        mover,
        move,
        steps(names, current),
        batches,
        (deadline - at).total_seconds() if deadline is not None else None,
        stalled,
    )


def _as_if_stopped(job: Job) -> Job:
    """The stop of an upgrade has the steps of any other."""
    from dataclasses import replace  # noqa: PLC0415

    return replace(job, wanted="Stopped")
