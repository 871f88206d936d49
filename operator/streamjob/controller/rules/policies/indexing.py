"""Commits checkpoints to the index as the driver reports them, and confirms them. Pure, rules of `decide`."""

from __future__ import annotations

from ....protocol import index as indices
from ....protocol.errors import FormatError
from ....protocol.messages import DriverPhase, Problem
from .. import actions
from ..actions import completed_token
from ..context import RECHECK, Case, Decision, Goal
from .rebuild import how_to_go_on, may_begin, rebuild


def take_the_checkpoint_into_the_index(c: Case) -> Decision | None:
    """Commit to the index the checkpoints that the driver reports as durable: from then on they count."""
    records = [r for r in c.o.word.durable if r.epoch == c.s.epoch] if c.o.word else []
    if not records or c.o.index_problem is not None or _goes_with_the_job(c):
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
    """Confirm the checkpoint to the driver. Only then does the driver close its tasks and exit (V2).

    A driver that does not answer, or is about to be killed, gets no confirmation: everything else would have
    to wait until it listens.
    """
    word, pod, latest = c.o.driver, c.o.pod, c.o.index.latest if c.o.index else None
    if pod is None or pod.over or word is None or latest is None:
        return None
    if c.o.silent or c.goal is Goal.CANCEL:
        return None
    if word.phase in (DriverPhase.TERMINATED, DriverPhase.FAILED):
        return None
    for number in [r.checkpoint for r in word.durable]:
        if number <= latest.checkpoint and completed_token(number) not in c.o.acknowledged:
            return Decision(c.s, (actions.ConfirmCheckpoint(number, c.s.epoch),))
    return None


def forget_what_is_committed(c: Case) -> Decision | None:
    """Drop the pending transactions of a final checkpoint from the index once its driver has exited in order.

    The sinks have then committed what was pre-committed for that checkpoint, and the checkpoint counts as the
    end of that driver's epoch. If a driver dies before, its successor commits first of all.
    """
    word = c.o.word
    if word is None or word.phase is not DriverPhase.TERMINATED or word.problem or word.epoch != c.s.epoch:
        return None
    if c.o.index is None or not c.uncommitted or _goes_with_the_job(c):
        return None
    index = indices.committed(c.o.index, word.epoch)
    return Decision(c.s, (actions.WriteIndex(index, c.o.index_version),))


def need_a_readable_index(c: Case) -> Decision | None:
    """Without a readable index no termination begins or completes, and a driver begins only if it needs no
    index.

    A running driver is asked what it knows, to rebuild the index. Cancelled and deletion work all the same.
    """
    if c.o.index_problem is None:
        return None
    if c.o.job.deleting and not c.o.pods:
        return Decision(c.s, (actions.SetFinalizer(False),))
    if (anew := rebuild(c)) is not None:
        return anew
    if may_begin(c):
        return None
    # The index of a deleted job is garbage-collected soon, and no event reports that.
    wake = RECHECK if c.o.index_problem.reason == "NameTaken" else None
    return c.stall(c.phase, how_to_go_on(c, c.o.index_problem), wake=c.until_deletion_is_due or wake)


def _goes_with_the_job(c: Case) -> bool:
    """The job is deleted and cancelled, and its index is deleted with it.

    An index that cannot be written (its namespace is being deleted) must not keep the finalizer forever.
    """
    return c.o.job.deleting and c.goal is Goal.CANCEL
