"""Live savepoints: which one is requested, and its outcome. Pure, a part of `decide`.

`follow` updates the request in the status, whatever else is decided: one request at a time, recorded (id,
target, deadline) before `tell` sends it. The request goes to whichever driver runs; if that driver dies, the
next one gets it, until the deadline. The request is over when the index has its checkpoint, or when the
driver reports that it aborted the savepoint. It is also over when no driver is left to report: the job has
ended, or the deadline is long past. A request never keeps the job from its desired state.
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

GRACE = timedelta(minutes=1)  # after the deadline, for the driver itself to report that a savepoint timed out
ENDED = (Phase.FINISHED, Phase.DRAINED)  # no driver will start, whatever the spec asks for
NO_DRIVER = (*ENDED, Phase.FAILED)


def follow(c: Case) -> Case:
    """The context with the savepoint request in its status brought up to date."""
    s, spec = _come_to(c), c.o.job.spec.savepoint
    if not s.epoch:  # just created: there is nothing to save
        return replace(c, s=s.model_copy(update={"savepoint_nonce": spec.nonce}))
    if c.goal is Goal.UPGRADE:
        return replace(c, s=s)  # the next driver gets a pending request, and whatever is due by then
    if c.goal is not Goal.RUN:
        return replace(c, s=_not_running(c, s))
    if s.phase in ENDED:
        return replace(c, s=_not_running(c, s))
    if s.phase is Phase.FAILED:  # a trigger set now is answered when the job runs again
        return replace(c, s=s.model_copy(update={"next_savepoint_at": None}))
    free = _free(c, s)
    if free and spec.nonce != s.savepoint_nonce:
        s = s.model_copy(update={"savepoint_nonce": spec.nonce})
        if spec.nonce is not None:
            s, free = _ask(c, s, SavepointCause.MANUAL, f"manual-{c.o.job.metadata.generation}"), False
    return replace(c, s=_by_schedule(c, s, free))


def tell(c: Case) -> tuple[SendSavepoint, ...]:
    """The request to send to the running driver, if it has not received it yet."""
    asked, word = c.s.savepoint_request, c.o.driver
    if asked is None or asked.over or word is None or asked.request_id in c.o.acknowledged:
        return ()
    if word.savepoint is not None and word.savepoint.request_id == asked.request_id:
        return ()
    left = max((moment(asked.deadline) - c.now).total_seconds(), 1.0)
    return (SendSavepoint(SavepointRequest(asked.request_id, c.s.epoch, asked.savepoint, left)),)


def wake_for(decision: Decision, c: Case) -> Decision:
    """The decision, requeued when the next savepoint is due or the pending request times out. A job that has
    just ended or failed has no next savepoint.
    """
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
    """The status with the outcome or the progress of the request."""
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
    """The status of a job that is to end, or has ended. A live driver that has the request reports the
    outcome itself; any other request fails here, and so does a new trigger.
    """
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
    if spec.nonce is not None and spec.nonce != s.savepoint_nonce:
        s = _ask(c, s, SavepointCause.MANUAL, f"manual-{c.o.job.metadata.generation}", failure=why)
    return s.model_copy(update={"savepoint_nonce": spec.nonce, "next_savepoint_at": None})


def _free(c: Case, s: Status) -> bool:
    """Whether another savepoint may be requested. The status has room for one outcome, and each must be
    written before the next request replaces it.
    """
    return all(
        asked is None or asked.over for asked in (s.savepoint_request, c.o.job.status.savepoint_request)
    )


def _unanswered(c: Case, s: Status) -> bool:
    """Whether a nonce is still unanswered: it is due once the current outcome is written, and no event
    announces it.
    """
    waits = c.goal is Goal.UPGRADE or s.phase is Phase.FAILED
    return s.epoch > 0 and not waits and s.savepoint_nonce != c.o.job.spec.savepoint.nonce


def _by_schedule(c: Case, s: Status, free: bool) -> Status:
    """Request a scheduled savepoint when it is due: one, even if several due times have passed."""
    text, at = c.o.job.spec.savepoint.schedule, s.next_savepoint_at
    if text is None:
        return s.model_copy(update={"next_savepoint_at": None})
    times = schedule(text, c.o.job.spec.savepoint.time_zone)
    # A missed time of an earlier schedule is not made up for.
    if at is not None and moment(at) <= c.now and times.has(moment(at)):
        if not free:
            return s
        s = _ask(c, s, SavepointCause.SCHEDULE, f"schedule-{_compact(moment(at))}")
    following = times.after(c.now)
    return s.model_copy(update={"next_savepoint_at": timestamp(following) if following else None})


def _ask(c: Case, s: Status, cause: SavepointCause, name: str, failure: str | None = None) -> Status:
    """The status with a new request. Its id follows from spec and schedule, so every controller derives the
    same one.
    """
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
