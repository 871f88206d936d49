"""How far a request has come: its steps, what it waits for, how long it may take, and whose move it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from ..printing.text import BAD, BUSY, DIM, GOOD, STRONG, WARN, Node, Span, line
from ..printing.times import amount, moment, span, until
from .job import Job
from .pods import of_claims


class Outcome(str, Enum):
    GOING = "Going"
    REACHED = "Reached"
    FAILED = "Failed"  # a person has to act before anything moves
    SUPERSEDED = "Superseded"  # somebody has requested something else, or deleted the job


class Mover(str, Enum):
    """Whose move it is."""

    YOU = "yours"
    OPERATOR = "the operator's"
    JOB = "the job's"
    KUBERNETES = "Kubernetes'"


class Mark(str, Enum):
    DONE = "done"
    NOW = "now"
    AHEAD = "ahead"


@dataclass(frozen=True)
class Step:
    """One of the steps that lead there."""

    text: str
    mark: Mark


@dataclass(frozen=True)
class Progress:
    """How far a request has come.

    :param what: what was requested, such as `drain of orders`.
    :param waits_for: what goes on, or what it waits for.
    :param move: what the mover has to do, empty if the sentence says it.
    :param left: seconds until the deadline; None if there is none.
    :param stalled_since: since when nothing moves without a person.
    """

    what: str
    outcome: Outcome
    waits_for: str
    mover: Mover | None = None
    move: str = ""
    steps: tuple[Step, ...] = ()
    batches: tuple[str, ...] = ()
    left: float | None = None
    stalled_since: datetime | None = None

    @property
    def step(self) -> str:
        return next((s.text for s in self.steps if s.mark is Mark.NOW), "")


_SIGNS = {Mark.DONE: Span("✓", GOOD), Mark.NOW: Span("▸", BUSY), Mark.AHEAD: Span("·", DIM)}
_STYLES = {Mark.DONE: "", Mark.NOW: STRONG, Mark.AHEAD: DIM}


def picture(progress: Progress) -> Node:
    """The progress as a tree."""
    root = Node(line(Span(progress.what, STRONG), time_left(progress)))
    for step in progress.steps:
        root.add(_SIGNS[step.mark], Span(step.text, _STYLES[step.mark]))
    root.add(progress.waits_for)
    for text in progress.batches:
        root.add(Span(text, DIM))
    if progress.mover is not None:
        style = BAD if progress.mover is Mover.YOU else BUSY
        root.add(Span("the next move is", DIM), Span(progress.mover.value, style), progress.move or None)
    return root


def sentence(progress: Progress) -> str:
    """The progress in one line."""
    parts = [progress.step, progress.waits_for if progress.waits_for != progress.step else ""]
    move = f"the move is {progress.mover.value}" if progress.mover else ""
    if progress.mover is Mover.YOU and progress.move:
        move += f": {progress.move}"
    text = ": ".join(p for p in parts if p)
    return f"{progress.what}: {text}" + (f" ({move})" if move else "")


def time_left(progress: Progress) -> Span | None:
    if progress.left is None or progress.outcome is not Outcome.GOING:
        return None
    if progress.left < 0:
        return Span(f"late by {span(-progress.left)}", WARN)
    return Span(f"{span(progress.left)} left", DIM)


def steps(names: Sequence[str], current: int) -> tuple[Step, ...]:
    """The steps, of which those before `current` are done."""
    marks = (
        Mark.DONE if n < current else Mark.NOW if n == current else Mark.AHEAD for n in range(len(names))
    )
    return tuple(Step(name, mark) for name, mark in zip(names, marks, strict=True))


def running_batches(job: Job, at: datetime) -> tuple[str, ...]:
    """Where each query is that has not ended."""
    return tuple(
        f"{stage.uid}: batch {stage.batch if stage.batch is not None else '-'} is committed"
        + (f", the last took {span(stage.batch_seconds)}" if stage.batch_seconds is not None else "")
        + (f", {amount(stage.state_rows)} rows of state" if stage.state_rows else "")
        for stage in job.stages
        if any(t.state == "Running" for t in stage.tasks)
    )


# --- what several requests have in common -------------------------------------------------------------------


def unseen(job: Job, at: datetime) -> tuple[str, Mover, str] | None:
    """The operator has not seen the request: what is said then. None: it has."""
    if job.seen:
        return None
    return (
        "nobody has looked at the newest spec yet",
        Mover.OPERATOR,
        "if that takes long: `kubectl get lease` shows whether a controller leads; it has to watch this "
        "namespace",
    )


OF_KUBERNETES = {"Unschedulable", "DriverNotGone"}  # reasons


def waits_for_a_node(reason: str, message: str) -> bool:
    """Whether Kubernetes may still help by itself. A claim without a volume waits for a person."""
    return reason in OF_KUBERNETES and not of_claims(message)


def waiting(job: Job, at: datetime) -> tuple[str, Mover, str]:
    """What a job waits for that is neither there nor failed, whose move it is, and what to do."""
    stalled, reconciling = job.conditions.get("Stalled"), job.conditions.get("Reconciling")
    if stalled is not None and stalled.true:
        lacks_node = waits_for_a_node(stalled.reason, stalled.message)
        return stalled.message, Mover.KUBERNETES if lacks_node else Mover.YOU, _remedy(job)
    says = reconciling.message if reconciling is not None else ""
    driver = job.part("driver")
    if job.phase == "Restarting":
        due = moment(job.part("restarts").get("nextAt"))
        when = f" in {until(due, at)}" if due else ""
        return f"the next driver starts{when}. {says}", Mover.OPERATOR, ""
    if job.phase == "Cancelling":
        return "the driver's pod is being deleted", Mover.KUBERNETES, ""
    if job.phase in ("Pending", "Starting"):
        if not driver or not driver.get("uid"):
            return says or "the driver's pod is about to be made", Mover.OPERATOR, ""
        if pod := job.waits_for_pod:
            return says, Mover.KUBERNETES, f"`kubectl get pod {pod} -o yaml` shows its finalizers"
        if driver.get("phase") in (None, "Pending"):
            text = f"the pod {driver['pod']} waits for a node, for the image, or for volumes"
            return text, Mover.KUBERNETES, f"`kubectl describe pod {driver['pod']}` shows how far it is"
        return says or "the script has started no query yet", Mover.JOB, ""
    return says or job.phase, Mover.OPERATOR, ""


def _remedy(job: Job) -> str:
    error, stalled = job.last_error, job.conditions["Stalled"]
    return error.remedy if error is not None and error.reason == stalled.reason else ""


def stalled_since(job: Job) -> datetime | None:
    stalled = job.conditions.get("Stalled")
    return stalled.since if job.seen and stalled is not None and stalled.true else None
