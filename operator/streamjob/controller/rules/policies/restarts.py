"""Restarts: count a failure; another driver starts after the backoff, or none. Pure, rules of `decide`."""

from __future__ import annotations

from ....api import Phase, RestartPolicy, RestartStatus
from ....protocol.times import timestamp
from ...reports.messages import sentence
from .. import diagnosis
from ..context import Context, Decision, DesiredState
from ..status import error_status, fail, seconds_until, unseen_exit
from . import escalation, handover, upgrade


def account_for_a_failure(c: Context) -> Decision | None:
    """A rule: count a failure if the newest epoch's driver has ended and its final checkpoint is not in the
    index. Applies once per epoch.
    """
    known = c.status.driver is not None and c.status.driver.uid is not None
    if c.failed or not known or c.leaving:
        return None
    if c.observed.job.deleting and not c.has_to_finish:
        return None  # it had nothing to save, and no other driver begins
    problem = diagnosis.death(c.observed)
    policy, old, generation = (
        c.observed.job.spec.restart,
        c.status.restarts,
        c.observed.job.metadata.generation,
    )
    afresh = old is None or old.generation != generation or diagnosis.was_stable(c.observed.pod, c.now)
    count = 1 if afresh or old is None else old.count + 1
    may_restart = problem.retryable and policy.policy is RestartPolicy.ON_FAILURE
    delay = policy.backoff.delay(count) if may_restart and count <= policy.limit else None
    restarts = RestartStatus(
        count=count,
        epoch=c.status.epoch,
        generation=generation,
        next_at=timestamp(c.now + delay) if delay is not None else None,
        error=error_status(None, problem, c.now),
    )
    # A pod that no longer exists may have run unobserved.
    started = c.status.epoch if c.observed.pod is None else c.status.started_epoch
    ended = unseen_exit(c.status, problem, c.now).model_copy(update={"started_epoch": started})
    s = fail(ended, problem, c.now).model_copy(update={"restarts": restarts})
    if (decision := escalation.go_on(c, ended)) is not None:
        return decision
    if (back := upgrade.roll_back_failed(c, s, problem, count)) is not None:
        return back
    if delay is not None:
        when = "at once" if handover.is_prepared(c) else f"in {delay.total_seconds():.0f} s"
        text = f"Restart {count} {when}. {sentence(problem)}"
        requeue_after = delay.total_seconds()
        return c.decide(Phase.RESTARTING, problem.reason, text, status=s, requeue_after=requeue_after)
    if may_restart:
        again = "Then set another spec.restart.nonce to start it again"
        text = f"After {policy.limit} restarts in a row: {sentence(problem)} {again}"
        return c.decide(Phase.FAILED, "RestartLimitReached", text, status=s)
    return c.decide(Phase.FAILED, problem.reason, sentence(problem), status=s)


def wait_after_a_failure(c: Context) -> Decision | None:
    """A rule: wait until the backoff is over, or until the spec changes (restart.nonce suffices). Without a
    further restart only such a change ends the wait.
    """
    failed = c.failed
    if failed is None or c.settled:
        return None
    # Asking a job that has failed for good to stop, or suspending it, does not start it again.
    ends = c.desired in (DesiredState.STOP, DesiredState.SUSPEND)
    idle = ends and c.open_termination is None and failed.next_at is None
    if failed.generation != c.observed.job.metadata.generation and not idle:
        return None
    if failed.next_at is None:
        if c.phase is not Phase.FAILED and c.status.last_error is not None:
            # The job was cancelled in the meantime and no longer is.
            error = c.status.last_error
            text = sentence(error.problem)
            return c.decide(Phase.FAILED, error.reason, text, requeue_after=c.until_deletion_is_due)
        return c.stay(c.until_deletion_is_due)
    delay = seconds_until(failed.next_at, c.now)
    return c.stay(delay) if delay else None
