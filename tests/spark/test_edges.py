"""Which stage reads what another one writes, with tables, folders below folders and patterns: a drain reads
it all, and a reader of more than that does not end with its writer.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamjob.protocol.lifecycle import TaskState
from streamjob.protocol.messages.commands import Mode
from streamjob.runtime.query.edges import Endpoints, ends_of
from streamjob.runtime.spark.handles import Table, table_of
from streamjob.runtime.spark.stream_writer import WriterOptions
from streamjob.storage.hadoop import HadoopFiles

from .feeds import Feed
from .scripts import Script, await_batch, latest

pytestmark = pytest.mark.any_spark
ENDED = {TaskState.FINISHED, TaskState.CLOSED}
HOURLY = "{'processingTime': '1 hour'}"


LAKE = """spark.sql(f"CREATE DATABASE lake LOCATION '{home}/lake_db'")
        spark.sql("USE lake")
        spark.sql("CREATE TABLE bronze (t timestamp, k string, v long) USING parquet")"""


def drained(spark: SparkSession, script: Script) -> list[int]:
    """What `silver` has of `bronze` after a drain.

    It looks once an hour, so the drain has it read nearly everything.
    """
    for minute in range(0, 30, 10):
        script.feed.minutes(minute, minute + 10)
    with script.driver() as driver:
        await_batch(driver, "bronze", 2)
        assert driver.finish(Mode.DRAIN).drained, driver.tail()
        assert "stage silver reads what stage bronze writes" in driver.log.read_text()
    return script.values(spark, "silver")


@pytest.mark.parametrize(
    "reader",
    [
        "table('lake.bronze')",
        pytest.param("table('bronze')", marks=pytest.mark.slow),
        pytest.param("table('spark_catalog.Lake.BRONZE')", marks=pytest.mark.slow),
        pytest.param("schema(SCHEMA).parquet(f'{home}/lake/bronze')", marks=pytest.mark.slow),
    ],
)
def test_row4_a_drain_reads_what_was_written_to_a_table(
    spark: SparkSession, tmp_path: Path, reader: str
) -> None:
    script = Script(
        tmp_path,
        f"""
        spark.sql(f"CREATE DATABASE lake LOCATION '{{home}}/lake'")
        spark.sql("USE lake")
        read("in").writeStream.queryName("bronze").trigger(**OFTEN).toTable("bronze")
        start("silver", windows(spark.readStream.{reader}), {HOURLY})
        spark.streams.awaitAnyTermination()
        """,
    )
    assert drained(spark, script) == script.windows(spark)


@pytest.mark.slow
def test_row4_a_drain_reads_what_was_written_below_the_folder(spark: SparkSession, tmp_path: Path) -> None:
    script = Script(
        tmp_path,
        f"""
        Path(home, "lake").mkdir()  # the reader is first: without a log there, it would see half a file
        lake = spark.readStream.schema(SCHEMA + ", source string").json(f"{{home}}/lake")
        start("silver", windows(lake), {HOURLY})
        start("bronze", read("in"), folder="lake/source=a")
        spark.streams.awaitAnyTermination()
        """,
    )
    assert drained(spark, script) == script.windows(spark)


@pytest.mark.slow
def test_row4_a_drain_reads_all_partitions_below_the_folder(spark: SparkSession, tmp_path: Path) -> None:
    script = Script(
        tmp_path,
        f"""
        writer = read("in").writeStream.queryName("bronze").partitionBy("k").format("json").trigger(**OFTEN)
        writer.start(f"{{home}}/lake/bronze")
        rows = spark.readStream.schema("t timestamp, v long, k string").json(f"{{home}}/lake")
        start("silver", windows(rows), {HOURLY})
        spark.streams.awaitAnyTermination()
        """,
    )
    assert drained(spark, script) == script.windows(spark)


# How a foreachBatch function writes, and who reads that.
BATCH_WRITES = {
    "a folder for each batch": ("frame.write.json(f'{home}/lake/batch={batch}')", "json(f'{home}/lake/*')"),
    "a pattern": (
        "frame.write.mode('append').format('json').save(f'{home}/lake/eu')",
        "json(f'{home}/lake/*')",
    ),
    "options": (
        "frame.write.mode('append').format('json').option('path', f'{home}/lake').save()",
        "json(f'{home}/lake')",
    ),
    "a new table": ("frame.write.mode('append').saveAsTable('bronze')", "table('bronze')"),
    "a table that is there": ("frame.write.insertInto('bronze')", "table('lake.bronze')"),
    "in threads": (
        "list(ThreadPoolExecutor(2).map(lambda n: frame.where(F.col('v') % 2 == n).write"
        ".json(f'{home}/lake/half={n}/{batch}'), [0, 1]))",
        "option('recursiveFileLookup', True).json(f'{home}/lake')",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("write", "reader"), BATCH_WRITES.values(), ids=BATCH_WRITES)
def test_row4_a_drain_reads_what_a_batch_function_wrote(
    spark: SparkSession, tmp_path: Path, write: str, reader: str
) -> None:
    script = Script(
        tmp_path,
        f"""
        {LAKE}
        Path(home, "lake").mkdir(exist_ok=True)

        def into_the_lake(frame, batch):
            {write}

        read("in").writeStream.queryName("bronze").foreachBatch(into_the_lake).trigger(**OFTEN).start()
        start("silver", windows(spark.readStream.schema(SCHEMA).{reader}), {HOURLY})
        spark.streams.awaitAnyTermination()
        """.replace(".schema(SCHEMA).table", ".table"),
    )
    assert drained(spark, script) == script.windows(spark)


@pytest.mark.slow
def test_row4_a_drain_reads_what_was_written_for_the_first_time_while_the_reader_started(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark calls a listener before `start` returns: the reader waits in it until the writer has written."""
    script = Script(
        tmp_path,
        f"""
        from pyspark.sql.streaming import StreamingQueryListener

        {LAKE}
        starting, wrote = threading.Event(), threading.Event()

        def into_the_lake(frame, batch):
            starting.wait()
            frame.write.insertInto("bronze")
            wrote.set()

        class Slow(StreamingQueryListener):
            def onQueryStarted(self, event):
                if event.name == "silver":
                    starting.set()
                    wrote.wait()
            def onQueryProgress(self, event): pass
            def onQueryIdle(self, event): pass
            def onQueryTerminated(self, event): pass

        spark.streams.addListener(Slow())
        read("in").writeStream.queryName("bronze").foreachBatch(into_the_lake).trigger(**OFTEN).start()
        start("silver", windows(spark.readStream.table("lake.bronze")), {HOURLY})
        spark.streams.awaitAnyTermination()
        """,
    )
    assert drained(spark, script) == script.windows(spark)


def test_row4_a_drain_right_after_a_resume_reads_what_a_batch_function_wrote(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In the second epoch the function writes nothing."""
    script = Script(
        tmp_path,
        f"""
        Path(home, "lake").mkdir(exist_ok=True)
        start("silver", windows(spark.readStream.schema(SCHEMA).json(f"{{home}}/lake/*")), {HOURLY})
        read("in").writeStream.queryName("bronze").foreachBatch(into("lake")).trigger(**OFTEN).start()
        spark.streams.awaitAnyTermination()
        """,
    )
    for minute in range(0, 30, 10):
        script.feed.minutes(minute, minute + 10)
    with script.driver() as first:
        await_batch(first, "bronze", 2)
        assert first.finish(Mode.STOP).stages
    with script.next(first) as second:
        second.wait_for(lambda s: len(s.stages) == 2)
        assert second.finish(Mode.DRAIN).drained, second.tail()
    assert script.values(spark, "silver") == script.windows(spark)


@pytest.mark.slow
def test_a_batch_function_that_writes_to_its_own_source_is_no_circle(
    spark: SparkSession, tmp_path: Path
) -> None:
    script = Script(
        tmp_path,
        """
        def again(frame, batch):
            frame.where("v < 0").write.mode("append").json(f"{home}/in")
            frame.write.json(f"{home}/out/batch={batch}")

        read("in").writeStream.queryName("loop").foreachBatch(again).trigger(**OFTEN).start()
        spark.streams.awaitAnyTermination()
        """,
    )
    script.feed.minutes(0, 3)
    with script.driver() as driver:
        await_batch(driver, "loop", 0)
        assert driver.finish(Mode.DRAIN).drained, driver.tail()
    assert len(script.values(spark, "out")) == len(script.values(spark, "in"))


# Waited for: behind a pattern Spark does not follow the sink's log, and could read a file that is being
# written.
BRONZE = """\
bronze = start("bronze", read("in"), {"availableNow": True}, folder="lake/bronze")
bronze.awaitTermination()
"""
DECLARED = """\
from streamjob import job
writer = read("in").writeStream.queryName("bronze").foreachBatch(into("lake")).trigger(availableNow=True)
bronze = writer.start()
"""


@pytest.mark.parametrize(
    ("bronze", "after"),
    [
        pytest.param(BRONZE, "silver.awaitTermination()", id="found"),
        pytest.param(
            *(DECLARED, "job.edge('bronze', 'silver')"), id="declared after the start", marks=pytest.mark.slow
        ),
    ],
)
def test_a_reader_of_a_pattern_goes_on_after_the_writer(
    spark: SparkSession, tmp_path: Path, bronze: str, after: str
) -> None:
    """Other folders may still come."""
    script = Script(tmp_path, "")
    script.feed.minutes(0, 3)
    with script.file.open("a") as file:
        file.write(f"{bronze}\nsilver = start('silver', read('lake/*'))\n{after}\n")
    with script.driver() as driver:
        driver.wait_for(lambda s: any(t.state in ENDED for g in s.stages for t in g.tasks))
        await_batch(driver, "silver", 0)
        time.sleep(4)  # it has nothing to read now, and would end within two seconds
        before = latest(tmp_path, "silver")
        Feed(tmp_path / "lake" / "returns").minutes(3, 6)
        await_batch(driver, "silver", before + 1)
        assert driver.finish(Mode.DRAIN).drained
    assert script.values(spark, "silver") == list(range(6))


@pytest.mark.slow
def test_a_folder_below_one_that_spark_does_not_read_is_no_edge(spark: SparkSession, tmp_path: Path) -> None:
    """Files that arrive in the folder that the outputs lie in, which is no cycle under Spark either."""
    script = Script(
        tmp_path,
        """
        start("bronze", read("in"), folder="in/bronze")
        start("silver", read("in/bronze"), folder="in/silver")
        spark.streams.awaitAnyTermination()
        """,
    )
    script.feed.minutes(0, 3)
    with script.driver() as driver:
        await_batch(driver, "silver", 0)
        assert driver.finish(Mode.DRAIN).drained
    assert script.values(spark, "in/silver") == [0, 1, 2]


def test_a_table_is_the_same_by_every_name(spark: SparkSession, files: HadoopFiles, tmp_path: Path) -> None:
    """And before Spark has created it."""
    feed = Feed(tmp_path / "in")
    feed.minutes(0, 3)
    writer = feed.stream(spark).writeStream
    spark.sql(f"CREATE DATABASE pond LOCATION '{tmp_path}/pond'")
    try:
        for name in ("pond.bronze", "spark_catalog.pond.bronze", "POND.Bronze"):
            found = table_of(writer, name, None)
            assert found is not None
            assert found.folder == f"file:{tmp_path}/pond/bronze"
        for path, folder in (
            (f"{tmp_path}/else where", f"{tmp_path}/else where"),
            (f"file:{tmp_path}/a", f"file:{tmp_path}/a"),
            ("below", f"file:{tmp_path}/pond/below"),
        ):
            found = table_of(writer, "pond.bronze", path)
            assert found == Table("spark_catalog.pond.bronze", folder)
        for name in ("no table", "nowhere.bronze", "a.b.c"):
            assert table_of(writer, name, None) is None, "Spark refuses it"
        for name, options in (("pond.bronze", {}), ("pond.elsewhere", {"path": f"{tmp_path}/else where"})):
            written = WriterOptions(table=name, options=options)
            before = ends_of(writer, written, files.qualify)
            checkpoint = str(tmp_path / f"checkpoint of {name}")
            started = feed.stream(spark).writeStream.options(checkpointLocation=checkpoint, **options)
            started.trigger(availableNow=True).toTable(name).awaitTermination()
            assert ends_of(writer, written, files.qualify) == before
            for frame in spark.readStream.table(name), spark.readStream.table(name.upper()):
                reader = ends_of(frame.writeStream, WriterOptions("noop"), files.qualify)
                assert reader.read(before)
                assert not reader.has_own_sources([before], 0)
                assert not reader.read(Endpoints(sink=None))
    finally:
        spark.sql("DROP DATABASE pond CASCADE")


def test_a_table_of_another_catalog_has_its_full_name(spark: SparkSession, tmp_path: Path) -> None:
    writer = Feed(tmp_path / "in").stream(spark).writeStream
    catalog = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
    settings = {"": catalog, ".url": "jdbc:derby:memory:x", ".driver": "org.apache.derby.jdbc.EmbeddedDriver"}
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.other{key}", value)
    try:
        for name in ("other.a.b.t", "other.`a`.b.`t`"):
            assert table_of(writer, name, None) == Table("other.a.b.t")
    finally:
        for key in settings:
            spark.conf.unset(f"spark.sql.catalog.other{key}")
