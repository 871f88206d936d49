"""Transactional sinks in a job: what a reader sees is the completed checkpoints, whatever
the driver dies of.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dev.broker import JDBC
from dev.localdriver import LocalDriver
from dev.postgres import Postgres
from streamjob.protocol.formats.records import CheckpointRecord, JobRef
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import CheckpointSettings, Restore
from streamjob.protocol.messages.driver_status import DriverStatus
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.runtime.spark.offset_log import Offsets
from streamjob.storage.hadoop import HadoopFiles

from .apps.windows import SCHEMA, windows
from .feeds import eventually
from .job import Feed

pytestmark = [pytest.mark.any_spark, pytest.mark.timeout(1500)]
APP = Path(__file__).parent / "apps" / "sinks.py"
OFTEN = CheckpointSettings(interval=1.0)
Row = tuple[int, str, int, int]


class Job:
    """Its epochs, and what readers of its two sinks see."""

    def __init__(
        self, spark: SparkSession, feed: Feed, home: Path, server: Postgres, table: str = "windows"
    ) -> None:
        self.spark, self.feed, self.home, self.server, self.table = spark, feed, home, server, table
        server.sql(
            f"DROP TABLE IF EXISTS {table}, {table}_streamjob_rows, {table}_streamjob_commits; "
            f"CREATE TABLE {table} (start bigint, k text, n bigint, s bigint, PRIMARY KEY (start, k))"
        )
        self._arguments = (str(feed.source), str(home), server.url)
        self._conf = {"spark.jars": JDBC}
        self._driver: LocalDriver | None = None

    def start(
        self, monkeypatch: pytest.MonkeyPatch, latest: CheckpointRecord | None = None, kill: str = ""
    ) -> LocalDriver:
        """The next epoch, that knows `latest` as the controller's index would."""
        monkeypatch.setenv("KILL", kill)
        config: dict[str, Any] = {"spark_conf": self._conf, "checkpointing": OFTEN}
        if self._driver is None:
            self._driver = LocalDriver(self.home, APP, *self._arguments, answers=False, **config)
        else:
            self._driver.record = latest
            exact = latest is not None and latest.scenario is not None
            self._driver = self._driver.next_epoch(APP, *self._arguments, exact=exact, **config)
        return self._driver

    def seen(self) -> list[list[Row]]:
        """Rows that are visible in each sink."""
        files: list[Row] = []
        if (self.home / "files" / "_spark_metadata").exists():
            # Its log may have no file yet, from which Spark could learn the schema.
            read = self.spark.read.schema("start long, k string, n long, s long")
            files = [tuple(r) for r in read.parquet(str(self.home / "files")).collect()]
        rows = self.server.sql(f"SELECT start, k, n, s FROM {self.table}")
        return [sorted(files), sorted((int(a), k, int(n), int(s)) for a, k, n, s in rows)]

    def due(self, record: CheckpointRecord) -> list[list[Row]]:
        """What has come out of each query's batches up to the record's: windows that end before that batch's
        watermark.
        """
        files = HadoopFiles(self.spark)
        found = []
        for stage in record.stages:
            (task,) = stage.tasks
            assert task.batch is not None
            entry = CheckpointDir(files, task.location).entry(task.batch)
            read = sorted(self.feed.source.glob("*.json"))[: self.read_up_to(entry.offsets) + 1]
            closed = entry.watermark / 1000
            found.append([row for row in self.rows(read) if row[0] + 300 <= closed])
        return found

    def has_read(self, number: int) -> bool:
        """So many files, and committed what it made of them."""
        for name in ("files", "table"):
            directory = CheckpointDir(HadoopFiles(self.spark), f"{self.home.as_uri()}/checkpoints/{name}/0")
            batch = directory.latest_commit()
            if batch is None or self.read_up_to(directory.source_offsets(batch)) + 1 < number:
                return False
        return True

    def read_up_to(self, offsets: Offsets) -> int:
        (position,) = offsets.values()
        return int(json.loads(position or "")["logOffset"])

    def rows(self, files: list[Path]) -> list[Row]:
        frame = windows(self.spark.read.schema(SCHEMA).json([str(f) for f in files]))
        return sorted(
            tuple(r) for r in frame.selectExpr("unix_seconds(window.start)", "k", "n", "s").collect()
        )


def periodic(after: int = 0, batch: int = 17):  # type: ignore[no-untyped-def]
    def reached(status: DriverStatus) -> bool:
        c = status.completed
        return (
            c is not None and c.checkpoint > after and all((s.tasks[0].batch or 0) >= batch for s in c.stages)
        )

    return reached


def committed(batch: int):  # type: ignore[no-untyped-def]
    """Both queries have."""
    return lambda status: (
        [t.batch is not None and t.batch >= batch for s in status.stages for t in s.tasks] == [True] * 2
    )


def complete_and_die(driver: LocalDriver, record: CheckpointRecord) -> None:
    with contextlib.suppress(http.client.HTTPException, OSError):  # it dies before it answers, or after
        driver.complete(record.checkpoint)
    assert driver.wait() == -signal.SIGKILL


@pytest.mark.slow
def test_row5_what_is_visible_is_what_has_completed(
    spark: SparkSession, feed: Feed, tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(spark, feed, tmp_path, postgres)
    feed.add(20)
    with job.start(monkeypatch, kill="before NotifyComplete 3") as first:
        one = first.wait_for(periodic()).completed
        assert one is not None
        assert one.uncommitted
        assert job.seen() == [[], []], "it is durable, and not yet in the index"
        first.complete(one.checkpoint)
        eventually(lambda: job.seen() == job.due(one), "the rows of the first checkpoint")
        assert all(job.due(one))
        feed.add(10)
        two = first.wait_for(periodic(one.checkpoint, 27)).completed
        assert two is not None
        complete_and_die(first, two)  # SIGKILL between the index and the commit, of one sink or of both
    with job.start(monkeypatch, latest=two, kill="before AnnounceCheckpoint") as second:
        assert second.wait() == -signal.SIGKILL  # between the pre-commit and the index
    assert job.seen() == job.due(two), "the second checkpoint is committed, and no later one"
    feed.add(4)
    with job.start(monkeypatch, latest=two, kill="before NotifyComplete") as third:
        third.wait_for(committed(30))
        third.terminate(Mode.STOP, "first")
        stopped = third.wait_for(
            lambda s: s.completed is not None and s.completed.savepoint is not None
        ).completed
        assert stopped is not None
        complete_and_die(third, stopped)  # in the index, not committed
    with job.start(monkeypatch, latest=stopped) as fourth:
        eventually(lambda: job.seen() == job.due(stopped), "what the stop had left to commit")
        feed.add(3)
        eventually(lambda: job.has_read(37), "all is read")
        drained = fourth.finish(Mode.DRAIN)
    everything = job.rows(sorted(feed.source.glob("*.json")))
    assert job.seen() == [everything, everything]
    assert drained.drained
    assert postgres.sql("SELECT gid FROM pg_prepared_xacts") == []
    assert postgres.sql("SELECT count(*) FROM windows_streamjob_rows") == [["0"]]


@pytest.mark.slow
def test_r9_r10_a_fork_goes_on_from_a_savepoint_in_another_place(
    spark: SparkSession, feed: Feed, tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The savepoint lists what its sinks had pre-committed; the job itself has committed that where it wrote
    it.
    """
    job = Job(spark, feed, tmp_path, postgres)
    feed.add(20)
    with job.start(monkeypatch) as first:
        first.wait_for(committed(17))
        stopped = first.finish(Mode.STOP)
    assert stopped.uncommitted
    assert stopped.savepoint is not None
    before = job.seen()
    assert before == job.due(stopped)
    assert all(before)
    feed.add(3)
    fork = Job(spark, feed, tmp_path / "fork", postgres, "windows_fork")
    arguments = (str(feed.source), str(fork.home), postgres.url, "windows_fork")
    conf: dict[str, Any] = {"spark_conf": {"spark.jars": JDBC}, "checkpointing": OFTEN}
    restore = Restore(savepoint=stopped.savepoint)
    other = JobRef("default", "fork", "00000000-0000-0000-0000-000000000002")
    with LocalDriver(fork.home, APP, *arguments, job=other, restore=restore, **conf) as driver:
        early = driver.wait_for(lambda s: s.completed is not None).completed
        assert early is not None
        driver.complete(early.checkpoint)
        eventually(lambda: fork.has_read(23), "all is read")
        assert driver.finish(Mode.DRAIN).drained
    everything = job.rows(sorted(feed.source.glob("*.json")))
    assert [sorted(a + b) for a, b in zip(before, fork.seen(), strict=True)] == [everything, everything]
    assert job.seen() == before
    assert postgres.sql("SELECT gid FROM pg_prepared_xacts") == []
