"""A standby takes over from a driver that is killed or evicted: nothing is lost, nothing is twice."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from dev.demo.job import KIND, Job, View
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

from .jobs import FAST, cheap, kill_driver, read_on, sums
from .shared_volume import Storage
from .test_faults import drain_and_compare, reach_epoch

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(3600)]
KILLS = int(os.environ.get("STREAMJOB_KILLS", "2"))
KEEPS = {**FAST, "spark.sql.streaming.minBatchesToRetain": "500"}
DRIVER: dict[str, Any] = {"cores": 1, "memory": "512Mi", "template": cheap(), "standby": True}


def standby(view: View) -> dict[str, Any]:
    found: dict[str, Any] = view.object.get("status", {}).get("standby") or {}
    return found


def prepared(job: Job, epoch: int) -> str:
    """Wait until a standby waits beside the driver of this epoch.

    :returns: the uid of its pod.
    """
    view = job.follow(
        lambda v: v.phase == "Running" and v.epoch == epoch and standby(v).get("prepared", False),
        f"a standby beside epoch {epoch}",
        PATIENCE,
    )
    return uid(job, standby(view)["pod"])


def uid(job: Job, pod: str) -> str:
    found = job.kubectl.get("pod", pod)
    assert found is not None
    return str(found["metadata"]["uid"])


@pytest.mark.slow
def test_a_killed_drivers_standby_goes_on(
    cluster: Site, storage: Storage, record_property: Callable[[str, object], None]
) -> None:
    often = {"limit": 2 * KILLS, "backoff": {"initial": "1s", "max": "5s"}}
    job = sums(cluster, "failover", driver=DRIVER, sparkConf=KEEPS, restart=often)
    for epoch in range(1, KILLS + 1):
        waits = prepared(job, epoch)
        before = read_on(job, storage).commits
        kill_driver(job)
        reach_epoch(job, epoch + 1)
        assert uid(job, job.pod()) == waits, "another driver was made"
        assert job.view().error["reason"] in ("DriverKilled", "DriverExited")
        pause = read_on(job, storage).longest_pause(before)
        record_property("figure", f"SIGKILL with standby, epoch {epoch}: {pause:.1f} s between two commits")
    drain_and_compare(job, storage)

    def only_the_last_killed_one() -> bool:  # for its log
        left = job.kubectl.list("pods", f"streamjob.dev/job={job.name}")
        return [pod["status"]["phase"] for pod in left] == ["Failed"]

    until(only_the_last_killed_one, "the pod of the last killed driver alone", PATIENCE)


@pytest.mark.slow
def test_an_evicted_driver_hands_over_to_its_standby(cluster: Site, storage: Storage) -> None:
    job = sums(cluster, "replaced", driver=DRIVER)
    waits = prepared(job, 1)
    read_on(job, storage)
    job.kubectl.run("delete", "pod", job.pod(), "--wait=false")
    reach_epoch(job, 2)
    assert uid(job, job.pod()) == waits, "another driver was made"
    job.kubectl.patch(KIND, job.name, {"spec": {"driver": {"standby": False}}})
    job.follow(lambda v: not standby(v), "no standby", PATIENCE)
    read_on(job, storage)
    drain_and_compare(job, storage)
