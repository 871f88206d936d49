"""A savepoint of a running job: how far it has come. And the list of what the index has."""

from __future__ import annotations

from datetime import datetime

from ..printing.text import DIM, GOOD, STRONG, Span, Table, line
from ..printing.times import ago, moment
from .checkpoints import Checkpoint, Index
from .job import TERMINAL, Job
from .progress import Mover, Outcome, Progress, stalled_since, steps, unseen, waiting

MANUAL = "savepoint-manual-"  # and the generation whose nonce requested it
STEPS = (
    "the operator sees the request",
    "the driver copies the files",
    "the savepoint is recorded in the index",
)
LATEST = "latest"


def look(generation: int, job: Job | None, at: datetime) -> Progress:
    """How far the savepoint is that the nonce of this generation requested."""
    if job is None:
        return Progress("savepoint", Outcome.SUPERSEDED, "the StreamJob has been deleted")
    what, request = f"savepoint of {job.name}", job.part("savepointRequest")
    request_id = str(request.get("requestId") or "")
    number = request_id.removeprefix(MANUAL)
    ours = number.isdigit() and int(number) >= generation
    if not ours:
        return _not_yet(what, job, at)
    if request.get("checkpoint") is not None:
        text = f"checkpoint {request['checkpoint']} is the savepoint {request.get('savepoint')}"
        return Progress(what, Outcome.REACHED, text, steps=steps(STEPS, len(STEPS)))
    if request.get("failure"):
        return Progress(what, Outcome.FAILED, f"there is none: {request['failure']}", Mover.YOU)
    deadline = moment(request.get("deadline"))
    return Progress(
        what,
        Outcome.GOING,
        request.get("progress") or "the driver is asked for it",
        Mover.JOB,
        steps=steps(STEPS, 1),
        left=(deadline - at).total_seconds() if deadline else None,
    )


def _not_yet(what: str, job: Job, at: datetime) -> Progress:
    request = job.part("savepointRequest")
    if job.seen and job.phase in TERMINAL:
        text = f"no driver runs: the job is {job.phase}"
        return Progress(
            what, Outcome.FAILED, text, Mover.YOU, "Resume the job, or restore its last savepoint"
        )
    found = unseen(job, at)
    if found is None and request and request.get("checkpoint") is None and not request.get("failure"):
        found = f"the savepoint {request.get('requestId')} is taken first", Mover.JOB, ""
    text, mover, move = found or waiting(job, at)
    return Progress(what, Outcome.GOING, text, mover, move, steps(STEPS, 0), stalled_since=stalled_since(job))


def table(index: Index, at: datetime, *, deleted: bool = False) -> Table:
    """The savepoints of the index, newest first."""
    latest = index.latest
    rows = [
        [
            line(Span(c.name or "", STRONG)),
            line(f"{c.completed:%Y-%m-%d %H:%M:%S}" if c.completed else ""),
            line(ago(c.completed, at)),
            line(c.why),
            line(f"{c.number} of epoch {c.epoch}"),
            line(Span("the job resumes from it", GOOD) if c is latest and c.scenario == "Stop" else ""),
            line(c.savepoint),
        ]
        for c in index.savepoints
    ]
    gone = [
        [
            line(Span(d.savepoint.rstrip("/").rpartition("/")[2], DIM)),
            line(f"{d.at:%Y-%m-%d %H:%M:%S}" if d.at else ""),
            line(ago(d.at, at)),
            line("deleted" if d.at else "to be deleted"),
            line(str(d.checkpoint)),
            line(""),
            line(d.savepoint),
        ]
        for d in reversed(index.deleted)
        if deleted
    ]
    return Table(("NAME", "COMPLETED", "AGE", "WHY", "CHECKPOINT", "", "LOCATION"), [*rows, *gone])


def location(job: Job, index: Index, name: str) -> str | None:
    """Where the savepoint of this name is.

    :param name: a name, a location, or `latest`.
    :returns: None: there is none at all.
    """
    if ":/" in name or name.startswith("/"):
        return name
    if name == LATEST:
        newest: str | None = job.part("savepoint").get("latest")
        return next((c.savepoint for c in index.savepoints), newest)
    known = next((c.savepoint for c in index.savepoints if c.name == name), None)
    if known is not None:
        return known
    root = folder(job)
    return f"{root}/{name}" if root else None


def folder(job: Job) -> str | None:
    """The folder of the job's savepoints."""
    root = (job.spec.get("storage") or {}).get("savepoints")
    return f"{root.rstrip('/')}/{job.folder}" if root else None


def document(checkpoint: Checkpoint) -> dict[str, object]:
    """A savepoint, as JSON has it."""
    return {
        "name": checkpoint.name,
        "location": checkpoint.savepoint,
        "completed": checkpoint.completed,
        "why": checkpoint.why,
        "checkpoint": checkpoint.number,
        "epoch": checkpoint.epoch,
        "scenario": checkpoint.scenario,
    }
