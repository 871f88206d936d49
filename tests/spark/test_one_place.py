"""A place that has room for one query: what is found before the first batch, and what is not written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver
from streamjob.protocol.formats.records import JobRef
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import Restore

from .scripts import Script, await_batch, await_said, files_below, said

THIS, ANOTHER = JobRef("shop", "orders", "uid-1"), JobRef("shop", "bills", "uid-2")
INTERVAL = {"spark.sql.streaming.fileSink.log.compactInterval": "3"}


def problem(driver: LocalDriver) -> tuple[str, str, str]:
    """Reason, message and remedy of a driver that refuses its script."""
    with driver:
        assert driver.wait() == 1, driver.tail()
    found = driver.report().problem
    assert found is not None
    return found.reason, found.message, found.remedy


def feed(script: Script, first: int, last: int) -> list[int]:
    """A file of one row for each value, and so a batch."""
    for value in range(first, last):
        script.feed.minutes(value, value + 1)
    return list(range(first, last))


def seen(spark: SparkSession, *folders: Path) -> list[int]:
    """What readers find that go by the log."""
    return sorted(row.v for f in folders for row in spark.read.schema("v long").json(str(f)).collect())


def remove_log(log: Path) -> None:
    shutil.rmtree(log)


def remove_compacted(log: Path) -> None:
    for entry in log.glob("*.compact"):
        entry.unlink()


def remove_newest(log: Path) -> None:
    (log / "3").unlink()


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (remove_log, "SinkGone"),
        pytest.param(remove_compacted, "SinkBehind", marks=pytest.mark.slow),
        pytest.param(remove_newest, "SinkBehind", marks=pytest.mark.slow),
    ],
)
@pytest.mark.default_spark
@pytest.mark.slow
def test_a_sink_s_log_that_was_lost_is_found_before_the_first_batch(
    spark: SparkSession, tmp_path: Path, loss: Callable[[Path], None], reason: str
) -> None:
    """And the remedy is one: in another folder the query goes on."""
    text = 'start("out", read("in").select("v"), folder=sys.argv[2]).awaitTermination()'
    script = Script(tmp_path, text)
    values = feed(script, 0, 4)
    with script.driver("out", spark_conf=INTERVAL) as driver:
        await_batch(driver, "out", 3)
        driver.finish(Mode.STOP)
    log = tmp_path / "out" / "_spark_metadata"
    shutil.copytree(log, tmp_path / "kept")
    loss(log)
    more = feed(script, 4, 6)
    before = files_below(tmp_path / "out", tmp_path / "checkpoints")
    refused = script.next(driver, "out", spark_conf=INTERVAL)
    found, message, remedy = problem(refused)
    assert found == reason
    assert f"file:{tmp_path}/out" in message
    assert "new folder" in remedy
    assert files_below(tmp_path / "out", tmp_path / "checkpoints") == before
    refused.record = driver.record
    with script.next(refused, "another", spark_conf=INTERVAL) as driver:
        await_batch(driver, "out", 5)
        driver.finish(Mode.STOP)
    shutil.rmtree(log, ignore_errors=True)
    shutil.copytree(tmp_path / "kept", log)
    assert seen(spark, tmp_path / "out", tmp_path / "another") == [*values, *more]


IN_ONE_SCRIPT = """
    import os
    from streamjob.sinks import FileSink
    from pyspark.errors import StreamingQueryException
    os.makedirs(f"{home}/disk", exist_ok=True)
    os.symlink(f"{home}/disk", f"{home}/link")
    rows = read("in").select("v")

    def attempt(name, folder, location=None, how=OFTEN, sink=None):
        writer = rows.writeStream.queryName(name).format("json").trigger(**how)
        if location:
            writer = writer.option("checkpointLocation", location)
        if sink:
            writer = writer.foreachBatch(sink)
        try:
            query = writer.start(folder) if folder else writer.start()
        except Exception as e:
            say(name, getattr(e, "reason", type(e).__name__))
        else:
            say(name, "runs")
            return query

    first = attempt("first", f"{home}/disk/out", f"{home}/disk/chk")
    await_batch(first, 1)
    attempt("same", f"{home}/disk/out")
    attempt("slash", f"file://{home}/disk/out/")
    attempt("dots", f"{home}/disk/none/../out")
    attempt("linked", f"file:{home}/link/out")
    attempt("ours", None, sink=FileSink(f"{home}/link/out"))
    attempt("chk-same", f"{home}/disk/1", f"{home}/disk/chk")
    attempt("chk-linked", f"{home}/disk/2", f"file:///{home}/link/../link/chk/")
    once = attempt("once", f"{home}/disk/once", f"{home}/disk/chk-once", how={"availableNow": True})
    once.awaitTermination()
    attempt("after", f"{home}/disk/3", f"{home}/link/chk-once")
    attempt("later", f"{home}/link/once")
    attempt("other", f"{home}/disk/other")
    spark.sql(f"CREATE TABLE lines (v BIGINT) USING json LOCATION '{home}/link/out'")
    try:
        rows.writeStream.queryName("table").format("json").toTable("lines")
    except Exception as e:
        say("table", getattr(e, "reason", type(e).__name__))
    beside = rows.writeStream.queryName("beside").trigger(**OFTEN)
    beside = beside.foreachBatch(lambda frame, _: frame.write.mode("append").json(f"{home}/link/out")).start()
    try:
        beside.awaitTermination()
    except StreamingQueryException as e:
        say("beside", "_spark_metadata" in str(e))
    first.awaitTermination()
"""


def test_two_queries_of_a_script_that_share_a_place_however_it_is_spelled(
    spark: SparkSession, tmp_path: Path
) -> None:
    script = Script(tmp_path, IN_ONE_SCRIPT)
    values = feed(script, 0, 3)
    with script.driver() as driver:
        await_said(driver, "beside True")
        await_batch(driver, "other", 2)
        driver.finish(Mode.STOP)
    assert said(driver.log) == [
        "first runs",
        *(f"{name} SinkShared" for name in ("same", "slash", "dots", "linked", "ours")),
        *(f"{name} CheckpointShared" for name in ("chk-same", "chk-linked")),
        "once runs",
        "after QueryChanged",
        "later SinkShared",
        "other runs",
        "table SinkShared",
        "beside True",
    ]
    disk = tmp_path / "disk"
    assert sorted(p.name for p in disk.iterdir()) == ["chk", "chk-once", "once", "other", "out"]
    for folder in ("out", "once", "other"):
        assert seen(spark, disk / folder) == values


def job(home: Path, text: Script, ref: JobRef, *args: str, **config: object) -> LocalDriver:
    """Another job with the same input; its own folder is `home`."""
    home.mkdir(exist_ok=True)
    return LocalDriver(home, text.file, str(text.home), *args, job=ref, **config)  # type: ignore[arg-type]


@pytest.mark.default_spark
@pytest.mark.slow
def test_two_jobs_that_share_a_folder_or_a_checkpoint_directory(spark: SparkSession, tmp_path: Path) -> None:
    """The second one is refused, unless it continues from a savepoint of the first."""
    script = Script(
        tmp_path,
        """
        writer = read("in").select("v").writeStream.queryName("lines").format("json").trigger(**OFTEN)
        if sys.argv[3:]:
            writer = writer.option("checkpointLocation", f"{home}/{sys.argv[3]}")
        writer.start(f"{home}/{sys.argv[2]}").awaitTermination()
        """,
    )
    values = feed(script, 0, 2)
    with job(tmp_path / "first", script, THIS, "out") as first:
        await_batch(first, "lines", 1)
        reason, message, remedy = problem(job(tmp_path / "second", script, ANOTHER, "out"))
        assert reason == "SinkShared"
        for word in (
            "query 'lines' of job shop/orders",
            "query 'lines' of job shop/bills",
            f"{tmp_path}/out",
        ):
            assert word in message
        assert "streamjob-owner.json" in remedy
        assert not files_below(tmp_path / "second" / "checkpoints")
        record = first.finish(Mode.STOP)
    more = feed(script, 2, 4)
    restore = Restore(savepoint=record.savepoint)
    with job(tmp_path / "third", script, ANOTHER, "out", restore=restore) as third:
        await_batch(third, "lines", 3)
        third.finish(Mode.STOP)
    assert seen(spark, tmp_path / "out") == [*values, *more]
    found = problem(first.next_epoch(script.file, str(tmp_path), "out", job=THIS))
    assert found[0] == "SinkShared", "the folder is the other job's now"
