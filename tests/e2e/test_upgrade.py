"""The specification of a running job changes: the new one continues where the old one stopped, or the job
goes back.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from dev.demo.job import KIND, View
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

from .jobs import FAST, index, make_scripts, read_on, sums
from .shared_volume import APPS, Storage, expected
from .test_faults import drain_and_compare, reach_epoch

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
HANDOVERS = int(os.environ.get("STREAMJOB_HANDOVERS", "1"))
SOON = {"startTimeout": "90s", "probation": "10s"}
SUMS = (APPS / "sums.py").read_text()
OTHERS = {
    "throws.py": "raise RuntimeError('no broker at kafka:9092')",
    "other.py": SUMS.replace('col("value") % 3', 'col("value").cast("string")'),
}
PATIENT = {**SOON, "startTimeout": "10m"}


def upgraded(view: View) -> tuple[str, str]:
    condition = view.condition("Upgraded")
    return condition.get("status", ""), condition.get("reason", "")


@pytest.mark.slow
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


@pytest.mark.slow  # tests/e2e/test_page.py has an upgrade in vain, too
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


HANDOVER = {**PATIENT, "mode": "Handover"}


@pytest.mark.timeout(HANDOVERS * 1200)
def test_a_running_job_is_handed_over_to_a_prepared_driver(
    cluster: Site, storage: Storage, record_property: Callable[[str, object], None]
) -> None:
    job = sums(cluster, "handed-over", upgrade=HANDOVER)
    reach_epoch(job, 1)
    for epoch in range(2, HANDOVERS + 2):
        before = read_on(job, storage).commits
        conf = {**FAST, "spark.sql.streaming.minBatchesToRetain": str(500 + epoch)}
        job.kubectl.patch(KIND, job.name, {"spec": {"sparkConf": conf}})
        reach_epoch(job, epoch)
        (record,) = (r for r in index(job) if r["epoch"] == epoch - 1)
        assert record["request_id"].startswith(f"upgrade-{epoch - 1}-")
        pod = cluster.kubectl.get("pod", job.pod())
        assert pod is not None
        assert pod["metadata"]["labels"]["streamjob.dev/prepared"] == "true"
        began = pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
        assert began < record["completed_at"], "it was there before the other one stopped"
        pause = read_on(job, storage).longest_pause(before)
        record_property("figure", f"hand-over to epoch {epoch}: {pause:.1f} s between two commits")
        view = job.follow(lambda v: upgraded(v) == ("True", "Upgraded"), "Upgraded", PATIENCE)
        assert (view.phase, view.epoch) == ("Running", epoch)
    drain_and_compare(job, storage)


@pytest.mark.slow  # tests/world has a hand-over in vain, with every fault
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"image": "streamjob.dev/no-such-image:dev", "imagePullPolicy": "Never"}, "ImagePullBackOff"),
        ({"application": {"file": "/app/no-such-script.py"}}, "ScriptNotFound"),
        ({"application": {"file": "/app/throws.py"}}, "ScriptFailed"),
        ({"application": {"file": "/app/other.py"}}, "QueryChanged"),
        ({"driver": {"memory": "500Gi"}}, "Unschedulable"),
    ],
    ids=["image", "script", "error", "state", "room"],
)
def test_a_version_that_does_not_come_up_leaves_the_running_driver_alone(
    cluster: Site,
    storage: Storage,
    change: dict[str, object],
    reason: str,
    record_property: Callable[[str, object], None],
) -> None:
    job = sums(cluster, f"left-alone-{reason.lower()}", upgrade={**SOON, "mode": "Handover"})
    make_scripts(cluster.kubectl, "apps", {"sums.py": SUMS, **OTHERS})
    reach_epoch(job, 1)
    commits = read_on(job, storage).commits
    before = cluster.kubectl.get("pod", job.pod())
    assert before is not None
    job.kubectl.patch(KIND, job.name, {"spec": change})
    view = job.follow(lambda v: upgraded(v) == ("False", "RolledBack"), "rolled back", PATIENCE, stalled=True)
    assert reason in view.condition("Upgraded")["message"]
    assert (view.phase, view.epoch) == ("Running", 1)
    after = cluster.kubectl.get("pod", job.pod())
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert all(record["request_id"] is None for record in index(job)), "it was not asked to stop"
    pause = read_on(job, storage).longest_pause(commits)
    record_property("figure", f"upgrade in vain ({reason}): at most {pause:.1f} s between two commits")
    drain_and_compare(job, storage)
