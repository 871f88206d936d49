"""From topic to topic, with the connector that fits this Spark: what a stop, a kill and a drain leave."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dev.broker import CONNECTORS, LINE, Kafka
from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode

APP = Path(__file__).parent / "apps" / "topics.py"
CONF = {"spark.jars": CONNECTORS}
BATCH = 20  # rows


def rows_read(home: Path) -> int:
    """The rows of the topic up to the last position in the query's offset log."""
    log = home / "checkpoints" / "copy" / "0" / "offsets"
    newest = max((f for f in log.iterdir() if f.name.isdigit()), key=lambda f: int(f.name))
    line = newest.read_text().splitlines()[-1]
    (partitions,) = json.loads(line[line.index("{") :]).values()
    return sum(partitions.values())


@pytest.mark.slow
def test_none_is_lost_and_only_a_kill_repeats_a_batch(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    source, target = f"source-{LINE}", f"target-{LINE}"
    brokers = {"kafka.bootstrap.servers": kafka.address}

    def produce(first: int, count: int) -> None:
        rows = spark.range(first, first + count, 1, 1).selectExpr("cast(id as string) value")
        rows.write.format("kafka").options(**brokers, topic=source).save()

    def copied() -> Counter[int]:
        read = spark.read.format("kafka").options(**brokers, subscribe=target).load()
        return Counter(int(row.v) for row in read.selectExpr("cast(value as string) v").collect())

    produce(0, 300)
    arguments = (kafka.address, source, target)
    with LocalDriver(tmp_path, APP, *arguments, spark_conf=CONF) as first:
        first.running(1)
        stopped = first.finish(Mode.STOP)
    (task,) = stopped.stages[0].tasks
    assert task.batch is not None
    after_stop = copied()
    assert after_stop.total() == len(after_stop) == rows_read(tmp_path), "a stop repeats nothing"
    with first.next_epoch(APP, *arguments, spark_conf=CONF) as second:
        second.running(task.batch + 3)
        produce(300, 100)
        second.kill()
    with second.next_epoch(APP, *arguments, spark_conf=CONF, exact=False) as third:
        third.running(task.batch + 4)
        assert third.finish(Mode.DRAIN).drained
    found = copied()
    assert len(found) == rows_read(tmp_path), "the sink loses nothing"
    twice = [value for value, times in found.items() if times > 1]
    assert len(twice) <= BATCH, "only the batch that the kill has interrupted comes again"
    assert max(found.values()) <= 2
