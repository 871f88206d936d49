"""An upgrade: the specification has changed while a driver runs. Pure, a part of `decide`.

The driver that runs stops (`Goal.UPGRADE`), another one begins with the new specification. Until that one has come up, the status
keeps what ran before; if it does not come up, the job goes back to it, and does not try the same specification again.

A driver is made from `effective`, which follows from spec and status alone. Whatever driver runs instead (after a user's second
thought, or a late creation of an older controller) is asked to stop: so nothing has to be put right step by step.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from ..api import (
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
from ..api.types import duration, moment, timestamp
from ..protocol.messages import DriverPhase, Problem
from . import actions, faults
from .case import Case, Decision, Goal
from .observe import Pod
from .status import NOT_MADE, fail
from .words import ROLLED_BACK, how_it_went

ATTEMPTS = 2  # of a new specification; one failure may be chance (an eviction, a broker that is away)
HOPELESS = ("InvalidImageName", "Invalid")  # no wait mends them


def effective(c: Case) -> Specification:
    """What a driver is to be made from: what the spec says, unless that has been rolled back."""
    previous = Specification.parse(c.s.upgrade.previous) if c.s.upgrade and rolled_back(c) else None
    return previous or Specification.of(c.o.job.spec)


def rolled_back(c: Case) -> bool:
    """What the spec asks for did not come up, and has not been changed since."""
    u = c.s.upgrade
    return u is not None and u.step is UpgradeStep.ROLLED_BACK and u.target == c.target


# --- before the rules: how far it is -----------------------------------------------------------------------------


def aim(c: Case) -> Case:
    """The case with what has come of the upgrade, and with `Goal.UPGRADE` if the driver that runs has to make way."""
    c = _settled(c)
    pod, word = c.o.pod, c.o.driver
    if c.goal is not Goal.RUN or pod is None or pod.over or pod.deleting or pod.specification is None:
        return c
    if pod.specification == effective(c):
        # Nothing waits for a stop (any more).
        return _with(c, None) if _step(c) in (UpgradeStep.STOPPING, UpgradeStep.PENDING) else c
    runs = word is not None and word.problem is None
    if not runs or word is None or word.phase not in (DriverPhase.RUNNING, DriverPhase.TERMINATING):
        return c  # it has not begun, or is failing: what comes next begins with the new one anyway
    if c.o.job.spec.upgrade.mode is UpgradeMode.NEXT_EPOCH:
        return _with(c, _asked(c, UpgradeStep.PENDING)) if _step(c) is not UpgradeStep.STARTING else c
    return replace(c, goal=Goal.UPGRADE)


def _settled(c: Case) -> Case:
    """The new driver has come up, or the spec is again what ran before."""
    u = c.s.upgrade
    if u is None:
        return c
    if u.step is UpgradeStep.ROLLED_BACK and Specification.parse(u.previous) == Specification.of(
        c.o.job.spec
    ):
        return _with(c, None)
    latest = c.o.index.latest if c.o.index else None
    completed = latest is not None and u.epoch is not None and latest.epoch >= u.epoch
    # It may have failed while nobody looked.
    runs = c.o.pod is not None and not c.o.pod.over and c.o.driver is not None and c.o.driver.problem is None
    proven = runs and _probation_left(c.o.job, c.s, c.now) == timedelta()
    if u.step is not UpgradeStep.STARTING or not (completed or proven):
        return c
    over = {"step": UpgradeStep.COMPLETED, "previous": None, "deadline": None, "error": None}
    return _with(c, u.model_copy(update=over))


def _probation_left(job: StreamJob, s: Status, now: datetime) -> timedelta | None:
    """Of the new driver; None while it does not run."""
    ready = s.condition(ConditionType.READY)
    if s.phase is not Phase.RUNNING or ready is None or ready.status != "True":
        return None
    since = moment(ready.last_transition_time)
    return max(since + duration(job.spec.upgrade.probation) - now, timedelta())


# --- the intents -------------------------------------------------------------------------------------------------


def asked_to_stop(c: Case) -> Case:
    """To be recorded with the termination that the driver is about to be told."""
    if c.goal is not Goal.UPGRADE or rolled_back(c):
        return c
    return _with(c, _asked(c, UpgradeStep.STOPPING))


def _asked(c: Case, step: UpgradeStep) -> UpgradeStatus:
    u, pod = c.s.upgrade, c.o.pod
    assert pod is not None
    assert pod.specification is not None
    # What has not come up is nothing to go back to.
    proven = u is None or u.step in (UpgradeStep.COMPLETED, UpgradeStep.PENDING)
    previous = pod.specification.text if u is None or proven else u.previous
    return UpgradeStatus(
        step=step, generation=c.o.job.metadata.generation, target=c.target, previous=previous
    )


def begun(c: Case, epoch: int) -> tuple[Status, Specification]:
    """A driver of `epoch` is about to be made: what the status says of the upgrade then, and what the driver is made from."""
    s, u, job = c.s, c.s.upgrade, c.o.job
    made_from = effective(c)
    if u is None or u.step is UpgradeStep.COMPLETED or rolled_back(c):
        return s, made_from
    previous = Specification.parse(u.previous)
    if u.step is UpgradeStep.PENDING or previous is None or previous == made_from:
        return s.model_copy(update={"upgrade": None}), made_from
    latest = c.o.index.latest if c.o.index else None
    same = u.step is UpgradeStep.STARTING and u.target == c.target
    if same and s.epoch == epoch:
        return s, made_from  # it is made again under the same name
    exact = latest is not None and c.settled and u.step is UpgradeStep.STOPPING
    u = UpgradeStatus(
        step=UpgradeStep.STARTING,
        generation=job.metadata.generation,
        target=c.target,
        previous=u.previous,
        epoch=u.epoch if same else epoch,
        deadline=timestamp(c.now + duration(job.spec.upgrade.start_timeout)),
        savepoint=latest.savepoint if latest is not None and exact else u.savepoint,
        error=u.error if same else None,
    )
    # The driver that made way may have died of it, which the new one does not answer for.
    clean = {} if same else {"restarts": None}
    return s.model_copy(update={"upgrade": u, **clean}), made_from


def at_its_end(s: Status) -> Status:
    """Drained or out of input: nothing will begin any more."""
    over = s.upgrade is None or s.upgrade.step in (UpgradeStep.COMPLETED, UpgradeStep.ROLLED_BACK)
    return s if over else s.model_copy(update={"upgrade": None})


# --- going back --------------------------------------------------------------------------------------------------


def give_up_what_does_not_start(c: Case) -> Decision | None:
    """A rule. The new driver's container has not run, so it holds nothing: after `upgrade.startTimeout` its pod goes.

    The pod's version is a precondition: should the kubelet start it just now, it stays, and is asked to stop instead.
    """
    pod, u = c.o.pod, c.s.upgrade
    if pod is not None and not pod.started and not pod.over and not pod.deleting and _given_up(c, pod):
        s = c.s.model_copy(update={"driver": None})
        return Decision(s, (actions.DeletePod(pod.name, pod.uid, pod.version),))
    if not _trying(c) or u is None or u.deadline is None:
        return None
    if pod is None:
        refused = c.s.driver is not None and c.s.driver.phase == NOT_MADE and c.s.last_error is not None
        problem = _problem(c.s.last_error) if refused else None
        if problem is None:
            return None
    elif pod.started or pod.over or pod.deleting:
        return None
    else:
        problem = faults.stuck(pod, c.o.job, c.now)
    if c.now < moment(u.deadline) and (problem is None or problem.reason not in HOPELESS):
        return None
    problem = problem or Problem(
        "DriverNotStarted",
        f"the container of {pod.name if pod else 'the driver'} has not started within {c.o.job.spec.upgrade.start_timeout}",
        "See the Events of the pod; mend what they name (a volume, a ConfigMap or a Secret that is not there)",
    )
    s = _back(c, c.s, problem)
    if pod is None:
        return c.decide(Phase.RESTARTING, ROLLED_BACK, _told(s), status=s, wake=0.0)
    s = s.model_copy(update={"driver": None})
    do = (actions.DeletePod(pod.name, pod.uid, pod.version),)
    return c.decide(Phase.RESTARTING, ROLLED_BACK, _told(s), do=do, status=s)


def give_up_what_fails(c: Case, s: Status, problem: Problem, count: int) -> Decision | None:
    """The new driver has failed for the `count`-th time. None: it is tried again, as after any failure."""
    may_pass = problem.retryable and c.o.job.spec.restart.policy is RestartPolicy.ON_FAILURE
    if not _trying(c) or (may_pass and count < min(ATTEMPTS, c.o.job.spec.restart.limit + 1)):
        return None
    # At once, and the old specification begins with a clean slate.
    s = _back(c, s, problem).model_copy(update={"restarts": c.restart_now})
    return c.decide(Phase.RESTARTING, ROLLED_BACK, _told(s), status=s, wake=0.0)


def _given_up(c: Case, pod: Pod) -> bool:
    """It is recorded that the job has gone back, and the pod is still there."""
    made_from = pod.specification
    return rolled_back(c) and made_from not in (None, effective(c))


def _trying(c: Case) -> bool:
    u = c.s.upgrade
    return (
        u is not None
        and u.step is UpgradeStep.STARTING
        and u.target == c.target
        and u.epoch is not None
        and c.s.epoch >= u.epoch
    )


def _back(c: Case, s: Status, problem: Problem) -> Status:
    s = fail(s, problem, c.now)
    assert s.upgrade is not None
    update = {"step": UpgradeStep.ROLLED_BACK, "deadline": None, "error": s.last_error}
    return s.model_copy(update={"upgrade": s.upgrade.model_copy(update=update)})


# --- what is said of it ------------------------------------------------------------------------------------------


def running(c: Case, *, do: tuple[actions.Action, ...]) -> Decision | None:
    """The job runs with what was to be replaced: it needs a person. `do`: what a job that runs does all the same."""
    if not rolled_back(c):
        return None
    return c.decide(Phase.RUNNING, ROLLED_BACK, _told(c.s), stalled=True, do=do)


def _told(s: Status) -> str:
    assert s.upgrade is not None
    return how_it_went(s.upgrade).message


def wake(c: Case, s: Status) -> float | None:
    """Seconds until the new driver should have started, or has run for long enough."""
    u = s.upgrade
    if u is None or u.step is not UpgradeStep.STARTING:
        return None
    probation = _probation_left(c.o.job, s, c.now)
    if probation is not None:
        return probation.total_seconds()
    late = u.deadline is None or c.now >= moment(u.deadline)
    return None if late or u.deadline is None else (moment(u.deadline) - c.now).total_seconds()


# --- helpers -----------------------------------------------------------------------------------------------------


def _step(c: Case) -> UpgradeStep | None:
    return c.s.upgrade.step if c.s.upgrade else None


def _with(c: Case, u: UpgradeStatus | None) -> Case:
    return replace(c, s=c.s.model_copy(update={"upgrade": u}))


def _problem(error: ErrorStatus | None) -> Problem | None:
    return Problem(error.reason, error.message, error.remedy) if error else None
