"""Live savepoints: which one is requested, and its outcome. Pure, a part of `decide`.

`follow` updates the request in the status, whatever else is decided: one request at a time, recorded (id,
target, deadline) before it is sent. The request goes to whichever driver runs; if that driver dies, the
next one gets it, until the deadline. The request is over when the index has its checkpoint, or when the
driver reports that it aborted the savepoint. It is also over when no driver is left to report: the job has
ended, or the deadline is long past. A request never keeps the job from its desired state.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from ....api import Phase, SavepointCause, SavepointRequestStatus, Status
from ....api.cron import schedule
from ....api.types import duration
from ....protocol.messages.commands import SAVEPOINT_ID, SavepointRequest
from ....protocol.times import moment, timestamp
from ...objects import names
from ..actions import SendSavepoint
from ..context import Context, Decision, DesiredState

GRACE = timedelta(minutes=1)  # after the deadline, for the driver itself to report that a savepoint timed out
ENDED = (Phase.FINISHED, Phase.DRAINED)  # no driver will start, whatever the spec asks for
NO_DRIVER = (*ENDED, Phase.FAILED)


def follow(c: Context) -> Context:
    """The context with the savepoint request in its status brought up to date."""
    s, spec = _come_to(c), c.observed.job.spec.savepoint
    if not s.epoch:  # just created: there is nothing to save
        return replace(c, status=s.model_copy(update={"savepoint_nonce": spec.nonce}))
    if c.desired is DesiredState.UPGRADE:
        return replace(c, status=s)  # the next driver gets a pending request, and whatever is due by then
    if c.desired is not DesiredState.RUN:
        return replace(c, status=_not_running(c, s))
    if s.phase in ENDED:
        return replace(c, status=_not_running(c, s))
    if s.phase is Phase.WAITING:
        return replace(c, status=s)  # as before an upgrade: the next round's driver
    if s.phase is Phase.FAILED:  # a trigger set now is answered when the job runs again
        return replace(c, status=s.model_copy(update={"next_savepoint_at": None}))
    free = _free(c, s)
    if free and spec.nonce != s.savepoint_nonce:
        s = s.model_copy(update={"savepoint_nonce": spec.nonce})
        if spec.nonce is not None:
            s, free = (
                _ask(c, s, SavepointCause.MANUAL, f"manual-{c.observed.job.metadata.generation}"),
                False,
            )
    return replace(c, status=_by_schedule(c, s, free))


def request_to_send(c: Context) -> tuple[SendSavepoint, ...]:
    """The request to send to the running driver, if it has not received it yet."""
    request, driver = c.status.savepoint_request, c.observed.driver
    if request is None or request.over or driver is None or request.request_id in c.observed.acknowledged:
        return ()
    if driver.savepoint is not None and driver.savepoint.request_id == request.request_id:
        return ()
    left = max((moment(request.deadline) - c.now).total_seconds(), 1.0)
    return (SendSavepoint(SavepointRequest(request.request_id, c.status.epoch, request.savepoint, left)),)


def requeue_for(decision: Decision, c: Context) -> Decision:
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
        waits = c.desired is not DesiredState.RUN or s.phase is Phase.WAITING
        if s.next_savepoint_at is not None and not waits:
            due.append(moment(s.next_savepoint_at))
        if _unanswered(c, s):
            due.append(c.now)
    delays = [max((at - c.now).total_seconds(), 1.0) for at in due]
    if decision.requeue_after is not None:
        delays.append(decision.requeue_after)
    return replace(decision, requeue_after=min(delays)) if delays else decision


# --- parts --------------------------------------------------------------------------------------------------


def _come_to(c: Context) -> Status:
    """The status with the outcome or the progress of the request."""
    request, report = c.status.savepoint_request, c.observed.report
    if request is None or request.checkpoint is not None:
        return c.status
    records = c.observed.index.checkpoints if c.observed.index else ()
    record = next((r for r in records if r.request_id == request.request_id), None)
    reported = report.savepoint if report is not None and report.savepoint is not None else None
    if record is not None:
        # Also one that was aborted: late, but there.
        return _with(c.status, request, checkpoint=record.checkpoint, progress=None, failure=None)
    if request.failure is not None:
        return c.status
    reported = reported if reported is not None and reported.request_id == request.request_id else None
    problem = (
        f"{reported.problem.message}. {reported.problem.remedy}".rstrip(". ")
        if reported and reported.problem
        else None
    )
    if reported is not None and reported.over and reported.completed is None:
        return _with(c.status, request, progress=None, failure=problem or "the driver gave it up")
    if c.now >= moment(request.deadline) + GRACE:
        return _with(
            c.status, request, progress=None, failure=problem or f"it was not done until {request.deadline}"
        )
    return _with(c.status, request, progress=problem or (reported.progress if reported else None) or None)


def _not_running(c: Context, s: Status) -> Status:
    """The status of a job that is to end, or has ended. A live driver that has the request reports the
    outcome itself; any other request fails here, and so does a new trigger.
    """
    spec, request, driver = c.observed.job.spec.savepoint, s.savepoint_request, c.observed.driver
    why = "the job is request to end, with a savepoint of its own"
    if c.desired is DesiredState.CANCEL:
        why = "the job was cancelled"
    elif c.desired is DesiredState.SUSPEND:
        why = "the job is suspended, with a savepoint of its own"
    elif c.desired is DesiredState.RUN:
        why = "the job has ended"
    if request is not None and not request.over:
        heard = driver.savepoint if driver is not None else None
        if not c.observed.lives or heard is None or heard.request_id != request.request_id:
            s = _with(s, request, progress=None, failure=why)
    if not _free(c, s):
        return s.model_copy(update={"next_savepoint_at": None})
    if spec.nonce is not None and spec.nonce != s.savepoint_nonce:
        s = _ask(c, s, SavepointCause.MANUAL, f"manual-{c.observed.job.metadata.generation}", failure=why)
    return s.model_copy(update={"savepoint_nonce": spec.nonce, "next_savepoint_at": None})


def _free(c: Context, s: Status) -> bool:
    """Whether another savepoint may be requested. The status has room for one outcome, and each must be
    written before the next request replaces it.
    """
    return all(
        request is None or request.over
        for request in (s.savepoint_request, c.observed.job.status.savepoint_request)
    )


def _unanswered(c: Context, s: Status) -> bool:
    """Whether a nonce is still unanswered: it is due once the current outcome is written, and no event
    announces it.
    """
    waits = c.desired is DesiredState.UPGRADE or s.phase in (Phase.FAILED, Phase.WAITING)
    return s.epoch > 0 and not waits and s.savepoint_nonce != c.observed.job.spec.savepoint.nonce


def _by_schedule(c: Context, s: Status, free: bool) -> Status:
    """Request a scheduled savepoint when it is due: one, even if several due times have passed."""
    text, at = c.observed.job.spec.savepoint.schedule, s.next_savepoint_at
    if text is None:
        return s.model_copy(update={"next_savepoint_at": None})
    times = schedule(text, c.observed.job.spec.savepoint.time_zone)
    # A missed time of an earlier schedule is not made up for.
    if at is not None and moment(at) <= c.now and times.has(moment(at)):
        if not free:
            return s
        s = _ask(c, s, SavepointCause.SCHEDULE, f"schedule-{_compact(moment(at))}")
    following = times.after(c.now)
    return s.model_copy(update={"next_savepoint_at": timestamp(following) if following else None})


def _ask(c: Context, s: Status, cause: SavepointCause, name: str, failure: str | None = None) -> Status:
    """The status with a new request. Its id follows from spec and schedule, so every controller derives the
    same one.
    """
    request_id = SAVEPOINT_ID + name
    request = SavepointRequestStatus(
        request_id=request_id,
        cause=cause,
        requested_at=timestamp(c.now),
        deadline=timestamp(c.now + duration(c.observed.job.spec.savepoint.timeout)),
        savepoint=names.savepoint(c.observed.job, request_id),
        failure=failure,
    )
    return s.model_copy(update={"savepoint_request": request})


def _with(s: Status, request: SavepointRequestStatus, **changes: object) -> Status:
    return s.model_copy(update={"savepoint_request": request.model_copy(update=changes)})


def _compact(at: datetime) -> str:
    return at.strftime("%Y%m%d-%H%M")
