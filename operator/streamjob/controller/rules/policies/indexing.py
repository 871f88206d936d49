"""Commits checkpoints to the index as the driver reports them, and confirms them. Pure, rules of `decide`."""

from __future__ import annotations

from ....protocol.errors import FormatError
from ....protocol.formats import index as indices
from ....protocol.messages.driver_status import DriverPhase, Problem
from .. import actions
from ..actions import completed_token
from ..context import RECHECK, Context, Decision, DesiredState
from .rebuild import how_to_go_on, may_begin, rebuild


def commit_the_checkpoint_to_the_index(c: Context) -> Decision | None:
    """Commit to the index the checkpoints that the driver reports as durable: from then on they count."""
    records = [r for r in c.observed.report.durable if r.epoch == c.status.epoch] if c.observed.report else []
    if not records or c.observed.index_problem is not None or _goes_with_the_job(c):
        return None
    index = c.observed.index or indices.empty(c.observed.job.metadata.uid)
    try:
        for record in records:
            index = indices.add(index, record)
    except (FormatError, ValueError) as e:
        if c.desired is DesiredState.CANCEL:
            return None
        remedy = "Set spec.state to Cancelled; Running then continues from the checkpoint directories"
        return c.stall(c.phase, Problem("IndexConflict", str(e), remedy))
    return (
        None
        if index == c.observed.index
        else Decision(c.status, (actions.WriteIndex(index, c.observed.index_version),))
    )


def confirm_the_checkpoint_to_the_driver(c: Context) -> Decision | None:
    """Confirm the checkpoint to the driver. Only then does the driver close its tasks and exit (V2).

    A driver that does not answer, or is about to be killed, gets no confirmation: everything else would have
    to wait until it listens.
    """
    driver, pod, latest = (
        c.observed.driver,
        c.observed.pod,
        c.observed.latest,
    )
    if pod is None or pod.terminated or driver is None or latest is None:
        return None
    if c.observed.silent or c.desired is DesiredState.CANCEL:
        return None
    if driver.phase in (DriverPhase.TERMINATED, DriverPhase.FAILED):
        return None
    for number in [r.checkpoint for r in driver.durable]:
        if number <= latest.checkpoint and completed_token(number) not in c.observed.acknowledged:
            return Decision(c.status, (actions.ConfirmCheckpoint(number, c.status.epoch),))
    return None


def forget_what_is_committed(c: Context) -> Decision | None:
    """Drop the pending transactions of a final checkpoint from the index once its driver has exited in order.

    The sinks have then committed what was pre-committed for that checkpoint, and the checkpoint counts as the
    end of that driver's epoch. If a driver dies before, its successor commits first of all.
    """
    report = c.observed.report
    if (
        report is None
        or report.phase is not DriverPhase.TERMINATED
        or report.problem
        or report.epoch != c.status.epoch
    ):
        return None
    if c.observed.index is None or not c.uncommitted or _goes_with_the_job(c):
        return None
    index = indices.committed(c.observed.index, report.epoch)
    return Decision(c.status, (actions.WriteIndex(index, c.observed.index_version),))


def need_a_readable_index(c: Context) -> Decision | None:
    """Without a readable index no termination begins or completes, and a driver begins only if it needs no
    index.

    A running driver is asked what it knows, to rebuild the index. Cancelled and deletion work all the same.
    """
    if c.observed.index_problem is None:
        return None
    if c.observed.job.deleting and not c.pods:
        return Decision(c.status, (actions.SetFinalizer(False),))
    if (anew := rebuild(c)) is not None:
        return anew
    if may_begin(c):
        return None
    # The index of a deleted job is garbage-collected soon, and no event reports that.
    requeue_after = RECHECK if c.observed.index_problem.reason == "NameTaken" else None
    return c.stall(
        c.phase,
        how_to_go_on(c, c.observed.index_problem),
        requeue_after=c.until_deletion_is_due or requeue_after,
    )


def _goes_with_the_job(c: Context) -> bool:
    """The job is deleted and cancelled, and its index is deleted with it.

    An index that cannot be written (its namespace is being deleted) must not keep the finalizer forever.
    """
    return c.observed.job.deleting and c.desired is DesiredState.CANCEL
