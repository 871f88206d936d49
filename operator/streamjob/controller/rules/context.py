"""The context of a rule of `decide`: the observation, the desired state, and what the
rules ask about them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from ...api import (
    ConditionType,
    Escalation,
    OnDelete,
    Phase,
    RestartStatus,
    State,
    Status,
    StreamJob,
    TerminationInfo,
    UpgradeMode,
)
from ...api.policies import Termination
from ...api.types import duration
from ...protocol.messages.commands import Mode, TerminationRequest
from ...protocol.messages.driver_status import Problem
from ...protocol.times import moment, timestamp
from ..objects import names
from ..reports.messages import sentence
from .actions import Action, DeletePod
from .observed import Observed, Pod
from .status import (
    end_failed,
    ended_with_nothing_left,
    fail,
    final,
    left_before_its_first_query,
    nothing_has_run,
    over,
    settle,
)

CANCEL_GRACE = 1  # second
SIDECAR_GRACE = 10  # seconds for a sidecar whose driver has ended; Istio's proxy takes 5
RECHECK = 10.0  # seconds; for what may change without an event
AT_ONCE_AGAIN = 0.0  # seconds; reconcile again at once


class DesiredState(Enum):
    """The desired state of a job.

    It is `spec.state`, unless `spec.suspend`, an escalation or a deletion (`termination.onDelete`) changes
    it: see `resolve`.
    """

    RUN = "Running"
    STOP = "Stopped"
    DRAIN = "Drained"
    CANCEL = "Cancelled"
    SUSPEND = "Suspended"  # RUN, but without a driver: see `suspension`
    UPGRADE = "Upgraded"  # RUN, but with another driver: see `upgrade.resolve`
    END_ROUND = "RoundEnded"  # RUN, but the round has taken too long: see `rounds`


MODES = {
    DesiredState.STOP: Mode.STOP,
    DesiredState.DRAIN: Mode.DRAIN,
    DesiredState.SUSPEND: Mode.STOP,
    DesiredState.UPGRADE: Mode.STOP,
    DesiredState.END_ROUND: Mode.STOP,
}
KINDS = {  # of requests, else by the mode
    DesiredState.SUSPEND: "suspend",
    DesiredState.UPGRADE: "upgrade",
    DesiredState.END_ROUND: "round",
}


@dataclass(frozen=True)
class Decision:
    """Write `status` (if it differs), then carry out `actions` in order and reconcile again.

    :param requeue_after: without actions, requeue after this many seconds; None: wait for an event.
    """

    status: Status
    actions: tuple[Action, ...] = ()
    requeue_after: float | None = None


@dataclass(frozen=True)
class Context:
    """What a rule decides on.

    :param observed: the observation.
    :param status: the status that follows from the observation alone.
    :param desired: the desired state.
    :param now: the time.
    :param target: the digest of what the spec says a driver is made from.
    :param prepares: the next driver is to be prepared beside the running one (`handover`).
    """

    observed: Observed
    status: Status
    desired: DesiredState
    now: datetime
    target: str
    prepares: bool = False

    def decide(
        self,
        phase: Phase,
        reason: str,
        message: str,
        *,
        do: tuple[Action, ...] = (),
        requeue_after: float | None = None,
        stalled: bool = False,
        status: Status | None = None,
    ) -> Decision:
        s = settle(
            status or self.status, self.observed.job, self.now, phase, reason, message, stalled=stalled
        )
        return Decision(s, do, requeue_after)

    def stall(self, phase: Phase, problem: Problem, *, requeue_after: float | None = None) -> Decision:
        """Report that nothing moves until a person has fixed the problem."""
        s = fail(self.status, problem, self.now)
        return self.decide(
            phase, problem.reason, sentence(problem), stalled=True, status=s, requeue_after=requeue_after
        )

    def stay(self, requeue_after: float | None) -> Decision:
        """Keep the phase, and its reason and message. Ready may name a dead query instead."""
        last = self.status.condition(ConditionType.RECONCILING)
        reason, message = (last.reason, last.message) if last else (self.phase.value, "")
        return self.decide(self.phase, reason, message, requeue_after=requeue_after)

    def with_termination(self, termination: TerminationInfo | None) -> Context:
        return replace(self, status=self.status.model_copy(update={"termination": termination}))

    @property
    def mode(self) -> str | None:
        """The kind of termination that the desired state asks for; None if it asks for none."""
        mode = MODES.get(self.desired)
        return mode.value if mode else None

    @property
    def until_deletion_is_due(self) -> float | None:
        """Seconds until the timeout of a deletion passes and the job is cancelled; None if none runs."""
        if not self.observed.job.deleting or self.desired is DesiredState.CANCEL:
            return None
        return max((deletion_deadline(self.observed, self.desired) - self.now).total_seconds(), 0.0)

    @property
    def start_deadline(self) -> str:
        """When a driver that is made now should have started."""
        return timestamp(self.now + duration(self.observed.job.spec.upgrade.start_timeout))

    def new_termination(self, epoch: int) -> TerminationInfo | None:
        """Build the termination that the desired state asks for; None if it asks for none.

        The id follows from epoch and generation, so whoever decides it gets the same id.
        """
        if self.mode is None:
            return None
        ends = "delete" if self.observed.job.deleting else self.mode.lower()
        kind = KINDS.get(self.desired, ends)
        request_id = f"{kind}-{epoch}-{self.observed.job.metadata.generation}"
        return TerminationInfo(
            request_id=request_id,
            mode=self.mode,
            requested_at=timestamp(self.now),
            deadline=timestamp(self.now + timeout(self.observed, self.desired)),
            savepoint=names.savepoint(self.observed.job, request_id) if self._copies else None,
        )

    def fits(self, termination: TerminationInfo) -> bool:
        """Whether the termination does what the desired state asks for.

        The termination of an upgrade may lack the savepoint that a stop has to have.
        """
        return termination.mode == self.mode and (termination.savepoint is not None or not self._copies)

    @property
    def _copies(self) -> bool:
        by_checkpoint = self.observed.job.spec.upgrade.mode is UpgradeMode.CHECKPOINT
        upgrades = self.desired is DesiredState.UPGRADE
        return self.desired is not DesiredState.END_ROUND and not (upgrades and by_checkpoint)

    @property
    def phase(self) -> Phase:
        return self.status.phase or Phase.PENDING

    @property
    def settled(self) -> bool:
        """No driver has started a query since the newest checkpoint, or none ever.

        The checkpoint directories, and what readers of the sinks see, then match that checkpoint. An end that
        nobody requested counts only if the script did not fail.
        """
        latest, started = self.observed.latest, self.status.started_epoch
        if started == 0 or self.uncommitted:
            return started == 0
        if left_before_its_first_query(self.status) and nothing_has_run(latest, self.status, started):
            return True
        if latest is None:
            return False
        ended = final(latest) and latest.epoch >= started and not end_failed(latest, self.status)
        return ended or ended_with_nothing_left(latest, self.status)

    @property
    def where_it_ended(self) -> str:
        """The state of a job that has settled and is to be resumed, for a sentence."""
        latest = self.observed.latest
        if latest is None:
            return "before it began"
        text = f"with checkpoint {latest.checkpoint}"
        if latest.epoch < self.status.started_epoch:
            text += "; its script has started no query since, so it needs no newer savepoint"
        return text

    @property
    def leaving(self) -> bool:
        """Everything that the driver of this epoch has to save is in the index: it only has to exit."""
        return self.settled and self.status.started_epoch == self.status.epoch

    @property
    def uncommitted(self) -> bool:
        """The newest checkpoint ended an epoch, and the sinks may still have to commit it."""
        latest = self.observed.latest
        return latest is not None and final(latest) and latest.uncommitted

    @property
    def ended(self) -> bool:
        """The newest checkpoint leaves nothing to resume: drained, or out of input. With a schedule, the
        next round may have input again.
        """
        latest = self.observed.latest
        if over(latest) or latest is None or self.observed.job.spec.schedule is not None:
            return over(latest)
        return ended_with_nothing_left(latest, self.status)

    @property
    def has_begun(self) -> bool:
        """A query has run, in this epoch or an earlier one, so a savepoint would hold something."""
        return bool(self.status.stages) or self.observed.latest is not None

    @property
    def open_termination(self) -> TerminationInfo | None:
        """The recorded termination, while its checkpoint is not in the index, or sinks have to commit it."""
        t = self.status.termination
        return t if t is not None and (t.final_checkpoint is None or self.uncommitted) else None

    @property
    def has_to_finish(self) -> bool:
        """A termination has begun that this driver or the next one finishes. If the script has never started
        a query, there is nothing to finish.
        """
        return self.open_termination is not None and self.has_begun

    @property
    def failed(self) -> RestartStatus | None:
        """The failure of the newest epoch, once it is recorded."""
        r = self.status.restarts
        return r if r is not None and r.epoch == self.status.epoch else None

    @property
    def gave_up(self) -> bool:
        """Whether the newest epoch has failed for good: no restart follows."""
        return self.failed is not None and self.failed.next_at is None

    @property
    def kept(self) -> tuple[Pod, ...]:
        """The pods of failed drivers that stay for their logs, the newest first.

        A pod of an earlier epoch that is over was left on purpose: an epoch begins only when the pod of the
        one before is gone, or is one of these.
        """
        pods = [
            p
            for p in reversed(self.observed.pods)
            if p.over and (p.epoch < self.status.epoch or self.failed is not None)
        ]
        return tuple(pods[: self.observed.job.spec.restart.failed_drivers_history_limit])

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The driver pods without those that stay for their logs, and the prepared ones that are on their way
        out: no driver is made before they are gone.
        """
        kept, o = self.kept, self.observed
        return tuple(p for p in (*o.pods, *(p for p in o.standbys if p.deleting)) if p not in kept)

    @property
    def at_rest(self) -> bool:
        """Nothing of the job's drivers runs any more. The kubelet may still be removing their pods."""
        return all(p.all_exited for p in self.pods)

    @property
    def restart_now(self) -> RestartStatus:
        """A restart status with which the next epoch begins at once and no failure is counted."""
        generation = self.observed.job.metadata.generation
        return RestartStatus(
            count=0, epoch=self.status.epoch, generation=generation, next_at=timestamp(self.now)
        )


def kill(pods: Iterable[Pod]) -> tuple[Action, ...]:
    """Delete pods without a savepoint, except those that are being killed already."""
    return tuple(
        DeletePod(p.name, p.uid, grace=CANCEL_GRACE)
        for p in pods
        if not p.deleting or (p.grace or 0) > CANCEL_GRACE
    )


def release(pods: Iterable[Pod]) -> tuple[Action, ...]:
    """Delete pods whose driver has ended.

    A sidecar that still runs gets SIGTERM and SIDECAR_GRACE: the pod's own grace period is meant for the
    driver's savepoint, and the next epoch waits until the pod is gone.
    """
    return tuple(
        DeletePod(p.name, p.uid, grace=SIDECAR_GRACE if p.beside else None)
        for p in pods
        if not p.deleting or (p.beside and (p.grace or 0) > SIDECAR_GRACE)
    )


def resolve(observed: Observed, now: datetime) -> DesiredState:
    """Resolve the desired state.

    A job that is being deleted ends as `onDelete` says, or as it was ending already; when that takes too
    long, it is cancelled.
    """
    job = observed.job
    asked = {
        State.RUNNING: DesiredState.SUSPEND if job.spec.suspended else DesiredState.RUN,
        State.STOPPED: DesiredState.STOP,
        State.DRAINED: DesiredState.DRAIN,
        State.CANCELLED: DesiredState.CANCEL,
    }
    wanted = escalated(job) or asked[job.spec.state]
    if not job.deleting:
        return wanted
    on_delete = {
        OnDelete.STOP: DesiredState.STOP,
        OnDelete.DRAIN: DesiredState.DRAIN,
        OnDelete.CANCEL: DesiredState.CANCEL,
    }
    if wanted in (DesiredState.RUN, DesiredState.SUSPEND):
        wanted = on_delete[job.spec.termination.on_delete]
    return DesiredState.CANCEL if now >= deletion_deadline(observed, wanted) else wanted


def escalated(job: StreamJob) -> DesiredState | None:
    """The desired state that an escalation has put in place of `spec.state`, or of a suspension.

    :returns: None if there is no escalation, or if `spec.state` or `spec.suspend` has changed since.
    """
    e = job.status.escalation
    if e is None or e.state is not job.spec.state or (e.state is State.RUNNING and not job.spec.suspended):
        return None
    return DesiredState.STOP if e.mode is Escalation.STOP else DesiredState.CANCEL


def deletion_deadline(observed: Observed, wanted: DesiredState) -> datetime:
    asked_at = observed.job.metadata.deletion_timestamp
    assert asked_at is not None
    return moment(asked_at) + timeout(observed, wanted)


def timeout(observed: Observed, wanted: DesiredState) -> timedelta:
    t = observed.job.spec.termination
    return duration(t.drain_timeout if wanted is DesiredState.DRAIN else t.stop_timeout)


def request(t: TerminationInfo, epoch: int, policy: Termination) -> TerminationRequest:
    """Build the request that the driver of `epoch` gets."""
    mode = Mode(t.mode)
    limit = duration(policy.drain_timeout if mode is Mode.DRAIN else policy.stop_timeout)
    return TerminationRequest(t.request_id, epoch, mode, t.savepoint, limit.total_seconds())
