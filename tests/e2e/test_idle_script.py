"""A script that starts no query for a long time: the job stops all the same, and loses nothing by it."""

from __future__ import annotations

import pytest

from dev.demo.job import Job
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

from .jobs import index, local_job, make_scripts, read_on
from .shared_volume import APPS, Storage, expected

# Slow, because it waits: tests/spark/test_nothing_left.py shows the same of a driver alone.
pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1200)]
SCRIPT = """
import sys
import time
from pathlib import Path

import sums

output, closed = sys.argv[1:]
while Path(closed).exists():
    Path(f"{closed}.seen").touch()
    time.sleep(0.1)
sums.main(output)
"""


def test_a_stop_while_the_script_waits_keeps_what_was_restored(cluster: Site, storage: Storage) -> None:
    closed = "/data/idle"
    scripts = {"sums.py": (APPS / "sums.py").read_text(), "idle.py": SCRIPT}
    make_scripts(cluster.kubectl, "idle", scripts)
    storage.run("touch", closed)
    cluster.kubectl.apply(local_job(cluster, "idle", "idle.py", "/data/out/idle", closed, scripts="idle"))
    job = Job(cluster.kubectl, "idle")

    def stop_while_it_waits() -> None:
        until(lambda: "seen" in storage.shell("ls /data"), "the script waits", PATIENCE)
        job.ask("Stopped")
        job.follow(
            lambda v: "has started no query yet" in v.condition("Ready").get("message", ""),
            "what the stop waits for",
            PATIENCE,
        )
        job.reach("Stopped", PATIENCE)
        storage.run("rm", f"{closed}.seen")

    stop_while_it_waits()
    assert job.view().condition("Ready")["message"] == "Stopped before it began"
    assert not index(job)

    storage.run("rm", closed)
    job.ask("Running")
    read_on(job, storage)
    job.ask("Stopped")
    job.reach("Stopped", PATIENCE)
    before = index(job)[-1]

    storage.run("touch", closed)
    job.ask("Running")
    stop_while_it_waits()
    assert index(job)[-1] == before, "it had nothing to save"
    assert "needs no newer savepoint" in job.view().condition("Ready")["message"]

    storage.run("rm", closed)
    job.ask("Drained")
    job.reach("Drained", PATIENCE)
    found = storage.look(job.name)
    assert found.numbers > 0
    assert found.output == expected(found.numbers)
