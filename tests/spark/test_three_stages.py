"""The whole at once: Kafka → files → two branches, of two shards and bounded, with transactional sinks.

Stopped, resumed, drained, and killed at every point of a driver's life on the way: D1 to D10 and D12 of the
list of faults. The output is the batch's.
"""

from __future__ import annotations

import http.client
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dev.broker import CONNECTORS, Kafka
from dev.localdriver import LocalDriver
from dev.postgres import Postgres
from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.messages.driver_config import CheckpointSettings
from streamjob.protocol.messages.driver_status import DriverStatus

from .apps.three import SCHEMA, hours, totals
from .feeds import at, eventually

pytestmark = [pytest.mark.any_spark, pytest.mark.slow, pytest.mark.timeout(1500)]
APP = Path(__file__).parent / "apps" / "three.py"
CONFIG: dict[str, Any] = {
    "spark_conf": {"spark.jars": CONNECTORS, "spark.master": "local[4]"},
    "checkpointing": CheckpointSettings(interval=1.0),
}
DRAIN = ("before Finish", "throw in the last batch", "in finish", "after Finish 2")


class Job:
    def __init__(self, spark: SparkSession, home: Path, kafka: Kafka, server: Postgres) -> None:
        self.spark, self.home, self.kafka, self.server = spark, home, kafka, server
        server.sql(
            "DROP TABLE IF EXISTS totals, totals_streamjob_rows, totals_streamjob_commits; "
            "CREATE TABLE totals (start bigint, k bigint, n bigint, s bigint, PRIMARY KEY (start, k))"
        )
        self.rows: list[dict[str, object]] = []
        self.index: CheckpointRecord | None = None  # the newest record in it
        self._driver: LocalDriver | None = None

    def produce(self, minutes: int) -> None:
        """Four readings a minute."""
        first = len(self.rows) // 4
        fresh = [
            {"t": at(m), "k": k, "v": 10 * m + k} for m in range(first, first + minutes) for k in range(4)
        ]
        self.rows += fresh
        frame = self.spark.createDataFrame([(json.dumps(row),) for row in fresh], "value string")
        frame.write.format("kafka").option("kafka.bootstrap.servers", self.kafka.address).option(
            "topic", "readings"
        ).save()

    def start(
        self, monkeypatch: pytest.MonkeyPatch, kill: str = "", asked: TerminationRequest | None = None
    ) -> LocalDriver:
        """The next epoch, as the controller would start it; with the termination that an earlier one was
        asked for.
        """
        monkeypatch.setenv("KILL", kill)
        arguments = (self.kafka.address, str(self.home), self.server.url)
        if self._driver is None:
            self._driver = LocalDriver(self.home, APP, *arguments, answers=False, **CONFIG)
            return self._driver
        before, self._driver.record = self._driver, self.index
        exact = (
            self.index is not None and self.index.scenario is not None and self.index.epoch == before.epoch
        )
        self._driver = before.next_epoch(APP, *arguments, exact=exact, termination=asked, **CONFIG)
        return self._driver

    def play(self, driver: LocalDriver) -> None:
        """The controller's part, until the driver is gone: each durable checkpoint goes into the index."""
        version = -1
        while driver.process.poll() is None:
            try:
                status = driver.status(version, timeout=1)
                version = status.version
                if status.completed is not None and status.completed != self.index:
                    self.index = status.completed
                    driver.complete(self.index.checkpoint)
            except (OSError, http.client.HTTPException):
                continue

    def clean(self) -> int:
        """Readings that have come through the first stage."""
        if not (self.home / "clean" / "_spark_metadata").exists():
            return 0
        return self.spark.read.schema(SCHEMA).json(str(self.home / "clean")).count()

    def visible(self) -> list[list[tuple[int, ...]]]:
        table = self.server.sql("SELECT start, k, n, s FROM totals")
        files = self.spark.read.parquet(str(self.home / "hours")).select("start", "s").collect()
        return [sorted(tuple(map(int, row)) for row in table), sorted(tuple(r) for r in files)]

    def batch(self) -> list[list[tuple[int, ...]]]:
        rows = self.spark.createDataFrame([(json.dumps(r),) for r in self.rows], "j string")
        rows = rows.selectExpr(f"from_json(j, '{SCHEMA}') AS r").select("r.*")
        return [sorted(tuple(r) for r in made.collect()) for made in (totals(rows), hours(rows))]


def committed_batches(status: DriverStatus) -> bool:
    endless = [g for g in status.stages if g.uid != "hours"]  # which may have found nothing yet
    return len(endless) == 2 and all((t.batch or 0) >= 1 for g in endless for t in g.tasks)


def test_row1_to_row12_the_output_is_that_of_the_batch_wherever_the_driver_dies(
    spark: SparkSession, tmp_path: Path, kafka: Kafka, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(spark, tmp_path, kafka, postgres)
    (tmp_path / "clean").mkdir()
    points = []

    def dies(kill: str, asked: TerminationRequest | None = None) -> None:
        with job.start(monkeypatch, kill, asked) as driver:
            job.play(driver)
            expected = 1 if kill.startswith("throw") else -signal.SIGKILL
            assert driver.process.returncode == expected, f"{kill}: {driver.tail()}"
        points.append(kill)

    # While it runs: D4, D6, a commit that is cut off
    for kill in ("in batch", "after AnnounceCheckpoint 2", "before NotifyComplete"):
        job.produce(60)
        dies(kill)
    # A stop: D5, then whole
    stop = TerminationRequest("stop", 4, Mode.STOP, (tmp_path / "savepoints" / "stop").as_uri())
    dies("after StopAtBoundary", stop)
    with job.start(monkeypatch, asked=stop) as driver:
        job.play(driver)
        assert driver.process.returncode == 0, driver.tail()
    assert job.index is not None
    assert (job.index.savepoint, job.index.drained) == (stop.savepoint, False)
    # Resumed: all that is to come is read; D8 and D10. Then a drain, in which each epoch dies a step later:
    # D1, D9, D2, D3 and D7
    job.produce(60)
    with job.start(monkeypatch) as driver:
        driver.wait_for(committed_batches)
        eventually(lambda: job.clean() == len(job.rows), "all readings in files")
        driver.process.send_signal(signal.SIGTERM)
        driver.kill()  # no grace at all
        points.append("SIGTERM")
    drain = TerminationRequest("drain", 7, Mode.DRAIN, (tmp_path / "savepoints" / "drain").as_uri())
    for kill in DRAIN:
        dies(kill, drain)
    # The final checkpoint: durable, and in the index, and not committed (D12: all stages of it are finished)
    dies("after StoreCheckpoint", drain)
    dies("before Close", drain)
    if (
        not job.index.drained or job.index.uncommitted
    ):  # else it is over, and the controller starts nothing more
        with job.start(monkeypatch, asked=drain) as driver:
            job.play(driver)
            assert driver.process.returncode == 0, driver.tail()
    assert len(points) == 11
    assert job.index.drained
    for seen, expected in zip(job.visible(), job.batch(), strict=True):
        assert (len(seen), set(seen) ^ set(expected)) == (len(expected), set())
    assert postgres.sql("SELECT gid FROM pg_prepared_xacts") == []
