"""Scripts that start queries one after another and again, that catch what fails, and that do more at their
end than to wait: they behave under the runtime as under plain Python.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamjob.protocol.lifecycle import Scenario, TaskState
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_status import DriverPhase

from .feeds import Feed
from .scripts import Script, await_batch, await_read, await_said, latest, said

pytestmark = pytest.mark.any_spark
NOW = "{'availableNow': True}"


@pytest.mark.slow
def test_r1_one_query_after_another(spark: SparkSession, tmp_path: Path) -> None:
    """Each reads what the one before it has written; batch work is done between them and after the last."""
    script = Script(
        tmp_path,
        f"""
        start("bronze", read("in"), {NOW}).awaitTermination()
        say("bronze has", spark.read.json(f"{{home}}/bronze").count())
        while not Path(home, "go").exists():
            time.sleep(0.02)
        start("silver", windows(read("bronze", 2)), {NOW}).awaitTermination()
        start("gold", read("silver").where("v > 5"), {NOW}).awaitTermination()
        spark.read.json(f"{{home}}/silver").write.json(f"{{home}}/report")
        say("all is done")
        """,
    )
    for minute in range(0, 40, 10):
        script.feed.minutes(minute, minute + 10)
    with script.driver() as driver:
        await_said(driver, "bronze has 40")
        status = driver.wait_for(
            lambda s: any(t.state is TaskState.CLOSED for g in s.stages for t in g.tasks)
        )
        assert (status.phase, status.completed and status.completed.scenario) == (DriverPhase.RUNNING, None)
        (tmp_path / "go").touch()
        assert driver.wait() == 0, driver.tail()
    report = driver.report()
    assert report.completed is not None
    assert {stage.uid for stage in report.completed.stages} == {"bronze", "silver", "gold"}
    assert (report.phase, report.completed.drained) == (DriverPhase.TERMINATED, True)
    assert said(driver.log) == ["bronze has 40", "all is done"]
    assert script.values(spark, "bronze") == list(range(40))
    # Under plain Python nothing flushes the windows that are open when the input has ended; here the end of a
    # script does.
    assert script.values(spark, "silver") == script.windows(spark)


@pytest.mark.slow
def test_r1_a_writer_starts_after_its_reader_has_ended(spark: SparkSession, tmp_path: Path) -> None:
    """A report for each day, and then the next day."""
    script = Script(
        tmp_path,
        f"""
        for day in 0, 1:
            start(f"day-{{day}}", read(f"in/{{day}}"), {NOW}, folder=f"days/{{day}}").awaitTermination()
            start("report", windows(read("days/*")), {NOW}).awaitTermination()
            say("day", day)
        """,
    )
    for day in range(2):
        Feed(tmp_path / "in" / str(day)).minutes(day * 60, day * 60 + 60)
    with script.driver() as driver:
        assert driver.wait() == 0, driver.tail()
    assert said(driver.log) == ["day 0", "day 1"]
    assert script.values(spark, "report") == script.windows(spark, "in/0", "in/1")


@pytest.mark.slow
def test_r1_a_query_goes_on_long_after_the_first_has_ended(tmp_path: Path) -> None:
    script = Script(
        tmp_path,
        f"""
        start("first", read("in"), {NOW}).awaitTermination()
        rate = spark.readStream.format("rate").load().selectExpr("value AS v")
        second = start("second", rate)
        second.awaitTermination(75)
        say(second.isActive)
        second.stop()
        say("over")
        """,
    )
    script.feed.minutes(0, 10)
    with script.driver() as driver:
        assert driver.wait() == 0, driver.tail()
    assert said(driver.log) == ["True", "over"]


def test_r3_a_query_that_fails_is_started_again(spark: SparkSession, tmp_path: Path) -> None:
    """Not in the first epoch: the directory is ahead of the checkpoint that the job went on from."""
    script = Script(
        tmp_path,
        """
        write = into("out")

        def fragile(frame, number):
            if Path(home, "bomb").exists():
                Path(home, "bomb").unlink()
                raise RuntimeError("the service is away")
            write(frame, number)

        rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        rate.writeStream.queryName("other").format("noop").trigger(**OFTEN).start()
        while True:
            query = read("in").writeStream.queryName("mine").foreachBatch(fragile).trigger(**OFTEN).start()
            try:
                query.awaitTermination()
                break
            except StreamingQueryException as e:
                say("starts again", "service is away" in str(e))
        """,
    )
    for minute in range(3):
        script.feed.minutes(minute, minute + 1)
    with script.driver() as first:
        await_batch(first, "mine", 1)
        first.finish(Mode.STOP)
    with script.next(first) as second:
        await_batch(second, "mine", 2)
        (tmp_path / "bomb").touch()
        script.feed.minutes(3, 4)
        await_said(second, "starts again True")
        others = latest(tmp_path, "other")
        await_batch(second, "mine", 3)
        await_batch(second, "other", others + 3)
        second.wait_for(lambda s: (s.phase, s.degraded) == (DriverPhase.RUNNING, None))
        record = second.finish(Mode.STOP)
    assert {stage.uid: stage.tasks[0].batch for stage in record.stages}["mine"] == 3
    assert script.values(spark, "out") == [0, 1, 2, 3]


@pytest.mark.slow
def test_r4_stop_and_start_again(spark: SparkSession, tmp_path: Path) -> None:
    """The hourly refresh of a static table."""
    script = Script(
        tmp_path,
        """
        for hour in range(3):
            Path(home, f"later/{hour:05}.json").rename(Path(home, f"in/{hour:05}.json"))
            static = spark.createDataFrame([(f"k{hour % 3}", hour)], "k string, hour long")
            rows = read("in").join(static, "k")
            query = rows.writeStream.format("json").trigger(**OFTEN).start(f"{home}/out")
            query.processAllAvailable()
            query.stop()
            say(hour, query.isActive, len(spark.streams.active))
        """,
    )
    for minute in range(3):
        script.feed.minutes(minute, minute + 1)
    (tmp_path / "in").rename(tmp_path / "later")
    (tmp_path / "in").mkdir()
    with script.driver() as driver:
        assert driver.wait() == 0, driver.tail()
    assert said(driver.log) == [f"{hour} False 0" for hour in range(3)]
    assert script.values(spark, "out") == [0, 1, 2]
    assert driver.boundary() == (2, 2)


@pytest.mark.slow
def test_r5_a_query_that_is_stopped_by_its_id_is_not_drained(spark: SparkSession, tmp_path: Path) -> None:
    script = Script(
        tmp_path,
        """
        query = start("orders", windows(read("in")), folder="out")
        await_batch(query, 1)
        spark.streams.get(query.id).stop()
        say(query.isActive, query.exception(), spark.streams.get(query.id))
        start("orders", windows(read("in")), folder="out").awaitTermination()
        """,
    )
    for minute in range(0, 60, 10):
        script.feed.minutes(minute, minute + 10)
    with script.driver() as driver:
        await_said(driver, "False None None")
        script.feed.minutes(60, 70)
        await_read(driver, "orders", tmp_path / "in")
        assert script.values(spark, "out") < script.windows(spark), "nothing was flushed"
        driver.finish(Mode.DRAIN)
    assert script.values(spark, "out") == script.windows(spark)


def test_r11_exit_code_atexit_threads_and_open_files(tmp_path: Path) -> None:
    script = Script(
        tmp_path,
        f"""
        query = start("only", read("in"), {NOW})

        def late():
            threading.main_thread().join()
            Path(home, "thread").write_text("ran")

        atexit.register(lambda: Path(home, "atexit").write_text(Path(home, "thread").read_text()))
        threading.Thread(target=late).start()
        pool = ThreadPoolExecutor(1)
        pool.submit(query.awaitTermination)
        pool.submit(lambda: Path(home, "pool").write_text("ran"))
        unclosed = open(f"{{home}}/buffered", "w")
        unclosed.write("some rows")
        cycle = [open(f"{{home}}/cycle", "w")]
        cycle[0].write("found by the garbage collection")
        cycle.append(cycle)
        query.awaitTermination()
        sys.exit(3)
        """,
    )
    script.feed.minutes(0, 3)
    with script.driver() as driver:
        assert driver.wait() == 3, driver.tail()
    texts = [(tmp_path / name).read_text() for name in ("thread", "atexit", "pool", "buffered", "cycle")]
    assert texts == ["ran", "ran", "ran", "some rows", "found by the garbage collection"]
    assert driver.report().exit_code == 3


@pytest.mark.slow
def test_r12_await_any_termination_and_reset(tmp_path: Path) -> None:
    """It returns once for each query that ends."""
    script = Script(
        tmp_path,
        f"""
        start("once", read("in"), {NOW})
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        start("live", rows.selectExpr("value AS v"))
        returns = 0
        while spark.streams.active:
            spark.streams.awaitAnyTermination()
            spark.streams.resetTerminated()
            returns += 1
            say("returned", returns)
            if returns > 20:
                sys.exit("it spins")
        """,
    )
    script.feed.minutes(0, 3)
    with script.driver() as driver:
        await_said(driver, "returned 1")
        await_batch(driver, "live", 5)
        assert said(driver.log) == ["returned 1"]
        driver.finish(Mode.DRAIN)
    assert said(driver.log) == ["returned 1", "returned 2"]


@pytest.mark.slow
def test_r13_a_reader_with_a_source_of_its_own_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """Behind a backfill that has finished, too."""
    script = Script(
        tmp_path,
        f"""
        backfill = start("backfill", read("in", 5), {NOW})
        late = [read(name).withWatermark("t", "10 minutes") for name in ("backfill", "own")]
        sums = late[0].union(late[1]).groupBy(F.window("t", "5 minutes")).agg(F.sum("v").alias("v"))
        reader = start("reader", sums)
        backfill.awaitTermination()
        say("backfill is done")
        reader.awaitTermination()
        """,
    )
    script.feed.minutes(0, 30)
    own = Feed(tmp_path / "own")
    own.minutes(0, 30)
    with script.driver() as driver:
        await_said(driver, "backfill is done")
        driver.wait_for(lambda s: any(t.state is TaskState.CLOSED for g in s.stages for t in g.tasks))
        own.minutes(30, 60)
        await_read(driver, "reader", tmp_path / "own")
        record = driver.finish(Mode.STOP)
        assert (record.scenario, record.drained) == (Scenario.STOP, False)
    with script.next(driver) as second:
        own.minutes(60, 90)
        await_read(second, "reader", tmp_path / "own")
        second.finish(Mode.DRAIN)
    assert script.values(spark, "reader") == script.windows(spark, "in", "own")


AFTER_STOP = """
query = start("only", read("in"))
await_batch(query)
query.stop()
raise RuntimeError("after the stop")
"""
SECOND_DIES = f"""
start("first", read("in"), {NOW}).awaitTermination()
fails = F.udf(lambda v: 1 // 0, "long")
start("second", read("in").withColumn("v", fails("v")), {NOW}).awaitTermination()
"""
HANDLED = f"""
fails = F.udf(lambda v: 1 // 0, "long")
try:
    start("only", read("in").withColumn("v", fails("v")), {NOW}).awaitTermination()
except StreamingQueryException:
    say("caught")
sys.exit(0)
"""


@pytest.mark.parametrize(
    ("text", "code", "phase"),
    [
        pytest.param(
            AFTER_STOP,
            1,
            DriverPhase.FAILED,
            marks=pytest.mark.slow,
            id="raises after its only query was stopped",
        ),
        pytest.param(SECOND_DIES, 1, DriverPhase.FAILED, id="second query dies after the first ended"),
        pytest.param(HANDLED, 0, DriverPhase.FAILED, marks=pytest.mark.slow, id="handles the error"),
    ],
)
def test_r21_the_exit_code_is_the_scripts(tmp_path: Path, text: str, code: int, phase: DriverPhase) -> None:
    script = Script(tmp_path, text)
    script.feed.minutes(0, 3)
    with script.driver() as driver:
        assert driver.wait() == code, driver.tail()
    assert driver.report().phase is phase
    assert driver.report().problem is not None


@pytest.mark.slow
def test_r23_another_query_is_stopped_after_one_has_failed(tmp_path: Path) -> None:
    script = Script(
        tmp_path,
        """
        fails = F.udf(lambda v: 1 // 0, "long")
        try:
            start("bad", read("in").withColumn("v", fails("v"))).awaitTermination()
        except StreamingQueryException as e:
            say("caught", "ZeroDivision" in str(e))
        good = start("good", read("in"))
        await_batch(good)
        good.stop()
        say("stopped", good.isActive)
        sys.exit(4)
        """,
    )
    script.feed.minutes(0, 3)
    with script.driver() as driver:
        assert driver.wait() == 4, driver.tail()
    assert said(driver.log) == ["caught True", "stopped False"]
