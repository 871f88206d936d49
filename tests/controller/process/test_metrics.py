"""Metrics: what follows from two statuses, the series of jobs, and that labels are bounded."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from streamjob.api import Phase, Status
from streamjob.controller.process import metrics
from streamjob.controller.process.metrics import REGISTRY, Jobs

from ..factories import MINUTE, NOW, at, failed, job, ran, requested


def status(**fields: Any) -> Status:
    return job(status=ran(**fields)).status


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


class Change:
    """The difference that a pair of statuses makes."""

    def __init__(self, old: Status, new: Status, now: float = NOW.timestamp(), **of: Any) -> None:
        self._before = self._all()
        metrics.count(job(status=old.plain(), **of), new, now)
        self._after = self._all()

    def of(self, name: str, **labels: str) -> float:
        key = (name, tuple(sorted(labels.items())))
        return self._after.get(key, 0.0) - self._before.get(key, 0.0)

    @property
    def nothing(self) -> bool:
        return self._before == self._after

    @staticmethod
    def _all() -> dict[Any, float]:
        return {
            (s.name, tuple(sorted(s.labels.items()))): s.value
            for family in REGISTRY.collect()
            for s in family.samples
            if not s.name.endswith("_created")
        }


PENDING = requested("Stop")


@pytest.mark.parametrize(
    ("later", "now", "outcome"),
    [
        ({"termination": {**PENDING, "finalCheckpoint": 1}}, 0, "Completed"),
        ({"termination": {**PENDING, "finalCheckpoint": 1}}, 3600, "Late"),
        ({"phase": "Cancelling"}, 0, "Aborted"),
        ({"termination": requested("Drain", 2)}, 0, "Aborted"),
    ],
)
def test_a_termination_is_counted_when_it_has_ended(later: Any, now: float, outcome: str) -> None:
    change = Change(
        status(termination=PENDING, phase="Stopping"),
        status(**{"phase": "Stopping", **later}),
        NOW.timestamp() + now,
    )
    assert change.of("streamjob_termination_seconds_count", mode="Stop", outcome=outcome) == 1
    seconds = change.of("streamjob_termination_seconds_sum", mode="Stop", outcome=outcome)
    assert seconds == MINUTE.total_seconds() + now


REQUESTED = {
    "requestId": "savepoint-manual-2",
    "cause": "Manual",
    "requestedAt": "2026-01-02T03:00:00Z",
    "deadline": "2026-01-02T03:30:00Z",
    "savepoint": "file:///data/sp/x/savepoint-manual-2",
}


@pytest.mark.parametrize(
    ("ended", "outcome"), [({"checkpoint": 3}, "Completed"), ({"failure": "no space"}, "Aborted")]
)
@pytest.mark.parametrize("before", [{}, {"savepointRequest": REQUESTED}])
def test_an_on_demand_savepoint_is_counted_when_it_has_ended(ended: Any, outcome: str, before: Any) -> None:
    after = status(savepointRequest={**REQUESTED, **ended})
    change = Change(status(**before), after)
    assert change.of("streamjob_savepoints_total", cause="Manual", outcome=outcome) == 1
    assert Change(after, after).nothing
    assert Change(status(), status(savepointRequest=REQUESTED)).nothing


def test_not_before_and_not_again() -> None:
    ended = {**PENDING, "finalCheckpoint": 1}
    assert Change(status(), status(termination=PENDING)).nothing
    assert Change(status(termination=PENDING), status(termination={**PENDING, "progress": "x"})).nothing
    assert Change(status(termination=ended), status(termination=ended)).nothing
    assert Change(status(termination=ended), status()).nothing


def test_a_clock_that_is_behind_gives_no_negative_time() -> None:
    new = status(termination={**PENDING, "finalCheckpoint": 1})
    change = Change(status(termination=PENDING), new, NOW.timestamp() - 3600)
    assert change.of("streamjob_termination_seconds_sum", mode="Stop", outcome="Completed") == 0


def test_epochs_failures_and_forced_stops() -> None:
    assert Change(status(epoch=1), status(epoch=2)).of("streamjob_epochs_total") == 1
    failure = Change(status(), status(phase="Restarting", restarts=failed(1)))
    assert failure.of("streamjob_driver_failures_total") == 1
    assert Change(status(restarts=failed(1)), status(restarts=failed(1))).nothing
    assert Change(status(phase="Cancelling"), status(phase="Cancelling")).nothing


ESCALATED = {
    "state": "Drained",
    "mode": "Cancel",
    "epoch": 1,
    "requestId": "drain-1-1",
    "since": "2026-01-02T03:00:00Z",
    "waitedFor": "batch 3",
}


@pytest.mark.parametrize(
    ("of", "escalation", "cause"),
    [
        ({"state": "Cancelled"}, None, "Requested"),
        ({"state": "Drained"}, ESCALATED, "Escalation"),
        ({"state": "Stopped", "deleted": 60 * MINUTE}, None, "Deletion"),
        ({"state": "Cancelled", "deleted": MINUTE}, None, "Requested"),
        ({"termination": {"onDelete": "Cancel"}, "deleted": MINUTE}, None, "Requested"),
        (
            {"state": "Stopped", "termination": {"onDelete": "Cancel"}, "deleted": 60 * MINUTE},
            None,
            "Deletion",
        ),
    ],
)
def test_a_driver_that_is_killed_is_counted_with_the_reason(of: Any, escalation: Any, cause: str) -> None:
    change = Change(status(), status(phase="Cancelling", escalation=escalation), **of)
    assert change.of("streamjob_forced_stops_total", cause=cause) == 1


def test_each_escalation_is_counted_once() -> None:
    stop = {**ESCALATED, "mode": "Stop"}
    labels = {"name": "streamjob_escalations_total", "state": "Drained"}
    assert Change(status(), status(escalation=stop)).of(**labels, mode="Stop") == 1
    assert Change(status(escalation=stop), status(escalation=ESCALATED)).of(**labels, mode="Cancel") == 1
    assert Change(status(escalation=stop), status(escalation=stop)).nothing
    assert Change(status(escalation=stop), status()).nothing


def upgrade(step: str, target: str = "new") -> dict[str, Any]:
    return {"step": step, "generation": 2, "target": target, "previous": "{}"}


@pytest.mark.parametrize("before", [None, upgrade("Stopping"), upgrade("RolledBack", "older")])
def test_an_upgrade_starts_with_its_first_driver(before: Any) -> None:
    change = Change(status(upgrade=before), status(upgrade=upgrade("Starting")))
    assert change.of("streamjob_upgrades_started_total") == 1
    assert Change(status(upgrade=upgrade("Starting")), status(upgrade=upgrade("Starting"))).nothing
    assert Change(status(), status(upgrade=upgrade("Stopping"))).nothing


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        (upgrade("Completed"), "Completed"),
        (upgrade("RolledBack"), "RolledBack"),
        (None, "Aborted"),
        (upgrade("Stopping", "newer"), "Aborted"),
        (upgrade("Starting", "newer"), "Aborted"),
    ],
)
def test_an_upgrade_is_counted_when_it_has_ended(after: Any, outcome: str) -> None:
    change = Change(status(upgrade=upgrade("Starting")), status(upgrade=after))
    assert change.of("streamjob_upgrades_total", outcome=outcome) == 1
    assert Change(status(upgrade=after), status(upgrade=after)).nothing
    assert Change(status(upgrade=upgrade("Stopping")), status()).nothing


def test_the_pause_of_a_hand_over_is_measured_from_the_request_to_the_old_driver() -> None:
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "Starting",
        "message": "",
        "observedGeneration": 1,
    }
    since = {**condition, "lastTransitionTime": at(-MINUTE / 20)}
    left = {"pod": "orders-driver-1", "uid": "pod-1"}
    starting = status(epoch=2, phase="Starting", conditions=[since], handedOver=left)
    change = Change(starting, status(epoch=2, handedOver=left))
    assert change.of("streamjob_handover_seconds_sum") == 3
    assert Change(starting, starting).nothing
    assert Change(status(epoch=2, phase="Starting", conditions=[since]), status(epoch=2)).nothing


def test_jobs_by_phase_and_by_name() -> None:
    jobs, registry = Jobs(), CollectorRegistry()
    registry.register(jobs)
    one = {"namespace": "shop", "streamjob": "orders"}
    checkpoint = {"latest": 2, "epoch": 1, "completedAt": "2026-01-02T03:00:00Z"}
    stopping = job(status=ran(3, "Stopping", checkpoint=checkpoint, termination=requested()))
    jobs.saw(stopping, stopping.status)
    sample = registry.get_sample_value
    assert sample("streamjob_jobs", {"phase": "Stopping"}) == 1
    assert sample("streamjob_jobs", {"phase": "Running"}) == 0
    assert sample("streamjob_job_phase", {**one, "phase": "Stopping"}) == 1
    assert sample("streamjob_job_epoch", one) == 3
    assert sample("streamjob_job_degraded", one) == 0
    assert sample("streamjob_job_checkpoint_timestamp_seconds", one) == NOW.timestamp() - 245
    assert sample("streamjob_job_checkpoint_interval_seconds", one) == 600
    assert sample("streamjob_job_termination_deadline_timestamp_seconds", one) == NOW.timestamp() + 540

    stopped = job(status=ran(3, "Stopped", termination=requested(finalCheckpoint=3)))
    jobs.saw(stopped, stopped.status)
    assert sample("streamjob_job_phase", {**one, "phase": "Stopping"}) is None, "one phase at a time"
    assert sample("streamjob_job_termination_deadline_timestamp_seconds", one) is None

    dead: dict[str, Any] = {"type": "Degraded", "status": "True", "reason": "QueryFailed", "message": "m"}
    dead |= {"observedGeneration": 1, "lastTransitionTime": "2026-01-02T03:00:00Z"}
    degraded = job(status=ran(3, conditions=[dead]))
    jobs.saw(degraded, degraded.status)
    assert sample("streamjob_job_degraded", one) == 1
    assert sample("streamjob_job_stalled", one) == 0

    jobs.forget("shop", "orders")
    assert sample("streamjob_job_epoch", one) is None, "its series go with the job"


def test_labels_are_bounded() -> None:
    """Only what an alert has to name a job by is a series of that job, and not more than eight of them."""
    jobs = Jobs()
    everything = ran(
        checkpoint={"latest": 2, "epoch": 1, "completedAt": "2026-01-02T03:00:00Z"},
        termination=requested(),
        rounds={"lateAt": "2026-01-02T05:00:00Z"},
    )
    jobs.saw(job(status=everything), job(status=everything).status)
    of_jobs = [s for f in jobs.collect() for s in f.samples if "streamjob" in s.labels]
    assert len(of_jobs) == 8
    allowed = {"phase", "cause", "reason", "verb", "resource", "code", "state", "mode", "outcome", "le"}
    for family in REGISTRY.collect():
        for sample in family.samples:
            assert set(sample.labels) <= allowed | {"namespace", "streamjob"}
    assert {s.labels["phase"] for f in jobs.collect() for s in f.samples if s.name == "streamjob_jobs"} == {
        p.value for p in Phase
    }
