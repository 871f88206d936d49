"""Rounds of a script with availableNow: each ends by itself and keeps its windows, the last one drains."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from dev.broker import CONNECTORS, LINE, Kafka
from dev.localdriver import LocalDriver
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_status import DriverStatus

from .apps import rounds
from .job import APP, Feed
from .terminal import Terminal, index

pytestmark = pytest.mark.any_spark


def start(state: Path, *options: str, feed: Feed) -> Terminal:
    return Terminal(state, APP, *options, arguments=feed.arguments("available-now"))


def test_windows_span_rounds_and_a_kill(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """The windows of five minutes get rows from two rounds: each has four minutes of input, or six."""
    state = tmp_path / "state"
    commits = state / "checkpoints" / "main" / "0" / "commits"
    feed.add(4)
    code, shown = start(state, "--round", feed=feed).ended()
    assert code == 0, shown
    assert "the next start resumes from it" in shown
    first = index(state).latest
    assert first is not None
    assert (first.scenario, first.savepoint, first.stages[0].exhausted) == (Scenario.STOP, None, True)
    assert feed.output(spark) == []

    feed.add(6)
    killed = start(state, "--round", feed=feed)
    with killed:
        last = max(int(f.name) for f in commits.iterdir() if f.name.isdigit())
        killed.running(last + 2)
        os.killpg(killed.process.pid, signal.SIGKILL)
        assert killed.process.wait() == -signal.SIGKILL
    code, shown = start(state, "--round", feed=feed).ended()
    assert code == 0, shown

    feed.add(20)
    code, shown = start(state, "--round", feed=feed).ended()
    assert code == 0, shown
    so_far, expected = feed.output(spark), feed.expected(spark)
    assert so_far, "the watermark has passed the first windows"
    assert so_far == expected[: len(so_far)]
    assert len(so_far) < len(expected)

    code, shown = start(state, "--round", "--drain", feed=feed).ended()
    assert code == 0, shown
    assert "drained, nothing is left to resume" in shown
    assert feed.output(spark) == expected


ROUNDS = int(os.environ.get("STREAMJOB_ROUNDS", "200"))
SCRIPT = Path(rounds.__file__)
CONF = {"spark.jars": CONNECTORS, "spark.master": "local[1]", "spark.sql.shuffle.partitions": "1"}
MOMENTS = ("a query runs", "files has committed", "kafka has committed", "all has ended", "it is durable")


def batch_of(status: DriverStatus, uid: str) -> int:
    found = [t.batch for s in status.stages if s.uid == uid for t in s.tasks]
    return -1 if not found or found[0] is None else found[0]


def wait_for(moment: str, driver: LocalDriver, before: DriverStatus | None) -> None:
    """In a round, with what was committed before it."""
    known = {uid: batch_of(before, uid) if before else -1 for uid in ("files", "kafka")}
    if moment == "a query runs":
        driver.wait_for(lambda s: bool(s.stages))
    elif moment == "it is durable":
        driver.wait_for(lambda s: s.completed is not None and s.completed.scenario is not None)
    elif moment == "all has ended":
        driver.wait_for(lambda s: all(batch_of(s, uid) > known[uid] for uid in known))
    else:
        uid = moment.split(maxsplit=1)[0]
        driver.wait_for(lambda s: batch_of(s, uid) > known[uid])


@pytest.mark.slow
def test_many_rounds_with_a_kill_in_every_fifth(
    spark: SparkSession, kafka: Kafka, feed: Feed, tmp_path: Path
) -> None:
    """Windows span rounds. Each fifth round is killed, at another moment each time, and begins again."""
    home, topic = feed.source.parent, f"rounds-{LINE}"
    arguments = (str(home), kafka.address, topic)
    conf: dict[str, Any] = {"spark_conf": CONF, "round": True}
    driver: LocalDriver | None = None
    last: DriverStatus | None = None
    for n in range(ROUNDS):
        feed.add(2)
        newest = spark.read.text([str(feed.source / f"{i:04}.json") for i in (2 * n, 2 * n + 1)])
        to = newest.write.format("kafka").option("kafka.bootstrap.servers", kafka.address)
        to.option("topic", topic).save()
        kills = n % 5 == 4
        start = driver.next_epoch if driver is not None else None
        new = {**conf, "answers": not kills}
        driver = (
            start(SCRIPT, *arguments, **new) if start else LocalDriver(tmp_path, SCRIPT, *arguments, **new)
        )
        if kills:
            with driver:
                wait_for(MOMENTS[n // 5 % len(MOMENTS)], driver, last)
                driver.kill()
            driver = driver.next_epoch(SCRIPT, *arguments, exact=False, **{**conf, "answers": True})
        with driver:
            record = driver.finish()
        assert (record.scenario, record.request_id, record.savepoint) == (Scenario.STOP, None, None)
        last = driver.report()
    assert driver is not None
    with driver.next_epoch(SCRIPT, *arguments, **conf) as drains:
        assert drains.finish(Mode.DRAIN).drained
    for name in ("files", "kafka"):
        assert rows_of(spark.read.parquet(str(home / name))) == rows_of(
            rounds.windows(spark.read.schema(rounds.SCHEMA).json(str(feed.source)))
        )


def rows_of(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(r) for r in frame.select("window.start", "k", "n", "s").collect())
