"""A driver pod that is killed at every point of a job's life: while it runs, in a stop, and a step later in a
drain each time. D1 to D5, D7, D9, D12, and D6 as far as a driver goes without an answer.
"""

from __future__ import annotations

import pytest

from dev.demo.job import Job
from dev.demo.kubectl import Object
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

from .jobs import index, local_job, make_scripts, read_on
from .shared_volume import APPS, Storage, expected

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]
KILLER = APPS.parents[1] / "spark" / "apps" / "killer.py"
RUNNING = ("in batch", "after AnnounceCheckpoint 2", "before NotifyComplete")  # D4, D6
STOP = "after StopAtBoundary"  # D5
DRAIN = (
    *("before Finish", "throw in the last batch", "in finish", "after Finish 2"),  # D1, D9, D2, D3 and D7
    *("after StoreCheckpoint", "before Close"),  # the final checkpoint is durable; and in the index (D12)
)
NONE = ""


def terminated(cluster: Site) -> list[Object] | None:
    """The job's pods, once all of them have ended."""
    pods = cluster.kubectl.list("pods", "streamjob.dev/job=deadly")
    return pods if all(p["status"]["phase"] == "Failed" for p in pods) else None


def test_d1_to_d12_the_outcome_is_that_of_a_job_whose_driver_never_died(
    cluster: Site, storage: Storage
) -> None:
    scripts = {file: (APPS / file).read_text() for file in ("deadly.py", "two.py")}
    make_scripts(cluster.kubectl, "deadly", {**scripts, KILLER.name: KILLER.read_text()})
    deaths = "/data/out/deadly-deaths"
    lives = "\n".join([*RUNNING, STOP, NONE, *DRAIN, NONE])
    storage.shell(f"mkdir -p /data/out; printf '{lives}\n' > {deaths}")
    restart = {"limit": 100, "backoff": {"initial": "1s", "max": "1s"}}
    cluster.kubectl.apply(
        local_job(
            cluster,
            "deadly",
            "deadly.py",
            "/data/out/deadly",
            scripts="deadly",
            checkpoint={"interval": "1s"},
            restart=restart,
        )
    )
    job = Job(cluster.kubectl, "deadly")
    epoch = len(RUNNING) + 1
    job.follow(lambda v: v.phase == "Running" and v.epoch == epoch, f"Running in epoch {epoch}", 3 * PATIENCE)
    read_on(job, storage)
    job.ask("Stopped")  # this driver dies of it; the next one completes it
    stopped = job.reach("Stopped", PATIENCE)
    assert stopped.epoch == epoch + 1
    assert (index(job)[-1]["savepoint"], stopped.drained) == (stopped.savepoint, False)
    found = storage.look(job.name)
    assert found.offsets == found.commits

    job.ask("Running")
    job.reach("Running", PATIENCE)
    read_on(job, storage)
    job.ask("Drained")
    drained = job.reach("Drained", 4 * PATIENCE)
    assert drained.drained
    assert drained.epoch >= epoch + 1 + len(DRAIN)
    unmet = storage.shell(f"cat {deaths}").strip()
    assert unmet == "", f"nobody died of {unmet}"
    found = storage.look(job.name)
    assert found.offsets == found.commits
    assert found.output == expected(found.numbers)
    left = until(lambda: terminated(cluster), "no pod of it running", PATIENCE)
    assert len(left) == 1, "the log of the newest driver that died"
