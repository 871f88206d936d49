"""What drivers leave behind: their pods, and the executors of a failed driver. Pure, rules of `decide`.

The pods of the newest failed drivers stay for their logs (`Context.kept`), as a CronJob keeps failed Jobs.
Nothing runs in them any more. Each epoch has its own pod name, so they are in nobody's way.
"""

from __future__ import annotations

from ....api import Phase
from ..actions import DeletePod
from ..context import CANCEL_GRACE, Context, Decision, kill, release
from . import handover, terminal_states

TERMINAL_PHASES = (  # no driver runs
    Phase.WAITING,
    Phase.SUSPENDED,
    Phase.STOPPED,
    Phase.DRAINED,
    Phase.FINISHED,
    Phase.CANCELLED,
)


def fence_off_late_drivers(c: Context) -> Decision | None:
    """Delete drivers that an older controller created late. No precondition refuses a creation.

    A newer epoch begins only after the older one has ended, so a driver of an older epoch is a late creation,
    one failed driver too many, or has handed over (`handover`), which is left alone. A late creation is also
    a driver that the status, which is written first, does not ask for: the job is in a terminal phase, or
    another pod of this name has existed. The latter kind is deleted only if it has not started yet: the pod's
    version is a precondition.
    """
    older = [
        p
        for p in c.pods
        if p.epoch < c.status.epoch and not p.deleting and not handover.has_handed_over(c, p)
    ]
    if older:
        ended = [p for p in older if p.exited]  # failed, and another driver has taken over at once
        do = (*kill(p for p in older if p not in ended), *release(ended))
        return Decision(c.status, do)
    pod, recorded = c.observed.pod, c.observed.job.status.driver
    if pod is None or pod.started or pod.deleting:
        return None
    if recorded is None and c.phase not in TERMINAL_PHASES:
        return None
    if recorded is not None and (recorded.pod != pod.name or recorded.uid in (None, pod.uid)):
        return None
    s = c.status.model_copy(update={"driver": recorded})
    return Decision(s, (DeletePod(pod.name, pod.uid, pod.version, CANCEL_GRACE),))


def remove_the_executors_of_a_failed_driver(c: Context) -> Decision | None:
    """Delete the executors of a driver whose failure is recorded.

    Kubernetes deletes them with their owner, the driver's pod, but that stays until the backoff is over, or
    longer. Those that run end when they lose the driver; those that wait for a node would wait on.
    """
    if not c.observed.executors_left:
        return None
    return Decision(c.status, tuple(DeletePod(e.name, e.uid) for e in c.observed.executors_left))


def remove_the_exited_driver(c: Context) -> Decision | None:
    """Delete the pod: the driver's final checkpoint is in the index, or its failure in the status.

    The job is at rest when the last container has exited. The kubelet takes seconds more to remove the pod.
    """
    do = release(c.pods)
    return Decision(c.status, do) if do or not c.at_rest else None


def wait_until_it_is_gone(c: Context) -> Decision | None:
    """Nothing begins before the pod is gone, unless it stays for its log."""
    if not c.pods:
        return None
    if c.failed is not None and not c.settled:
        return Decision(c.status)  # it says why the driver has failed
    return terminal_states.wait_for_pod_deletion(c, "The next driver is created")
