"""U6.

A namespace is deleted at once, with a running job in it. It goes away by itself, and the savepoint is on
storage.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from dev.demo import site as sites
from dev.demo.console import Console
from dev.demo.site import MADE_FOR, Site
from dev.demo.waiting import PATIENCE, until

from .holds import on_disk
from .jobs import sums
from .shared_volume import CLAIM, Storage, expected
from .test_faults import reach_epoch

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
GRACE = 20  # seconds that the driver has; Kubernetes looks again when half of them are over
BOUND = 90.0
BATCHES = 5
OWN, SERVED, OPERATIONS = "u6-own", "u6-served", "u6-operations"


@pytest.fixture
def places(cluster: Site) -> Iterator[dict[str, Site]]:
    """One namespace with its own controller; one that is served from a third, with rights by a Role in it."""
    if not cluster.local:
        pytest.skip("looks at the volume from outside of the cluster")
    made = {name: cluster.within(name) for name in (OWN, SERVED, OPERATIONS)}
    for place in made.values():
        sites.make_namespace(place)
    for place in (made[OWN], made[SERVED]):
        volume = sites.volume(place, CLAIM)
        place.kubectl.apply(*volume, sites.a_claim(CLAIM, volume))
    yield made
    for place in made.values():
        sites.remove(place, Console())  # if it is still there
        place.kubectl.run("delete", "persistentvolume", "--selector", f"{MADE_FOR}={place.namespace}")


def install(place: Site, *options: str) -> None:
    repository, _, tag = place.settings.image("controller").rpartition(":")
    image = ("--set", f"image.repository={repository}", "--set", f"image.tag={tag}", "--set", "replicas=1")
    sites.helm(
        place, "install", "u6", str(sites.CHART), *image, *options, "--wait", "--timeout", f"{PATIENCE:.0f}s"
    )


def lose_its_namespace(place: Site) -> float:
    """A job runs there, and then all is gone; in so many seconds."""
    job = sums(place, "orders", termination={"gracePeriod": f"{GRACE}s"})
    reach_epoch(job, 1)
    job.follow(lambda view: view.batch >= BATCHES, f"batch {BATCHES}", PATIENCE)
    began = time.monotonic()
    job.kubectl.run("delete", "namespace", place.namespace, "--wait=false")
    until(
        lambda: job.kubectl.get("namespace", place.namespace) is None,
        f"the namespace {place.namespace} is gone",
        BOUND,
    )
    return time.monotonic() - began


@pytest.mark.slow
def test_u6_a_namespace_that_is_deleted_goes_away_and_leaves_a_savepoint(
    cluster: Site,
    storage: Storage,
    places: dict[str, Site],
    record_property: Callable[[str, object], None],
) -> None:
    install(places[OWN])
    install(places[OPERATIONS], "--set", f"watch.namespaces={{{SERVED}}}")
    with ThreadPoolExecutor(2) as pool:
        seconds = list(pool.map(lose_its_namespace, (places[OWN], places[SERVED])))
    record_property(
        "figure", "namespace with a running job deleted: gone after {:.0f} and {:.0f} s".format(*seconds)
    )
    for name in (OWN, SERVED):
        manifests = list(on_disk(places[name]).glob("savepoints/*-orders-*/*/manifest.json"))
        assert [m.parent.name for m in manifests] == ["eviction-1"]
    said = cluster.within(OPERATIONS).kubectl.run("logs", "deployment/u6-streamjob", "--tail=-1")
    assert "SavepointCompleted" in said
    assert "removed the finalizer of the StreamJob orders" in said or "NamespaceTerminating" in said

    goes_on_elsewhere(cluster, storage, places[OWN])


def goes_on_elsewhere(cluster: Site, storage: Storage, place: Site) -> None:
    """From the savepoint, in another namespace and on another volume: nothing is lost, nothing is twice."""
    lost, here = on_disk(place), on_disk(cluster)
    (saved,) = lost.glob("savepoints/*-orders-*")
    shutil.copytree(saved, here / "u6")
    shutil.copytree(lost / "out" / "orders", here / "out" / "orders")
    subprocess.run(["chown", "-R", "10001:10001", here / "u6", here / "out"], check=True)  # as the drivers
    job = sums(cluster, "u6-fork", restoreFrom={"savepoint": "file:///data/u6/eviction-1"})
    reach_epoch(job, 1)
    job.ask("Drained")
    job.reach("Drained", PATIENCE)
    before, after = storage.look("orders").output, storage.look(job.name)
    assert not set(before) & set(after.output)
    assert sorted(before + after.output) == expected(after.numbers)
