"""A stage is flushed when nothing is left in its sources, whatever ends its runs by themselves."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dev.broker import CONNECTORS, LINE, Kafka
from dev.tables import formats
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode

from .feeds import Feed
from .lakes import settings
from .scripts import Script, await_batch, await_read, await_said, latest, said

ONCE = """
def write(frame, batch):
    if not Path(f"{home}/continue").exists():
        say("in batch", batch)
        time.sleep(600)
    frame.write.mode("overwrite").json(f"{home}/out/{batch:05}")


query = windows(read("in")).writeStream.queryName("sums").foreachBatch(write).trigger(once=True).start()
query.awaitTermination()
say("the end after batch", query.lastProgress["batchId"])
"""


def test_row1_once_behind_the_batch_of_a_killed_driver_reads_what_has_come_since(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark runs only that batch."""
    script = Script(tmp_path, ONCE)
    script.feed.minutes(0, 30)
    with script.driver() as first:
        await_said(first, "in batch 0")
        first.kill()
    script.feed.minutes(30, 60)
    (tmp_path / "continue").touch()
    with script.next(first) as second:
        record = second.finish()
    assert "the end after batch 0" in said(second.log), "as under Spark"
    assert (record.drained, record.scenario) == (True, Scenario.END_OF_INPUT)
    assert script.values(spark, "out") == script.windows(spark)


PORTIONS = """
import sqlite3
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from streamjob import job

PORTION, endless = 20, "endless" in sys.argv


class Table(DataSource):
    @classmethod
    def name(cls):
        return "table"

    def schema(self):
        return "v long, position long"

    def simpleStreamReader(self, schema):
        return Reader()


class Reader(SimpleDataSourceStreamReader):
    def initialOffset(self):
        return {"id": 0, "asked": 0}

    def read(self, start):
        with sqlite3.connect(f"{home}/db") as db:
            query = "select v, id from t where id > ? order by id limit ?"
            found = db.execute(query, (start["id"], PORTION)).fetchall()
        end = {"id": found[-1][1] if found else start["id"], "asked": start["asked"] + endless}
        return iter(found), end

    def readBetweenOffsets(self, start, end):
        with sqlite3.connect(f"{home}/db") as db:
            query = "select v, id from t where id > ? and id <= ? order by id"
            return iter(db.execute(query, (start["id"], end["id"])).fetchall())

    def commit(self, end):
        pass


def insert(frame, batch):
    with sqlite3.connect(f"{home}/db") as db:
        db.executemany("insert into t (v) values (?)", [(row.v,) for row in frame.collect()])
    say("inserted", batch)


Path(f"{home}/copy").mkdir(exist_ok=True)
spark.dataSource.register(Table)
job.edge("fill", "copy")
read("in", 100).writeStream.queryName("fill").foreachBatch(insert).trigger(**OFTEN).start()
start("copy", spark.readStream.format("table").load().select("v"), {"processingTime": "1 hour"})
start("after", spark.readStream.schema("v long").json(f"{home}/copy"))
say("all started")
spark.streams.awaitAnyTermination()
"""


def values(home: Path) -> Counter[int]:
    return Counter(json.loads(line)["v"] for f in home.glob("part-*") for line in f.read_text().splitlines())


def filled(script: Script) -> None:
    with sqlite3.connect(script.home / "db") as db:
        db.execute("create table t (id integer primary key autoincrement, v integer)")
    script.feed.minutes(0, 70)


@pytest.mark.skipif(LINE == "3.5", reason="no sources in Python")
@pytest.mark.slow
def test_row4_a_source_in_python_that_reads_in_portions_is_asked_until_nothing_is_left(
    tmp_path: Path,
) -> None:
    script = Script(tmp_path, PORTIONS)
    filled(script)
    with script.driver() as driver:
        await_said(driver, "inserted 0")
        await_said(driver, "all started")
        assert driver.finish(Mode.DRAIN).drained
    with sqlite3.connect(tmp_path / "db") as db:
        held = Counter(v for (v,) in db.execute("select v from t"))
    assert held.total() > 2 * 20, "more than two portions"
    assert values(tmp_path / "copy") == values(tmp_path / "after") == held


@pytest.mark.slow
@pytest.mark.skipif(LINE == "3.5", reason="no sources in Python")
def test_row4_what_may_be_left_is_stopped_instead_of_flushed(tmp_path: Path) -> None:
    """The position of the source moves whenever it is asked."""
    script = Script(tmp_path, PORTIONS)
    filled(script)
    with script.driver("endless") as driver:
        await_said(driver, "inserted 0")
        await_said(driver, "all started")
        record = driver.finish(Mode.DRAIN)
        warned = {w.reason for w in driver.report().warnings}
    assert record.scenario is Scenario.STOP
    assert {s.uid: s.finished for s in record.stages} == {"fill": True, "copy": False, "after": False}
    assert "EndOfInputUnknown" in warned
    log = driver.log.read_text()
    assert "stage copy is stopped instead of flushed: whether it has read all of fill cannot" in log


MINIMUM = """
options = {"kafka.bootstrap.servers": sys.argv[2], "subscribe": sys.argv[3], "startingOffsets": "earliest",
           "minOffsetsPerTrigger": 100, "maxOffsetsPerTrigger": 100, "maxTriggerDelay": "15m"}
topic = spark.readStream.format("kafka").options(**options).load()
rows = topic.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("r")).select("r.*")
query = start("sums", windows(rows), {"availableNow": True})
query.awaitTermination()
say("rows", sum(p["numInputRows"] for p in query.recentProgress))
"""


@pytest.mark.slow
def test_row1_less_than_kafkas_minimum_is_read_before_the_end(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    topic = "minimum"
    stamps = "cast(timestamp'2026-01-01 10:00:00' + make_interval(0, 0, 0, 0, 0, 0, id) as string)"
    rows = spark.range(0, 250, 1, 1).selectExpr(f"to_json(struct({stamps} t, 'k' k, id v)) value")
    rows.write.format("kafka").options(**{"kafka.bootstrap.servers": kafka.address}, topic=topic).save()
    script = Script(tmp_path, MINIMUM)
    with script.driver(kafka.address, topic, spark_conf={"spark.jars": CONNECTORS}) as driver:
        assert driver.finish().drained
    assert "rows 200" in said(driver.log), "as under Spark"
    assert sum(script.values(spark, "sums")) == sum(range(250))


PIPE = """
brokers = {"kafka.bootstrap.servers": sys.argv[2]}
values = read("in", 100).select(F.to_json(F.struct("t", "k", "v")).alias("value"))
produce = values.writeStream.queryName("produce").format("kafka").options(**brokers, topic=sys.argv[3])
options = {**brokers, "subscribe": sys.argv[3], "startingOffsets": "earliest",
           "minOffsetsPerTrigger": 100, "maxOffsetsPerTrigger": 100, "maxTriggerDelay": "15m"}
topic = spark.readStream.format("kafka").options(**options).load()
rows = topic.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("r")).select("r.*")
start("sums", windows(rows), {"processingTime": "1 hour"})
produce.trigger(**OFTEN).start()
spark.streams.awaitAnyTermination()
"""


@pytest.mark.slow
def test_row4_less_than_kafkas_minimum_is_read_in_a_drain(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    brokers = {"kafka.bootstrap.servers": kafka.address}
    spark.range(1).selectExpr("'' value").write.format("kafka").options(**brokers, topic="pipe").save()
    script = Script(tmp_path, PIPE)
    with script.driver(kafka.address, "pipe", spark_conf={"spark.jars": CONNECTORS}) as driver:
        driver.wait_for(lambda s: len(s.stages) == 2)
        script.feed.minutes(0, 250)
        await_batch(driver, "produce", 0)
        assert driver.finish(Mode.DRAIN).drained
    assert script.values(spark, "sums") == script.windows(spark)


CHECKED = """
query = start("sums", windows(read("in", 100)), {"availableNow": True})
query.awaitTermination()
say("the end")
"""


@pytest.mark.slow
def test_row1_files_that_a_run_has_read_are_not_asked_for_again(spark: SparkSession, tmp_path: Path) -> None:
    """The check costs no run: the only other one is the max watermark's."""
    script = Script(tmp_path, CHECKED)
    script.feed.minutes(0, 30)
    with script.driver() as driver:
        assert driver.finish().drained
    assert "has processed all" not in driver.log.read_text()
    assert script.values(spark, "sums") == script.windows(spark)
    assert latest(tmp_path, "sums") >= 1


TABLES = """
for form in sys.argv[2:]:
    name = "`ice-lake`.db.t" if form == "iceberg" else f"delta.`{home}/t`"
    spark.sql(f"CREATE TABLE {name} ({SCHEMA}) USING {form}")
    for number in range(2):
        spark.read.schema(SCHEMA).json(f"{home}/before/0000{number}.json").writeTo(name).append()
    source = spark.readStream.format(form).load(name if form == "iceberg" else f"{home}/t")
    await_batch(start(f"sums-{form}", windows(source), {"processingTime": "1 hour"}))
    if form == "iceberg":  # the one at which the reader began; that of its position stays
        expire = "older_than => TIMESTAMP '2099-01-01 00:00:00', retain_last => 1"
        spark.sql(f"CALL `ice-lake`.system.expire_snapshots(table => 'db.t', {expire})")
    fill = read("in").writeStream.queryName(f"fill-{form}").format(form).trigger(**OFTEN)
    fill.toTable(name) if form == "iceberg" else fill.start(f"{home}/t")
spark.streams.awaitAnyTermination()
"""


@pytest.mark.skipif(not formats(), reason="no format exists for this Spark")
@pytest.mark.slow
def test_row4_tables_that_a_drain_has_filled_are_read_to_their_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Iceberg refuses availableNow as soon as the snapshot has expired at which the reader once began."""
    script = Script(tmp_path, TABLES)
    before = Feed(tmp_path / "before")
    before.minutes(0, 2)
    before.minutes(2, 4)
    with script.driver(*formats(), spark_conf=settings(tmp_path)) as driver:
        driver.wait_for(lambda s: len(s.stages) == 2 * len(formats()))
        for minute in range(4, 60, 8):
            script.feed.minutes(minute, minute + 8)
        for form in formats():
            await_read(driver, f"fill-{form}", tmp_path / "in")
        assert driver.finish(Mode.DRAIN).drained
    expected = script.windows(spark, "before", "in")
    for form in formats():
        assert script.values(spark, f"sums-{form}") == expected
    refused = "once takes the place of availableNow" in driver.log.read_text()
    assert refused == ("iceberg" in formats())
