"""How a job restarts and ends, as both operators' applications have it."""

from __future__ import annotations

from .. import values
from ..draft import Draft
from ..source import Obj, Path

RESTARTS_MOST = 10000
LONGEST = 300  # seconds, the default of restart.backoff.max
GRACE_LEAST, GRACE_MOST = 1, 86400


def grace_period(draft: Draft, path: Path) -> None:
    """The time that the driver has at SIGTERM."""
    time = draft.source.get(path)
    if time is None:
        return
    if draft.has("termination.gracePeriod"):
        draft.source.overridden(path, "spec.termination.gracePeriod")
        return
    bounded = min(max(values.number(time, "terminationGracePeriodSeconds"), GRACE_LEAST), GRACE_MOST)
    draft.put("termination.gracePeriod", f"{bounded}s")
    message = "the driver has this time for a savepoint when its pod is evicted; the default is 60s"
    draft.source.changed(path, "spec.termination.gracePeriod", message)


def backoff(seconds: int) -> Obj:
    """`restart.backoff` that begins with this delay."""
    delay: Obj = {"initial": values.duration(seconds)}
    if seconds > LONGEST:
        delay["max"] = delay["initial"]
    return delay


def never(draft: Draft, policy: Path, at: Path) -> None:
    """A failed job is not restarted.

    :param policy: the field that says so.
    :param at: the object with all fields about restarts.
    """
    draft.put("restart.policy", "Never")
    draft.source.kept(policy, "spec.restart.policy")
    draft.source.unneeded(at, "the policy is Never")
    draft.source.decide("spec.restart.policy", "OnFailure is what most streams want; the old job had Never")
