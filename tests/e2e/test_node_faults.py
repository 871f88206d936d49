"""What a drain or a stop meets on its node: the API server is gone for a while, the disk is full, the driver
hangs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.cluster import disk, lifecycle
from dev.cluster.layout import Layout
from dev.demo import site
from dev.demo.job import Job
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

from .holds import Hold, held, on_disk
from .jobs import delete, index, read_on
from .shared_volume import Storage
from .test_faults import drain_and_compare, reach_epoch

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
SMALL = "small"
BACK = 240.0  # seconds in which the controller is itself again


@pytest.fixture
def layout(cluster: Site) -> Layout:
    if not cluster.local:
        pytest.skip("needs a node whose daemons and disks are ours")
    return Layout.from_environment()


def drain_until_held(job: Job, storage: Storage) -> Hold:
    """It has run for a while, and stands still in finish(): the timers have fired, there is no final
    checkpoint yet.
    """
    hold = Hold(storage, job.name, "finish")
    reach_epoch(job, 1)
    read_on(job, storage)
    hold.close()
    job.ask("Drained")
    hold.wait()
    return hold


def drained_as_if_nothing_had_been(job: Job, storage: Storage) -> None:
    """By the first driver, with one checkpoint, and all that came in is out."""
    view = job.reach("Drained", PATIENCE)
    (record,) = index(job)
    assert (record["scenario"], record["epoch"]) == ("Drain", 1)
    assert storage.look(job.name).savepoints == {record["savepoint"].removeprefix("file://"): True}
    assert view.epoch == 1
    drain_and_compare(job, storage)


@pytest.mark.slow
def test_the_api_server_dies_in_the_middle_of_a_drain(
    cluster: Site, storage: Storage, layout: Layout, api_server_alone: None
) -> None:
    """The driver completes its savepoint all the same, and waits for somebody who takes it into the index."""
    job = held(cluster, "no-api")
    hold = drain_until_held(job, storage)
    manifests = f"savepoints/*-{job.name}-*/*/manifest.json"
    with lifecycle.without(layout, "kube-apiserver"):
        hold.open_behind_the_api(cluster)
        until(lambda: list(on_disk(cluster).glob(manifests)), "the savepoint's manifest", PATIENCE)
    began = time.monotonic()
    job.reach("Drained", PATIENCE)
    assert time.monotonic() - began < BACK
    drained_as_if_nothing_had_been(job, storage)


@pytest.fixture
def small_disk(cluster: Site, layout: Layout) -> Iterator[Path]:
    """A volume of 4 MB, as the claim `small`; it is where this machine sees it."""
    (volume,) = site.volume(cluster, SMALL)
    with disk.small(layout, Path(volume["spec"]["hostPath"]["path"]), "4m") as folder:
        cluster.kubectl.apply(volume, site.a_claim(SMALL, [volume], "4Mi"))
        yield folder


def fill(folder: Path) -> Path:
    """To the last byte. The file that takes all the room."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return ballast


@pytest.mark.slow
def test_s5_there_is_no_room_for_the_savepoint(cluster: Site, storage: Storage, small_disk: Path) -> None:
    job = held(cluster, "full", savepoints=SMALL)
    reach_epoch(job, 1)
    read_on(job, storage)
    ballast = fill(small_disk)
    job.ask("Stopped")
    view = job.follow(lambda v: v.error.get("reason") == "StorageFull", "StorageFull", PATIENCE)
    assert view.phase == "Stopping"
    said = view.condition("Reconciling")["message"]
    assert "No space left" in said
    assert "/savepoints/of" in said
    assert index(job) == []
    ballast.unlink()
    assert job.reach("Stopped", PATIENCE).epoch == 1, "the driver has stayed"
    (record,) = index(job)
    assert (small_disk / record["savepoint"].removeprefix("file:///savepoints/") / "manifest.json").exists()
    job.ask("Running")
    reach_epoch(job, 2)
    read_on(job, storage)
    drain_and_compare(job, storage)
    delete(job)


@pytest.mark.slow
def test_d8_a_driver_hangs_in_the_middle_of_a_drain(cluster: Site, storage: Storage) -> None:
    """All of its processes are frozen: the condition says so, and nobody takes it for dead.

    Then it continues.
    """
    job = held(cluster, "frozen")
    hold = drain_until_held(job, storage)
    signal(job, "STOP")
    hold.open()
    view = job.follow(lambda v: v.stalled, "Stalled", PATIENCE, stalled=True)
    condition = view.condition("Stalled")
    assert condition["reason"] == "DriverUnreachable"
    assert job.pod() in condition["message"]
    assert view.phase == "Draining"
    signal(job, "CONT")
    job.follow(lambda v: not v.stalled, "no longer Stalled", PATIENCE, stalled=True)
    drained_as_if_nothing_had_been(job, storage)


def signal(job: Job, name: str) -> None:
    """To its JVM and its Python, also those of the workers."""
    command = f"kill -{name} $(pgrep java) $(pgrep python)"
    job.kubectl.run("exec", job.pod(), "--", "sh", "-c", command)
