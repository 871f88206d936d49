"""A job of two stages on the cluster, one of two shards with transactional sinks: periodic checkpoints in the
index, ends upstream first, what is visible after a crash, all of it in the status.
"""

from __future__ import annotations

from typing import Any

import pytest

from dev.demo.job import Job, View
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

from .jobs import index, kill_driver, local_job, make_scripts, read_on
from .shared_volume import APPS, Storage, expected

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]


@pytest.mark.slow
def test_row4_row9_two_stages_are_stopped_resumed_killed_and_drained(cluster: Site, storage: Storage) -> None:
    make_scripts(cluster.kubectl, "two", {"two.py": (APPS / "two.py").read_text()})
    cluster.kubectl.apply(
        local_job(cluster, "two", "two.py", "/data/out/two", scripts="two", checkpoint={"interval": "1s"})
    )
    job = Job(cluster.kubectl, "two")
    job.reach("Running", PATIENCE)
    read_on(job, storage, 400)
    periodic = until(lambda: of_both(job), "a periodic checkpoint of both stages", PATIENCE)
    assert not any(r["savepoint"] for r in periodic)
    until(lambda: storage.look(job.name).rows, "rows of a completed checkpoint", PATIENCE, every=1)
    job.ask("Stopped")
    stopped = job.reach("Stopped", PATIENCE)
    last = index(job)[-1]
    assert (last["scenario"], last["savepoint"]) == ("Stop", stopped.savepoint)
    assert finished(stopped) == {"copy": False, "sums": False}
    job.ask("Running")
    job.reach("Running", PATIENCE)
    read_on(job, storage, 400)
    kill_driver(job)
    job.follow(lambda v: v.phase == "Running" and v.epoch == 3, "Running in epoch 3", PATIENCE)
    read_on(job, storage, 200)
    job.ask("Drained")
    drained = job.reach("Drained", PATIENCE)
    found = storage.look(job.name)
    assert found.offsets == found.commits
    assert found.output == expected(found.numbers), "sums has not read all that copy had written"
    assert finished(drained) == {"copy": True, "sums": True}
    tasks = {s["uid"]: [t["state"] for t in s["tasks"]] for s in drained.object["status"]["stages"]}
    assert tasks == {"copy": ["Closed"], "sums": ["Closed", "Closed"]}


def of_both(job: Job) -> list[dict[str, Any]]:
    """The periodic checkpoints that have both stages: the first ones may come before the
    second has started.
    """
    periodic = [record for record in index(job) if not record["scenario"]]
    return [r for r in periodic if {stage["uid"] for stage in r["stages"]} == {"copy", "sums"}]


def finished(view: View) -> dict[str, bool]:
    stages = view.object["status"]["stages"]
    return {s["uid"]: bool(s["operators"]) and all(o["finished"] for o in s["operators"]) for s in stages}
