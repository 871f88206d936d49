"""D10.

The node that a driver is on is drained with `kubectl drain`, or lost: the job continues on another one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dev.cluster import lifecycle
from dev.cluster.layout import NODE_NAME, SECOND_NODE_NAME, Layout
from dev.demo.job import Job
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE

from .jobs import index, read_on, sums
from .shared_volume import Storage
from .test_faults import drain_and_compare, reach_epoch

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def layout(cluster: Site) -> Iterator[Layout]:
    """The cluster has a second node."""
    if not cluster.local:
        pytest.skip("needs a cluster to which a node can be added")
    layout = Layout.from_environment()
    lifecycle.add_node(layout)
    yield layout
    cluster.kubectl.run("uncordon", NODE_NAME)
    lifecycle.remove_node(layout)


def on_the_second(cluster: Site, storage: Storage, name: str, **spec: object) -> Job:
    """A job that has begun there, and may go on anywhere."""
    cluster.kubectl.run("cordon", NODE_NAME)
    cluster.kubectl.run("uncordon", SECOND_NODE_NAME)
    job = sums(cluster, name, **spec)
    reach_epoch(job, 1)
    assert node(job) == SECOND_NODE_NAME
    read_on(job, storage)
    cluster.kubectl.run("uncordon", NODE_NAME)
    return job


def node(job: Job) -> str:
    pod = job.kubectl.get("pod", job.pod())
    assert pod is not None
    return str(pod["spec"]["nodeName"])


def test_d10_drained(cluster: Site, storage: Storage, layout: Layout) -> None:
    """With a savepoint, and an executor beside the driver."""
    more = {"executor": {"instances": 1, "memory": "512Mi"}, "termination": {"gracePeriod": "120s"}}
    job = on_the_second(cluster, storage, "drained-away", **more)
    options = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=180s")
    cluster.kubectl.run("drain", SECOND_NODE_NAME, *options, timeout=200)
    pods = cluster.kubectl.list("pods")
    assert not [p for p in pods if p["spec"].get("nodeName") == SECOND_NODE_NAME]
    view = reach_epoch(job, 2)
    assert node(job) == NODE_NAME
    (record,) = index(job)
    assert (record["scenario"], record["epoch"], record["checkpoint"]) == ("Stop", 1, view.checkpoint)
    assert storage.look(job.name).savepoints == {record["savepoint"].removeprefix("file://"): True}
    read_on(job, storage)
    drain_and_compare(job, storage)


def test_d10_lost(cluster: Site, storage: Storage, layout: Layout) -> None:
    """Without a word.

    Nobody knows whether its driver still writes, so no other one begins until somebody says that it is off.
    """
    job = on_the_second(cluster, storage, "lost")
    lifecycle.lose_node(layout)
    view = job.follow(lambda v: v.stalled, "Stalled", PATIENCE, stalled=True)
    assert view.condition("Stalled")["reason"] == "DriverUnreachable"
    assert view.epoch == 1
    cluster.kubectl.run("delete", "node", SECOND_NODE_NAME)
    view = job.follow(
        lambda v: v.phase == "Running" and v.epoch == 2, "Running in epoch 2", PATIENCE, stalled=True
    )
    assert view.error["reason"] == "DriverLost"
    assert node(job) == NODE_NAME
    read_on(job, storage)
    drain_and_compare(job, storage)
