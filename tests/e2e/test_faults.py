"""What goes wrong while a job lives, and what a user does to it at the worst moment: nothing is lost, nothing is twice."""

from __future__ import annotations

import time

import pytest

from dev.demo.job import KIND, Job, View
from dev.demo.kubectl import Object
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

from .jobs import delete, index, local_job, make_scripts, read_on, sums
from .storage import Found, Storage, expected

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
SLOW = """
import time
from pyspark.sql import SparkSession
rows = SparkSession.builder.getOrCreate().readStream.format("rate").load()
slow = lambda batch, number: time.sleep(300)
rows.writeStream.queryName("slow").foreachBatch(slow).start().awaitTermination()
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
