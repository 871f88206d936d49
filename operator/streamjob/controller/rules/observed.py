"""What is observed of a job at one moment, as data: `Observed` and its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ...api import ExecutorsStatus, Specification, StreamJob
from ...protocol.formats.index import Index
from ...protocol.formats.records import CheckpointRecord
from ...protocol.messages.driver_status import DriverPhase, DriverStatus, Problem
from ..objects.ui import UiKind

ENDED = ("Succeeded", "Failed")  # phases of a pod
BEFORE_GATE = (DriverPhase.STARTING, DriverPhase.PREPARED)  # phases of a driver that has started no query
NOT_FOUND = "ContainerStatusUnknown"  # the kubelet's reason for a container that it does not find (any more)


def gate_token(epoch: int) -> str:
    """The token of the command that opens the gate of this epoch's driver (`driver_config.Gate`)."""
    return f"gate-{epoch}"


@dataclass(frozen=True)
class DriverExit:
    """How the driver's container ended.

    :param code: exit code of the container.
    :param reason: the kubelet's reason.
    :param tail: end of the driver's log if there is no report, else empty.
    :param report: the driver's final status; None if it left none that is readable and belongs to this job
        and epoch.
    :param at: when the container ended.
    :param refusal: why the launcher did not start the driver, if it did not.
    """

    code: int
    reason: str
    tail: str
    report: DriverStatus | None
    at: datetime | None
    refusal: Problem | None = None

    @property
    def script_code(self) -> int:
        """The exit code of the script; that of the container if the driver did not report one."""
        reported = self.report.exit_code if self.report is not None else None
        return self.code if reported is None else reported

    @property
    def unseen(self) -> bool:
        """Nobody has seen how the container ended. When a pod is deleted whose container has not begun, the
        kubelet says so, too, with the exit code of SIGKILL.
        """
        return self.reason == NOT_FOUND

    @property
    def failed(self) -> bool:
        """Whether the driver itself reports a failure: its script failed, or ended while a query was dead.
        The script may have exited with 0 in the second case.
        """
        report = self.report
        return report is not None and (
            report.phase is DriverPhase.FAILED or report.exit_code not in (None, 0)
        )


@dataclass(frozen=True)
class Unschedulable:
    """The scheduler finds no node for the pod."""

    message: str
    since: datetime


@dataclass(frozen=True)
class Pod:
    """A driver pod, reduced to its driver: sidecars neither keep it alive nor end it.

    :param version: the pod's resourceVersion.
    :param generation: the job's generation from which the pod was created.
    :param phase: the phase of the driver's container, in terms of a pod's phase.
    :param beside: the driver's container has ended, but the pod has not: sidecars still run.
    :param grace: seconds of grace of a pod that is being deleted.
    :param waiting: reason and message why the driver's container does not start.
    :param missing: what its volumes name and what does not exist, such as `ConfigMap rates`; looked up while
        they are not mounted.
    :param unmounted_since: since when its node has been mounting its volumes and giving it a network. None if
        that is done, or no node has it.
    :param specification: what the pod was created from; None if its annotation is missing or unreadable.
    :param prepared: its driver was made to wait at the gate, before its first query.
    """

    name: str
    uid: str
    version: str
    epoch: int
    generation: int
    phase: str
    beside: bool = False
    ip: str | None = None
    deleting: bool = False
    grace: int | None = None
    node: str | None = None
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    waiting: tuple[str, str] | None = None
    unschedulable: Unschedulable | None = None
    unmounted_since: datetime | None = None
    missing: tuple[str, ...] = ()
    exit: DriverExit | None = None
    specification: Specification | None = None
    prepared: bool = False

    @property
    def terminated(self) -> bool:
        """The driver has terminated and never restarts (restartPolicy: Never)."""
        return self.phase in ENDED

    @property
    def exited(self) -> bool:
        """Its node has reported the driver's end. The pod of a lost node says nothing."""
        return self.exit is not None and not self.exit.unseen

    @property
    def all_exited(self) -> bool:
        """Nothing of the pod runs any more, sidecars included, and its node has reported the driver's end.
        That is never so of a pod that a lost node leaves behind.
        """
        return self.exited and not self.beside

    @property
    def over(self) -> bool:
        """Nothing of the pod runs any more, and nobody deletes it."""
        return self.all_exited and not self.deleting

    @property
    def waits(self) -> bool:
        """It needs a node or its volumes. Whether that takes too long is seen by looking again."""
        return self.unschedulable is not None or self.unmounted_since is not None

    @property
    def started(self) -> bool:
        """The driver's container has run, so it may have changed something."""
        return self.started_at is not None or self.exit is not None or self.phase == "Running"


@dataclass(frozen=True)
class ExecutorPod:
    """An executor's pod, reduced to what deletes it."""

    name: str
    uid: str


@dataclass(frozen=True)
class UiFailure:
    """What kept an object from being applied.

    :param digest: identifies what should have been applied; None if the object should have been deleted.
    :param retry_in: seconds until it is tried again.
    """

    digest: str | None
    problem: Problem
    retry_in: float


@dataclass(frozen=True)
class ObservedUi:
    """What leads to the job's UI, as far as the controller remembers it: no reconcile reads it.

    :param allowed: the kinds that the controller may create.
    :param applied: by kind, what was applied (`objects.ui.digest`); empty if it has changed since.
    :param failures: by kind, what could not be applied or deleted.
    """

    allowed: frozenset[UiKind]
    applied: Mapping[UiKind, str] = field(default_factory=dict)
    failures: Mapping[UiKind, UiFailure] = field(default_factory=dict)


@dataclass(frozen=True)
class Observed:
    """One job at one moment.

    :param pods: its driver pods, ascending by epoch, without `standbys`.
    :param standbys: prepared drivers whose epoch has not begun, ascending by epoch. They wait at the gate, or
        will, and have written nothing.
    :param prepared: the last status of the newest of them; None if it has not answered yet.
    :param prepared_silent: as `silent`, for that one.
    :param index: None if its ConfigMap is missing or unusable.
    :param index_version: resourceVersion of the index's ConfigMap; None if there is none.
    :param index_problem: why the index cannot be used; None also for a job that has no index yet.
    :param driver: the last status of the newest epoch's driver; None if it has not answered yet.
    :param silent: seconds for which that driver has not answered; 0 while it answers.
    :param acknowledged: tokens of the commands that the driver has accepted, so that they are not sent
        repeatedly.
    :param index_term: term of the controller that last wrote the index; 0 if unknown.
    :param restored_from: the savepoints that the namespace's StreamJobs name in restoreFrom; None if not
        looked up.
    :param namespace_ends: the namespace is being deleted: nothing can be created in it any more.
    :param newest_only: of the driver pods, only that of the newest epoch was read.
    :param executors_left: executors of the newest epoch's driver, once its failure is recorded; some of them
        if there are many.
    :param ui: what leads to its UI; None while that is not known.
    """

    job: StreamJob
    pods: tuple[Pod, ...] = ()
    index: Index | None = None
    index_version: str | None = None
    index_problem: Problem | None = None
    driver: DriverStatus | None = None
    silent: float = 0.0
    acknowledged: frozenset[str] = frozenset()
    index_term: int = 0
    restored_from: frozenset[str] | None = None
    namespace_ends: bool = False
    newest_only: bool = False
    executors_left: tuple[ExecutorPod, ...] = ()
    ui: ObservedUi | None = None
    standbys: tuple[Pod, ...] = ()
    prepared: DriverStatus | None = None
    prepared_silent: float = 0.0

    @property
    def epoch(self) -> int:
        """The newest epoch in status, pods and index, so that a lost status does not move it back."""
        pods = [p.epoch for p in self.pods]
        known = [self.latest.epoch] if self.latest else []
        return max([self.job.status.epoch, *pods, *known])

    @property
    def latest(self) -> CheckpointRecord | None:
        """The newest checkpoint of the index."""
        return self.index.latest if self.index else None

    @property
    def pod(self) -> Pod | None:
        """The driver pod of the newest epoch."""
        return next((p for p in self.pods if p.epoch == self.epoch), None)

    @property
    def at_gate(self) -> int | None:
        """The epoch of the prepared driver that waits at its gate; None if none does."""
        driver = self.prepared
        waits = driver is not None and driver.phase is DriverPhase.PREPARED and not self.prepared_silent
        return driver.epoch if driver is not None and waits else None

    @property
    def report(self) -> DriverStatus | None:
        """The last status of the newest epoch's driver: its final report if there is one, else its last
        answer.
        """
        pod = self.pod
        if pod is not None and pod.exit is not None and pod.exit.report is not None:
            return pod.exit.report
        return self.driver

    @property
    def lives(self) -> bool:
        """Whether the newest epoch's driver has a pod and has not ended."""
        return self.pod is not None and not self.pod.terminated

    @property
    def executors(self) -> ExecutorsStatus | None:
        """The executors of the running driver; those of the status until it answers."""
        if not self.lives:
            return None
        if self.driver is None:
            return self.job.status.executors
        e = self.driver.executors
        return ExecutorsStatus(wanted=e.wanted, running=e.running, min=e.least, max=e.most) if e else None
