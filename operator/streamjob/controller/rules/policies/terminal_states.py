"""Terminal states: the phase of a job that has no driver, and its deletion. Pure, rules of `decide`."""

from __future__ import annotations

from ....api import Phase, State, Status
from ....protocol.formats.records import CheckpointRecord
from ....protocol.lifecycle import Scenario
from ....protocol.messages.driver_status import Problem
from ...objects import names
from ...reports.messages import sentence
from .. import actions
from ..conditions import IN_PROGRESS
from ..context import Context, Decision, DesiredState, release
from ..observed import BEFORE_GATE
from ..status import fail, own_end
from . import escalation, upgrade


def report_reached(c: Context) -> Decision | None:
    """A rule: the job is in its desired state and has no driver."""
    if not c.settled:
        return None
    # Another end has overtaken a termination that is still open: it is no longer wanted.
    s = c.status.model_copy(
        update={"driver": None, "termination": None if c.open_termination else c.status.termination}
    )
    s = upgrade.at_its_end(s) if c.ended else s
    latest = c.observed.latest
    if c.ended:
        return at_its_end(c, s)
    if c.desired is DesiredState.STOP:
        if (decision := escalation.outcome(c, s)) is not None:
            return decision
        return c.decide(Phase.STOPPED, "Stopped", f"Stopped {c.where_it_ended}", status=s)
    if c.desired is DesiredState.DRAIN and latest is not None and drained_in_vain(c, latest):
        left = ", ".join(s.uid for s in latest.stages if not s.finished) or "queries"
        text = (
            f"The drain has become a stop with checkpoint {latest.checkpoint}: whether {left} have read "
            "everything cannot be established, so their windows are not flushed. Set spec.state to Running "
            "to continue, and then to Drained to try again"
        )
        return c.decide(Phase.STOPPED, "EndOfInputUnknown", text, stalled=True, status=s)
    if c.desired in (DesiredState.RUN, DesiredState.SUSPEND) and ended_by_script(c):
        left = ", ".join(s.uid for s in latest.stages if not s.finished) if latest else ""
        text = (
            f"The script has ended and has left {left or 'queries'} unfinished. "
            "Set spec.state to Stopped and then to Running to continue"
        )
        return c.decide(Phase.FINISHED, "ScriptEnded", text, status=s)
    return None


def ended_by_script(c: Context) -> bool:
    """Whether the script has ended and left queries unfinished, and the job was not asked to continue since.
    With a schedule, that is the end of a round.

    Only the phase tells. A job without a status is Pending, too, and has not been asked.
    """
    if c.observed.job.spec.schedule is not None:
        return False
    latest = c.observed.latest
    by_script = latest is not None and own_end(latest) and latest.epoch == c.status.epoch
    asked_since = (Phase.WAITING, Phase.SUSPENDED, Phase.STOPPED, Phase.CANCELLED, Phase.PENDING)
    return by_script and c.status.phase not in asked_since


def drained_in_vain(c: Context, latest: CheckpointRecord) -> bool:
    """Whether the drain that this generation asks for has ended as a stop (`Task.leaves_rest`)."""
    asked = c.new_termination(latest.epoch)
    return latest.scenario is Scenario.STOP and asked is not None and latest.request_id == asked.request_id


def at_its_end(c: Context, s: Status) -> Decision:
    """The job is drained or has run out of input: it never runs again."""
    latest = c.observed.latest
    assert latest is not None
    asked = c.desired is DesiredState.DRAIN or c.observed.job.spec.state is State.DRAINED
    by_request = latest.scenario is Scenario.DRAIN or asked
    if not by_request:
        text = f"All sources ran out; checkpoint {latest.checkpoint} is the last"
        return c.decide(Phase.FINISHED, "Finished", text, status=s)
    if c.desired is not DesiredState.RUN:
        left = s.termination.state_rows_left if s.termination else None
        kept = f", {left} rows of state are left" if left else ""
        stopped = ", ".join(stage.uid for stage in latest.stages if not stage.finished)
        but = f", but nothing of {stopped}" if stopped else ""
        text = f"Drained with checkpoint {latest.checkpoint}: every window is flushed{but}{kept}"
        return c.decide(Phase.DRAINED, "Drained", text, status=s)
    savepoint = latest.savepoint or "its savepoint"
    problem = Problem(
        "AlreadyDrained",
        "the job has been drained, which is its end: rows older than its last watermark would be dropped as "
        "late",
        f"Make a new StreamJob with restoreFrom.savepoint: {savepoint} and restoreFrom.allowDrained: true",
    )
    s = fail(s, problem, c.now)
    return c.decide(Phase.DRAINED, problem.reason, sentence(problem), stalled=True, status=s)


def leave_a_deleted_job_alone(c: Context) -> Decision | None:
    """Our finalizer is removed or was never set: Kubernetes does the rest."""
    if c.observed.job.deleting and names.FINALIZER not in c.observed.job.metadata.finalizers:
        return Decision(c.observed.job.status)
    return None


def end_the_idle_driver_of_a_deleted_job(c: Context) -> Decision | None:
    """Delete the driver of a deleted job if it has started no query: there is nothing new to save.

    If the container has not run, the pod's version is a precondition: a driver that the kubelet starts just
    now is asked first. If it has, SIGTERM ends it within the pod's own grace period: the driver leaves at
    once, or with a savepoint if a query has started meanwhile.
    """
    pod, driver = c.observed.pod, c.observed.driver
    if not c.observed.job.deleting or pod is None or pod.terminated or pod.deleting or c.observed.silent:
        return None
    if c.has_to_finish:
        return None
    if not pod.started:
        s = c.status.model_copy(update={"driver": None})
        return Decision(s, (actions.DeletePod(pod.name, pod.uid, pod.version),))
    if driver is None:  # it is about to answer
        return Decision(c.status, requeue_after=c.until_deletion_is_due)
    if driver.phase not in BEFORE_GATE:
        return None
    return Decision(c.status, (actions.DeletePod(pod.name, pod.uid),))


def remove_the_finalizer_of_a_deleted_job(c: Context) -> Decision | None:
    """Remove the finalizer of a deleted job that has no live driver.

    If a termination has begun, another driver completes it first; no driver is started for anything else.
    """
    if not c.observed.job.deleting:
        return None
    if c.has_to_finish and not c.settled and not c.gave_up:
        return None
    return remove_finalizer(c) if c.at_rest else Decision(c.status, release(c.pods))


def remove_finalizer(c: Context) -> Decision:
    """Remove the finalizer. Another job of the same name would find the names of the pods taken."""
    if c.pods:
        return wait_for_pod_deletion(c, "The job is deleted")
    return Decision(c.status, (actions.SetFinalizer(False),))


def leave_a_namespace_that_is_being_deleted(c: Context) -> Decision | None:
    """A rule: nothing can start in a namespace that is being deleted, and our permissions in it may be
    removed next. So remove the finalizer now, before the job itself is deleted.
    """
    if not c.observed.namespace_ends:
        return None
    latest = c.observed.latest
    if c.settled and latest is not None and latest.savepoint:
        remedy = f"Make a StreamJob elsewhere with restoreFrom.savepoint: {latest.savepoint}"
    else:
        remedy = "There is no savepoint of its end; make a StreamJob elsewhere with restoreFrom.checkpoints"
    problem = Problem(
        "NamespaceTerminating", "the namespace is being deleted: nothing can begin in it", remedy
    )
    ours = names.FINALIZER in c.observed.job.metadata.finalizers
    s = fail(c.status, problem, c.now)
    do = (actions.SetFinalizer(False),) if ours else ()
    return c.decide(c.phase, problem.reason, sentence(problem), stalled=True, do=do, status=s)


def wait_for_pod_deletion(c: Context, what: str, phase: Phase | None = None) -> Decision:
    """The job is at rest, and `what` has to wait for the kubelet, or for somebody who holds the pod."""
    # A job that was Stopped is asked for something new. Pending keeps that in mind (`ended_by_script`).
    phase = phase or (c.phase if c.phase in IN_PROGRESS else Phase.PENDING)
    left = ", ".join(p.name for p in c.pods)
    return c.decide(phase, phase.value, f"{what} when this pod is gone: {left}", do=release(c.pods))
