"""A whole job with checkpoints and savepoints on S3: an unchanged script, keys from the environment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver
from dev.s3.server import CONNECTOR, S3, SECRET, denied
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.messages.driver_config import Restore
from streamjob.runtime.savepoints.layout import verify_savepoint
from streamjob.storage.hadoop import HadoopFiles
from tests.runtime.disks import Storage

from .job import APP, Feed

RENAME = "by rename"
ABORTABLE = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


def settings(s3: S3) -> dict[str, str]:
    return {"spark.jars": CONNECTOR, **{f"spark.hadoop.{k}": v for k, v in s3.settings().items()}}


@pytest.mark.parametrize("manager", [pytest.param(RENAME, marks=pytest.mark.any_spark), ABORTABLE])
@pytest.mark.slow
def test_stop_resume_drain_and_restore_equal_the_batch(
    spark: SparkSession, files: HadoopFiles, s3: S3, bucket: Storage, feed: Feed, tmp_path: Path, manager: str
) -> None:
    conf = settings(s3) | ({MANAGER: manager} if manager != RENAME else {})
    feed.add(4)
    if manager != RENAME:  # which is then also that of the file sink's log
        feed.storage = bucket
        feed.sink = bucket.folder / "out"
    where = {"storage": bucket.root, "environment": s3.environment}
    with LocalDriver(tmp_path, APP, *feed.arguments(), spark_conf=conf, **where) as first:  # type: ignore[arg-type]
        first.running(2)
        stopped = first.finish(Mode.STOP)
    assert stopped.savepoint is not None
    assert stopped.savepoint.startswith("s3a://")
    assert stopped.stages[0].tasks[0].location.startswith("s3a://")
    feed.add(2)
    with first.next_epoch(APP, *feed.arguments(), spark_conf=conf) as second:
        second.running((stopped.stages[0].tasks[0].batch or 0) + 1)
        second.wait_for(lambda s: len(feed.read_files(bucket.folder / "checkpoints/main/0")) == 6)
        drained = second.finish(Mode.DRAIN)
    assert feed.output(spark) == feed.expected(spark)
    for savepoint in (stopped.savepoint, drained.savepoint):
        assert verify_savepoint(files, str(savepoint)) == []
    # Another job from the first one's savepoint.
    feed.sink = feed.sink.with_name("fork-out")
    other = {**where, "storage": f"{bucket.root}/fork", "restore": Restore(savepoint=stopped.savepoint)}
    with LocalDriver(tmp_path / "fork", APP, *feed.arguments(), spark_conf=conf, **other) as third:  # type: ignore[arg-type]
        forked = third.finish(Mode.DRAIN)
    assert forked.drained
    for driver in (first, second, third):
        assert SECRET not in driver.log.read_text()


@pytest.mark.slow
@pytest.mark.any_spark
def test_s5_a_stop_that_may_not_write_its_savepoint_waits_until_it_may(
    files: HadoopFiles, s3: S3, bucket: Storage, feed: Feed, tmp_path: Path
) -> None:
    """Checkpoints on a volume, savepoints in a bucket.

    What is denied is tried again all the same: the queries stand, and nothing is lost meanwhile.
    """
    feed.add(3)
    target = bucket.uri(bucket.folder / "savepoints" / "stop")
    with LocalDriver(
        tmp_path, APP, *feed.arguments(), spark_conf=settings(s3), environment=s3.environment
    ) as driver:
        driver.running(2)
        with denied(s3):
            request = TerminationRequest("stop-1", 1, Mode.STOP, target)
            assert driver.call("PUT", "/v1/termination", request)[0] == 202
            stuck = driver.wait_for(lambda s: bool(s.termination and s.termination.problem))
            assert stuck.termination is not None
            assert stuck.termination.problem is not None
            assert stuck.termination.problem.reason == "StorageAccessDenied"
            assert target in stuck.termination.problem.message
            assert stuck.completed is None
        record = driver.finish()
    assert record.savepoint == target
    assert verify_savepoint(files, target) == []


@pytest.mark.any_spark
def test_a_refusal_of_the_store_is_reported_and_tells_no_secret(
    s3: S3, bucket: Storage, feed: Feed, tmp_path: Path
) -> None:
    feed.add(1)
    wrong = "one-that-is-not-right"
    with LocalDriver(
        tmp_path,
        APP,
        *feed.arguments(),
        spark_conf=settings(s3),
        storage=bucket.root,
        environment={**s3.environment, "AWS_SECRET_ACCESS_KEY": wrong},
    ) as driver:
        assert driver.wait() == 1, driver.tail()
    report = driver.report()
    assert report.problem is not None
    assert (report.problem.reason, report.problem.retryable) == ("StorageAccessDenied", False)
    assert "spec.storage.checkpoints" in report.problem.message
    for said in (driver.log.read_text(), json.dumps(str(report)), driver.report_file.read_text()):
        assert wrong not in said
        assert SECRET not in said


def test_an_image_without_the_connector(s3: S3, bucket: Storage, feed: Feed, tmp_path: Path) -> None:
    feed.add(1)
    with LocalDriver(
        tmp_path, APP, *feed.arguments(), storage=bucket.root, environment=s3.environment
    ) as driver:
        assert driver.wait() == 1, driver.tail()
    problem = driver.report().problem
    assert problem is not None
    assert (problem.reason, problem.retryable) == ("ConnectorMissing", False)
    assert "On S3" in problem.remedy
