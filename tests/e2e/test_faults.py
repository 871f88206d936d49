"""What goes wrong while a job lives, and what a user does to it at the worst moment: nothing is lost, nothing
is twice.
"""

from __future__ import annotations

import pytest

from dev.demo.job import KIND, Job, View
from dev.demo.kubectl import Object
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

from .jobs import delete, index, kill_driver, local_job, make_scripts, read_on, sums
from .shared_volume import Found, Storage, expected

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
SLOW = """
import time
from pyspark.sql import SparkSession
rows = SparkSession.builder.getOrCreate().readStream.format("rate").load()
slow = lambda batch, number: time.sleep(3600)
rows.writeStream.queryName("slow").foreachBatch(slow).start().awaitTermination()
"""
# The first driver fails and does not notice it; the next ones run.
FAILS = """
import os, time, traceback
from pyspark.sql import SparkSession
rows = SparkSession.builder.getOrCreate().readStream.format("rate").load()
try:
    if os.environ["POD_NAME"].endswith("-1"):
        raise RuntimeError("no broker at kafka:9092")
except RuntimeError:
    traceback.print_exc()
    time.sleep(3600)
rows.writeStream.queryName("fails").format("noop").start().awaitTermination()
"""


def reach_epoch(job: Job, epoch: int) -> View:
    return job.follow(
        lambda v: v.phase == "Running" and v.epoch == epoch, f"Running in epoch {epoch}", PATIENCE
    )


def drain_and_compare(job: Job, storage: Storage) -> None:
    job.ask("Drained")
    view = job.reach("Drained", PATIENCE)
    found = storage.look(job.name)
    assert found.offsets == found.commits
    assert found.output == expected(found.numbers)
    assert view.drained


def test_a_driver_killed_in_a_batch_loses_nothing(cluster: Site, storage: Storage) -> None:
    job = sums(cluster, "killed")
    for epoch in range(1, 8):
        reach_epoch(job, epoch)
        read_on(job, storage, 200)
        kill_driver(job)
        job.follow(lambda v: v.phase == "Restarting", "Restarting", PATIENCE)
        found = storage.look(job.name)
        if found.offsets > found.commits:
            break
    else:
        pytest.fail("no kill of seven hit a batch")
    job.reach("Running", PATIENCE)
    view = job.view()
    assert view.error["reason"] in ("DriverKilled", "DriverExited")
    drain_and_compare(job, storage)


@pytest.mark.slow
def test_the_log_of_a_failed_driver_stays_and_its_executors_go(cluster: Site, storage: Storage) -> None:
    make_scripts(cluster.kubectl, "fails", {"fails.py": FAILS})
    executor: Object = {"instances": 1, "memory": "512Mi", "cores": "100m"}
    cluster.kubectl.apply(local_job(cluster, "fails", "fails.py", scripts="fails", executor=executor))
    job = Job(cluster.kubectl, "fails")

    def epochs_of(role: str) -> set[str]:
        found = cluster.kubectl.list("pods", f"streamjob.dev/job=fails,streamjob.dev/component={role}")
        return {pod["metadata"]["labels"]["streamjob.dev/epoch"] for pod in found}

    def log() -> str:
        return cluster.kubectl.run("logs", "fails-driver-1", "-c", "driver", check=False)

    until(lambda: epochs_of("executor") and "no broker" in log(), "an executor, and the traceback", PATIENCE)
    kill_driver(job)
    view = reach_epoch(job, 2)
    assert epochs_of("driver") == {"1", "2"}
    assert view.object["status"]["lastExit"]["pod"] == "fails-driver-1"
    assert "RuntimeError: no broker at kafka:9092" in log()
    until(lambda: epochs_of("executor") == {"2"}, "the executors of the next driver alone", PATIENCE)
    job.kubectl.patch(KIND, job.name, {"spec": {"restart": {"failedDriversHistoryLimit": 0}}})
    until(lambda: epochs_of("driver") == {"2"}, "the pod of the failed driver gone", PATIENCE)
    job.ask("Cancelled")
    job.reach("Cancelled", PATIENCE)
    delete(job)


@pytest.mark.slow
def test_a_deleted_pod_saves_and_the_job_goes_on(cluster: Site, storage: Storage) -> None:
    job = sums(cluster, "evicted", termination={"gracePeriod": "600s"})
    job.reach("Running", PATIENCE)
    read_on(job, storage)
    job.kubectl.run("delete", "pod", job.pod(), "--wait=false")
    view = reach_epoch(job, 2)
    (record,) = index(job)
    assert record["savepoint"]
    assert view.checkpoint == record["checkpoint"] == 1
    assert list(storage.look(job.name).savepoints.values()) == [True]
    read_on(job, storage)
    drain_and_compare(job, storage)


@pytest.mark.slow
def test_an_executor_lost_in_the_last_batch_costs_nothing(cluster: Site, storage: Storage) -> None:
    """D11. What comes out of a window takes its time, so that the batch that fires them all is hit."""
    job = sums(cluster, "executor", "1", executor={"instances": 1, "memory": "512Mi"})
    job.reach("Running", PATIENCE)
    read_on(job, storage)
    job.ask("Drained")
    job.follow(lambda v: "FiringTimers" in v.termination, "the last batch", PATIENCE)
    (lost,) = cluster.kubectl.list("pods", "spark-role=executor,streamjob.dev/job=executor")
    name = lost["metadata"]["name"]
    cluster.kubectl.run("delete", "pod", name, "--grace-period=0", "--force")
    view = job.reach("Drained", PATIENCE)
    found = storage.look(job.name)
    assert found.output == expected(found.numbers)
    assert view.drained
    assert view.epoch == 1, "the batch was done again by another executor, not by another driver"


def test_row13_cancel_in_the_middle_of_a_stop(cluster: Site, storage: Storage) -> None:
    """D8: the driver hangs."""
    make_scripts(cluster.kubectl, "slow", {"slow.py": SLOW})
    cluster.kubectl.apply(local_job(cluster, "stuck", "slow.py", scripts="slow"))
    job = Job(cluster.kubectl, "stuck")
    job.reach("Running", PATIENCE)
    until(lambda: storage.look(job.name).offsets == 0, "its first batch", PATIENCE)
    job.ask("Stopped")
    job.follow(
        lambda v: v.phase == "Stopping" and "Boundary" in v.termination,
        "a stop that waits for its batch",
        PATIENCE,
    )
    job.ask("Cancelled")
    job.reach("Cancelled", PATIENCE)  # long before the end of the batch
    assert not cluster.kubectl.list("pods", "streamjob.dev/job=stuck")
    assert index(job) == []
    delete(job)


def test_deleting_a_running_job_leaves_a_savepoint(cluster: Site, storage: Storage) -> None:
    job = sums(cluster, "deleted")
    job.reach("Running", PATIENCE)
    read_on(job, storage)
    cluster.kubectl.run("delete", KIND, job.name, "--wait=false")
    until(lambda: cluster.kubectl.get(KIND, job.name) is None, "the StreamJob gone", PATIENCE)
    found = storage.look(job.name)
    assert list(found.savepoints.values()) == [True]
    assert found.offsets == found.commits
    until(lambda: not cluster.kubectl.list("pods", "streamjob.dev/job=deleted"), "its pods gone", PATIENCE)


@pytest.fixture(scope="module")
def savepoints(cluster: Site, storage: Storage) -> tuple[Found, str, str]:
    """What a job had written when it was stopped, the savepoint of that stop, and the one of its drain."""
    job = sums(cluster, "source")
    job.reach("Running", PATIENCE)
    read_on(job, storage, 1000)
    job.ask("Stopped")
    stopped = job.reach("Stopped", PATIENCE).savepoint
    found = storage.look(job.name)
    job.ask("Running")
    job.reach("Running", PATIENCE)
    job.ask("Drained")
    return found, stopped, job.reach("Drained", PATIENCE).savepoint


def restored(cluster: Site, name: str, savepoint: str) -> Job:
    return sums(cluster, name, restoreFrom={"savepoint": savepoint})


def failure(job: Job) -> Object:
    return job.follow(lambda v: v.phase == "Failed", "Failed", PATIENCE, stalled=True).condition("Stalled")


@pytest.mark.slow
def test_another_job_goes_on_from_a_savepoint(
    cluster: Site, storage: Storage, savepoints: tuple[Found, str, str]
) -> None:
    before, stopped, _ = savepoints
    job = restored(cluster, "fork", stopped)
    job.reach("Running", PATIENCE)
    until(
        lambda: storage.look(job.name).numbers > before.numbers + 400, "the fork reads on", PATIENCE, every=1
    )
    job.ask("Drained")
    job.reach("Drained", PATIENCE)
    after = storage.look(job.name)
    assert not set(before.output) & set(after.output)
    assert sorted(before.output + after.output) == expected(after.numbers)


@pytest.mark.slow
def test_a_tampered_savepoint_is_refused(
    cluster: Site, storage: Storage, savepoints: tuple[Found, str, str]
) -> None:
    stopped = savepoints[1].removeprefix("file://")
    copy = f"/data/tampered-{stopped.rsplit('/', 1)[1]}"
    export = ("savepoint", "export", f"file://{stopped}", f"file://{copy}")
    storage.run("python", "-m", "streamjob.runtime", *export)  # what it shares with others comes along
    file = storage.shell(f"cd {copy} && find . -path '*/state/*' -name '*.delta' | sort | head -n 1").strip()[
        2:
    ]
    storage.shell(f"printf X | dd of={copy}/{file} bs=1 seek=3 conv=notrunc 2>/dev/null")
    job = restored(cluster, "tampered", f"file://{copy}")
    condition = failure(job)
    assert condition["reason"] == "SavepointBroken"
    assert file in condition["message"]
    delete(job)


@pytest.mark.slow
def test_a_savepoint_without_manifest_is_refused(
    cluster: Site, storage: Storage, savepoints: tuple[Found, str, str]
) -> None:
    stopped = savepoints[1].removeprefix("file://")
    storage.shell(f"rm -rf /data/cut && cp -r {stopped} /data/cut && rm /data/cut/manifest.json")
    job = restored(cluster, "cut", "file:///data/cut")
    condition = failure(job)
    assert condition["reason"] == "SavepointIncomplete"
    assert "/data/cut" in condition["message"]
    delete(job)


@pytest.mark.slow
def test_row14_a_drained_savepoint_is_an_end(
    cluster: Site, storage: Storage, savepoints: tuple[Found, str, str]
) -> None:
    job = restored(cluster, "after-the-end", savepoints[2])
    condition = failure(job)
    assert condition["reason"] == "AlreadyDrained"
    assert "allowDrained" in condition["message"]
    delete(job)
