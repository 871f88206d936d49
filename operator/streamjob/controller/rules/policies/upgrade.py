"""Upgrades: the specification changes while a driver runs. Pure, a part of `decide`.

The running driver stops (`DesiredState.UPGRADE`), and another one starts with the new specification. The
status keeps the previous specification until the new driver has come up. If it does not come up, the job
rolls back, and does not try the same specification again.

A driver is created from `effective`, which follows from spec and status alone. Any other running driver
(because the user changed the spec again, or an older controller created it late) is asked to stop, so no step
has to be undone.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from ....api import (
    ConditionType,
    ErrorStatus,
    Phase,
    RestartPolicy,
    Specification,
    Status,
    StreamJob,
    UpgradeMode,
    UpgradeStatus,
    UpgradeStep,
)
from ....api.types import duration
from ....protocol.messages.driver_status import DriverPhase, Problem
from ....protocol.times import moment
from ...reports.messages import ROLLED_BACK, how_it_went
from .. import actions, diagnosis
from ..context import Context, Decision, DesiredState
from ..observed import Pod
from ..status import NOT_MADE, fail

ATTEMPTS = 2  # of a new specification; a single failure may be chance (an eviction, a broker that is down)
# Steps of an upgrade that has changed nothing yet.
IN_VAIN = (UpgradeStep.STOPPING, UpgradeStep.PENDING, UpgradeStep.PREPARING)
REFUSALS = ("Forbidden", "Invalid", "NameTaken", "SpecificationTooLarge")  # of an object, as its last error
HOPELESS = ("InvalidImageName", "Invalid")  # waiting does not fix them


def effective(c: Context) -> Specification:
    """The specification for the next driver: that of the spec, or the previous one after a rollback."""
    previous = Specification.parse(c.status.upgrade.previous) if c.status.upgrade and rolled_back(c) else None
    return previous or Specification.of(c.observed.job.spec)


def rolled_back(c: Context) -> bool:
    """Whether the spec's specification did not come up and has not changed since."""
    u = c.status.upgrade
    return u is not None and u.step is UpgradeStep.ROLLED_BACK and u.target == c.target


# --- before the rules: progress of the upgrade --------------------------------------------------------------


def resolve(c: Context) -> Context:
    """The context with the upgrade's progress; its desired state is `UPGRADE` if the driver has to be
    replaced.
    """
    c = _settled(c)
    if c.observed.job.spec.schedule is not None:
        return _with_the_next_round(c)
    pod, driver = c.observed.pod, c.observed.driver
    if (
        c.desired is not DesiredState.RUN
        or pod is None
        or pod.terminated
        or pod.deleting
        or pod.specification is None
    ):
        return c
    if pod.specification == effective(c):
        # The running driver need not be replaced (any more).
        return _with(c, None) if _step(c) in IN_VAIN else c
    runs = driver is not None and driver.problem is None
    if not runs or driver is None or driver.phase not in (DriverPhase.RUNNING, DriverPhase.TERMINATING):
        return c  # starting, failing or done: the next driver gets the new specification anyway
    if c.observed.job.spec.upgrade.mode is UpgradeMode.NEXT_EPOCH:
        return _with(c, asked(c, UpgradeStep.PENDING)) if _step(c) is not UpgradeStep.STARTING else c
    return replace(c, desired=DesiredState.UPGRADE)


def _with_the_next_round(c: Context) -> Context:
    """With a schedule, a changed specification is for the next round, whose failure rolls it back."""
    pod, r = c.observed.pod, c.status.rounds
    lives = pod is not None and not pod.terminated
    ran = pod.specification if pod is not None and lives else Specification.parse(r.made_from if r else None)
    tried = _step(c) is UpgradeStep.STARTING or rolled_back(c)
    if c.desired is not DesiredState.RUN or ran is None or tried:
        return c
    if ran == effective(c):
        return _with(c, None) if _step(c) in IN_VAIN else c
    return _with(c, asked(c, UpgradeStep.PENDING, ran))


def _settled(c: Context) -> Context:
    """The context with a finished upgrade: the new driver has come up, or the spec was set back to what ran
    before.
    """
    u = c.status.upgrade
    if u is None:
        return c
    if u.step is UpgradeStep.ROLLED_BACK and Specification.parse(u.previous) == Specification.of(
        c.observed.job.spec
    ):
        return _with(c, None)
    latest = c.observed.latest
    completed = latest is not None and u.epoch is not None and latest.epoch >= u.epoch
    # A driver that came up may have failed unobserved, so it must still run.
    runs = (
        c.observed.pod is not None
        and not c.observed.pod.terminated
        and c.observed.driver is not None
        and c.observed.driver.problem is None
    )
    proven = runs and _probation_left(c.observed.job, c.status, c.now) == timedelta()
    if u.step is not UpgradeStep.STARTING or not (completed or proven):
        return c
    over = {"step": UpgradeStep.COMPLETED, "previous": None, "deadline": None, "error": None}
    return _with(c, u.model_copy(update=over))


def _probation_left(job: StreamJob, s: Status, now: datetime) -> timedelta | None:
    """Time left in the new driver's probation; None while the job is not Running and Ready, and in a round,
    which has to come to a checkpoint.
    """
    ready = s.condition(ConditionType.READY)
    if (
        job.spec.schedule is not None
        or s.phase is not Phase.RUNNING
        or ready is None
        or ready.status != "True"
    ):
        return None
    since = moment(ready.last_transition_time)
    return max(since + duration(job.spec.upgrade.probation) - now, timedelta())


# --- recording the intent -----------------------------------------------------------------------------------


def asked_to_stop(c: Context) -> Context:
    """The context with the intent to stop for an upgrade, recorded with the termination that is sent next."""
    if c.desired is not DesiredState.UPGRADE or rolled_back(c):
        return c
    return _with(c, asked(c, UpgradeStep.STOPPING))


def asked(c: Context, step: UpgradeStep, ran: Specification | None = None) -> UpgradeStatus:
    """The upgrade in this step.

    :param ran: what runs, or ran last; None: what the driver's pod says.
    """
    u, pod = c.status.upgrade, c.observed.pod
    ran = ran or (pod.specification if pod is not None else None)
    assert ran is not None
    # A specification that has not come up is no target for a rollback. A driver beside which another one was
    # prepared has run for that long, and runs on if the other one fails: that one is.
    proven = (UpgradeStep.COMPLETED, UpgradeStep.PENDING, UpgradeStep.PREPARING)
    stays = u is None or u.step in proven or step is UpgradeStep.PREPARING
    previous = ran.text if u is None or stays else u.previous
    asked = UpgradeStatus(
        step=step, generation=c.observed.job.metadata.generation, target=c.target, previous=previous
    )
    if u is not None and u.step is UpgradeStep.PREPARING and u.target == c.target:
        return asked.model_copy(update={"epoch": u.epoch, "deadline": u.deadline})  # of the prepared driver
    return asked


def begun(c: Context, epoch: int) -> tuple[Status, Specification]:
    """Record that the driver of `epoch` is about to be created.

    :returns: the status with the upgrade as of then, and the specification for the driver.
    """
    s, u, job = c.status, c.status.upgrade, c.observed.job
    made_from = effective(c)
    if u is None or u.step is UpgradeStep.COMPLETED or rolled_back(c):
        return s, made_from
    previous = Specification.parse(u.previous)
    alone = u.step is UpgradeStep.PENDING and job.spec.schedule is None
    if alone or previous is None or previous == made_from:
        return s.model_copy(update={"upgrade": None}), made_from
    latest = c.observed.latest
    same = u.step is UpgradeStep.STARTING and u.target == c.target
    if same and s.epoch == epoch:
        return s, made_from  # the same pod is created again
    exact = latest is not None and c.settled and u.step is UpgradeStep.STOPPING
    u = UpgradeStatus(
        step=UpgradeStep.STARTING,
        generation=job.metadata.generation,
        target=c.target,
        previous=u.previous,
        epoch=u.epoch if same else epoch,
        deadline=c.start_deadline,
        savepoint=latest.savepoint if latest is not None and exact else u.savepoint,
        error=u.error if same else None,
    )
    # The old driver may have died while stopping. Its failures do not count against the new one.
    clean = {} if same else {"restarts": None}
    return s.model_copy(update={"upgrade": u, **clean}), made_from


def at_its_end(s: Status) -> Status:
    """The status of a drained or finished job, without a pending upgrade: no driver starts any more."""
    over = s.upgrade is None or s.upgrade.step in (UpgradeStep.COMPLETED, UpgradeStep.ROLLED_BACK)
    return s if over else s.model_copy(update={"upgrade": None})


# --- rollback -----------------------------------------------------------------------------------------------


def roll_back_unstarted(c: Context) -> Decision | None:
    """A rule: roll back if the new driver does not start within `upgrade.startTimeout`, or at once if it
    never can. Its container has not run and holds nothing, so the pod is deleted.

    The pod's version is a precondition: if the kubelet starts it at this moment, the pod stays and is asked
    to stop.
    """
    pod, u = c.observed.pod, c.status.upgrade
    if (
        pod is not None
        and not pod.started
        and not pod.terminated
        and not pod.deleting
        and _is_replaced(c, pod)
    ):
        s = c.status.model_copy(update={"driver": None})
        return Decision(s, (actions.DeletePod(pod.name, pod.uid, pod.version),))
    if not _trying(c) or u is None or u.deadline is None:
        return None
    if pod is None:
        refused = _is_refused(c, moment(u.deadline))
        problem = c.status.last_error.problem if refused and c.status.last_error else None
        if problem is None:
            return None
    elif pod.started or pod.terminated or pod.deleting:
        return None
    else:
        problem = diagnosis.stuck(pod, c.observed.job, c.now)
    if c.now < moment(u.deadline) and (problem is None or problem.reason not in HOPELESS):
        return None
    limit = c.observed.job.spec.upgrade.start_timeout
    problem = problem or Problem(
        "DriverNotStarted",
        f"the container of {pod.name if pod else 'the driver'} has not started within {limit}",
        "See the Events of the pod; fix what they name (a volume, a ConfigMap or a Secret that is not there)",
    )
    s = back(c, c.status, problem)
    if pod is None:
        return c.decide(Phase.RESTARTING, ROLLED_BACK, _outcome_of(s), status=s, requeue_after=0.0)
    s = s.model_copy(update={"driver": None})
    do = (actions.DeletePod(pod.name, pod.uid, pod.version),)
    return c.decide(Phase.RESTARTING, ROLLED_BACK, _outcome_of(s), do=do, status=s)


def roll_back_failed(c: Context, s: Status, problem: Problem, count: int) -> Decision | None:
    """Roll back after the new driver's failure number `count`.

    :returns: None if it is tried again, as after any failure.
    """
    may_pass = problem.retryable and c.observed.job.spec.restart.policy is RestartPolicy.ON_FAILURE
    if not _trying(c) or (may_pass and count < min(ATTEMPTS, c.observed.job.spec.restart.limit + 1)):
        return None
    # The old specification starts at once, with no failures counted.
    s = back(c, s, problem).model_copy(update={"restarts": c.restart_now})
    return c.decide(Phase.RESTARTING, ROLLED_BACK, _outcome_of(s), status=s, requeue_after=0.0)


def _is_refused(c: Context, deadline: datetime) -> bool:
    """Whether the API server refuses the new driver, or until the deadline what comes before it."""
    driver, error = c.status.driver, c.status.last_error
    if driver is None or error is None or driver.uid is not None:
        return False
    return driver.phase == NOT_MADE or (c.now >= deadline and _since_begun(c, error, deadline))


def refusal(c: Context) -> Problem | None:
    """Why the API server refuses the driver that is being prepared, if waiting does not help, or its time is
    over.
    """
    u, error = c.status.upgrade, c.status.last_error
    if u is None or u.deadline is None or error is None:
        return None
    deadline = moment(u.deadline)
    refused = error.reason in REFUSALS and (c.now >= deadline or error.reason in HOPELESS)
    return error.problem if refused and _since_begun(c, error, deadline) else None


def _since_begun(c: Context, error: ErrorStatus, deadline: datetime) -> bool:
    """Whether the error is not older than the attempt that ends at the deadline."""
    return moment(error.time) >= deadline - duration(c.observed.job.spec.upgrade.start_timeout)


def _is_replaced(c: Context, pod: Pod) -> bool:
    """Whether the rollback is recorded and the pod has a specification other than the effective one."""
    made_from = pod.specification
    return rolled_back(c) and made_from not in (None, effective(c))


def _trying(c: Context) -> bool:
    u = c.status.upgrade
    return (
        u is not None
        and u.step is UpgradeStep.STARTING
        and u.target == c.target
        and u.epoch is not None
        and c.status.epoch >= u.epoch
    )


def back(c: Context, s: Status, problem: Problem) -> Status:
    s = fail(s, problem, c.now)
    assert s.upgrade is not None
    update = {
        "step": UpgradeStep.ROLLED_BACK,
        "deadline": None,
        "waits_for": None,
        "error": s.last_error,
    }
    return s.model_copy(update={"upgrade": s.upgrade.model_copy(update=update)})


# --- reporting ----------------------------------------------------------------------------------------------


def running(c: Context, *, do: tuple[actions.Action, ...]) -> Decision | None:
    """The job runs with the previous specification after a rollback, and needs a person.

    :param do: the actions of any running job.
    :returns: None if nothing was rolled back.
    """
    if not rolled_back(c):
        return None
    return c.decide(Phase.RUNNING, ROLLED_BACK, _outcome_of(c.status), stalled=True, do=do)


def waiting(c: Context) -> Decision | None:
    """As `running`, of a job that waits for its next round."""
    if not rolled_back(c):
        return None
    return c.decide(Phase.WAITING, ROLLED_BACK, _outcome_of(c.status), stalled=True)


def _outcome_of(s: Status) -> str:
    assert s.upgrade is not None
    return how_it_went(s.upgrade).message


def requeue_after(c: Context, s: Status) -> float | None:
    """Seconds until the new driver's start timeout, or until the end of its probation; None if neither is
    ahead.
    """
    u = s.upgrade
    if u is None or u.step not in (UpgradeStep.STARTING, UpgradeStep.PREPARING):
        return None
    probation = _probation_left(c.observed.job, s, c.now) if u.step is UpgradeStep.STARTING else None
    if probation is not None:
        return probation.total_seconds()
    late = u.deadline is None or c.now >= moment(u.deadline)
    return None if late or u.deadline is None else (moment(u.deadline) - c.now).total_seconds()


# --- helpers ------------------------------------------------------------------------------------------------


def _step(c: Context) -> UpgradeStep | None:
    return c.status.upgrade.step if c.status.upgrade else None


def _with(c: Context, u: UpgradeStatus | None) -> Context:
    return replace(c, status=c.status.model_copy(update={"upgrade": u}))
