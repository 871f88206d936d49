"""The metrics for Prometheus. Counters and histograms are defined here and updated where things happen; the
gauges of jobs come from `Jobs`.

Labels are bounded: verbs, resources, status codes, phases and our own reasons, all of which are defined in
this code. Nothing that a driver reports becomes a label. Series of a single job exist only where an alert
must name the job, eight metrics at most. Each scrape generates them from what the leader knows, so they
disappear with the job, and when another replica leads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ...api import (
    ConditionType,
    Escalation,
    OnDelete,
    Phase,
    SavepointRequestStatus,
    State,
    Status,
    StreamJob,
    TerminationInfo,
    UpgradeStatus,
    UpgradeStep,
)
from ...api.types import duration
from ...protocol.times import moment

REGISTRY = CollectorRegistry()
MINUTES = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)

RECONCILE_SECONDS = Histogram(
    "streamjob_reconcile_seconds",
    "One round of a reconcile: observe, decide, write the status, act",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    registry=REGISTRY,
)
COMMAND_SECONDS = Histogram(
    "streamjob_command_seconds",
    "From the event of a changed StreamJob until its driver has accepted what it asks for",
    buckets=(0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    registry=REGISTRY,
)
RECONCILE_ERRORS = Counter(
    "streamjob_reconcile_errors_total",
    "Reconciles that failed and are repeated",
    ["reason"],
    registry=REGISTRY,
)
API_REQUESTS = Counter(
    "streamjob_api_requests_total",
    "Calls to the Kubernetes API; code 0: no answer",
    ["verb", "resource", "code"],
    registry=REGISTRY,
)
LEADER_TERM = Gauge(
    "streamjob_leader_term",
    "The term in which this replica holds the Lease, 0 if it does not",
    registry=REGISTRY,
)
TERMINATION_SECONDS = Histogram(
    "streamjob_termination_seconds",
    "From the request to its checkpoint in the index, or until it was aborted",
    ["mode", "outcome"],
    buckets=MINUTES,
    registry=REGISTRY,
)
ESCALATIONS = Counter(
    "streamjob_escalations_total",
    "Stops and drains (state) that became another mode when their timeout had passed",
    ["state", "mode"],
    registry=REGISTRY,
)
FORCED_STOPS = Counter(
    "streamjob_forced_stops_total",
    "Drivers killed because the job was cancelled",
    ["cause"],
    registry=REGISTRY,
)
EPOCHS = Counter("streamjob_epochs_total", "Drivers begun", registry=REGISTRY)
FAILURES = Counter(
    "streamjob_driver_failures_total", "Drivers that ended without their checkpoint", registry=REGISTRY
)
SAVEPOINTS = Counter(
    "streamjob_savepoints_total",
    "Live savepoints, requested by nonce or schedule, that have ended",
    ["cause", "outcome"],
    registry=REGISTRY,
)
UPGRADES_STARTED = Counter(
    "streamjob_upgrades_started_total", "Drivers begun with a new specification", registry=REGISTRY
)
UPGRADES = Counter(
    "streamjob_upgrades_total",
    "Upgrades that are over, of those that were started",
    ["outcome"],
    registry=REGISTRY,
)
HANDOVER_SECONDS = Histogram(
    "streamjob_handover_seconds",
    "From the request to the old driver to stop until a query of the prepared one runs; in whole seconds",
    buckets=(1, 2, 3, 4, 5, 7, 10, 20, 30, 60, 120, 300),
    registry=REGISTRY,
)


class OutcomeLabel:
    """The outcome of a termination, a savepoint or an upgrade: a label's value."""

    COMPLETED = "Completed"
    LATE = "Late"  # completed after its deadline
    ABORTED = "Aborted"  # aborted: cancelled or superseded; a savepoint: also failed
    ROLLED_BACK = "RolledBack"


class KillCause:
    """Why a driver was killed: a label's value."""

    REQUESTED = "Requested"  # spec.state is Cancelled, or termination.onDelete is Cancel
    ESCALATION = "Escalation"
    DELETION = "Deletion"  # a deletion has timed out


def count(job: StreamJob, new: Status, now: float) -> None:
    """Count what happened between the status in `job` and the status that was written after it.

    :param new: the status that was written.
    :param now: seconds since 1970.
    """
    old = job.status
    EPOCHS.inc(max(new.epoch - old.epoch, 0))
    if new.restarts is not None and (old.restarts is None or new.restarts.epoch > old.restarts.epoch):
        FAILURES.inc()
    if new.escalation is not None and new.escalation != old.escalation:
        ESCALATIONS.labels(new.escalation.state.value, new.escalation.mode.value).inc()
    if new.phase is Phase.CANCELLING and old.phase is not Phase.CANCELLING:
        FORCED_STOPS.labels(_cause(job, new)).inc()
    _count_savepoint(old.savepoint_request, new.savepoint_request)
    _count_upgrade(old.upgrade, new.upgrade)
    _count_handover(old, new, now)
    _count_termination(old.termination, new.termination, now)


def _cause(job: StreamJob, new: Status) -> str:
    if new.escalation is not None and new.escalation.mode is Escalation.CANCEL:
        return KillCause.ESCALATION
    state, on_delete = job.spec.state, job.spec.termination.on_delete
    asked = state is State.CANCELLED or (state is State.RUNNING and on_delete is OnDelete.CANCEL)
    return KillCause.DELETION if job.deleting and not asked else KillCause.REQUESTED


def _count_savepoint(old: SavepointRequestStatus | None, new: SavepointRequestStatus | None) -> None:
    known = old is not None and new is not None and old.request_id == new.request_id and old.over
    if new is not None and new.over and not known:
        outcome = OutcomeLabel.ABORTED if new.checkpoint is None else OutcomeLabel.COMPLETED
        SAVEPOINTS.labels(new.cause.value, outcome).inc()


def _count_upgrade(old: UpgradeStatus | None, new: UpgradeStatus | None) -> None:
    before = old.target if old is not None and old.step is UpgradeStep.STARTING else None
    after = new.target if new is not None and new.step is UpgradeStep.STARTING else None
    if after is not None and after != before:
        UPGRADES_STARTED.inc()
    if before is None or before == after:
        return
    ends = {UpgradeStep.COMPLETED: OutcomeLabel.COMPLETED, UpgradeStep.ROLLED_BACK: OutcomeLabel.ROLLED_BACK}
    outcome = ends.get(new.step) if new is not None and new.target == before else None
    UPGRADES.labels(outcome or OutcomeLabel.ABORTED).inc()


def _count_handover(old: Status, new: Status, now: float) -> None:
    ready = old.condition(ConditionType.READY)
    runs = old.phase is Phase.STARTING and new.phase is Phase.RUNNING
    if old.handed_over is not None and runs and old.epoch == new.epoch and ready is not None:
        # It has not been Ready since the old driver was asked to stop. The time may be another replica's.
        HANDOVER_SECONDS.observe(max(now - moment(ready.last_transition_time).timestamp(), 0.0))


def _count_termination(was: TerminationInfo | None, is_now: TerminationInfo | None, now: float) -> None:
    if was is None or was.final_checkpoint is not None:
        return
    same = is_now is not None and is_now.request_id == was.request_id
    if same and is_now is not None and is_now.final_checkpoint is None:
        return
    late = now > moment(was.deadline).timestamp()
    outcome = (OutcomeLabel.LATE if late else OutcomeLabel.COMPLETED) if same else OutcomeLabel.ABORTED
    # requestedAt may come from another replica's clock.
    took = max(now - moment(was.requested_at).timestamp(), 0.0)
    TERMINATION_SECONDS.labels(was.mode, outcome).observe(took)


@dataclass(frozen=True)
class Facts:
    """What the last reconcile knew about a job. Times are seconds since 1970.

    :param checkpoint: when the newest checkpoint completed.
    :param interval: spec.checkpoint.interval in seconds.
    :param deadline: of a pending termination.
    :param late: when no round will have succeeded for two periods, unless one does by then.
    """

    namespace: str
    name: str
    phase: Phase
    epoch: int
    stalled: bool
    degraded: bool
    checkpoint: float | None
    interval: float
    deadline: float | None
    late: float | None

    @staticmethod
    def of(job: StreamJob, status: Status) -> Facts:
        t, r = status.termination, status.rounds
        return Facts(
            job.metadata.namespace,
            job.metadata.name,
            status.phase or Phase.PENDING,
            status.epoch,
            _is_true(status, ConditionType.STALLED),
            _is_true(status, ConditionType.DEGRADED),
            moment(status.checkpoint.completed_at).timestamp() if status.checkpoint else None,
            duration(job.spec.checkpoint.interval).total_seconds(),
            moment(t.deadline).timestamp() if t is not None and t.final_checkpoint is None else None,
            moment(r.late_at).timestamp() if r is not None and r.late_at is not None else None,
        )


def _is_true(status: Status, kind: ConditionType) -> bool:
    condition = status.condition(kind)
    return condition is not None and condition.status == "True"


class Jobs(Collector):
    """The jobs of the leading replica; empty in a standby, so a sum over replicas counts each job once."""

    def __init__(self) -> None:
        self._facts: dict[tuple[str, str], Facts] = {}

    def saw(self, job: StreamJob, status: Status) -> None:
        self._facts[job.metadata.namespace, job.metadata.name] = Facts.of(job, status)

    def forget(self, namespace: str, name: str) -> None:
        self._facts.pop((namespace, name), None)

    def clear(self) -> None:
        self._facts.clear()

    def collect(self) -> Iterator[Metric]:
        facts = list(self._facts.values())
        phases = GaugeMetricFamily("streamjob_jobs", "StreamJobs by phase", labels=["phase"])
        for phase in Phase:
            phases.add_metric([phase.value], sum(f.phase is phase for f in facts))
        yield phases
        named = ["namespace", "streamjob"]  # "job" is Prometheus' own
        phase_of = GaugeMetricFamily(
            "streamjob_job_phase", "1 for the phase that the job is in", labels=[*named, "phase"]
        )
        epoch = GaugeMetricFamily("streamjob_job_epoch", "Number of the driver's attempt", labels=named)
        stalled = GaugeMetricFamily(
            "streamjob_job_stalled", "1: it cannot continue without a person", labels=named
        )
        degraded = GaugeMetricFamily(
            "streamjob_job_degraded", "1: one of its queries is dead, the others run on", labels=named
        )
        newest = GaugeMetricFamily(
            "streamjob_job_checkpoint_timestamp_seconds", "When the newest checkpoint completed", labels=named
        )
        interval = GaugeMetricFamily(
            "streamjob_job_checkpoint_interval_seconds", "spec.checkpoint.interval, 0 for none", labels=named
        )
        deadline = GaugeMetricFamily(
            "streamjob_job_termination_deadline_timestamp_seconds",
            "Until when the pending termination should be done",
            labels=named,
        )
        late = GaugeMetricFamily(
            "streamjob_job_round_late_timestamp_seconds",
            "When no round of the schedule will have succeeded for two periods, unless one does by then",
            labels=named,
        )
        for f in facts:
            key = [f.namespace, f.name]
            phase_of.add_metric([*key, f.phase.value], 1)
            epoch.add_metric(key, f.epoch)
            stalled.add_metric(key, f.stalled)
            degraded.add_metric(key, f.degraded)
            interval.add_metric(key, f.interval)
            if f.checkpoint is not None:
                newest.add_metric(key, f.checkpoint)
            if f.deadline is not None:
                deadline.add_metric(key, f.deadline)
            if f.late is not None:
                late.add_metric(key, f.late)
        yield from (phase_of, epoch, stalled, degraded, newest, interval, deadline, late)


JOBS = Jobs()
REGISTRY.register(JOBS)
