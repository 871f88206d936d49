"""Live savepoints on a real cluster: by trigger and by schedule, across the death of a driver."""

from __future__ import annotations

from typing import Any

import pytest

from dev.demo.job import KIND, Job, View
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE

from .jobs import delete, index, kill_driver, read_on, sums
from .shared_volume import Storage, expected

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]


def request(job: Job, nonce: int) -> None:
    job.kubectl.patch(KIND, job.name, {"spec": {"savepoint": {"nonce": nonce}}})


def asked(view: View) -> dict[str, Any]:
    return dict(view.object.get("status", {}).get("savepointRequest") or {})


def test_by_nonce_by_schedule_and_across_a_kill(cluster: Site, storage: Storage) -> None:
    """Each is one savepoint, whole and in the index; the job runs on in the meantime, and its output is as
    without them.
    """
    job = sums(cluster, "beside", savepoint={"nonce": 1, "schedule": "* * * * *"})
    job.reach("Running", PATIENCE)
    read_on(job, storage)
    request(job, 2)
    view = job.follow(
        lambda v: asked(v).get("cause") == "Manual" and "checkpoint" in asked(v), "the first", PATIENCE
    )
    assert (view.phase, view.epoch) == ("Running", 1)
    job.follow(
        lambda v: asked(v).get("cause") == "Schedule" and "checkpoint" in asked(v), "a minute's", PATIENCE
    )
    job.kubectl.patch(KIND, job.name, {"spec": {"savepoint": {"schedule": None}}})
    read_on(job, storage)
    request(job, 3)
    kill_driver(job)
    job.follow(
        lambda v: v.epoch == 2 and asked(v).get("cause") == "Manual" and "checkpoint" in asked(v),
        "third",
        PATIENCE,
    )
    read_on(job, storage)
    job.ask("Drained")
    job.reach("Drained", PATIENCE)
    found, records = storage.look(job.name), index(job)
    assert found.output == expected(found.numbers)
    assert all(found.savepoints.values()), "half written"
    named = [r["savepoint"].removeprefix("file://") for r in records if r["savepoint"]]
    assert sorted(named) == sorted(found.savepoints)
    causes = [r["request_id"].split("-")[1] for r in records if r["savepoint"] and not r["scenario"]]
    assert causes.count("manual") == 2
    assert "schedule" in causes
    delete(job)
