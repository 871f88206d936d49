"""Savepoints beside the run: which is asked for, and what became of it. Pure, like `decide`, of which it is a part.

`follow` keeps the book in the status, whatever else is decided: one request at a time, recorded (id, target, deadline) before
`tell` sends it. A request goes to whichever driver runs; one that dies leaves it to the next, until its deadline. It is over when
the index has its checkpoint, or when the driver says that it gave it up; or when nobody is left to say so: the job has ended, or
the deadline is long past. Nothing of this ever keeps the job from what its spec asks for.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from ..api import Phase, SavepointCause, SavepointRequestStatus, Status
from ..api.cron import schedule
from ..api.types import duration, moment, timestamp
from ..protocol.messages import SAVEPOINT_ID, SavepointRequest
from . import names
from .actions import SendSavepoint
from .case import Case, Decision, Goal

GRACE = timedelta(minutes=1)  # for a driver to say itself that the time of a savepoint is over
ENDED = (Phase.FINISHED, Phase.DRAINED)  # whatever the spec asks for, no driver is on its way
NO_DRIVER = (*ENDED, Phase.FAILED)


def follow(c: Case) -> Case:
    """The case with the book of savepoints brought up to date."""
    s, spec = _come_to(c), c.o.job.spec.savepoint
    if not s.epoch:  # created just now: there is nothing to save
        return replace(c, s=s.model_copy(update={"savepoint_trigger": spec.trigger}))
    if c.goal is Goal.UPGRADE:
        return replace(c, s=s)  # the next driver gets what this one has not done, and what is due by then
    if c.goal is not Goal.RUN:
        return replace(c, s=_not_running(c, s))
    if s.phase in ENDED:
        return replace(c, s=_not_running(c, s))
    if s.phase is Phase.FAILED:  # asked for now, it is taken when the job runs again
        return replace(c, s=s.model_copy(update={"next_savepoint_at": None}))
    free = _free(c, s)
    if free and spec.trigger != s.savepoint_trigger:
        s = s.model_copy(update={"savepoint_trigger": spec.trigger})
        if spec.trigger is not None:
            s, free = _ask(c, s, SavepointCause.TRIGGER, f"trigger-{c.o.job.metadata.generation}"), False
    return replace(c, s=_by_schedule(c, s, free))


def tell(c: Case) -> tuple[SendSavepoint, ...]:
    """The driver runs: what it has not heard of."""
    asked, word = c.s.savepoint_request, c.o.driver
    if asked is None or asked.over or word is None or asked.request_id in c.o.acknowledged:
        return ()
    if word.savepoint is not None and word.savepoint.request_id == asked.request_id:
        return ()
    left = max((moment(asked.deadline) - c.now).total_seconds(), 1.0)
    return (SendSavepoint(SavepointRequest(asked.request_id, c.s.epoch, asked.savepoint, left)),)


def wake_for(decision: Decision, c: Case) -> Decision:
    """Look again when the next savepoint is due, or the patience with one ends. A job that has just come to its end has none."""
    s, due = decision.status, []
    if s.phase in NO_DRIVER and s.next_savepoint_at is not None:
        s = s.model_copy(update={"next_savepoint_at": None})
        decision = replace(decision, status=s)
    if s.savepoint_request is not None and not s.savepoint_request.over:
        due.append(moment(s.savepoint_request.deadline) + GRACE)
    else:
        if s.next_savepoint_at is not None and c.goal is Goal.RUN:
            due.append(moment(s.next_savepoint_at))
        if _unanswered(c, s):
            due.append(c.now)
    wakes = [max((at - c.now).total_seconds(), 1.0) for at in due]
    if decision.wake is not None:
        wakes.append(decision.wake)
    return replace(decision, wake=min(wakes)) if wakes else decision


# --- parts -------------------------------------------------------------------------------------------------------


def _come_to(c: Case) -> Status:
    """What has become of the request."""
    asked, word = c.s.savepoint_request, c.o.word
    if asked is None or asked.checkpoint is not None:
        return c.s
    records = c.o.index.checkpoints if c.o.index else ()
    record = next((r for r in records if r.request_id == asked.request_id), None)
    said = word.savepoint if word is not None and word.savepoint is not None else None
    if record is not None:
        # Also one that was given up: late, but there.
        return _with(c.s, asked, checkpoint=record.checkpoint, progress=None, failure=None)
    if asked.failure is not None:
        return c.s
    said = said if said is not None and said.request_id == asked.request_id else None
    problem = f"{said.problem.message}. {said.problem.remedy}".rstrip(". ") if said and said.problem else None
    if said is not None and said.over and said.completed is None:
        return _with(c.s, asked, progress=None, failure=problem or "the driver gave it up")
    if c.now >= moment(asked.deadline) + GRACE:
        return _with(c.s, asked, progress=None, failure=problem or f"it was not done until {asked.deadline}")
    return _with(c.s, asked, progress=problem or (said.progress if said else None) or None)


def _not_running(c: Case, s: Status) -> Status:
    """The job shall end. A driver that has heard of a request says itself what becomes of it."""
    spec, asked, word = c.o.job.spec.savepoint, s.savepoint_request, c.o.driver
    why = "the job is asked to end, with a savepoint of its own"
    if c.goal is Goal.CANCEL:
        why = "the job was cancelled"
    elif c.goal is Goal.RUN:
        why = "the job has ended"
    if asked is not None and not asked.over:
        lives = c.o.pod is not None and not c.o.pod.over
        heard = word.savepoint if word is not None else None
        if not lives or heard is None or heard.request_id != asked.request_id:
            s = _with(s, asked, progress=None, failure=why)
    if not _free(c, s):
        return s.model_copy(update={"next_savepoint_at": None})
    if spec.trigger is not None and spec.trigger != s.savepoint_trigger:
        s = _ask(c, s, SavepointCause.TRIGGER, f"trigger-{c.o.job.metadata.generation}", failure=why)
    return s.model_copy(update={"savepoint_trigger": spec.trigger, "next_savepoint_at": None})


def _free(c: Case, s: Status) -> bool:
    """Another one may be asked for. The status has one place for an answer, and each is written down before the next."""
    return all(
        asked is None or asked.over for asked in (s.savepoint_request, c.o.job.status.savepoint_request)
    )


def _unanswered(c: Case, s: Status) -> bool:
    """Once this answer is written, another one is due, which no event brings about."""
    waits = c.goal is Goal.UPGRADE or s.phase is Phase.FAILED
    return s.epoch > 0 and not waits and s.savepoint_trigger != c.o.job.spec.savepoint.trigger


def _by_schedule(c: Case, s: Status, free: bool) -> Status:
    """Ask for one when its moment has come; if several have passed, for one."""
    text, at = c.o.job.spec.savepoint.schedule, s.next_savepoint_at
    if text is None:
        return s.model_copy(update={"next_savepoint_at": None})
    times = schedule(text)
    # Of an earlier schedule nothing is made up for.
    if at is not None and moment(at) <= c.now and times.has(moment(at)):
        if not free:
            return s
        s = _ask(c, s, SavepointCause.SCHEDULE, f"schedule-{_compact(moment(at))}")
    following = times.after(c.now)
    return s.model_copy(update={"next_savepoint_at": timestamp(following) if following else None})


def _ask(c: Case, s: Status, cause: SavepointCause, name: str, failure: str | None = None) -> Status:
    """A new request. Its id follows from spec and schedule: whoever decides it gets the same."""
    request_id = SAVEPOINT_ID + name
    asked = SavepointRequestStatus(
        request_id=request_id,
        cause=cause,
        requested_at=timestamp(c.now),
        deadline=timestamp(c.now + duration(c.o.job.spec.savepoint.timeout)),
        savepoint=names.savepoint(c.o.job, request_id),
        failure=failure,
    )
    return s.model_copy(update={"savepoint_request": asked})


def _with(s: Status, asked: SavepointRequestStatus, **changes: object) -> Status:
    return s.model_copy(update={"savepoint_request": asked.model_copy(update=changes)})


def _compact(at: datetime) -> str:
    return at.strftime("%Y%m%d-%H%M")
