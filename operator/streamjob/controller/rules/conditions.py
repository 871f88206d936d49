"""Conditions of the status: one of them, and what the phases mean for them."""

from __future__ import annotations

from datetime import datetime

from ...api import Condition, ConditionType, Phase, Status, StreamJob
from ...protocol.times import timestamp

# The phases in which a desired state is reached, and those with work in progress. The one left is Failed.
REACHED = {
    Phase.RUNNING,
    Phase.WAITING,
    Phase.SUSPENDED,
    Phase.STOPPED,
    Phase.DRAINED,
    Phase.FINISHED,
    Phase.CANCELLED,
}
IN_PROGRESS = {
    Phase.PENDING,
    Phase.STARTING,
    Phase.STOPPING,
    Phase.DRAINING,
    Phase.CANCELLING,
    Phase.RESTARTING,
}


def suspended(s: Status, job: StreamJob, now: datetime, phase: Phase, message: str) -> tuple[Condition, ...]:
    """The condition Suspended, once `spec.suspend` has been true. It is True when no driver runs."""
    if job.spec.suspended:
        free = phase not in IN_PROGRESS and phase is not Phase.RUNNING
        value, reason = ("True", "Suspended") if free else ("False", "Suspending")
    elif s.condition(ConditionType.SUSPENDED) is not None:
        value, reason, message = "False", "Resumed", "spec.suspend does not apply any more"
    else:
        return ()
    return (condition(s, job, now, ConditionType.SUSPENDED, value, reason, message),)


def condition(
    s: Status, job: StreamJob, now: datetime, kind: ConditionType, value: str, reason: str, message: str
) -> Condition:
    old = s.condition(kind)
    generation = job.metadata.generation
    if old is not None and (value, reason, message, generation) == (
        old.status,
        old.reason,
        old.message,
        old.observed_generation,
    ):
        return old
    kept = old.last_transition_time if old is not None and old.status == value else None
    return Condition(
        type=kind,
        status=value,
        reason=reason,
        message=message,
        observed_generation=generation,
        last_transition_time=kept or timestamp(now),
    )
