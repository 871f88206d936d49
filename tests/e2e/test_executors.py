"""More and fewer executors on a real cluster, with the same driver: nothing is lost, nothing is twice."""

from __future__ import annotations

from typing import Any

import pytest

from dev.demo import site as sites
from dev.demo.job import KIND, Job, View
from dev.demo.kubectl import Object
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

from .jobs import FAST, delete, read_on, sums
from .shared_volume import Storage
from .test_faults import drain_and_compare

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
SMALL: Object = {"cores": "100m", "memory": "512Mi"}
CLASS = "executors"
VOLUMES = 8  # each executor takes one for good: nobody empties it


def template(cluster: Site) -> Object:
    """A claim for each executor, and what else one may want of a pod."""
    claim: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    if cluster.local:
        claim["storageClassName"] = CLASS
    volume = {"name": "spark-local-dir-1", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    container = {
        "name": "executor",
        "env": [{"name": "LEVEL", "value": "INFO"}],
        "volumeMounts": [{"name": "spark-local-dir-1", "mountPath": "/local"}],
    }
    return {
        "metadata": {"labels": {"team": "orders"}},
        "spec": {
            "tolerations": [{"key": "spark", "operator": "Exists"}],
            "containers": [container],
            "volumes": [volume],
        },
    }


def pods(job: Job) -> list[Object]:
    return job.kubectl.list("pods", f"spark-role=executor,streamjob.dev/job={job.name}")


def claims(job: Job) -> set[str]:
    return {c["metadata"]["name"] for c in job.kubectl.list("pvc") if f"{job.name}-" in c["metadata"]["name"]}


def numbers(view: View) -> tuple[int, int]:
    found = view.object.get("status", {}).get("executors") or {}
    return found.get("wanted", 0), found.get("running", 0)


def have(job: Job, wanted: int, running: int) -> View:
    what = f"{running} executors of {wanted}"
    # They come with the session, and the first query may start after them.
    view = job.follow(lambda v: (numbers(v), v.phase) == ((wanted, running), "Running"), what, PATIENCE)
    assert view.epoch == 1
    return view


def of_ui(job: Job, path: str) -> str:
    """A page of Spark's UI, through the job's Service; empty while nobody answers."""
    service = f"/api/v1/namespaces/{job.kubectl.namespace}/services/{job.name}-ui:http"
    return job.kubectl.run("get", "--raw", f"{service}/proxy/{path}", check=False)


def has_ui(job: Job, epoch: int) -> None:
    """Its Service leads to the UI of the driver of this epoch."""
    until(lambda: f'-{epoch}",' in of_ui(job, "api/v1/applications"), f"the UI of epoch {epoch}", PATIENCE)

    def with_stages() -> str | None:
        page = of_ui(job, "stages/")
        return page if "Completed Stages" in page else None

    assert "(kill)" not in until(with_stages, "a stage that has ended", PATIENCE)
    assert job.view().condition("UIAvailable")["status"] == "True"


def scale(job: Job, **executor: Any) -> None:
    job.kubectl.patch(KIND, job.name, {"spec": {"executor": executor}})


def stop_and_resume(job: Job) -> None:
    job.ask("Stopped")
    view = job.reach("Stopped", PATIENCE)
    assert numbers(view) == (0, 0)
    until(lambda: not pods(job), "the executors gone", PATIENCE)
    job.ask("Running")
    job.follow(lambda v: v.phase == "Running" and v.epoch == 2, "Running in epoch 2", PATIENCE)


@pytest.mark.slow
def test_more_fewer_and_a_lost_one_without_another_driver(cluster: Site, storage: Storage) -> None:
    for n in range(VOLUMES):
        cluster.kubectl.apply(*sites.volume(cluster, f"executor-{n}", CLASS))
    shown = {"ui": {}, "sparkConf": {**FAST, "spark.ui.enabled": "true"}}
    executor = {"instances": 1, **SMALL, "template": template(cluster)}
    job = sums(cluster, "scaled", executor=executor, **shown)
    have(job, 1, 1)
    has_ui(job, 1)
    (first,) = pods(job)
    (container,) = first["spec"]["containers"]
    assert container["name"] == "executor"
    assert {"name": "LEVEL", "value": "INFO"} in container["env"]
    assert first["metadata"]["labels"]["team"] == "orders"
    assert {"key": "spark", "operator": "Exists"} in first["spec"]["tolerations"]
    assert claims(job) == {f"{first['metadata']['name']}-spark-local-dir-1"}
    assert (
        cluster.kubectl.run("exec", first["metadata"]["name"], "--", "ls", "/local").count("blockmgr-") == 1
    )
    read_on(job, storage)

    scale(job, instances=2)
    have(job, 2, 2)
    read_on(job, storage)
    name = first["metadata"]["name"]
    cluster.kubectl.run("delete", "pod", name, "--grace-period=0", "--force")
    read_on(job, storage)
    until(
        lambda: numbers(job.view()) == (2, 2) and name not in {p["metadata"]["name"] for p in pods(job)},
        "another executor in its place",
        PATIENCE,
    )
    until(lambda: len(claims(job)) == 2, "the claim of the lost one gone", PATIENCE)
    read_on(job, storage)

    scale(job, instances=1)
    have(job, 1, 1)
    until(lambda: len(pods(job)) == len(claims(job)) == 1, "pod and claim of the other one gone", PATIENCE)
    read_on(job, storage)
    view = job.view()
    assert (view.phase, view.epoch, "upgrade" in view.object["status"]) == ("Running", 1, False)
    events = [e for e in cluster.kubectl.list("events") if e["involvedObject"]["name"] == job.name]
    assert [e["reason"] for e in events].count("ExecutorsChanged") == 2

    stop_and_resume(job)
    read_on(job, storage)
    has_ui(job, 2)
    drain_and_compare(job, storage)
    until(lambda: not claims(job), "no claim left", PATIENCE)
    delete(job)


@pytest.mark.slow
def test_spark_adds_executors_under_load_and_lets_them_go_when_they_are_idle(
    cluster: Site, storage: Storage
) -> None:
    hold = "/data/hold-dynamic"
    storage.shell(f"rm -f {hold}* && touch {hold}")
    dynamic = {"min": 1, "max": 2, "idleTimeout": "3s"}
    conf = {**FAST, "spark.sql.shuffle.partitions": "4"}
    arguments = ("0", hold, "10 seconds")
    job = sums(
        cluster, "dynamic", *arguments, executor={"dynamicAllocation": dynamic, **SMALL}, sparkConf=conf
    )
    have(job, 1, 1)
    until(
        lambda: storage.shell(f"ls {hold}.reached 2>/dev/null || true"), "a batch that takes long", PATIENCE
    )
    have(job, 2, 2)
    storage.shell(f"rm {hold}")
    have(job, 1, 1)

    scale(job, dynamicAllocation={"min": 2, "max": 3})
    have(job, 2, 2)
    scale(job, dynamicAllocation={"min": 1, "max": 1})
    have(job, 1, 1)
    until(lambda: len(pods(job)) == 1, "the pod of the other one gone", PATIENCE)
    assert "upgrade" not in job.view().object["status"]
    stop_and_resume(job)
    read_on(job, storage, 100)
    drain_and_compare(job, storage)
    delete(job)
