"""Rows that would be lost in silence: the query is refused, or the person is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streamjob.protocol.messages.commands import Mode
from streamjob.runtime.spark.internals import Internals
from streamjob.runtime.spark.max_watermark.batch import beyond_the_end
from streamjob.storage.hadoop import HadoopFiles

from .apps.states import Source
from .scripts import Script, await_batch, said
from .test_drain import Job

REFUSED = """
def refused(start):
    try:
        start().awaitTermination()
    except Exception as e:
        say(type(e).__name__, getattr(e, "reason", ""))

rows = read("in").select("v")
now = {"availableNow": True}
rows.writeStream.queryName("a").trigger(**now).foreachBatch(
    lambda frame, batch: frame.write.mode("append").json(f"{home}/out")).start().awaitTermination()
refused(lambda: start("b", rows, now, folder="out"))

def ingest(table):
    late = windows(read("in")).writeStream.queryName("ingest").option("checkpointLocation", f"{home}/{table}")
    return late.trigger(**now).format("json").start(f"{home}/tables/{table}")

def counted(key):
    written = read("in").where(F.col("k") == key).writeStream.queryName("counted")
    return written.trigger(**now).foreachBatch(lambda frame, batch: frame.count()).start()

counted("a").awaitTermination()
counted("b").awaitTermination()
ingest("x").awaitTermination()
refused(lambda: ingest("y"))

counts = read("in").groupBy("k").count().writeStream.queryName("c").outputMode("complete").trigger(**now)
refused(lambda: counts.format("json").start(f"{home}/old"))
say("old", spark.read.json(f"{home}/old").count())
"""


def test_what_would_hide_rows_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """A file sink where a function has written; one name for two queries; what Spark refuses."""
    script = Script(tmp_path, REFUSED)
    script.feed.minutes(0, 3)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "before.json").write_text('{"k": "x", "count": 1}\n')
    with script.driver() as driver:
        assert driver.wait() == 0, driver.tail()
    assert said(driver.log) == [
        "SinkShared SinkShared",
        "QueryChanged QueryChanged",
        "AnalysisException ",
        "old 1",
    ]
    assert [w.reason for w in driver.report().warnings] == ["QueryRedefined"]
    assert not (tmp_path / "out" / "_spark_metadata").exists()
    assert not (tmp_path / "y" / "offsets").exists()


def test_windows_that_end_after_the_end_of_time_are_told(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path
) -> None:
    def query(source: Source) -> DataFrame:
        last = source("a").withColumn("t", F.timestamp_seconds(F.lit(253402300799)))
        return last.withWatermark("t", "1 minute").groupBy(F.window("t", "1 day")).count().select("count")

    job = Job(spark, files, tmp_path, query)
    job.run()
    drained = job.drain(internals)
    assert drained is not None
    assert drained.windows_left == 1
    problem = beyond_the_end("main", drained)
    assert problem is not None
    assert problem.reason == "WindowsLeft"


@pytest.mark.slow
def test_a_query_whose_session_the_script_has_ended_is_not_flushed_and_this_is_told(tmp_path: Path) -> None:
    script = Script(
        tmp_path,
        """
        for name in ("x", "y"):
            spark = SparkSession.builder.getOrCreate()
            start(name, windows(read("in")), {"availableNow": True}).awaitTermination()
            spark.stop()
        """,
    )
    script.feed.minutes(0, 12)
    with script.driver() as driver:
        assert driver.wait() == 0, driver.tail()
        told = [(w.reason, "'x'" in w.message) for w in driver.report().warnings]
    assert told == [("SessionStopped", True)]


@pytest.mark.slow
def test_a_function_that_writes_for_the_first_time_when_its_reader_has_been_flushed_is_told(
    tmp_path: Path,
) -> None:
    script = Script(
        tmp_path,
        """
        Path(home, "between").mkdir(exist_ok=True)

        def write(frame, batch):
            if not frame.isEmpty():
                frame.write.mode("append").json(f"{home}/between")

        late = windows(read("in")).select(F.col("start").alias("t"), F.lit("a").alias("k"), "v")
        late.writeStream.queryName("a").trigger(**OFTEN).foreachBatch(write).start()
        start("b", windows(read("between")))
        spark.streams.awaitAnyTermination()
        """,
    )
    script.feed.minutes(0, 2)
    with script.driver() as driver:
        await_batch(driver, "a", 0)
        driver.finish(Mode.DRAIN)
        found = [w for w in driver.report().warnings if w.reason == "EdgeTooLate"]
    assert len(found) == 1
    assert "'b' has been flushed" in found[0].message
    assert "job.edge('a', 'b')" in found[0].remedy
