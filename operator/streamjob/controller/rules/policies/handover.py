"""Hand-over (`upgrade.mode: Handover`, ADR 46): the next driver is prepared beside the running one. Pure, a
part of `decide`.

The prepared driver runs its script up to the first query and waits at the gate. Only then is the running
driver asked to stop. When the index has its final checkpoint and it has closed every task, the epoch of the
prepared driver begins: that is written into the status, and then the command is sent that opens the gate.

Until then the prepared driver has written nothing. It may be deleted at any moment. From then on it is the
job's driver, and whatever is asked for reaches it behind its gate.
"""

from __future__ import annotations

from dataclasses import replace

from ....api import DriverInfo, Phase, RestartPolicy, Runtime, Status, UpgradeMode, UpgradeStatus, UpgradeStep
from ....api.types import duration
from ....protocol.messages.driver_status import DriverPhase, Problem
from ....protocol.times import moment, timestamp
from .. import actions, diagnosis
from ..context import Context, Decision, DesiredState
from ..driver_config import fits_a_gate, gate, prepared_config
from ..observed import Pod, gate_token
from ..status import fail
from . import terminal_states, upgrade

# --- before the rules ---------------------------------------------------------------------------------------


def resolve(c: Context) -> Context:
    """A job whose driver has to be replaced keeps running until the next one is prepared."""
    if c.desired is not DesiredState.UPGRADE or c.observed.job.spec.upgrade.mode is not UpgradeMode.HANDOVER:
        return c
    u = c.status.upgrade
    stops = u is not None and u.step is UpgradeStep.STOPPING  # there is no way back
    if stops or upgrade.rolled_back(c) or is_prepared(c):
        return c
    return replace(c, desired=DesiredState.RUN, prepares=True)


def candidate(c: Context) -> Pod | None:
    """The prepared driver that the status names as the next one; None if it is not there."""
    u, o = c.status.upgrade, c.observed
    if u is None or u.step not in (UpgradeStep.PREPARING, UpgradeStep.STOPPING) or u.target != c.target:
        return None
    if o.job.spec.upgrade.mode is not UpgradeMode.HANDOVER or _at_its_end(c):
        return None
    if o.index_problem is not None or not fits_a_gate(o.index):
        return None
    pod = next((p for p in o.standbys if p.epoch == u.epoch and not p.deleting), None)
    return pod if pod is not None and pod.specification == upgrade.effective(c) else None


def _at_its_end(c: Context) -> bool:
    """No driver follows the one that runs, or the last one that ran."""
    if c.desired not in (DesiredState.RUN, DesiredState.UPGRADE):
        return True
    over = c.observed.pod is None or c.observed.pod.terminated
    failed = over and c.failed is not None and c.failed.next_at is None
    return failed or (c.settled and (c.ended or terminal_states.ended_by_script(c)))


def is_prepared(c: Context) -> bool:
    """Whether the next driver waits at its gate."""
    pod, driver = candidate(c), c.observed.prepared
    if pod is None or pod.terminated or driver is None:
        return False
    return driver.phase is DriverPhase.PREPARED and driver.epoch == pod.epoch


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
        limit = timestamp(c.now + duration(c.observed.job.spec.upgrade.start_timeout))
        asked = upgrade.asked(c, UpgradeStep.PREPARING)
        return _make(c, asked.model_copy(update={"epoch": free_epoch(c), "deadline": limit}))
    if (problem := _in_vain(c, u, pod)) is not None:
        s = upgrade.back(c, c.status, problem)  # the next round drops the prepared driver
        told = upgrade.running(replace(c, status=s), do=()) if s.phase is Phase.RUNNING else None
        return told or Decision(s)
    if pod is None:
        # It was not made, or is gone or on its way out; then its name is still taken.
        leaves = any(p.epoch == u.epoch for p in c.observed.standbys)
        return _make(c, u.model_copy(update={"epoch": free_epoch(c)}) if leaves else u)
    if pod.terminated:  # it may have been chance: once more, under another name
        s = fail(c.status, diagnosis.death_of(pod), c.now)
        anew = u.model_copy(update={"epoch": free_epoch(c), "error": s.last_error})
        return _make(replace(c, status=s), anew)
    return None


def begin(c: Context) -> Decision | None:
    """A rule: begin the epoch of the prepared driver, as soon as the running one has closed every task and
    its final checkpoint is in the index. Nothing of that one can commit any more; its process may still be
    leaving.
    """
    report = c.observed.report
    closed = report is not None and report.phase is DriverPhase.TERMINATED and report.problem is None
    ours = report is not None and report.epoch == c.status.epoch
    return _take_over(c) if closed and ours and c.leaving and is_prepared(c) else None


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
    if any(p.epoch < pod.epoch and not has_handed_over(c, p) for p in c.pods):
        return None  # a lost status, or a late creation: it is being killed
    if c.observed.index_problem is not None or not fits_a_gate(c.observed.index):
        return Decision(c.status, (actions.DeletePod(pod.name, pod.uid),))  # another one is told at its start
    # What the status had before this epoch began is lost: its directories are taken for ahead.
    return Decision(c.status, (_open(c, pod.epoch, pod.epoch),))


def remove_who_has_left(c: Context) -> Decision | None:
    """A rule: delete the pod of the driver that has handed over and exited."""
    gone = [p for p in c.observed.pods if p.terminated and not p.deleting and has_handed_over(c, p)]
    return Decision(c.status, tuple(actions.DeletePod(p.name, p.uid) for p in gone)) if gone else None


def has_handed_over(c: Context, pod: Pod) -> bool:
    """Whether its driver has ended its epoch in order, and handed over: it only has to exit."""
    return c.status.handed_over is not None and c.status.handed_over.uid == pod.uid


def instead(c: Context) -> Decision | None:
    """What to do instead of beginning an epoch with a driver that has yet to be made: no driver runs, and a
    prepared one takes over, is waited for, or does not come.
    """
    if is_prepared(c):
        return _take_over(c)
    u, pod = c.status.upgrade, candidate(c)
    if u is None or pod is None or u.deadline is None:
        return None
    if u.step is UpgradeStep.PREPARING and (problem := _in_vain(c, u, pod)) is not None:
        return Decision(upgrade.back(c, c.status, problem))
    left = (moment(u.deadline) - c.now).total_seconds()
    if pod.terminated or left <= 0:
        do = (actions.DeletePod(pod.name, pod.uid),)
        return Decision(c.status, do)  # when it is gone, another one begins
    text = f"The driver of epoch {pod.epoch} was being prepared, and takes over when it is"
    return c.decide(Phase.STARTING, "Starting", text, requeue_after=left)


# --- parts --------------------------------------------------------------------------------------------------


def free_epoch(c: Context) -> int:
    """The number of an epoch that no driver has had, not even one that was being prepared."""
    u, o = c.status.upgrade, c.observed
    known = [c.status.epoch, *(p.epoch for p in (*o.pods, *o.standbys))]
    return max(*known, u.epoch if u is not None and u.epoch is not None else 0) + 1


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
        "handed_over": c.status.driver if c.observed.pod in c.pods else None,
        "termination": None,
    }
    text = f"The prepared driver of epoch {pod.epoch} takes over"
    do = (_open(c, pod.epoch, c.status.started_epoch),)
    return c.decide(Phase.STARTING, "Starting", text, do=do, status=s.model_copy(update=update))


def _open(c: Context, epoch: int, started_epoch: int) -> actions.OpenGate:
    return actions.OpenGate(gate(c.observed.job, c.observed.index, epoch, started_epoch))


def _make(c: Context, u: UpgradeStatus) -> Decision:
    """Record which driver is to be prepared, then create it."""
    made_from = upgrade.effective(c)
    assert u.epoch is not None
    config = prepared_config(c.observed.job.made_from(made_from), u.epoch)
    s: Status = c.status.model_copy(update={"upgrade": u})
    runtime = (actions.EnsureRuntime(),) if made_from.runtime is Runtime.INJECTED else ()
    return Decision(s, (actions.EnsureSecret(), *runtime, actions.CreateDriver(config, made_from)))


def _in_vain(c: Context, u: UpgradeStatus, pod: Pod | None) -> Problem | None:
    """Why the next driver will not come to its first query; None while it may."""
    assert u.deadline is not None
    late = c.now >= moment(u.deadline)
    if pod is None:
        return upgrade.refusal(c) or (_late(c, None) if late else None)
    if pod.terminated:
        problem = diagnosis.death_of(pod)
        again = problem.retryable and c.observed.job.spec.restart.policy is RestartPolicy.ON_FAILURE
        return problem if late or u.error is not None or not again else None
    stuck = diagnosis.stuck(pod, c.observed.job, c.now)
    hopeless = stuck is not None and stuck.reason in upgrade.HOPELESS
    return (stuck or _late(c, pod)) if late or hopeless else None


def _late(c: Context, pod: Pod | None) -> Problem:
    limit = c.observed.job.spec.upgrade.start_timeout
    if pod is None or not pod.started:
        return Problem(
            "DriverNotStarted",
            f"no driver could be prepared within {limit}",
            "See the Events of the job and of its pods; fix what they name",
        )
    return Problem(
        "DriverNotPrepared",
        f"the script in {pod.name} has not come to its first query within {limit}",
        "Look for what it waits for before its first query, or raise spec.upgrade.startTimeout",
    )
