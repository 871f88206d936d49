"""Leader and standby are killed again and again, at random moments while jobs stop and drain.

Nobody may notice.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from dev.demo.evidence import CONTROLLER
from dev.demo.job import Job, View
from dev.demo.kubectl import Kubectl
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

from .jobs import index, read_on, sums
from .shared_volume import Storage, expected

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1500)]
JOBS = ("kills-a", "kills-b", "kills-c")
KILLS, MOST_KILLS = 20, 24  # some are left for the drains
STOPS, MOST_STOPS = 2, 25
EARLY = 0.4  # of the kills
LEASE = "streamjob"  # as the release
BETWEEN = 6.0  # seconds at most that one leads; then nobody does until its Lease has lapsed


class Killer:
    """Kills the controller, without grace, while jobs end. `ending` counts the jobs that are doing so."""

    def __init__(self, kubectl: Kubectl, seed: int) -> None:
        self._kubectl = kubectl
        self._random = random.Random(seed)
        self.kills = 0
        self.over = threading.Event()
        self._busy = 0
        self._changed = threading.Condition()

    @contextmanager
    def while_ending(self) -> Iterator[None]:
        with self._changed:
            self._busy += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._busy -= 1

    def run(self) -> None:
        while not self.over.is_set() and self.kills < MOST_KILLS:
            with self._changed:
                if not self._changed.wait_for(lambda: self._busy or self.over.is_set(), timeout=1):
                    continue
            # Some die before they have done anything. If all did, nothing would ever come to an end.
            leads = self._random.random() > EARLY
            pod = until(lambda leads=leads: self._controller(leads), "a controller", PATIENCE)
            self.over.wait(self._random.uniform(0, BETWEEN))
            if self._busy:
                self._kubectl.run("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")
                self.kills += 1

    def _controller(self, leads: bool) -> str | None:
        lease = self._kubectl.get("lease", LEASE)
        holder = lease["spec"].get("holderIdentity", "") if lease else ""
        for pod in self._kubectl.list("pods", CONTROLLER):
            name = str(pod["metadata"]["name"])
            if (
                "deletionTimestamp" not in pod["metadata"]
                and holder.startswith(f"{name}_") == leads
                and pod["status"]["phase"] == "Running"
            ):
                return name
        return None


class Pods(threading.Thread):
    """Remembers every driver pod that there ever was: name → uids."""

    def __init__(self, kubectl: Kubectl, seconds: float) -> None:
        super().__init__(daemon=True)
        self._kubectl, self._seconds = kubectl, seconds
        self.uids: dict[str, set[str]] = defaultdict(set)

    def run(self) -> None:
        for pod in self._kubectl.watch("pods", "--selector=streamjob.dev/component=driver", self._seconds):
            self.uids[pod["metadata"]["name"]].add(pod["metadata"]["uid"])


def reach(job: Job, state: str, phase: str) -> View:
    job.ask(state)
    return job.reach(phase, PATIENCE)


def live(job: Job, storage: Storage, killer: Killer) -> View:
    """Some stops and resumes, more until the killer has had enough, however fast they are; then the drain."""
    stops = 0
    job.reach("Running", PATIENCE)
    while stops < STOPS or (killer.kills < KILLS and stops < MOST_STOPS):
        read_on(job, storage)
        with killer.while_ending():
            stopped = reach(job, "Stopped", "Stopped")
        stops += 1
        records = [record for record in index(job) if record["scenario"]]
        assert len(records) == stops, records
        assert stopped.checkpoint == records[-1]["checkpoint"]
        reach(job, "Running", "Running")
    with killer.while_ending():
        return reach(job, "Drained", "Drained")


def test_killing_the_controller_changes_nothing(
    cluster: Site, storage: Storage, record_property: Callable[[str, object], None]
) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    began = time.monotonic()
    killer = Killer(cluster.kubectl, seed)
    pods = Pods(cluster.kubectl, 1400)
    pods.start()
    jobs = [sums(cluster, name) for name in JOBS]
    with ThreadPoolExecutor(len(JOBS) + 1) as pool:
        killing = pool.submit(killer.run)
        try:
            drained = list(pool.map(lambda job: live(job, storage, killer), jobs))
        finally:
            killer.over.set()
        killing.result()
    seconds = time.monotonic() - began
    record_property("figure", f"controller kills: {killer.kills} in {seconds:.0f} s, seed {seed}")
    assert killer.kills >= KILLS
    for job, view in zip(jobs, drained, strict=True):
        check_outcome(job, view, storage, pods)


def check_outcome(job: Job, view: View, storage: Storage, pods: Pods) -> None:
    found = storage.look(job.name)
    assert found.offsets == found.commits, "a batch is uncommitted"
    assert found.output == expected(found.numbers)
    records = index(job)
    requests = [record["request_id"] for record in records if record["scenario"]]
    assert len(set(requests)) == len(requests) == len(records)
    assert {record["savepoint"].removeprefix("file://") for record in records} == set(found.savepoints)
    assert all(found.savepoints.values()), "a savepoint has no manifest"
    assert view.drained
    mine = {name: uids for name, uids in pods.uids.items() if name.startswith(f"{job.name}-driver-")}
    assert len(mine) == view.epoch
    assert all(len(uids) == 1 for uids in mine.values()), mine
