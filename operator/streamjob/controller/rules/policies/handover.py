"""Hand-over (ADR 46): the next driver is prepared beside the running one. Pure, a part of `decide`.

The prepared driver runs its script up to the first query and waits at the gate. The status names it before
its pod is made (`Next`). It comes from one of two:

- an upgrade (`upgrade.mode: Handover`), which asks the running driver to stop when the next one is prepared;
- `driver.standby`, which keeps one for whatever ends the running driver: a failure, or an eviction.

It takes over in the same way. When nothing of the running driver can commit any more (it has closed every
task and the index has its final checkpoint, or its container has ended), the epoch of the prepared driver
begins: that is written into the status, and then the command is sent that opens the gate.

Until then the prepared driver has written nothing. It may be deleted at any moment. From then on it is the
job's driver, and whatever is asked for reaches it behind its gate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ....api import (
    DriverInfo,
    Phase,
    RestartPolicy,
    StandbyStatus,
    Status,
    UpgradeMode,
    UpgradeStatus,
    UpgradeStep,
)
from ....protocol.messages.driver_status import DriverPhase, Problem
from ....protocol.times import moment
from ...objects import names
from ...reports.messages import sentence
from .. import actions, diagnosis
from ..context import Context, Decision, DesiredState
from ..driver_config import fits_a_gate, gate, prepared_config
from ..observed import Pod, gate_token
from ..status import error_status, fail, seconds_until, standby_failed
from . import terminal_states, upgrade

# --- before the rules ---------------------------------------------------------------------------------------


class Next(NamedTuple):
    """The next driver, as the status names it: if no other one runs, it is waited for until the deadline."""

    epoch: int
    deadline: str | None


def resolve(c: Context) -> Context:
    """A job whose driver has to be replaced keeps running until the next one is prepared."""
    c = _with_what_it_waits_for(_with_its_standby(c))
    if c.desired is not DesiredState.UPGRADE or c.observed.job.spec.upgrade.mode is not UpgradeMode.HANDOVER:
        return c
    u = c.status.upgrade
    stops = u is not None and u.step is UpgradeStep.STOPPING  # there is no way back
    if stops or upgrade.rolled_back(c) or is_prepared(c):
        return c
    return replace(c, desired=DesiredState.RUN, prepares=True)


def _with_what_it_waits_for(c: Context) -> Context:
    """The context with what keeps the prepared driver of the upgrade from starting."""
    u, pod = c.status.upgrade, candidate(c)
    if u is None or u.step is not UpgradeStep.PREPARING or c.observed.newest_only:
        return c
    stuck = diagnosis.stuck(pod, c.observed.job, c.now) if pod is not None and not pod.terminated else None
    waits = {"waits_for": sentence(stuck) if stuck is not None else None}
    return replace(c, status=c.status.model_copy(update={"upgrade": u.model_copy(update=waits)}))


def _with_its_standby(c: Context) -> Context:
    """The context with what has become of the standby."""
    s = c.status.standby
    if s is None or c.observed.newest_only:
        return c
    pod = candidate(c)
    if not _keeps_a_standby(c) or _next_of_upgrade(c) is not None:
        there = any(p.epoch == s.epoch and not p.deleting for p in c.observed.standbys)
        found = s if there else None
    elif pod is None:
        return c
    elif pod.terminated:
        s = s.model_copy(update={"failures": 0}) if diagnosis.was_stable(pod, c.now) else s
        found = standby_failed(s, c.observed.job, diagnosis.death_of_prepared(pod), c.now)
    else:
        problem = _unready(c, s, pod)
        error = error_status(s.error, problem, c.now) if problem else s.error
        found = s.model_copy(update={"deadline": None, "error": None} if s.prepared else {"error": error})
    return replace(c, status=c.status.model_copy(update={"standby": found}))


def _unready(c: Context, s: StandbyStatus, pod: Pod) -> Problem | None:
    """What keeps the standby from its gate, or from answering there; None while it may be about to."""
    if (problem := diagnosis.stuck(pod, c.observed.job, c.now)) is not None:
        return problem
    if pod.started and pod is c.observed.standbys[-1] and c.observed.prepared_silent:
        return diagnosis.unreachable(pod, c.observed.prepared)
    late = s.deadline is not None and c.now >= moment(s.deadline)
    return diagnosis.not_prepared(pod, c.observed.job) if late else None


def _keeps_a_standby(c: Context) -> bool:
    return c.observed.job.spec.driver.standby and not _at_its_end(c)


def named(c: Context) -> Next | None:
    """The next driver, as the status names it."""
    if (found := _next_of_upgrade(c)) is not None:
        return found
    s = c.status.standby
    kept = s is not None and s.next_at is None and _keeps_a_standby(c)
    return Next(s.epoch, s.deadline) if s is not None and kept else None


def _next_of_upgrade(c: Context) -> Next | None:
    u = c.status.upgrade
    if u is None or u.step not in (UpgradeStep.PREPARING, UpgradeStep.STOPPING) or u.target != c.target:
        return None
    if c.observed.job.spec.upgrade.mode is not UpgradeMode.HANDOVER or u.epoch is None:
        return None
    return Next(u.epoch, u.deadline)


def candidate(c: Context) -> Pod | None:
    """The prepared driver that the status names as the next one; None if it is not there."""
    following, o = named(c), c.observed
    if following is None or _at_its_end(c) or not _knows_its_record(c):
        return None
    pod = next((p for p in o.standbys if p.epoch == following.epoch and not p.deleting), None)
    return pod if pod is not None and pod.specification == upgrade.effective(c) else None


def _knows_its_record(c: Context) -> bool:
    """Whether a gate can say what the job continues from."""
    return c.observed.index_problem is None and fits_a_gate(c.observed.index)


def _at_its_end(c: Context) -> bool:
    """No driver follows the one that runs, or the last one that ran."""
    if c.desired not in (DesiredState.RUN, DesiredState.UPGRADE):
        return True
    failed = c.gave_up and not c.observed.lives
    return failed or (c.settled and (c.ended or terminal_states.ended_by_script(c)))


def is_prepared(c: Context) -> bool:
    """Whether the next driver waits at its gate."""
    pod = candidate(c)
    return pod is not None and not pod.terminated and pod.epoch == c.observed.at_gate


# --- rules --------------------------------------------------------------------------------------------------


def drop_what_is_not_wanted(c: Context) -> Decision | None:
    """A rule: delete prepared drivers that will not be the next one. They have written nothing."""
    keep = candidate(c)
    gone = [p for p in c.observed.standbys if p is not keep and not p.deleting]
    return Decision(c.status, tuple(actions.DeletePod(p.name, p.uid) for p in gone)) if gone else None


def prepare(c: Context) -> Decision | None:
    """A rule: make the prepared driver. If it does not come to its first query, the upgrade is over, and the
    running driver has not been touched.
    """
    if not c.prepares:
        return None
    u, pod = c.status.upgrade, candidate(c)
    if u is None or u.step is not UpgradeStep.PREPARING or u.target != c.target or u.deadline is None:
        asked = upgrade.asked(c, UpgradeStep.PREPARING)
        return _make(c, asked.model_copy(update={"epoch": free_epoch(c), "deadline": c.start_deadline}))
    if (problem := _preparation_failed(c, u, pod)) is not None:
        s = upgrade.back(c, c.status, problem)  # the next round drops the prepared driver
        told = upgrade.running(replace(c, status=s), do=()) if s.phase is Phase.RUNNING else None
        return told or Decision(s)
    if pod is None:
        # It was not made, or is gone or on its way out; then its name is still taken.
        leaves = any(p.epoch == u.epoch for p in c.observed.standbys)
        return _make(c, u.model_copy(update={"epoch": free_epoch(c)}) if leaves else u)
    if pod.terminated:  # it may have been chance: once more, under another name
        s = fail(c.status, diagnosis.death_of_prepared(pod), c.now)
        anew = u.model_copy(update={"epoch": free_epoch(c), "error": s.last_error})
        return _make(replace(c, status=s), anew)
    return None


def make_a_standby(c: Context) -> tuple[Context, tuple[actions.Action, ...]]:
    """What a running job has to do for its standby: make it, if there is none and one may be made now.

    :returns: the context with the standby recorded, and the actions.
    """
    s, o = c.status.standby, c.observed
    if not _keeps_a_standby(c) or c.prepares or c.desired is not DesiredState.RUN or candidate(c) is not None:
        return c, ()
    if o.newest_only or o.namespace_ends or not _knows_its_record(c):
        return c, ()
    if any(p.epoch < c.status.epoch for p in c.pods):
        return c, ()  # the driver before is still leaving, and needs its room
    generation = o.job.metadata.generation
    if s is not None and s.next_at is not None and s.generation == generation and c.now < moment(s.next_at):
        return c, ()
    if s is None or s.phase or s.next_at or any(p.epoch == s.epoch for p in o.standbys):
        name, epoch = o.job.metadata.name, free_epoch(c)
        pod = names.driver_pod(name, epoch)
        new = StandbyStatus(pod=pod, epoch=epoch, deadline=c.start_deadline)
        failed = ("failures", "generation", "error")
        s = new.model_copy(update={field: getattr(s, field) for field in failed} if s else {})
    # If it has been recorded and not been seen, nobody knows whether the call that was lost has made it.
    c = replace(c, status=c.status.model_copy(update={"standby": s}))
    return c, _creation(c, s.epoch)


def begin(c: Context) -> Decision | None:
    """A rule: begin the epoch of the prepared driver, as soon as the running one has closed every task and
    its final checkpoint is in the index. Nothing of that one can commit any more; its process may still be
    leaving.
    """
    report = c.observed.report
    closed = report is not None and report.phase is DriverPhase.TERMINATED and report.problem is None
    ours = report is not None and report.epoch == c.status.epoch
    return _take_over(c) if closed and ours and c.leaving and is_prepared(c) else None


def succeed(c: Context) -> Decision | None:
    """A rule: no driver lives, and a prepared one takes over. A failure has been counted, but there is no
    backoff. The pods of earlier drivers are not waited for if their nodes have said that the drivers ended.
    """
    o = c.observed
    ended = all(p.exited for p in o.pods)
    may_begin = names.FINALIZER in o.job.metadata.finalizers and not o.namespace_ends
    return _take_over(c) if ended and may_begin and is_prepared(c) else None


def open_the_gate(c: Context) -> Decision | None:
    """A rule: the epoch of a prepared driver has begun, and it has not heard so. The command is repeated
    until it is taken, whatever the job is asked for meanwhile: a driver at its gate can do nothing else.
    """
    pod, driver = c.observed.pod, c.observed.driver
    if pod is None or not pod.prepared or pod.terminated or pod.deleting:
        return None
    if driver is None or driver.phase is not DriverPhase.PREPARED:
        return None
    if gate_token(pod.epoch) in c.observed.acknowledged:
        return None  # its last answer is older
    if any(p.epoch < pod.epoch and not (p.exited or has_handed_over(c, p)) for p in c.pods):
        return None  # a lost status, or a late creation: it is being killed
    if c.observed.index_problem is not None or not fits_a_gate(c.observed.index):
        return Decision(c.status, (actions.DeletePod(pod.name, pod.uid),))  # another one is told at its start
    # What the status had before this epoch began is lost: its directories are taken for ahead.
    return Decision(c.status, (_open(c, pod.epoch, pod.epoch),))


def delete_handed_over_pod(c: Context) -> Decision | None:
    """A rule: delete the pod of the driver that has handed over and exited."""
    gone = [p for p in c.observed.pods if p.terminated and not p.deleting and has_handed_over(c, p)]
    return Decision(c.status, tuple(actions.DeletePod(p.name, p.uid) for p in gone)) if gone else None


def has_handed_over(c: Context, pod: Pod) -> bool:
    """Whether its driver has ended its epoch in order, and handed over: it only has to exit."""
    return c.status.handed_over is not None and c.status.handed_over.uid == pod.uid


def wait_for_prepared_driver(c: Context) -> Decision | None:
    """What to do instead of beginning an epoch with a driver that has yet to be made: no driver runs, and the
    next one is waited for, or does not come.
    """
    u, pod, following = c.status.upgrade, candidate(c), named(c)
    if pod is None or following is None:
        return None
    prepares = u is not None and u.step is UpgradeStep.PREPARING and _next_of_upgrade(c) is not None
    if u is not None and prepares and (problem := _preparation_failed(c, u, pod)) is not None:
        return Decision(upgrade.back(c, c.status, problem))
    left = seconds_until(following.deadline, c.now) if following.deadline is not None else None
    late = left == 0 if left is not None else bool(c.observed.prepared_silent)
    if pod.terminated or late:
        do = (actions.DeletePod(pod.name, pod.uid),)
        return Decision(c.status, do)  # when it is gone, another one begins
    text = f"The driver of epoch {pod.epoch} was being prepared, and takes over when it is"
    return c.decide(Phase.STARTING, "Starting", text, requeue_after=left)


# --- parts --------------------------------------------------------------------------------------------------


def free_epoch(c: Context) -> int:
    """The number of an epoch that no driver has had, not even one that was being prepared."""
    u, s, o = c.status.upgrade, c.status.standby, c.observed
    known = [c.status.epoch, *(p.epoch for p in (*o.pods, *o.standbys)), s.epoch if s is not None else 0]
    return max(*known, u.epoch if u is not None and u.epoch is not None else 0) + 1


def requeue_after(c: Context, s: Status) -> float | None:
    """Seconds until the next standby is made, or until the present one should be prepared."""
    until = s.standby and (s.standby.next_at or s.standby.deadline)
    return (seconds_until(until, c.now) or None) if until and _keeps_a_standby(c) else None


def _take_over(c: Context) -> Decision:
    """Begin the epoch of the prepared driver. It continues from what the index has now."""
    pod = candidate(c)
    assert pod is not None
    s, _ = upgrade.begun(c, pod.epoch)
    update: dict[str, object] = {
        "epoch": pod.epoch,
        "started_epoch": pod.epoch,  # from here on nobody knows for certain that it has not
        "driver": DriverInfo(pod=pod.name, uid=pod.uid, phase=pod.phase),
        "standby": None,
        "handed_over": c.status.driver if c.observed.pod in c.pods and c.failed is None else None,
        "termination": None,
    }
    text = f"The prepared driver of epoch {pod.epoch} takes over"
    do = (_open(c, pod.epoch, c.status.started_epoch),)
    return c.decide(Phase.STARTING, "Starting", text, do=do, status=s.model_copy(update=update))


def _open(c: Context, epoch: int, started_epoch: int) -> actions.OpenGate:
    return actions.OpenGate(gate(c.observed.job, c.observed.index, epoch, started_epoch))


def _make(c: Context, u: UpgradeStatus) -> Decision:
    """Record which driver is to be prepared, then create it."""
    assert u.epoch is not None
    return Decision(c.status.model_copy(update={"upgrade": u}), _creation(c, u.epoch))


def _creation(c: Context, epoch: int) -> tuple[actions.Action, ...]:
    """What makes the prepared driver of this epoch. The status has to name it before."""
    made_from = upgrade.effective(c)
    return actions.creation(prepared_config(c.observed.job.made_from(made_from), epoch), made_from)


def _preparation_failed(c: Context, u: UpgradeStatus, pod: Pod | None) -> Problem | None:
    """Why the next driver will not come to its first query; None while it may."""
    assert u.deadline is not None
    late = c.now >= moment(u.deadline)
    if pod is None:
        return upgrade.refusal(c) or (diagnosis.not_prepared(None, c.observed.job) if late else None)
    if pod.terminated:
        problem = diagnosis.death_of_prepared(pod)
        again = problem.retryable and c.observed.job.spec.restart.policy is RestartPolicy.ON_FAILURE
        return problem if late or u.error is not None or not again else None
    stuck = diagnosis.stuck(pod, c.observed.job, c.now)
    hopeless = stuck is not None and stuck.reason in upgrade.HOPELESS
    return (stuck or diagnosis.not_prepared(pod, c.observed.job)) if late or hopeless else None
