"""What a flush brings out is read by the job's other queries in however many batches, and no row is late
(ADR 64); and a flush repeats no result that is out already.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode
from streamjob.runtime.spark.max_watermark.event_time import EventTime

from .feeds import Feed, eventually
from .scripts import Script, await_read, await_said, latest

MINUTES = 100
PARTITIONS = {"spark.sql.shuffle.partitions": "4"}  # of a flush, each a file
UPSTREAM = """
def up(name, folder, how=OFTEN):
    (Path(home) / "mid" / name).mkdir(parents=True, exist_ok=True)
    late = read(folder).withWatermark("t", "60 minutes")
    sums = late.groupBy(F.window("t", "5 minutes")).agg(F.sum("v").alias("v")).select("window.start", "v")
    return start(name, sums, how, "mid/" + name)


def down(*names):
    reader = spark.readStream.schema("start timestamp, v long").option("maxFilesPerTrigger", 1)
    rows = reader.json(f"{home}/mid/{names[0]}")
    for name in names[1:]:
        rows = rows.union(reader.json(f"{home}/mid/{name}"))
    late = rows.withWatermark("start", "10 minutes")
    sums = late.groupBy(F.window("start", "10 minutes")).agg(F.sum("v").alias("v"))
    return start("down", sums.select("window.start", "v"), folder="out")
"""
LIVE = """
up("a", "in")
down("a")
spark.streams.awaitAnyTermination()
"""


def script(tmp_path: Path, text: str) -> Script:
    made = Script(tmp_path, UPSTREAM + dedent(text))
    for minute in range(0, MINUTES, 5):
        made.feed.minutes(minute, minute + 5)
    return made


def sums(times: int = 1) -> list[int]:
    """Of ten minutes each."""
    return [times * sum(range(m, m + 10)) for m in range(0, MINUTES, 10)]


def written(folder: Path) -> list[int]:
    """`v` of the rows in the files that the sink's log names."""
    names = set()
    for entry in (folder / "_spark_metadata").glob("[!.]*"):
        names |= {json.loads(line)["path"].rpartition("/")[2] for line in entry.read_text().splitlines()[1:]}
    return sorted(
        json.loads(line)["v"] for name in names for line in (folder / name).read_text().splitlines()
    )


def await_all_read(driver: LocalDriver, *uids: str) -> None:
    for uid, folder in zip(uids, ("in", "more"), strict=False):
        await_read(driver, uid, driver.home / folder)


def test_what_a_drain_flushes_is_read_in_pieces_and_nothing_is_late(tmp_path: Path) -> None:
    """Each file of the flush is a batch of the reader, and has windows from the whole last hour."""
    job = script(tmp_path, LIVE)
    with job.driver(spark_conf=PARTITIONS) as driver:
        await_all_read(driver, "a")
        assert driver.finish(Mode.DRAIN).drained
    assert latest(tmp_path, "down") >= 4  # it did read it in pieces
    assert written(tmp_path / "out") == sums()


@pytest.mark.slow
def test_the_next_driver_reads_on_with_the_same_watermark(tmp_path: Path) -> None:
    """The one that has flushed the upstream dies when the reader has read a part of it."""
    job = script(tmp_path, LIVE)
    with job.driver(spark_conf=PARTITIONS) as driver:
        await_all_read(driver, "a")
        before = latest(tmp_path, "down")
        driver.terminate(Mode.DRAIN)
        eventually(lambda: "stage a: max watermark fired" in driver.log.read_text(), "the flush")
        eventually(lambda: latest(tmp_path, "down") > before, "a piece of it is read")
        driver.kill()
    with job.next(driver, spark_conf=PARTITIONS, exact=False) as following:
        assert following.finish(Mode.DRAIN).drained
    assert written(tmp_path / "out") == sums()


@pytest.mark.slow
def test_the_end_of_an_input_is_read_in_pieces_too(tmp_path: Path) -> None:
    job = script(
        tmp_path,
        """
        up("a", "in", {"availableNow": True})
        down("a")
        """,
    )
    with job.driver(spark_conf=PARTITIONS) as driver:
        assert driver.wait() == 0
    assert written(tmp_path / "out") == sums()


@pytest.mark.slow
def test_two_readers_of_one_frame_one_of_them_slow(tmp_path: Path) -> None:
    """They share the delay of the watermark. It stands still until the slow one has been flushed, too."""
    job = script(
        tmp_path,
        """
        up("a", "in")
        reader = spark.readStream.schema("start timestamp, v long").option("maxFilesPerTrigger", 1)
        rows = reader.json(f"{home}/mid/a").withWatermark("start", "10 minutes")
        slowly = F.udf(lambda v: (time.sleep(2 * (v > 200)), v)[1], "long")  # the last hour
        for name, frame in {"down": rows, "slow": rows.withColumn("v", slowly("v"))}.items():
            sums = frame.groupBy(F.window("start", "10 minutes")).agg(F.sum("v").alias("v"))
            start(name, sums.select("window.start", "v"), folder="out-" + name)
        spark.streams.awaitAnyTermination()
        """,
    )
    with job.driver(spark_conf=PARTITIONS) as driver:
        await_all_read(driver, "a")
        assert driver.finish(Mode.DRAIN).drained
    assert written(tmp_path / "out-down") == written(tmp_path / "out-slow") == sums()


@pytest.mark.slow
def test_two_upstreams_one_of_them_slow(tmp_path: Path) -> None:
    job = script(
        tmp_path,
        """
        up("a", "in")
        up("b", "more")
        down("a", "b")
        spark.streams.awaitAnyTermination()
        """,
    )
    more = Feed(tmp_path / "more")
    for minute in range(0, MINUTES, 5):
        more.minutes(minute, minute + 5)
    with job.driver(spark_conf=PARTITIONS) as driver:
        await_all_read(driver, "a", "b")
        assert driver.finish(Mode.DRAIN).drained
    assert written(tmp_path / "out") == sums(2)


REPEATED = {
    "complete": """groupBy("k").agg(F.count("*").alias("v"))""",
    "update": """agg(F.count("*").alias("v"))""",
}


@pytest.mark.parametrize("mode", ["complete", pytest.param("update", marks=pytest.mark.slow)])
def test_a_flush_repeats_no_result(tmp_path: Path, mode: str) -> None:
    """Complete mode has no batch without input in plain Spark, nor has an aggregation without a watermark."""
    job = Script(
        tmp_path,
        f"""
        rows = read("in", 100).{REPEATED[mode]}
        writer = rows.writeStream.queryName("counts").outputMode("{mode}").trigger(availableNow=True)
        writer.foreachBatch(into("out")).start().awaitTermination()
        """,
    )
    job.feed.minutes(0, 12)
    with job.driver() as driver:
        assert driver.wait() == 0
    assert [folder.name for folder in sorted((tmp_path / "out").iterdir())] == ["00000"]


@pytest.mark.parametrize("again", [False, True])
def test_a_watermark_stands_still_until_it_is_released(
    spark: SparkSession, tmp_path: Path, again: bool
) -> None:
    feed = Feed(tmp_path / "in")
    rows = feed.stream(spark).withWatermark("t", "1 minute").groupBy(F.window("t", "1 minute")).count()
    event_time = EventTime(rows._jdf.queryExecution().analyzed(), spark._jvm)
    writer = rows.writeStream.format("noop").outputMode("append")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    def watermark_after(minute: int) -> str:
        feed.minutes(minute, minute + 1)
        query.processAllAvailable()
        progress = query.lastProgress
        assert progress is not None
        return str(progress["eventTime"]["watermark"])[11:16]

    try:
        assert watermark_after(5) == "00:04"
        for _ in range(1 + again):
            event_time.hold("sums")
        event_time.hold("of the same frame")
        assert watermark_after(30) == "00:04"
        for _ in range(1 + again):
            event_time.release("sums")
        assert watermark_after(40) == "00:04"
        event_time.release("of the same frame")
        assert watermark_after(50) == "00:49"
    finally:
        query.stop()


@pytest.mark.parametrize(
    ("frame", "mode", "fires"),
    [
        (
            lambda rows: rows.withWatermark("t", "1 minute").groupBy(F.window("t", "1 minute")).count(),
            "append",
            True,
        ),
        (
            lambda rows: rows.withWatermark("t", "1 minute").groupBy(F.window("t", "1 minute")).count(),
            "complete",
            False,
        ),
        (lambda rows: rows.groupBy().count(), "update", False),
        (lambda rows: rows.withWatermark("t", "1 minute").groupBy().count(), "update", True),
        (lambda rows: rows.groupBy("k").count(), "update", True),
    ],
)
def test_what_has_something_to_fire(
    spark: SparkSession, tmp_path: Path, frame: Callable[..., object], mode: str, fires: bool
) -> None:
    made = frame(Feed(tmp_path / "in").stream(spark))
    plan = made._jdf.queryExecution().analyzed()  # type: ignore[attr-defined]
    assert EventTime(plan, spark._jvm).fires(mode) is fires


@pytest.mark.slow
def test_a_query_that_the_script_has_stopped_is_told_to_be_left(tmp_path: Path) -> None:
    job = script(
        tmp_path,
        """
        up("a", "in")
        reader = down("a")
        await_batch(reader)
        reader.stop()
        say("stopped")
        spark.streams.active[0].awaitTermination()
        """,
    )
    with job.driver(spark_conf=PARTITIONS) as driver:
        await_said(driver, "stopped")
        assert not driver.finish(Mode.DRAIN).drained
        status = driver.report()
    (told,) = [w for w in status.warnings if w.reason == "QueryNotDrained"]
    assert "'down'" in told.message
