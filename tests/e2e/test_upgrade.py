"""The specification of a running job changes: the new one continues where the old one stopped, or the job
goes back.
"""

from __future__ import annotations

import pytest

from dev.demo.job import KIND, View
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

from .jobs import FAST, index, read_on, sums
from .shared_volume import Storage, expected
from .test_faults import drain_and_compare, reach_epoch

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
SOON = {"startTimeout": "90s", "probation": "10s"}
PATIENT = {**SOON, "startTimeout": "10m"}


def upgraded(view: View) -> tuple[str, str]:
    condition = view.condition("Upgraded")
    return condition.get("status", ""), condition.get("reason", "")


def test_a_running_job_goes_on_with_another_specification(cluster: Site, storage: Storage) -> None:
    job = sums(cluster, "upgraded", upgrade=PATIENT)
    reach_epoch(job, 1)
    read_on(job, storage)
    application = {"file": "/app/sums.py", "args": [f"/data/out/{job.name}", "0.01"]}
    conf = {**FAST, "spark.sql.streaming.minBatchesToRetain": "50"}
    job.kubectl.patch(KIND, job.name, {"spec": {"application": application, "sparkConf": conf}})
    view = job.follow(lambda v: upgraded(v) == ("True", "Upgraded"), "Upgraded", PATIENCE)
    assert (view.phase, view.epoch) == ("Running", 2)
    record = index(job)[0]
    assert record["request_id"] == "upgrade-1-2"
    assert storage.look(job.name).savepoints[record["savepoint"].removeprefix("file://")]
    assert "0.01" in str(cluster.kubectl.get("pod", job.pod()))
    read_on(job, storage)
    drain_and_compare(job, storage)


def test_a_wrong_image_is_rolled_back(cluster: Site, storage: Storage) -> None:
    job = sums(cluster, "rolled-back", upgrade=SOON)
    reach_epoch(job, 1)
    read_on(job, storage)
    image = job.view().object["spec"]["image"]
    wrong = {"image": "streamjob.dev/no-such-image:dev", "imagePullPolicy": "Never"}
    job.kubectl.patch(KIND, job.name, {"spec": wrong})
    view = job.follow(
        lambda v: v.phase == "Running" and upgraded(v) == ("False", "RolledBack"),
        "rolled back",
        PATIENCE,
        stalled=True,
    )
    message = view.condition("Upgraded")["message"]
    assert "no-such-image" in message
    assert "spec.image" in message
    assert view.condition("Ready")["status"] == "False"
    assert view.epoch == 3
    pod = cluster.kubectl.get("pod", job.pod())
    assert pod is not None
    assert pod["spec"]["containers"][0]["image"] == image

    def events() -> set[str]:
        return {
            e["reason"] for e in cluster.kubectl.list("events") if e["involvedObject"]["name"] == job.name
        }

    until(lambda: "RolledBack" in events(), "an Event of it", PATIENCE)
    read_on(job, storage)
    # With the image put right, the job is what its spec asks for; another driver is not needed for that.
    job.kubectl.patch(KIND, job.name, {"spec": {"image": image, "imagePullPolicy": None}})
    view = job.follow(lambda v: v.condition("Ready").get("status") == "True", "Ready", PATIENCE, stalled=True)
    assert view.epoch == 3
    drain_and_compare(job, storage)
    assert storage.look(job.name).output == expected(storage.look(job.name).numbers)
