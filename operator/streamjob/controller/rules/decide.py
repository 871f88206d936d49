"""Decides what to do about a job, given what was observed and what its spec asks for.

This is the heart of the controller. Pure: no I/O, no clock.

Read RULES from top to bottom: the first rule that returns a decision wins. A decision is the status to write,
and the actions that follow once it is written. The intent (request id, target, deadline, epoch) is always
recorded before the effect.

Invariants, whatever is observed (tests/controller/rules/test_decide_properties.py):
- V2: a driver that may have run is deleted only if it has exited, if it belongs to an older epoch, or if the
  user cancelled: by `spec.state`, by a deletion that does not wait or no longer waits, or by a declared
  escalation. The driver of a deleted job that has started no query gets a SIGTERM.
- V2: a job is at rest (`Context.at_rest`) when every container of its drivers has exited (ADR 49). A new
  epoch, Suspended, Cancelled and the removal of the finalizer also wait until their pods are gone.
- A new epoch begins only when no pod of an earlier one is left but those of failed drivers in which nothing
  runs any more (`Context.kept`), or those of a driver that hands over: of all drivers of a job at most one is
  beyond its gate and not known to be over (`handover`).
- V7: epoch, startedEpoch and observedGeneration never go back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from ...api import DriverInfo, Phase, Spec, Status, TerminationInfo
from ...api.specification import digest, same_attempt
from ...protocol.formats import index as indices
from ...protocol.messages.commands import Mode
from ...protocol.messages.driver_status import TerminationStep
from ..objects import names
from ..reports.messages import cancels, how_far, next_start, sentence
from . import actions, diagnosis
from .actions import Action
from .context import (
    AT_ONCE_AGAIN,
    RECHECK,
    Context,
    Decision,
    DesiredState,
    kill,
    release,
    request,
    resolve,
)
from .driver_config import driver_config
from .observed import BEFORE_GATE, Observed
from .policies import (
    escalation,
    handover,
    indexing,
    past_drivers,
    restarts,
    retention,
    rounds,
    savepoints,
    suspension,
    terminal_states,
    upgrade,
)
from .scaling import autoscale, executors
from .status import degraded, fail, seconds_until, seen

TIMED_OUT_REMEDY = "Wait, fix what it waits for, or set spec.state to Cancelled"


def decide(observed: Observed, now: datetime) -> Decision:
    """Decide what to do now: the only entry point."""
    decision = _decide(observed, now)
    if decision.actions or decision.status == observed.job.status:
        return decision
    # The event of our own write enqueues nothing: find out now whether the new status leads to more.
    written = replace(observed, job=observed.job.model_copy(update={"status": decision.status}))
    after = _decide(written, now)
    leads_on = after.actions or after.status != decision.status
    return replace(decision, requeue_after=AT_ONCE_AGAIN) if leads_on else decision


def _decide(observed: Observed, now: datetime) -> Decision:
    s = degraded(seen(observed), observed, now)
    context = Context(observed, s, resolve(observed, now), now, _target(observed.job.spec, s))
    context = rounds.follow(escalation.resolve(context))
    context = savepoints.follow(handover.resolve(upgrade.resolve(context)))
    context = autoscale.resolve(context)
    for rule in RULES:
        if (decision := rule(context)) is not None:
            return savepoints.requeue_for(
                replace(decision, requeue_after=_requeue_after(context, decision)), context
            )
    raise AssertionError("the last rule decides always")


def _target(spec: Spec, s: Status) -> str:
    """The digest of what the spec says a driver is made from, as the status has recorded it."""
    recorded = s.upgrade.target if s.upgrade else ""
    return recorded if same_attempt(recorded, spec) else digest(spec)


# --- the rules ----------------------------------------------------------------------------------------------


def cancel(c: Context) -> Decision | None:
    """Cancel at any time, also in the middle of a stop: no savepoint, no waiting."""
    if c.desired is not DesiredState.CANCEL:
        return None
    s = c.status.model_copy(
        update={"termination": c.status.termination if c.open_termination is None else None}
    )
    if not c.at_rest:
        text = "The driver is being deleted"
        return c.decide(Phase.CANCELLING, "Cancelling", text, do=kill(c.pods), status=s)
    if do := release(c.pods):
        return Decision(s, do)
    if c.observed.job.deleting:
        return terminal_states.remove_finalizer(replace(c, status=s))
    s = s.model_copy(update={"driver": None})
    if c.ended and c.settled:
        return terminal_states.at_its_end(c, s)
    if c.pods:
        return terminal_states.wait_for_pod_deletion(
            replace(c, status=s), "The job is cancelled", Phase.CANCELLING
        )
    if (decision := escalation.outcome(c, s)) is not None:
        return decision
    text = f"Cancelled; Running {next_start(c.observed.job, s)}"
    return c.decide(Phase.CANCELLED, "Cancelled", text, status=s)


def replace_a_driver_that_cannot_start(c: Context) -> Decision | None:
    """Delete a driver that has never run if it is no longer wanted or the spec has changed; otherwise wait.

    Such a driver holds nothing. The pod's version is a precondition: if the kubelet starts the pod just now,
    the pod stays.
    """
    pod = c.observed.pod
    problem = (
        diagnosis.stuck(pod, c.observed.job, c.now)
        if pod and not pod.terminated and not pod.deleting
        else None
    )
    if pod is None or problem is None:
        return None
    unwanted = (c.desired is DesiredState.STOP or c.observed.job.deleting) and c.settled
    if unwanted or pod.generation != c.observed.job.metadata.generation:
        s = c.status.model_copy(update={"driver": None})
        return Decision(s, (actions.DeletePod(pod.name, pod.uid, pod.version),))
    return c.stall(Phase.STARTING, problem, requeue_after=c.until_deletion_is_due)


def follow_the_driver(c: Context) -> Decision | None:
    """Follow a live driver. If the job has to end, ask the driver to end; it then exits by itself."""
    pod, driver = c.observed.pod, c.observed.driver
    if pod is None or pod.terminated:
        return None
    if pod.deleting and not pod.started:
        return Decision(c.status)  # deleted before it began
    if pod.started and c.observed.silent:
        return c.stall(c.phase, diagnosis.unreachable(pod, driver), requeue_after=c.until_deletion_is_due)
    if c.leaving:
        return _terminating(c, c.status.termination)
    if (driver is not None and driver.termination is not None) or pod.deleting:
        return _terminating(c, c.open_termination)
    ours = c.open_termination
    acknowledged = ours is not None and ours.request_id in c.observed.acknowledged
    if ours is None or (not acknowledged and driver is not None and not c.fits(ours)):
        # Nothing has been requested, or the request has not reached the driver and is no longer the right
        # one.
        ours = c.new_termination(c.status.epoch)
        c = upgrade.asked_to_stop(c.with_termination(ours))
    if ours is None:
        return _running(c)
    send = (
        ()
        if acknowledged or driver is None
        else (actions.SendTermination(request(ours, c.status.epoch, c.observed.job.spec.termination)),)
    )
    return _terminating(c, ours, do=send)


def begin_an_epoch(c: Context) -> Decision:
    """Begin an epoch: a driver is wanted and there is none."""
    if names.FINALIZER not in c.observed.job.metadata.finalizers:
        return c.decide(c.phase, "Pending", "The job is about to begin", do=(actions.SetFinalizer(True),))
    if (decision := handover.wait_for_prepared_driver(c)) is not None:
        return decision
    # A driver that was recorded but never seen may not have been created, or another controller may be about
    # to create it. Reusing the epoch gives both creations the same name, so that only one pod results. If the
    # index has a checkpoint of that epoch, its driver has run.
    ran = c.status.checkpoint is not None and c.status.checkpoint.epoch == c.status.epoch
    again = c.status.driver is not None and c.status.driver.uid is None and not ran
    epoch = c.status.epoch if again else handover.free_epoch(c)
    open_one = c.open_termination
    carried = open_one if open_one is not None and c.fits(open_one) else None
    new_one = c.new_termination(epoch)
    if carried is not None and new_one is not None and c.phase is Phase.FAILED:
        # It has waited for a person: its timeout begins again, or the driver is escalated at once.
        carried = carried.model_copy(update={"deadline": new_one.deadline})
    termination = carried or new_one
    pod = names.driver_pod(c.observed.job.metadata.name, epoch)
    s, made_from = upgrade.begun(c, epoch)
    s = s.model_copy(update={"epoch": epoch, "driver": DriverInfo(pod=pod), "termination": termination})
    carried_request = request(termination, epoch, c.observed.job.spec.termination) if termination else None
    job = c.observed.job.made_from(made_from)
    config = driver_config(job, c.observed.index, epoch, c.status.started_epoch, carried_request)
    new = c.observed.index is None and c.observed.index_problem is None
    index = (actions.WriteIndex(indices.empty(c.observed.job.metadata.uid), None),) if new else ()
    do = actions.creation(config, made_from, *index)
    if again:
        return Decision(s, do)  # the conditions say what kept it from beginning
    return c.decide(
        Phase.STARTING, "Starting", f"The driver of epoch {epoch} is being created", do=do, status=s
    )


RULES: tuple[Callable[[Context], Decision | None], ...] = (
    terminal_states.leave_a_deleted_job_alone,
    handover.delete_handed_over_pod,
    past_drivers.fence_off_late_drivers,
    handover.drop_what_is_not_wanted,
    past_drivers.remove_the_executors_of_a_failed_driver,
    indexing.commit_the_checkpoint_to_the_index,
    indexing.confirm_the_checkpoint_to_the_driver,
    indexing.forget_what_is_committed,
    cancel,
    indexing.need_a_readable_index,
    escalation.escalate,
    escalation.cancel_escalated,
    suspension.abandon_an_unstarted_driver,
    terminal_states.end_the_idle_driver_of_a_deleted_job,
    upgrade.roll_back_unstarted,
    replace_a_driver_that_cannot_start,
    handover.open_the_gate,
    handover.begin,
    handover.prepare,
    follow_the_driver,
    restarts.account_for_a_failure,
    terminal_states.remove_the_finalizer_of_a_deleted_job,
    suspension.begin_no_driver,
    rounds.wait,
    handover.succeed,
    restarts.wait_after_a_failure,
    past_drivers.remove_the_exited_driver,
    terminal_states.report_reached,
    terminal_states.leave_a_namespace_that_is_being_deleted,
    past_drivers.wait_until_it_is_gone,
    begin_an_epoch,
)


def _requeue_after(c: Context, decision: Decision) -> float | None:
    """Seconds after which to reconcile even without an event: the end of a deleted pod, for one, may be
    missed.
    """
    if decision.actions:
        return None
    going = RECHECK if any(p.deleting for p in (*c.observed.pods, *c.observed.standbys)) else None
    times = [
        decision.requeue_after,
        going,
        upgrade.requeue_after(c, decision.status),
        handover.requeue_after(c, decision.status),
        escalation.requeue_after(c, decision.status),
        rounds.requeue_after(c, decision.status),
    ]
    return min((seconds for seconds in times if seconds is not None), default=None)


# --- parts of the rules -------------------------------------------------------------------------------------


def _running(c: Context) -> Decision:
    driver, pod = c.observed.driver, c.observed.pod
    if driver is None or driver.phase in BEFORE_GATE:
        frozen = diagnosis.not_responding(driver)
        text = sentence(frozen) if frozen else _how_far_it_starts(c)
        text = f"The driver of epoch {c.status.epoch} starts. {text}"
        waits = pod is not None and pod.waits
        return c.decide(Phase.STARTING, "Starting", text, requeue_after=RECHECK if waits else None)
    if driver.problem is not None:
        s = fail(c.status, driver.problem, c.now)
        return c.decide(Phase.RESTARTING, driver.problem.reason, sentence(driver.problem), status=s)
    do: tuple[Action, ...] = (*executors.request_to_send(c), *savepoints.request_to_send(c))
    do = do or retention.tidy(c)
    c, do = (c, do) if do else handover.make_a_standby(c)
    if (back := upgrade.running(c, do=do)) is not None:
        return back
    return c.decide(Phase.RUNNING, "Running", f"Epoch {c.status.epoch} runs{executors.lacking(c)}", do=do)


def _how_far_it_starts(c: Context) -> str:
    if c.observed.driver is not None:
        return "Its script has started no query yet"
    if c.observed.pod is not None and c.observed.pod.unschedulable is not None:
        problem = diagnosis.unscheduled(c.observed.pod.unschedulable, c.observed.job)
        return f"Its pod is not scheduled yet: {problem.message}"
    return "It has not answered yet"


def _how_far_is_the_request(c: Context, ours: TerminationInfo | None) -> str:
    if c.observed.driver is None:
        return "The driver has not answered yet; it gets the request when it does"
    if ours is not None and ours.request_id in c.observed.acknowledged:
        if c.observed.driver.phase not in BEFORE_GATE:
            return "The driver has the request; its script has not started all its queries yet"
        text = "The driver has the request; its script has started no query yet"
        if ours.mode == Mode.DRAIN.value:
            return f"{text}, and only queries can be drained"
        latest, died = c.observed.latest, c.status.restarts
        lost = died is not None and died.epoch > (latest.epoch if latest is not None else 0)
        return f"{text}, and only queries can save what an earlier driver has left" if lost else text
    return "The request is on its way to the driver"


def _terminating(c: Context, ours: TerminationInfo | None, *, do: tuple[Action, ...] = ()) -> Decision:
    """The driver is ending, or will end as soon as the request reaches it.

    A passed deadline is only reported here. What cuts a termination short is a cancel, the timeout of a
    deletion or a declared escalation.
    """
    reported = c.observed.driver.termination if c.observed.driver else None
    mode = reported.mode.value if reported else ours.mode if ours else Mode.STOP.value
    phase = Phase.DRAINING if mode == Mode.DRAIN.value else Phase.STOPPING
    text = how_far(reported.step, reported.progress) if reported else _how_far_is_the_request(c, ours)
    frozen = diagnosis.not_responding(c.observed.driver)
    problem = frozen or (reported.problem if reported else None)
    s = fail(c.status, problem, c.now) if problem else c.status
    stuck = f" {sentence(problem)}" if problem else ""
    stuck += executors.in_the_way(c) if frozen is None else _without_its_jvm(c)
    requeue_after = c.until_deletion_is_due
    if ours is not None:
        left = seconds_until(ours.deadline, c.now)
        if not left:
            text = f"It takes longer than until {ours.deadline}; now: {text}.{stuck} {TIMED_OUT_REMEDY}"
            return c.decide(phase, "TerminationTimedOut", text, do=do, status=s, requeue_after=requeue_after)
        requeue_after = left if requeue_after is None else min(left, requeue_after)
    evicted = c.observed.driver is not None and c.observed.driver.evicted
    reason = "Evicted" if evicted and ours is None else phase.value
    return c.decide(phase, reason, f"{text}.{stuck}", do=do, status=s, requeue_after=requeue_after)


def _without_its_jvm(c: Context) -> str:
    """What it costs to wait no longer, while a savepoint is to be written; begins with a space."""
    driver = c.observed.driver
    step = driver.termination.step if driver is not None and driver.termination is not None else None
    saved = c.leaving or step in (TerminationStep.COMPLETING, TerminationStep.CLOSED)
    runs = driver is not None and driver.phase not in BEFORE_GATE
    return f" {cancels(c.observed.job, c.status)}" if runs and not saved else ""
