"""A job with a schedule: rounds on request, an upgrade between two of them, a kill in one, a drain."""

from __future__ import annotations

import pytest

from dev.demo.job import KIND, Job, View
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

from .jobs import index, kill_driver, sums
from .shared_volume import Storage, expected

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]
NEVER = "0 0 30 2 *"
YEARLY = "0 0 1 1 *"


def ask_for_round(job: Job, nonce: int) -> None:
    job.kubectl.patch(KIND, job.name, {"spec": {"schedule": {"nonce": nonce}}})


def await_round(job: Job, rounds: int) -> View:
    """Wait until so many have ended by themselves."""

    def over(v: View) -> bool:
        ended = [r for r in index(job) if r["scenario"] == "Stop" and r["request_id"] is None]
        return v.phase == "Waiting" and len(ended) == rounds

    return job.follow(over, f"Waiting after round {rounds}", PATIENCE)


def test_rounds_keep_the_windows_until_the_drain(cluster: Site, storage: Storage) -> None:
    job = sums(cluster, "rounds", "", "", "now", schedule={"cron": YEARLY, "nonce": 0})
    job.reach("Waiting", PATIENCE)
    assert job.kubectl.list("pods", f"streamjob.dev/job={job.name}") == []
    assert "finalizers" not in (job.kubectl.get(KIND, job.name) or {})["metadata"], "nothing was begun"

    for n in (1, 2):
        ask_for_round(job, n)
        await_round(job, n)
    until(lambda: not job.kubectl.list("pods", f"streamjob.dev/job={job.name}"), "no pod", PATIENCE)
    before = storage.look(job.name)
    assert before.numbers > 0
    assert before.output != expected(before.numbers), "the last windows are open"

    job.kubectl.patch(KIND, job.name, {"spec": {"sparkConf": {"spark.app.name": "edited"}}})
    job.follow(lambda v: v.condition("Upgraded").get("reason") == "UpgradePending", "pending", PATIENCE)
    ask_for_round(job, 3)
    job.follow(lambda v: v.phase in ("Starting", "Running"), "a round", PATIENCE)
    until(lambda: storage.look(job.name).numbers > before.numbers, "a batch of the round", PATIENCE)
    kill_driver(job)
    v = await_round(job, 3)
    assert v.condition("Upgraded")["reason"] == "Upgraded"

    job.kubectl.patch(KIND, job.name, {"spec": {"schedule": {"cron": NEVER}}})
    job.follow(lambda v: v.condition("Ready").get("reason") == "ScheduleNeverFires", "a word", PATIENCE)
    job.ask("Drained")
    job.reach("Drained", PATIENCE)
    found = storage.look(job.name)
    assert found.output == expected(found.numbers)
