"""Decides what to do about a job, given what was observed and what its spec asks for.

This is the heart of the controller. Pure: no I/O, no clock.

Read RULES from top to bottom: the first rule that returns a decision wins. A decision is the status to write,
and the actions that follow once it is written. The intent (request id, target, deadline, epoch) is always
recorded before the effect.

Invariants, whatever is observed (tests/controller/test_decide_properties.py):
- V2: a driver that may have run is deleted only if it has exited, if it belongs to an older epoch, or if the
  user cancelled: by `spec.state`, by a deletion that does not wait or no longer waits, or by a declared
  escalation.
- A new epoch begins only when no pod of an earlier one is left, so that there are never two drivers.
- V7: epoch, startedEpoch and observedGeneration never go back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from ...api import DriverInfo, Phase, TerminationInfo
from ...api.specification import digest
from ...protocol import index as indices
from ...protocol.messages import DriverPhase, Mode
from ..objects import names
from ..reports.messages import sentence
from . import actions, diagnosis
from .actions import Action
from .context import AT_ONCE_AGAIN, CANCEL_GRACE, RECHECK, Case, Decision, Goal, goal, kill, release, request
from .driver_config import driver_config
from .observed import Observed
from .policies import escalation, indexing, restarts, retention, savepoints, terminal_states, upgrade
from .status import degraded, fail, seconds_until, seen

AT_REST = (Phase.STOPPED, Phase.DRAINED, Phase.FINISHED, Phase.CANCELLED)  # no driver runs
TIMED_OUT_REMEDY = "Wait, mend what it waits for, or set spec.state to Cancelled"


def decide(o: Observed, now: datetime) -> Decision:
    """Decide what to do now: the only entry point."""
    decision = _decide(o, now)
    if decision.actions or decision.status == o.job.status:
        return decision
    # The event of our own write enqueues nothing: find out now whether the new status leads to more.
    written = replace(o, job=o.job.model_copy(update={"status": decision.status}))
    after = _decide(written, now)
    leads_on = after.actions or after.status != decision.status
    return replace(decision, wake=AT_ONCE_AGAIN) if leads_on else decision


def _decide(o: Observed, now: datetime) -> Decision:
    s = degraded(seen(o), o, now)
    case = Case(o, s, goal(o, now), now, target=digest(o.job.spec))
    case = savepoints.follow(upgrade.aim(escalation.aim(case)))
    for rule in RULES:
        if (decision := rule(case)) is not None:
            return savepoints.wake_for(replace(decision, wake=_wake(case, decision)), case)
    raise AssertionError("the last rule decides always")


# --- the rules ---------------------------------------------------------------------------------------------------


def leave_a_deleted_job_alone(c: Case) -> Decision | None:
    """Our finalizer is removed or was never set: Kubernetes does the rest."""
    if c.o.job.deleting and names.FINALIZER not in c.o.job.metadata.finalizers:
        return Decision(c.o.job.status)
    return None


def fence_off_late_drivers(c: Case) -> Decision | None:
    """Delete drivers that an older controller created late. No precondition refuses a creation.

    A newer epoch begins only after the older one has ended, so a driver of an older epoch is a late creation.
    So is a driver that the status, which is written first, does not ask for: the job is in a terminal phase,
    or another pod of this name has existed. The latter kind is deleted only if it has not started yet: the
    pod's version is a precondition.
    """
    older = [p for p in c.o.pods if p.epoch < c.s.epoch and not p.deleting]
    if older:
        return Decision(c.s, kill(older))
    pod, recorded = c.o.pod, c.o.job.status.driver
    if pod is None or pod.started or pod.deleting:
        return None
    if recorded is None and c.phase not in AT_REST:
        return None
    if recorded is not None and (recorded.pod != pod.name or recorded.uid in (None, pod.uid)):
        return None
    s = c.s.model_copy(update={"driver": recorded})
    return Decision(s, (actions.DeletePod(pod.name, pod.uid, pod.version, CANCEL_GRACE),))


def cancel(c: Case) -> Decision | None:
    """Cancel at any time, also in the middle of a stop: no savepoint, no waiting."""
    if c.goal is not Goal.CANCEL:
        return None
    s = c.s.model_copy(update={"termination": c.s.termination if c.open_termination is None else None})
    if c.o.pods:
        text = "The driver is being deleted"
        return c.decide(Phase.CANCELLING, "Cancelling", text, do=kill(c.o.pods), status=s)
    if c.o.job.deleting:
        return Decision(s, (actions.SetFinalizer(False),))
    s = s.model_copy(update={"driver": None})
    if c.ended and c.settled:
        return terminal_states.at_its_end(c, s)
    if (told := escalation.outcome(c, s)) is not None:
        return told
    text = "Cancelled; Running goes on from the latest checkpoint"
    return c.decide(Phase.CANCELLED, "Cancelled", text, status=s)


def replace_a_driver_that_cannot_start(c: Case) -> Decision | None:
    """Delete a driver that has never run if it is no longer wanted or the spec has changed; otherwise wait.

    Such a driver holds nothing. The pod's version is a precondition: if the kubelet starts the pod just now,
    the pod stays.
    """
    pod = c.o.pod
    problem = diagnosis.stuck(pod, c.o.job, c.now) if pod and not pod.over and not pod.deleting else None
    if pod is None or problem is None:
        return None
    unwanted = (c.goal is Goal.STOP or c.o.job.deleting) and c.settled
    if unwanted or pod.generation != c.o.job.metadata.generation:
        s = c.s.model_copy(update={"driver": None})
        return Decision(s, (actions.DeletePod(pod.name, pod.uid, pod.version),))
    return c.stall(Phase.STARTING, problem, wake=c.until_deletion_is_due)


def follow_the_driver(c: Case) -> Decision | None:
    """Follow a live driver. If the job has to end, ask the driver to end; it then exits by itself."""
    pod, word = c.o.pod, c.o.driver
    if pod is None or pod.over:
        return None
    if pod.deleting and not pod.started:
        return Decision(c.s)  # deleted before it began
    if pod.started and c.o.silent:
        return c.stall(c.phase, diagnosis.unreachable(c.o), wake=c.until_deletion_is_due)
    if c.leaving:
        return _terminating(c, c.s.termination)
    if (word is not None and word.termination is not None) or pod.deleting:
        return _terminating(c, c.open_termination)
    ours = c.open_termination
    told = ours is not None and ours.request_id in c.o.acknowledged
    if ours is None or (not told and word is not None and not c.fits(ours)):
        # Nothing has been requested, or the request has not reached the driver and no longer fits the goal.
        ours = c.new_termination(c.s.epoch)
        c = upgrade.asked_to_stop(c.with_termination(ours))
    if ours is None:
        return _running(c)
    tell = (
        ()
        if told or word is None
        else (actions.SendTermination(request(ours, c.s.epoch, c.o.job.spec.termination)),)
    )
    return _terminating(c, ours, do=tell)


def let_go_of_a_deleted_job(c: Case) -> Decision | None:
    """Remove the finalizer of a deleted job that has no live driver.

    If a termination has begun, another driver completes it first; no driver is started for anything else. A
    job whose script never started a query has nothing to complete.
    """
    if not c.o.job.deleting:
        return None
    unfinished = c.open_termination is not None and not c.settled
    gave_up = c.failed is not None and c.failed.next_at is None
    if unfinished and not gave_up and c.has_begun:
        return None
    return remove_the_exited_driver(c) or Decision(c.s, (actions.SetFinalizer(False),))


def remove_the_exited_driver(c: Case) -> Decision | None:
    """Delete the pod: the driver's final checkpoint is in the index, or its failure in the status.

    Nothing begins before the pod is gone.
    """
    return Decision(c.s, release(c.o.pods)) if c.o.pods else None


def begin_an_epoch(c: Case) -> Decision:
    """Begin an epoch: a driver is wanted and there is none."""
    if names.FINALIZER not in c.o.job.metadata.finalizers:
        return c.decide(c.phase, "Pending", "The job is about to begin", do=(actions.SetFinalizer(True),))
    # A driver that was recorded but never seen may not have been created, or another controller may be about
    # to create it. Reusing the epoch gives both creations the same name, so that only one pod results.
    again = c.s.driver is not None and c.s.driver.uid is None
    epoch = c.s.epoch if again else c.s.epoch + 1
    open_one = c.open_termination
    carried = open_one if open_one is not None and c.fits(open_one) else None
    termination = carried or c.new_termination(epoch)
    pod = names.driver_pod(c.o.job.metadata.name, epoch)
    s, made_from = upgrade.begun(c, epoch)
    s = s.model_copy(update={"epoch": epoch, "driver": DriverInfo(pod=pod), "termination": termination})
    told = request(termination, epoch, c.o.job.spec.termination) if termination else None
    job = c.o.job.made_from(made_from)
    config = driver_config(job, c.o.index, epoch, c.s.started_epoch, told)
    new = c.o.index is None and c.o.index_problem is None
    index = (actions.WriteIndex(indices.empty(c.o.job.metadata.uid), None),) if new else ()
    do: tuple[Action, ...] = (actions.EnsureSecret(), *index, actions.CreateDriver(config, made_from))
    if again:
        return Decision(s, do)  # the conditions say what kept it from beginning
    return c.decide(Phase.STARTING, "Starting", f"The driver of epoch {epoch} is being made", do=do, status=s)


RULES: tuple[Callable[[Case], Decision | None], ...] = (
    leave_a_deleted_job_alone,
    fence_off_late_drivers,
    indexing.take_the_checkpoint_into_the_index,
    indexing.tell_the_driver_that_the_index_has_it,
    indexing.forget_what_is_committed,
    cancel,
    indexing.need_a_readable_index,
    escalation.escalate,
    escalation.break_off,
    upgrade.give_up_what_does_not_start,
    replace_a_driver_that_cannot_start,
    follow_the_driver,
    restarts.account_for_a_failure,
    let_go_of_a_deleted_job,
    restarts.wait_after_a_failure,
    remove_the_exited_driver,
    terminal_states.rest,
    terminal_states.leave_a_namespace_that_is_being_deleted,
    begin_an_epoch,
)


def _wake(c: Case, decision: Decision) -> float | None:
    """Seconds after which to reconcile even without an event: the end of a deleted pod, for one, may be
    missed.
    """
    if decision.actions:
        return None
    going = RECHECK if any(p.deleting for p in c.o.pods) else None
    times = [decision.wake, going, upgrade.wake(c, decision.status), escalation.wake(c, decision.status)]
    return min((seconds for seconds in times if seconds is not None), default=None)


# --- parts of the rules ------------------------------------------------------------------------------------------


def _running(c: Case) -> Decision:
    word, pod = c.o.driver, c.o.pod
    if word is None or word.phase is DriverPhase.STARTING:
        text = "Its script has started no query yet" if word else "It has not answered yet"
        text = f"The driver of epoch {c.s.epoch} starts. {text}"
        waits = pod is not None and pod.unschedulable is not None
        return c.decide(Phase.STARTING, "Starting", text, wake=RECHECK if waits else None)
    if word.problem is not None:
        s = fail(c.s, word.problem, c.now)
        return c.decide(Phase.RESTARTING, word.problem.reason, sentence(word.problem), status=s)
    do = savepoints.tell(c) or retention.tidy(c)
    if (back := upgrade.running(c, do=do)) is not None:
        return back
    return c.decide(Phase.RUNNING, "Running", f"Epoch {c.s.epoch} runs", do=do)


def _terminating(c: Case, ours: TerminationInfo | None, *, do: tuple[Action, ...] = ()) -> Decision:
    """The driver is ending, or will end as soon as the request reaches it.

    A passed deadline is only reported here. What cuts a termination short is a cancel, the timeout of a
    deletion or a declared escalation.
    """
    said = c.o.driver.termination if c.o.driver else None
    mode = said.mode.value if said else ours.mode if ours else Mode.STOP.value
    phase = Phase.DRAINING if mode == Mode.DRAIN.value else Phase.STOPPING
    step = said.step.value if said else "WaitingForDriver"
    answers = (
        "The driver is being told"
        if c.o.driver
        else "The driver has not answered yet; it is told when it does"
    )
    text = ((said.progress or step) if said else answers).rstrip(". ")
    s = fail(c.s, said.problem, c.now) if said and said.problem else c.s
    stuck = f" {sentence(said.problem)}" if said and said.problem else ""
    wake = c.until_deletion_is_due
    if ours is not None:
        left = seconds_until(ours.deadline, c.now)
        if not left:
            text = (
                f"It takes longer than until {ours.deadline}; step {step}: {text}.{stuck} {TIMED_OUT_REMEDY}"
            )
            return c.decide(phase, "TerminationTimedOut", text, do=do, status=s, wake=wake)
        wake = left if wake is None else min(left, wake)
    evicted = c.o.driver is not None and c.o.driver.evicted
    reason = "Evicted" if evicted and ours is None else phase.value
    return c.decide(phase, reason, f"{text}.{stuck}", do=do, status=s, wake=wake)
