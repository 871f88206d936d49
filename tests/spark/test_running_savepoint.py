"""Live savepoints on real Spark: the queries go on, and a job restored from one continues exactly
there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver
from streamjob.protocol.formats.records import CheckpointRecord, JobRef
from streamjob.protocol.messages.commands import Mode, RecordsRequest, SavepointDeletion
from streamjob.protocol.messages.driver_config import CheckpointSettings, Restore
from streamjob.protocol.messages.driver_status import KnownRecords
from streamjob.runtime.savepoints.catalog import list_savepoints
from streamjob.runtime.savepoints.layout import verify_savepoint
from streamjob.runtime.startup.index_recovery import SavepointForeign, with_record
from streamjob.storage.hadoop import HadoopFiles

from .apps.windows import SCHEMA, windows
from .job import APP, Feed
from .test_savepoint import PROVIDERS

FILES = 40
HDFS = {
    # Snapshots are uploaded while savepoints are taken.
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "200ms",
}
ROCKS = {
    **HDFS,
    "spark.sql.streaming.stateStore.providerClass": PROVIDERS["rocksdb"],
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


@contextmanager
def running(feed: Feed, home: Path, **config: Any) -> Iterator[LocalDriver]:
    """A driver that has begun with much to read."""
    feed.add(FILES)
    with LocalDriver(home, APP, *feed.arguments(), **config) as driver:
        driver.running(2)
        yield driver


def listed(files: HadoopFiles, home: Path) -> dict[str, str | None]:
    """Names of the savepoints that lie there, and what is wrong with them."""
    found = list_savepoints(files, (home / "savepoints").as_uri())
    return {Path(s.uri).name: s.problem for s in found}


def whole(spark: SparkSession, feed: Feed, home: Path) -> list[tuple[object, ...]]:
    """What a batch puts out over the files that a job has read."""
    read = feed.read_files(home / "checkpoints" / "main" / "0")
    found = windows(spark.read.schema(SCHEMA).json(read)).select("window.start", "k", "n", "s").collect()
    return sorted(tuple(r) for r in found)


def batch_of(record: CheckpointRecord) -> int:
    batch = record.stages[0].tasks[0].batch
    assert batch is not None
    return batch


@pytest.mark.slow
@pytest.mark.parametrize(
    "conf",
    [pytest.param(HDFS, marks=pytest.mark.any_spark), ROCKS],
    ids=["hdfs", "rocksdb"],
)
def test_row13_a_job_restored_from_one_equals_the_batch(
    spark: SparkSession, files: HadoopFiles, feed: Feed, tmp_path: Path, conf: dict[str, str]
) -> None:
    """Several are taken while batches run.

    A job that begins with any of them, over the same input, puts out what a batch does.
    """
    taken: list[CheckpointRecord] = []
    with LocalDriver(tmp_path / "a", APP, *feed.arguments(), spark_conf=conf) as driver:
        for n in range(2):
            # A batch each; more than twelve would be late for each other, for they are read in any order.
            feed.add(3)
            driver.running(batch_of(taken[-1]) + 1 if taken else 1)
            assert driver.savepoint(f"savepoint-{n}") == 202
            taken.append(driver.saved(f"savepoint-{n}"))
        feed.add(3)
        later = driver.running(batch_of(taken[-1]) + 1)
        assert later.phase.value == "Running"
        driver.finish(Mode.DRAIN)
    assert [r.scenario for r in taken] == [None] * 2
    assert batch_of(taken[0]) < batch_of(taken[1])
    for record in taken:
        assert verify_savepoint(files, str(record.savepoint)) == []
    expected = whole(spark, feed, tmp_path / "a")
    assert feed.output(spark) == expected
    for n, record in enumerate(taken):
        home = tmp_path / f"fork-{n}"
        arguments = (str(feed.source), str(home / "out"), "await")
        restore = Restore(savepoint=record.savepoint)
        with LocalDriver(home, APP, *arguments, restore=restore, spark_conf=conf) as fork:
            fork.running(batch_of(record) + 1)
            drained = fork.finish(Mode.DRAIN)
        assert batch_of(drained) > batch_of(record)
        of_fork = whole(spark, feed, home)
        # What the first job had put out before the savepoint is not put out again.
        found = spark.read.parquet(*[str(p) for p in (home / "out").glob("part-*")])
        out = {tuple(r) for r in found.select("window.start", "k", "n", "s").collect()}
        assert out <= set(of_fork)
        assert set(of_fork) - out <= set(expected)
        assert found.count() == len(out), "nothing twice"


@pytest.mark.any_spark
def test_row13_the_same_request_is_one_savepoint_and_none_comes_during_a_stop(
    feed: Feed, tmp_path: Path, files: HadoopFiles
) -> None:
    with running(feed, tmp_path) as driver:
        assert [driver.savepoint("savepoint-1") for _ in range(3)] == [202] * 3
        record = driver.saved("savepoint-1")
        assert driver.savepoint("savepoint-1") == 202
        stopped = driver.finish(Mode.STOP)
        assert stopped.checkpoint == record.checkpoint + 1
    assert listed(files, tmp_path) == {"savepoint-1": None, "stop-1": None}


@pytest.mark.slow
@pytest.mark.any_spark
def test_row13_a_later_checkpoint_does_not_hide_it(feed: Feed, tmp_path: Path) -> None:
    """The index has both, whenever the controller looks."""
    with running(feed, tmp_path, checkpointing=CheckpointSettings(interval=0.1)) as driver:
        driver.savepoint("savepoint-1")
        status = driver.wait_for(
            lambda s: (
                s.savepoint is not None
                and s.savepoint.completed is not None
                and s.completed is not None
                and s.completed.checkpoint > s.savepoint.completed.checkpoint
            )
        )
        assert [r.request_id for r in status.durable] == ["savepoint-1", None]


@pytest.mark.any_spark
@pytest.mark.slow
def test_row13_storage_that_refuses_does_not_harm_the_job(
    feed: Feed, tmp_path: Path, files: HadoopFiles
) -> None:
    """It is tried again until its time is over; then it is said why, and the place is as it was."""
    home = tmp_path / "savepoints"
    home.write_text("a file where the folder should be")
    with running(feed, tmp_path) as driver:
        driver.savepoint("savepoint-1", timeout=3)
        status = driver.wait_for(lambda s: s.savepoint is not None and s.savepoint.over)
        assert status.savepoint is not None
        assert status.savepoint.completed is None
        assert status.savepoint.problem is not None
        assert status.savepoint.problem.reason == "SavepointAborted"
        assert "was not done after 3 s" in status.savepoint.problem.message
        assert status.problem is None
        home.unlink()
        driver.savepoint("savepoint-2")
        driver.saved("savepoint-2")
    assert listed(files, tmp_path) == {"savepoint-2": None}


@pytest.mark.any_spark
@pytest.mark.slow
def test_row13_a_stop_in_the_middle_gives_it_up_and_leaves_nothing_of_it(
    feed: Feed, tmp_path: Path, files: HadoopFiles
) -> None:
    """Whether it was durable in time or not, the driver says which, and the storage agrees."""
    with running(feed, tmp_path) as driver:
        driver.savepoint("savepoint-1")
        stopped = driver.finish(Mode.STOP)
        said = driver.report().savepoint
    found = listed(files, tmp_path)
    assert found["stop-1"] is None
    assert stopped.request_id == "stop-1"
    assert said is not None
    assert said.over
    assert found.get("savepoint-1", "gone") == (None if said.completed else "gone")


@pytest.mark.slow
@pytest.mark.any_spark
def test_row13_what_a_killed_driver_left_goes_with_the_next(
    feed: Feed, tmp_path: Path, files: HadoopFiles
) -> None:
    with running(feed, tmp_path) as first:
        first.savepoint("savepoint-1")
        first.saved("savepoint-1")
        first.kill()
    # As it is when the driver dies just before the manifest.
    (tmp_path / "savepoints" / "savepoint-1" / "manifest.json").unlink()
    with first.next_epoch(APP, *feed.arguments(), exact=False) as second:
        second.running(2)
        second.savepoint("savepoint-2")
        second.saved("savepoint-2")
    assert listed(files, tmp_path) == {"savepoint-2": None}


@pytest.mark.slow
@pytest.mark.any_spark
def test_i2_it_says_what_it_knows_and_deletes_what_it_is_told(
    feed: Feed, tmp_path: Path, files: HadoopFiles
) -> None:
    """Also one that began without an index, which was lost while no driver ran: it goes by its savepoint's
    manifest.
    """
    with running(feed, tmp_path) as first:
        stopped = first.finish(Mode.STOP)
    lost = Restore(recorded=stopped.savepoint, exact=True)
    with pytest.raises(SavepointForeign, match="is of default/local"):
        with_record(replace(first.config, job=JobRef("default", "local", "another"), restore=lost))
    with first.next_epoch(APP, *feed.arguments(), restore=lost) as second:
        second.running(batch_of(stopped) + 1)
        assert f"from batch {batch_of(stopped)} of file:{tmp_path}/checkpoints" in second.log.read_text()
        taken = []
        for name in ("savepoint-1", "savepoint-2"):
            second.savepoint(name)
            taken.append(second.saved(name))
        assert second.call("PUT", "/v1/records", RecordsRequest(2, 3))[0] == 202
        status = second.wait_for(lambda s: s.known is not None)
        assert status.known == KnownRecords(3, (stopped, *taken))
        places = (str(stopped.savepoint), str(taken[0].savepoint))
        assert second.call("PUT", "/v1/deletions", SavepointDeletion(2, places))[0] == 202
        status = second.wait_for(lambda s: bool(s.deleted))
        assert status.deleted == places[1:], "the savepoint of the stop is none that it may delete"
    assert listed(files, tmp_path) == {"stop-1": None, "savepoint-2": None}
    assert verify_savepoint(files, str(taken[1].savepoint)) == []


@pytest.mark.any_spark
def test_one_that_comes_while_the_script_starts_waits_for_its_queries(feed: Feed, tmp_path: Path) -> None:
    feed.add(FILES)
    with LocalDriver(tmp_path, APP, *feed.arguments()) as driver:
        driver.wait_for(lambda s: True)  # the endpoint is up; Spark is not
        assert driver.savepoint("savepoint-1") == 202
        record = driver.saved("savepoint-1")
        assert [s.uid for s in record.stages] == ["main"]
