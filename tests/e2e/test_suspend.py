"""A job is created suspended, resumed, suspended and resumed again, as a queue would do it."""

from __future__ import annotations

import pytest

from dev.demo.job import KIND, Job
from dev.demo.kubectl import Object
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE

from .jobs import index, read_on, sums
from .shared_volume import Storage, expected

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]


def suspend(job: Job, value: bool) -> None:
    job.kubectl.patch(KIND, job.name, {"spec": {"suspend": value}})


def await_suspended(job: Job) -> Object:
    """As a queue waits for it. Then nothing of the job holds resources any more."""
    job.kubectl.run("wait", KIND, job.name, "--for=condition=Suspended", f"--timeout={PATIENCE:.0f}s")
    found = job.kubectl.get(KIND, job.name)
    assert found is not None
    assert found["status"]["phase"] == "Suspended"
    assert job.kubectl.list("pods", f"streamjob.dev/job={job.name}") == []
    return found


@pytest.mark.slow
def test_a_queue_suspends_and_resumes_a_job(cluster: Site, storage: Storage) -> None:
    job = sums(cluster, "queued", suspend=True)
    created = await_suspended(job)
    assert "finalizers" not in created["metadata"], "nothing was begun"
    assert job.kubectl.get("configmap", f"{job.name}-checkpoints") is None

    suspend(job, False)
    job.reach("Running", PATIENCE)
    read_on(job, storage)
    suspend(job, True)
    await_suspended(job)
    (record,) = [r for r in index(job) if r["scenario"]]
    assert record["scenario"] == "Stop"
    assert record["request_id"].startswith("suspend-1-")
    assert record["savepoint"]

    suspend(job, False)
    job.follow(lambda v: v.phase == "Running" and v.epoch == 2, "Running in epoch 2", PATIENCE)
    read_on(job, storage)
    suspend(job, True)
    job.ask("Drained")  # an end is not held up
    job.reach("Drained", PATIENCE)
    found = storage.look(job.name)
    assert found.output == expected(found.numbers)
