"""Suspension: while `spec.suspend` is true, a job in state Running has no driver. Pure, rules of `decide`.

A running driver stops with a savepoint. Unlike a stop, a suspension starts no driver for anything: it frees
the job's resources. If the driver dies before its savepoint is complete, the job continues later from Spark's
checkpoint, as after any crash.
"""

from __future__ import annotations

from ....api import Phase
from ...reports.messages import next_start
from .. import actions
from ..context import Context, Decision, DesiredState
from . import past_drivers
from .terminal_states import ended_by_script, wait_for_pod_deletion


def abandon_an_unstarted_driver(c: Context) -> Decision | None:
    """A rule: delete a driver whose container has not run. It holds nothing.

    The pod's version is a precondition: if the kubelet starts it just now, the pod stays and is asked to
    stop.
    """
    pod = c.observed.pod
    if c.desired not in (DesiredState.SUSPEND, DesiredState.END_ROUND) or pod is None:
        return None
    if pod.started or pod.terminated or pod.deleting:
        return None
    s = c.status.model_copy(update={"driver": None})
    return Decision(s, (actions.DeletePod(pod.name, pod.uid, pod.version),))


def begin_no_driver(c: Context) -> Decision | None:
    """A rule: no driver lives, and none begins. A job that has ended, or failed for good, stays so."""
    if c.desired is not DesiredState.SUSPEND:
        return None
    if (decision := past_drivers.remove_the_exited_driver(c)) is not None:
        return decision
    if (c.settled and (c.ended or ended_by_script(c))) or _failed_for_good(c):
        return None
    if c.pods:  # a queue waits for the room that they still have
        return wait_for_pod_deletion(c, "The job is suspended")
    if c.settled:
        text = f"Suspended {c.where_it_ended}"
    else:
        text = f"Suspended without a savepoint; it {next_start(c.observed.job, c.status)}"
    termination = None if c.open_termination else c.status.termination
    s = c.status.model_copy(update={"driver": None, "termination": termination})
    return c.decide(Phase.SUSPENDED, "Suspended", f"{text}, when spec.suspend is false", status=s)


def _failed_for_good(c: Context) -> bool:
    """Whether the job waits for a change of the spec. To be suspended is none."""
    failed = c.failed
    if failed is None or failed.next_at is not None or c.settled:
        return False
    changed = failed.generation != c.observed.job.metadata.generation
    return not changed or c.open_termination is None
