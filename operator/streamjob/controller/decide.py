"""What to do about a job, given what is and what its spec asks for. Pure: no I/O, no clock; the heart of the controller.

Read RULES from top to bottom: the first that has something to say decides. It returns the status to write, and the actions
that follow once it is written: the intent is always recorded before the effect (request id, target, deadline, epoch).

What holds whatever is observed (tests/controller/test_decide_properties.py):
- V2: a driver that may have run is deleted only if it has exited, or the user cancelled, or it belongs to an older epoch.
- A new epoch begins only when no pod of an earlier one is left, so that there are never two drivers.
- V7: epoch, startedEpoch and observedGeneration never go back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from ..api import (
    DriverInfo,
    Phase,
    RestartPolicy,
    RestartStatus,
    State,
    Status,
    TerminationInfo,
)
from ..api.types import duration, timestamp
from ..protocol import index as indices
from ..protocol.errors import FormatError
from ..protocol.lifecycle import Scenario
from ..protocol.messages import DriverPhase, Mode, Problem
from . import actions, build, escalation, faults, names, retention, savepoints, upgrade
from .actions import Action
from .case import CANCEL_GRACE, Case, Decision, Goal, goal, kill, request
from .drivers import completed_token
from .observe import Observed
from .rebuild import rebuild
from .status import fail, seconds_until, seen, sentence

STABLE = timedelta(minutes=10)  # of running; then earlier failures are forgotten
AT_REST = (Phase.STOPPED, Phase.DRAINED, Phase.FINISHED, Phase.CANCELLED)  # no driver lives
RECHECK = 15.0  # seconds; for what changes with time alone
TIMED_OUT_REMEDY = "Wait, mend what it waits for, or set spec.state to Cancelled"


def decide(o: Observed, now: datetime) -> Decision:
    """The one entry."""
    s = seen(o)
    case = savepoints.follow(upgrade.aim(escalation.aim(Case(o, s, goal(o, now), now))))
    for rule in RULES:
        if (decision := rule(case)) is not None:
            return savepoints.wake_for(replace(decision, wake=_wake(case, decision)), case)
    raise AssertionError("the last rule decides always")


# --- the rules ---------------------------------------------------------------------------------------------------


def leave_a_deleted_job_alone(c: Case) -> Decision | None:
    """Our finalizer is off (or never was on): what is left is Kubernetes' business."""
    if c.o.job.deleting and names.FINALIZER not in c.o.job.metadata.finalizers:
        return Decision(c.o.job.status)
    return None


def fence_off_late_drivers(c: Case) -> Decision | None:
    """Creations of an older controller that arrive late: nothing refuses them, for a creation has no precondition.

    A newer epoch begins only after the older has ended, so an older driver is one. So is one that the status, which is written
    first, does not ask for: the job is at rest, or another pod of this name has lived. It goes unless it has started just now.
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


def take_the_checkpoint_into_the_index(c: Case) -> Decision | None:
    """The driver says that a checkpoint is durable: from now on it counts."""
    records = [r for r in c.o.word.durable if r.epoch == c.s.epoch] if c.o.word else []
    if not records or c.o.index_problem is not None:
        return None
    index = c.o.index or indices.empty(c.o.job.metadata.uid)
    try:
        for record in records:
            index = indices.add(index, record)
    except (FormatError, ValueError) as e:
        if c.goal is Goal.CANCEL:
            return None
        remedy = "Set spec.state to Cancelled; Running then goes on from the checkpoint directories"
        return c.stall(c.phase, Problem("IndexConflict", str(e), remedy))
    return None if index == c.o.index else Decision(c.s, (actions.WriteIndex(index, c.o.index_version),))


def tell_the_driver_that_the_index_has_it(c: Case) -> Decision | None:
    """Then, and not before, it closes its tasks and leaves (V2)."""
    word, pod, latest = c.o.driver, c.o.pod, c.o.index.latest if c.o.index else None
    if pod is None or pod.over or word is None or latest is None:
        return None
    if word.phase in (DriverPhase.TERMINATED, DriverPhase.FAILED):
        return None
    for number in [r.checkpoint for r in word.durable]:
        if number <= latest.checkpoint and completed_token(number) not in c.o.acknowledged:
            return Decision(c.s, (actions.ConfirmCheckpoint(number, c.s.epoch),))
    return None


def forget_what_is_committed(c: Case) -> Decision | None:
    """The driver has left in order, so its sinks have committed what was pre-committed for its final checkpoint. One that died
    before that is followed by another, which commits first of all."""
    word = c.o.word
    if word is None or word.phase is not DriverPhase.TERMINATED or word.problem or word.epoch != c.s.epoch:
        return None
    if c.o.index is None or not c.uncommitted:
        return None
    index = indices.committed(c.o.index, word.epoch)
    return Decision(c.s, (actions.WriteIndex(index, c.o.index_version),))


def cancel(c: Case) -> Decision | None:
    """At any time, also in the middle of a stop: no savepoint, no waiting."""
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
        return _at_its_end(c, s)
    if (told := escalation.outcome(c, s)) is not None:
        return told
    text = "Cancelled; Running goes on from the latest checkpoint"
    return c.decide(Phase.CANCELLED, "Cancelled", text, status=s)


def need_a_readable_index(c: Case) -> Decision | None:
    """Without it nothing begins or ends; a driver that runs is asked what it knows. Cancelled and deletion work all the same."""
    if c.o.index_problem is None:
        return None
    if c.o.job.deleting and not c.o.pods:
        return Decision(c.s, (actions.SetFinalizer(False),))
    if (anew := rebuild(c)) is not None:
        return anew
    # That of a job that is gone is collected soon, and no event says so.
    wake = RECHECK if c.o.index_problem.reason == "NameTaken" else None
    return c.stall(c.phase, c.o.index_problem, wake=c.until_deletion_is_due or wake)


def replace_a_driver_that_cannot_start(c: Case) -> Decision | None:
    """It has never run, so it holds nothing. If it is no longer wanted, or the spec has changed, it goes; else it waits.

    The pod's version is a precondition: should the kubelet start it just now, it stays.
    """
    pod = c.o.pod
    problem = faults.stuck(pod, c.o.job, c.now) if pod and not pod.over and not pod.deleting else None
    if pod is None or problem is None:
        return None
    unwanted = (c.goal is Goal.STOP or c.o.job.deleting) and c.settled
    if unwanted or pod.generation != c.o.job.metadata.generation:
        s = c.s.model_copy(update={"driver": None})
        return Decision(s, (actions.DeletePod(pod.name, pod.uid, pod.version),))
    return c.stall(Phase.STARTING, problem, wake=c.until_deletion_is_due)


def follow_the_driver(c: Case) -> Decision | None:
    """A driver lives. If the job shall end, it is asked to; it then ends by itself."""
    pod, word = c.o.pod, c.o.driver
    if pod is None or pod.over:
        return None
    if pod.deleting and not pod.started:
        return Decision(c.s)  # given up before it began
    if pod.started and c.o.silent:
        return c.stall(c.phase, faults.unreachable(c.o), wake=c.until_deletion_is_due)
    if c.settled and c.s.started_epoch == c.s.epoch:
        return _terminating(c, c.s.termination)  # its final checkpoint is in the index: it is about to leave
    if (word is not None and word.termination is not None) or pod.deleting:
        return _terminating(c, c.open_termination)
    ours = c.open_termination
    told = ours is not None and ours.request_id in c.o.acknowledged
    if ours is None or (not told and word is not None and not c.fits(ours)):
        # Nothing is asked of it, or it was never told and the user thought better of it.
        ours = c.new_termination(c.s.epoch)
        c = upgrade.asked_to_stop(c.with_termination(ours))
    if ours is None:
        return _running(c)
    tell = () if told or word is None else (actions.SendTermination(request(ours, c.s.epoch)),)
    return _terminating(c, ours, do=tell)


def account_for_a_failure(c: Case) -> Decision | None:
    """The driver of the newest epoch is gone and its final checkpoint is not in the index. Once for each epoch."""
    known = c.s.driver is not None and c.s.driver.uid is not None
    if c.failed or not known or (c.settled and c.s.started_epoch == c.s.epoch):
        return None
    problem = faults.death(c.o)
    policy, old, generation = c.o.job.spec.restart, c.s.restarts, c.o.job.metadata.generation
    afresh = old is None or old.generation != generation or faults.stable_for(c.o, c.now) >= STABLE
    count = 1 if afresh or old is None else old.count + 1
    may_restart = problem.retryable and policy.policy is RestartPolicy.ON_FAILURE
    delay = _backoff(c, count) if may_restart and count <= policy.limit else None
    restarts = RestartStatus(
        count=count,
        epoch=c.s.epoch,
        generation=generation,
        next_at=timestamp(c.now + delay) if delay is not None else None,
    )
    # A pod that is gone may have run without our seeing it.
    started = c.s.epoch if c.o.pod is None else c.s.started_epoch
    s = fail(c.s, problem, c.now).model_copy(update={"restarts": restarts, "started_epoch": started})
    gone = c.s.model_copy(update={"started_epoch": started})
    if (told := escalation.go_on(c, gone)) is not None:
        return told
    if (back := upgrade.give_up_what_fails(c, s, problem, count)) is not None:
        return back
    if delay is not None:
        text = f"Restart {count} in {delay.total_seconds():.0f} s. {sentence(problem)}"
        wake = delay.total_seconds()
        return c.decide(Phase.RESTARTING, problem.reason, text, status=s, wake=wake)
    if may_restart:
        text = f"After {policy.limit} restarts in a row: {sentence(problem)}"
        return c.decide(Phase.FAILED, "RestartLimitReached", text, status=s)
    return c.decide(Phase.FAILED, problem.reason, sentence(problem), status=s)


def let_go_of_a_deleted_job(c: Case) -> Decision | None:
    """Nothing lives. A termination that has begun is brought to its end by another driver; nothing else is started.

    A job whose script never got as far as a query has nothing that could be brought to an end.
    """
    if not c.o.job.deleting:
        return None
    unfinished = c.open_termination is not None and not c.settled
    gave_up = c.failed is not None and c.failed.next_at is None
    if unfinished and not gave_up and c.has_begun:
        return None
    return remove_the_exited_driver(c) or Decision(c.s, (actions.SetFinalizer(False),))


def wait_after_a_failure(c: Case) -> Decision | None:
    """Until the backoff is over, or, where there is no further restart, until the spec (or restart.nonce) changes."""
    failed = c.failed
    if failed is None or c.settled:
        return None
    # To ask a job that has failed for good to stop is not to start it again.
    idle = c.goal is Goal.STOP and c.open_termination is None and failed.next_at is None
    if failed.generation != c.o.job.metadata.generation and not idle:
        return None
    if failed.next_at is None:
        if c.phase is not Phase.FAILED and c.s.last_error is not None:
            # It was cancelled in between, which it no longer is.
            error = c.s.last_error
            text = sentence(Problem(error.reason, error.message, error.remedy))
            return c.decide(Phase.FAILED, error.reason, text, wake=c.until_deletion_is_due)
        return c.stay(c.until_deletion_is_due)
    delay = seconds_until(failed.next_at, c.now)
    return c.stay(delay) if delay else None


def remove_the_exited_driver(c: Case) -> Decision | None:
    """Its final checkpoint is in the index, or its failure in the status. Nothing begins before it is gone."""
    if not c.o.pods:
        return None
    return Decision(c.s, tuple(actions.DeletePod(p.name, p.uid) for p in c.o.pods if not p.deleting))


def rest(c: Case) -> Decision | None:
    """The job is what it shall be, and nothing lives."""
    if not c.settled:
        return None
    # A termination that was recorded, but overtaken by another end, is no longer asked for.
    s = c.s.model_copy(
        update={"driver": None, "termination": None if c.open_termination else c.s.termination}
    )
    s = upgrade.at_its_end(s) if c.ended else s
    latest = c.o.index.latest if c.o.index else None
    if c.ended:
        return _at_its_end(c, s)
    if c.goal is Goal.STOP:
        if (told := escalation.outcome(c, s)) is not None:
            return told
        text = f"Stopped with checkpoint {latest.checkpoint}" if latest else "Stopped before it began"
        return c.decide(Phase.STOPPED, "Stopped", text, status=s)
    by_script = latest is not None and not savepoints.ended_by_request(latest) and latest.epoch == c.s.epoch
    if c.goal is Goal.RUN and by_script and c.phase not in (Phase.STOPPED, Phase.CANCELLED):
        text = "The script has stopped its queries itself. Set spec.state to Stopped and then to Running to go on"
        return c.decide(Phase.FINISHED, "ScriptEnded", text, status=s)
    return None


def begin_an_epoch(c: Case) -> Decision:
    """A driver is wanted and there is none."""
    if names.FINALIZER not in c.o.job.metadata.finalizers:
        return c.decide(c.phase, "Pending", "The job is about to begin", do=(actions.SetFinalizer(True),))
    # A driver that was recorded and never seen may not have been created, or another controller is about to: the same name
    # again makes one pod of the two.
    again = c.s.driver is not None and c.s.driver.uid is None
    epoch = c.s.epoch if again else c.s.epoch + 1
    open_one = c.open_termination
    carried = open_one if open_one is not None and c.fits(open_one) else None
    termination = carried or c.new_termination(epoch)
    pod = names.driver_pod(c.o.job.metadata.name, epoch)
    s, made_from = upgrade.begun(c, c.s, epoch)
    s = s.model_copy(update={"epoch": epoch, "driver": DriverInfo(pod=pod), "termination": termination})
    told = request(termination, epoch) if termination else None
    job = c.o.job.made_from(made_from)
    config = build.driver_config(job, c.o.index, epoch, c.s.started_epoch, told)
    index = (actions.WriteIndex(indices.empty(c.o.job.metadata.uid), None),) if c.o.index is None else ()
    do: tuple[Action, ...] = (actions.EnsureSecret(), *index, actions.CreateDriver(config, made_from))
    if again:
        return Decision(s, do)  # what kept it from beginning stands in the conditions
    return c.decide(Phase.STARTING, "Starting", f"The driver of epoch {epoch} is being made", do=do, status=s)


RULES: tuple[Callable[[Case], Decision | None], ...] = (
    leave_a_deleted_job_alone,
    fence_off_late_drivers,
    take_the_checkpoint_into_the_index,
    tell_the_driver_that_the_index_has_it,
    forget_what_is_committed,
    cancel,
    need_a_readable_index,
    escalation.escalate,
    escalation.break_off,
    upgrade.give_up_what_does_not_start,
    replace_a_driver_that_cannot_start,
    follow_the_driver,
    account_for_a_failure,
    let_go_of_a_deleted_job,
    wait_after_a_failure,
    remove_the_exited_driver,
    rest,
    begin_an_epoch,
)


def _wake(c: Case, decision: Decision) -> float | None:
    """When to look again, also if no event says so: of a pod that is going, its end may be missed."""
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
    """The driver is ending, or will be as soon as it can be told. It takes as long as it takes: only a person cuts it short."""
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
    if ours is not None and ours.final_checkpoint is None:
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


def _at_its_end(c: Case, s: Status) -> Decision:
    """Drained or out of input: this job never runs again."""
    latest = c.o.index.latest if c.o.index else None
    assert latest is not None
    asked = c.goal is Goal.DRAIN or c.o.job.spec.state is State.DRAINED
    by_request = latest.scenario is Scenario.DRAIN or asked
    if not by_request:
        text = f"All sources ran out; checkpoint {latest.checkpoint} is the last"
        return c.decide(Phase.FINISHED, "Finished", text, status=s)
    if c.goal is not Goal.RUN:
        text = f"Drained with checkpoint {latest.checkpoint}: every window is flushed"
        return c.decide(Phase.DRAINED, "Drained", text, status=s)
    savepoint = latest.savepoint or "its savepoint"
    problem = Problem(
        "AlreadyDrained",
        "the job has been drained, which is its end: rows older than its last watermark would be dropped as late",
        f"Make a new StreamJob with restoreFrom.savepoint: {savepoint} and restoreFrom.allowDrained: true",
    )
    s = fail(s, problem, c.now)
    return c.decide(Phase.DRAINED, problem.reason, sentence(problem), stalled=True, status=s)


def _backoff(c: Case, count: int) -> timedelta:
    backoff = c.o.job.spec.restart.backoff
    # The exponent is bounded only so that the number stays one.
    return min(duration(backoff.initial) * (1 << min(count - 1, 20)), duration(backoff.max))
