"""O11. The controller is upgraded while one job stops and another one drains."""

from __future__ import annotations

import pytest

from dev.demo import site
from dev.demo.evidence import CONTROLLER
from dev.demo.job import Job, View
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

from .holds import Hold, held
from .jobs import index, read_on
from .shared_volume import Storage
from .test_faults import drain_and_compare

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
RELEASE = "streamjob"


def leader(cluster: Site) -> tuple[str, int]:
    """The pod that leads, and its term."""
    lease = cluster.kubectl.get("lease", RELEASE)
    spec = lease["spec"] if lease else {}
    return spec.get("holderIdentity", "").partition("_")[0], spec.get("leaseTransitions", 0)


def controllers(cluster: Site) -> set[str]:
    return {str(pod["metadata"]["name"]) for pod in cluster.kubectl.list("pods", CONTROLLER)}


def upgrade(cluster: Site) -> None:
    """As its user does it; both replicas are replaced."""
    before = controllers(cluster)
    change = ("--reuse-values", "--set", "logFormat=json", "--set", "podAnnotations.upgraded=yes")
    site.helm(
        cluster, "upgrade", RELEASE, str(site.CHART), *change, "--wait", "--timeout", f"{PATIENCE:.0f}s"
    )
    until(lambda: not before & controllers(cluster), "the old controllers are gone", PATIENCE)
    until(lambda: leader(cluster)[0] in controllers(cluster), "a new one leads", PATIENCE)


def begin(job: Job, hold: Hold, state: str, phase: str) -> View:
    """It has been told to end, and is held in the middle of that."""
    job.ask(state)
    told = ("WaitingForBoundary", "FiringTimers")
    view = job.follow(lambda v: v.phase == phase and v.termination.startswith(told), phase, PATIENCE)
    hold.wait()
    return view


@pytest.mark.slow
def test_o11_upgraded_in_the_middle_of_a_stop_and_of_a_drain(cluster: Site, storage: Storage) -> None:
    stops, drains = held(cluster, "o11-stops"), held(cluster, "o11-drains")
    rows, finish = Hold(storage, stops.name, "rows"), Hold(storage, drains.name, "finish")
    for job in (stops, drains):
        job.reach("Running", PATIENCE)
        read_on(job, storage)
    rows.close()
    finish.close()
    rows.wait()  # in the middle of a batch
    before = [begin(stops, rows, "Stopped", "Stopping"), begin(drains, finish, "Drained", "Draining")]
    pods, (_, term) = [stops.pod(), drains.pod()], leader(cluster)
    upgrade(cluster)
    assert leader(cluster)[1] > term
    for job, view, phase in ((stops, before[0], "Stopping"), (drains, before[1], "Draining")):
        now = job.view()
        assert now.phase == phase
        assert request(now) == request(view)
    assert [stops.pod(), drains.pod()] == pods
    rows.open()
    finish.open()

    stopped, drained = stops.reach("Stopped", PATIENCE), drains.reach("Drained", PATIENCE)
    for job, view, old in ((stops, stopped, before[0]), (drains, drained, before[1])):
        (record,) = index(job)
        assert record["request_id"] == request(old)
        assert view.epoch == record["epoch"] == 1
        assert storage.look(job.name).savepoints == {record["savepoint"].removeprefix("file://"): True}
    stops.ask("Running")
    stops.reach("Running", PATIENCE)
    read_on(stops, storage)
    for job in (stops, drains):
        drain_and_compare(job, storage)


def request(view: View) -> str:
    return str(view.object["status"]["termination"]["requestId"])
