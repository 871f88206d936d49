"""Escalates a stop or drain whose timeout has passed, as `termination.escalation` declares.

Pure, part of `decide`.

Nothing is escalated that was not declared, and nothing goes further than declared. An escalation is recorded
before anything is done and stays in force until `spec.state` changes. The conditions report its outcome,
because the job is not what the spec asks for.

A draining driver cannot switch to a stop, because its timers may be firing. For a stop it is killed, and the
next driver stops at the last committed batch. Where the max watermark is in the offset log by then, it first
completes that batch.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from ....api import Escalation, EscalationStatus, Phase, State, Status, TerminationInfo
from ....protocol.messages.commands import Mode
from ....protocol.times import moment, timestamp
from ...reports.messages import how_far, next_start
from ..context import Context, Decision, DesiredState, escalated, kill, timeout

ESCALATED = "Escalated"


def resolve(c: Context) -> Context:
    """Forget the escalation if `spec.state` has changed: that is a new request."""
    if c.status.escalation is None or escalated(c.observed.job) is not None:
        return c
    return replace(c, status=c.status.model_copy(update={"escalation": None}))


def escalate(c: Context) -> Decision | None:
    """A rule. If the timeout has passed, switch to the next declared mode, if any."""
    t, mode = c.status.termination, _next_mode(c)
    if t is None or mode is None or _over(c) or c.now < _deadline(c, t):
        return None
    if c.status.escalation is None and t.mode != c.mode:
        return None  # the user has requested something else since, whose timeout has not passed
    e = EscalationStatus(
        state=c.observed.job.spec.state,
        mode=mode,
        epoch=c.status.epoch,
        request_id=t.request_id,
        since=timestamp(c.now),
        waited_for=how_far(t.step, t.progress) if t.step else "the driver",
    )
    phase = Phase.STOPPING if mode is Escalation.STOP else Phase.CANCELLING
    s = c.status.model_copy(update={"escalation": e})
    return c.decide(phase, ESCALATED, why(e), status=s, requeue_after=0.0)


def _next_mode(c: Context) -> Escalation | None:
    """The declared mode that follows the desired state; None if there is none.

    A deletion has an escalation of its own. Once only the process is left, there is nothing more to stop: a
    cancel ends it, and the job is what the spec asks for.
    """
    if c.observed.job.deleting or c.desired not in (
        DesiredState.STOP,
        DesiredState.DRAIN,
        DesiredState.SUSPEND,
    ):
        return None
    stops = c.desired is DesiredState.DRAIN and not c.leaving
    declared = c.observed.job.spec.termination.escalation
    return next((m for m in declared if stops or m is Escalation.CANCEL), None)


def _deadline(c: Context, t: TerminationInfo) -> datetime:
    """When the termination is due.

    A stop that replaced a drain has its own timeout, which runs even before a driver has the request.
    """
    e, own = c.status.escalation, moment(t.deadline)
    return max(own, moment(e.since) + timeout(c.observed, DesiredState.STOP)) if e is not None else own


def _over(c: Context) -> bool:
    """The termination has come to its end, or it waits for a person."""
    done = c.settled and not any(not p.terminated for p in c.observed.pods)
    return done or c.gave_up


def cancel_escalated(c: Context) -> Decision | None:
    """A rule. Kill the driver that drains or does not answer; its successor is asked to stop."""
    e, pod = _stop(c), c.observed.pod
    if e is None or pod is None or pod.terminated or c.leaving:
        return None
    reported = c.observed.driver.termination if c.observed.driver else None
    drains = reported is not None and reported.mode is Mode.DRAIN
    if not (drains or e.request_id in c.observed.acknowledged or (pod.started and c.observed.silent)):
        return None  # it never got the drain request: a stop is requested instead
    return c.decide(Phase.STOPPING, ESCALATED, why(e), do=kill([pod]))


def go_on(c: Context, s: Status) -> Decision | None:
    """Begin the next epoch at once.

    The driver is gone as the escalation intends, so `spec.restart` does not apply.
    """
    e = _stop(c)
    if e is None:
        return None
    s = s.model_copy(update={"restarts": c.restart_now})
    return c.decide(Phase.RESTARTING, ESCALATED, why(e), status=s, requeue_after=0.0)


def _stop(c: Context) -> EscalationStatus | None:
    """The escalation to a stop that is in force for the driver of this epoch; None if there is none."""
    e = c.status.escalation
    return e if e is not None and e.mode is Escalation.STOP and e.epoch == c.status.epoch else None


def outcome(c: Context, s: Status) -> Decision | None:
    """The terminal state of an escalated job without a live driver; None if nothing was escalated."""
    e, latest = c.status.escalation, c.observed.latest
    if e is None or c.observed.job.deleting:
        return None
    if e.state is State.RUNNING:  # it was to be suspended, and is
        text = f"{why(e)} When spec.suspend is false, it {next_start(c.observed.job, s)}"
        return c.decide(Phase.SUSPENDED, "Suspended", text, status=s)
    if not c.settled or latest is None:
        text = (
            f"{why(e)} The driver was killed, there is no savepoint. Running {next_start(c.observed.job, s)}"
        )
        return c.decide(Phase.CANCELLED, ESCALATED, text, stalled=True, status=s)
    taken = f"checkpoint {latest.checkpoint}" + (
        f", savepoint {latest.savepoint}" if latest.savepoint else ""
    )
    if e.state is State.STOPPED:
        return c.decide(Phase.STOPPED, "Stopped", f"{why(e)} Before that it had ended with {taken}", status=s)
    text = (
        f"{why(e)} It is stopped with {taken}; its windows are not flushed. "
        "Set spec.state to Cancelled, and then to Drained to try again or to Running to continue"
    )
    return c.decide(Phase.STOPPED, ESCALATED, text, stalled=True, status=s)


def why(e: EscalationStatus) -> str:
    """Say in one sentence what was escalated and why."""
    kind = "drain" if e.state is State.DRAINED else "stop"
    becomes = "a stop" if e.mode is Escalation.STOP else "a cancel"
    return (
        f"The {kind} waited for {e.waited_for} until its timeout, and becomes {becomes}, as "
        "spec.termination.escalation says."
    )


def requeue_after(c: Context, s: Status) -> float | None:
    """Seconds until the timeout passes; None if nothing follows or it has passed."""
    t = s.termination
    if t is None or _next_mode(c) is None or _over(c):
        return None
    left = (_deadline(c, t) - c.now).total_seconds()
    return left if left > 0 else None
