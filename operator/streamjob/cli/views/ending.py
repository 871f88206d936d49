"""How far a stop, drain, resume, cancel or suspension has come."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ..printing.times import moment
from .job import ENDS, STEPS, TERMINAL, Job
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


@dataclass(frozen=True)
class Goal:
    """What a command asks for.

    :param wanted: the state that the spec has then.
    :param reached: the phase in which it is there.
    :param change: the patch of the spec.
    :param final: why this cannot be undone; empty if it can.
    """

    verb: str
    wanted: str
    reached: str
    change: dict[str, object]
    final: str = ""


GOALS = {
    goal.verb: goal
    for goal in (
        Goal("stop", "Stopped", "Stopped", {"state": "Stopped"}),
        Goal(
            "drain",
            "Drained",
            "Drained",
            {"state": "Drained"},
            "A drain is an end: every window is emitted, and the job does not run again.",
        ),
        Goal("resume", "Running", "Running", {"state": "Running", "suspend": False}),
        Goal(
            "cancel",
            "Cancelled",
            "Cancelled",
            {"state": "Cancelled"},
            "A cancel kills the driver without a savepoint. `resume` continues from Spark's checkpoint; "
            "sinks that are not transactional may get rows of the last batch twice.",
        ),
        Goal("suspend", "Suspended", "Suspended", {"suspend": True}),
    )
}
_WITHOUT_PROGRESS = {
    "WaitingForBoundary": "a batch runs",
    "FiringTimers": "the watermark is at its maximum",
    "WritingSavepoint": "it begins",
    "WaitingForIndex": "it is durable, and is about to be in the index",
    "Closed": "the process ends",
}


def refused(job: Job, verb: str) -> tuple[str, str] | None:
    """Why a job's situation does not allow a request, and what to do instead. None: it does.

    The commands and the page's server ask here; the page's buttons follow it (ui/test/refused.json).

    :param verb: a goal's, or upgrade, savepoint, restart, run.
    """
    name, phase, state = job.name, job.phase, job.spec.get("state") or "Running"
    if job.deleting:
        return (
            f"{name} is being deleted",
            "It ends as spec.termination.onDelete says; see it with status --watch",
        )
    if verb == "drain" or (verb == "stop" and phase == "Finished" and state != "Drained"):
        return None
    if phase in ENDS:
        return f"{name} is {phase}, which is an end", _instead(phase, verb)
    if verb == "cancel" and job.seen and phase in TERMINAL:
        return f"{name} is {phase}: no driver runs", "Nothing has to be cancelled"
    if verb in ("stop", "resume", "suspend") and state == "Drained":
        if phase in TERMINAL:
            return f"a drain of {name} was requested, and is not taken back", _instead(phase, verb)
        return f"{name} is being drained, and a drain is not taken back", "Only `cancel` breaks it off"
    if verb == "suspend" and state != "Running":
        return (
            f"spec.state of {name} is {state}, and suspend applies to Running only",
            "Resume the job first, if it shall wait in a queue",
        )
    if verb == "savepoint" and (job.wanted != "Running" or phase == "Failed"):
        return f"{name} is {phase}, and a savepoint is taken of a job that runs", (
            f"Resume it, or see the savepoints that there are: savepoint list {name}"
        )
    if verb == "run" and not job.spec.get("schedule"):
        return f"{name} has no spec.schedule, so it has no rounds", f"It is {phase}; see `resume`"
    if verb == "run" and job.wanted != "Running":
        return f"{name} is {phase}, so no round begins", "Resume it; its next round begins as scheduled"
    if verb == "restart" and phase not in ("Failed", "Restarting"):
        return f"{name} is {phase}, and a restart is for a job that has failed", ""
    return None


def _instead(phase: str, verb: str) -> str:
    if verb in ("stop", "cancel"):
        return f"No driver runs, and none will: there is nothing to {verb}"
    if verb == "savepoint":
        return "Its last savepoint stays; see `savepoint list`"
    allow = " and restoreFrom.allowDrained: true" if phase == "Drained" else ""
    return f"Make a new StreamJob with restoreFrom.savepoint{allow}"


def look(goal: Goal, job: Job | None, at: datetime) -> Progress:
    """How far the job is on its way to the goal.

    :param job: None: it has been deleted.
    """
    if job is None:
        return Progress(goal.verb, Outcome.SUPERSEDED, "the StreamJob has been deleted")
    what = f"{goal.verb} of {job.name}"
    if job.wanted != goal.wanted and not (goal.verb == "resume" and job.wanted == "Running"):
        text = f"the spec asks for {job.wanted} now: somebody has changed it"
        return Progress(what, Outcome.SUPERSEDED, text)
    why = job.reason
    message = why.message if why is not None else job.phase
    waits = goal.verb == "resume" and job.phase == "Waiting"
    if job.ready and (job.phase == goal.reached or job.phase in ENDS or waits):
        names = _steps(goal, job)
        return Progress(
            what, Outcome.REACHED, f"{job.name} is {job.phase}. {message}", steps=steps(names, len(names))
        )
    if job.seen and job.is_true("Stalled") and job.phase in TERMINAL:
        return Progress(what, Outcome.FAILED, message, Mover.YOU, _remedy(job))
    return _going(goal, job, what, at)


def _remedy(job: Job) -> str:
    error, why = job.last_error, job.reason
    return error.remedy if error is not None and why is not None and error.reason == why.reason else ""


def _going(goal: Goal, job: Job, what: str, at: datetime) -> Progress:
    names, current, (text, mover, move) = _steps(goal, job), *_now(goal, job, at)
    deadline = moment(job.part("termination").get("deadline"))
    return Progress(
        what,
        Outcome.GOING,
        text,
        mover,
        move,
        steps(names, names.index(current) if current in names else 0),
        running_batches(job, at) if current == STEPS["WaitingForBoundary"] else (),
        (deadline - at).total_seconds() if deadline is not None and _ends(job) else None,
        stalled_since(job),
    )


REQUESTED = "the operator sees the request"
REACHES = "the driver gets it"
CREATED, STARTS, RUNS = (
    "the driver's pod is created",
    "a node starts the pod",
    "the script starts its queries",
)
KILLED = "the driver is killed"


def _steps(goal: Goal, job: Job) -> list[str]:
    if goal.verb == "resume":
        return [REQUESTED, CREATED, STARTS, RUNS]
    if goal.verb == "cancel":
        return [REQUESTED, KILLED]
    drains = goal.verb == "drain"
    ending = [text for step, text in STEPS.items() if drains or step != "FiringTimers"]
    return [REQUESTED, REACHES, *ending]


def _ends(job: Job) -> bool:
    return job.phase in ("Stopping", "Draining")


def _now(goal: Goal, job: Job, at: datetime) -> tuple[str, tuple[str, Mover, str]]:
    """The current step; what it waits for, whose move it is, and what to do."""
    if (not_seen := unseen(job, at)) is not None:
        return REQUESTED, not_seen
    general = waiting(job, at)
    if goal.verb == "cancel":
        return KILLED, general
    if goal.verb == "resume":
        return _of_start(job), general
    t = job.part("termination")
    if not _ends(job) or job.is_true("Stalled"):
        return STEPS.get(t.get("step") or "", REACHES) if _ends(job) else REACHES, general
    step: str | None = t.get("step")
    if t.get("finalCheckpoint") is not None:
        return STEPS["Closed"], ("everything is saved; the process ends", Mover.JOB, "")
    if step is None:
        return REACHES, general
    text: str = t.get("progress") or _WITHOUT_PROGRESS.get(step, step)
    problem = _problem(job)
    if problem is not None:
        return STEPS.get(step, step), (f"{text}. {problem[0]}", Mover.YOU, problem[1])
    movers = {"WaitingForIndex": Mover.OPERATOR}
    move = ""
    if job.reason is not None and job.reason.reason == "TerminationTimedOut":
        move = "it is late and continues; `kubectl streamjob cancel` ends it without a savepoint"
    return STEPS.get(step, step), (text, movers.get(step, Mover.JOB), move)


def _of_start(job: Job) -> str:
    driver = job.part("driver")
    if _ends(job) or not driver.get("uid") or job.waits_for_pod:
        return CREATED
    return STARTS if driver.get("phase") in (None, "Pending") else RUNS


def _problem(job: Job) -> tuple[str, str] | None:
    """Why the step is stuck, and the remedy. The driver tries again."""
    error, why = job.last_error, job.conditions.get("Reconciling")
    if error is None or why is None or error.message.rstrip(". \n") not in why.message:
        return None
    return f"{error.reason}: {error.message}", error.remedy
