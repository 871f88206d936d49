"""Escalation: what `termination.escalation` makes of a stop or drain whose timeout has passed. Pure, a part of `decide`.

Nothing is escalated that was not declared, and nothing further than declared. It is recorded before anything is done, stays in
force until `spec.state` changes, and what came of it stands in the conditions: the job is not what the spec asks for.

A driver cannot be talked out of a drain (its timers may be firing), so for a stop in its place it is killed; the next one stops
where the last committed batch was. If the max watermark is in the offset log by then, that one completes the drain.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from ..api import Escalation, EscalationStatus, Phase, State, Status, TerminationInfo
from ..api.types import moment, timestamp
from ..protocol.messages import Mode
from .case import Case, Decision, Goal, escalated, kill, timeout

ESCALATED = "Escalated"


def aim(c: Case) -> Case:
    """Another `spec.state` asks anew."""
    if c.s.escalation is None or escalated(c.o.job) is not None:
        return c
    return replace(c, s=c.s.model_copy(update={"escalation": None}))


def escalate(c: Case) -> Decision | None:
    """A rule. The timeout has passed: the next mode that is declared, if any."""
    t, mode = c.s.termination, _next_mode(c)
    if t is None or mode is None or _over(c) or c.now < _deadline(c, t):
        return None
    if c.s.escalation is None and t.mode != c.mode:
        return None  # the user has asked for something else since: that has not had its time
    e = EscalationStatus(
        state=c.o.job.spec.state,
        mode=mode,
        epoch=c.s.epoch,
        request_id=t.request_id,
        since=timestamp(c.now),
        waited_for=t.progress or t.step or "the driver",
    )
    phase = Phase.STOPPING if mode is Escalation.STOP else Phase.CANCELLING
    s = c.s.model_copy(update={"escalation": e})
    return c.decide(phase, ESCALATED, why(e), status=s, wake=0.0)


def _next_mode(c: Case) -> Escalation | None:
    """What comes after the goal. A deletion has an escalation of its own. Where only the process is left, there is nothing to
    stop any more: a cancel ends it, and the job is what was asked for."""
    if c.o.job.deleting or c.goal not in (Goal.STOP, Goal.DRAIN):
        return None
    stops = c.goal is Goal.DRAIN and not c.leaving
    declared = c.o.job.spec.termination.escalation
    return next((m for m in declared if stops or m is Escalation.CANCEL), None)


def _deadline(c: Case, t: TerminationInfo) -> datetime:
    """A stop that a drain has become has its own time, also before a driver could be told of it."""
    e, own = c.s.escalation, moment(t.deadline)
    return max(own, moment(e.since) + timeout(c.o, Goal.STOP)) if e is not None else own


def _over(c: Case) -> bool:
    """It has come to its end, or waits for a person."""
    done = c.settled and not any(not p.over for p in c.o.pods)
    return done or (c.failed is not None and c.failed.next_at is None)


def break_off(c: Case) -> Decision | None:
    """A rule. The driver that drains is killed, or the one that answers nobody; its successor is told to stop."""
    e, pod = _stop(c), c.o.pod
    if e is None or pod is None or pod.over or c.leaving:
        return None
    said = c.o.driver.termination if c.o.driver else None
    drains = said is not None and said.mode is Mode.DRAIN
    if not (drains or e.request_id in c.o.acknowledged or (pod.started and c.o.silent)):
        return None  # it was never told: a stop is asked for instead
    return c.decide(Phase.STOPPING, ESCALATED, why(e), do=kill([pod]))


def go_on(c: Case, s: Status) -> Decision | None:
    """The driver is gone as it should: this is no failure that `restart` has a say in."""
    e = _stop(c)
    if e is None:
        return None
    s = s.model_copy(update={"restarts": c.restart_now})
    return c.decide(Phase.RESTARTING, ESCALATED, why(e), status=s, wake=0.0)


def _stop(c: Case) -> EscalationStatus | None:
    """In force, and for the driver of this epoch."""
    e = c.s.escalation
    return e if e is not None and e.mode is Escalation.STOP and e.epoch == c.s.epoch else None


def outcome(c: Case, s: Status) -> Decision | None:
    """What it has come to, when nothing lives any more."""
    e, latest = c.s.escalation, c.o.index.latest if c.o.index else None
    if e is None or c.o.job.deleting:
        return None
    if not c.settled or latest is None:
        text = f"{why(e)} The driver was killed, there is no savepoint. Running goes on from the latest checkpoint"
        return c.decide(Phase.CANCELLED, ESCALATED, text, stalled=True, status=s)
    taken = f"checkpoint {latest.checkpoint}" + (
        f", savepoint {latest.savepoint}" if latest.savepoint else ""
    )
    if e.state is State.STOPPED:
        return c.decide(Phase.STOPPED, "Stopped", f"{why(e)} Before that it had ended with {taken}", status=s)
    text = (
        f"{why(e)} It is stopped with {taken}; its windows are not flushed. "
        "Set spec.state to Cancelled, and then to Drained to try again or to Running to go on"
    )
    return c.decide(Phase.STOPPED, ESCALATED, text, stalled=True, status=s)


def why(e: EscalationStatus) -> str:
    """One sentence."""
    kind = "drain" if e.state is State.DRAINED else "stop"
    becomes = "a stop" if e.mode is Escalation.STOP else "a cancel"
    return f"The {kind} waited for {e.waited_for} until its timeout, and becomes {becomes}, as spec.termination.escalation says."


def wake(c: Case, s: Status) -> float | None:
    """Seconds until the timeout has passed."""
    t = s.termination
    if t is None or _next_mode(c) is None or _over(c):
        return None
    left = (_deadline(c, t) - c.now).total_seconds()
    return left if left > 0 else None
