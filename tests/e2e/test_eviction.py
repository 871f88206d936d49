"""A node is drained: its pods are evicted through the eviction API, as `kubectl drain` does it."""

from __future__ import annotations

import json

import pytest

from dev.demo.job import Job
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

from .jobs import index, read_on, sums
from .shared_volume import Storage, expected

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
RELEASE = "streamjob"


def evict(job: Job, pod: str) -> None:
    namespace = job.kubectl.namespace
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
    job.kubectl.run("create", "--raw", path, "-f", "-", stdin=json.dumps(body))


def test_an_evicted_driver_saves_and_goes_on_in_the_next_epoch(cluster: Site, storage: Storage) -> None:
    """With an executor: its pod is on the node as well, and goes first."""
    more = {"executor": {"instances": 1, "memory": "512Mi"}, "termination": {"gracePeriod": "600s"}}
    job = sums(cluster, "drained-node", **more)
    job.reach("Running", PATIENCE)
    read_on(job, storage)
    executors = cluster.kubectl.list("pods", "spark-role=executor,streamjob.dev/job=drained-node")
    for pod in [e["metadata"]["name"] for e in executors] + [job.pod()]:
        evict(job, pod)
    view = job.follow(lambda v: v.phase == "Running" and v.epoch == 2, "Running in epoch 2", PATIENCE)
    (record,) = index(job)
    assert (record["scenario"], record["epoch"]) == ("Stop", 1)
    assert record["savepoint"].endswith("/eviction-1")
    assert view.checkpoint == record["checkpoint"] == 1
    assert storage.look(job.name).savepoints == {record["savepoint"].removeprefix("file://"): True}
    read_on(job, storage)
    job.ask("Drained")
    job.reach("Drained", PATIENCE)
    found = storage.look(job.name)
    assert found.offsets == found.commits
    assert found.output == expected(found.numbers)


def test_the_chart_keeps_one_replica_of_the_controller(cluster: Site) -> None:
    def allowed() -> int | None:
        budget = cluster.kubectl.get("poddisruptionbudget", RELEASE)
        return budget["status"].get("disruptionsAllowed") if budget else None

    assert until(lambda: allowed() == 1, "one of two replicas may be evicted", PATIENCE)
