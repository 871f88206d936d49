"""Scripts whose foreachBatch function starts, awaits or stops other queries."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import Restore

from .feeds import eventually
from .scripts import Script, await_batch, await_read, await_said, said
from .terminal import Terminal, index

pytestmark = pytest.mark.any_spark
NOW = "{'availableNow': True}"


def stop_inside(
    script: Script, inside: str, shows: str = "Stop: WaitingForBoundary"
) -> tuple[list[str], str]:
    """Stop the script while a batch waits for the file `go`, which comes when the stop shows itself.

    :param inside: the file that the batch makes.
    :returns: what the script has said, and all that was shown.
    """
    home = script.home
    with Terminal(home / "state", script.file, arguments=(str(home),)) as terminal:
        eventually((home / inside).exists, "the batch")
        terminal.interrupt(signal.SIGTERM).shows(shows)
        (home / "go").touch()
        code, shown = terminal.ended()
    assert code == 0, shown
    return said(terminal.log), shown


def drain(script: Script) -> tuple[list[str], str]:
    """:returns: as `stop_inside`."""
    home = script.home
    with Terminal(home / "state", script.file, "--drain", arguments=(str(home),)) as terminal:
        code, shown = terminal.ended()
    assert code == 0, shown
    return said(terminal.log), shown


NESTED = """
def load(frame, batch):
    frame.write.mode("overwrite").json(f"{home}/stage/b={batch}")
    inner = read("stage/*").writeStream.queryName("load").format("json").trigger(availableNow=True)
    Path(home, f"inside-{batch}").touch()
    while batch == 1 and not Path(home, "go").exists():
        time.sleep(0.02)
    AWAIT
    say("loaded", batch)


query = read("in").writeStream.queryName("outer").foreachBatch(load).trigger(**OFTEN).start()
query.awaitTermination()
say("behind the wait")
"""


@pytest.mark.parametrize(
    "wait",
    [
        pytest.param('inner.start(f"{home}/out").awaitTermination()', id="awaits"),
        pytest.param(
            'loading = inner.start(f"{home}/out")\n    while loading.isActive: time.sleep(0.05)',
            id="polls",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "threads = ThreadPoolExecutor(1)\n"
            '    threads.submit(lambda: inner.start(f"{home}/out").awaitTermination()).result()',
            id="in a thread",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_stop_ends_though_a_batch_waits_for_another_query(
    spark: SparkSession, tmp_path: Path, wait: str
) -> None:
    """The stop and the drain complete behind the batch, and the batch must not wait for them."""
    script = Script(tmp_path, NESTED.replace("AWAIT", wait))
    script.feed.minutes(0, 1)
    script.feed.minutes(1, 2)
    words, shown = stop_inside(script, "inside-1")
    assert words == ["loaded 0"], shown
    record = index(tmp_path / "state").latest
    assert record is not None
    assert record.scenario is Scenario.STOP
    assert {s.uid: s.tasks[0].batch for s in record.stages}["outer"] == 0
    words, shown = drain(script)
    assert words == ["loaded 1", "behind the wait"], shown
    assert set(script.values(spark, "out")) == {0, 1}


@pytest.mark.slow
def test_a_drain_loads_what_the_last_batch_of_a_nested_query_s_writer_has_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The windows come out in a batch that the drain adds. That batch runs the other query, too."""
    script = Script(
        tmp_path,
        """
        def load(frame, batch):
            frame.write.mode("overwrite").json(f"{home}/stage/b={batch}")
            inner = read("stage/*").writeStream.queryName("load").format("json").trigger(availableNow=True)
            inner.start(f"{home}/out").awaitTermination()
            say("loaded")

        rows = windows(read("in")).select("v")
        rows.writeStream.queryName("outer").foreachBatch(load).trigger(**OFTEN).start().awaitTermination()
        """,
    )
    for minute in range(0, 60, 10):
        script.feed.minutes(minute, minute + 10)
    with script.driver() as driver:
        await_read(driver, "outer", tmp_path / "in")
        assert driver.finish(Mode.DRAIN).drained
    assert script.values(spark, "out") == script.windows(spark)


def test_a_drain_ends_though_a_batch_restarts_the_reader_of_what_it_writes(
    spark: SparkSession, tmp_path: Path
) -> None:
    script = Script(
        tmp_path,
        """
        def live():
            return start("live", read("stage/*"))

        def refresh(frame, batch):
            global query
            frame.write.mode("overwrite").json(f"{home}/stage/b={batch}")
            while batch == 1 and not Path(home, "go").exists():
                time.sleep(0.02)
            query.stop()
            query = live()
            say("refreshed", batch)

        Path(home, "stage").mkdir()
        query = live()
        read("in").writeStream.queryName("rules").foreachBatch(refresh).trigger(**OFTEN).start().awaitTermination()
        """,
    )
    script.feed.minutes(0, 1)
    script.feed.minutes(1, 2)
    with script.driver() as driver:
        eventually((tmp_path / "stage" / "b=1").exists, "the second batch")
        driver.terminate(Mode.DRAIN)
        eventually(lambda: "drain requested" in driver.log.read_text(), "the drain")
        (tmp_path / "go").touch()
        assert driver.finish().drained
    assert script.values(spark, "live") == [0, 1]


def test_a_batch_stops_another_query_and_starts_it_again(spark: SparkSession, tmp_path: Path) -> None:
    script = Script(
        tmp_path,
        f"""
        def live():
            return start("live", read("in"))

        query = live()

        def refresh(frame, batch):
            global query
            await_batch(query, batch)
            query.stop()
            say("stopped", query.isActive)
            query = live()

        rules = read("rules").writeStream.queryName("rules").foreachBatch(refresh).trigger(**{NOW})
        rules.start().awaitTermination()
        await_batch(query, 5)
        query.stop()
        """,
    )
    for minute in range(6):
        script.feed.minutes(minute, minute + 1)
    (tmp_path / "rules").mkdir()
    for number in range(2):
        (tmp_path / "rules" / f"{number}.json").write_text('{"k": "rule"}\n')
    with script.driver() as driver:
        assert driver.wait() == 0, driver.tail()
    assert said(driver.log) == ["stopped False", "stopped False"]
    assert script.values(spark, "live") == list(range(6))


def test_a_batch_that_starts_a_drained_query_again_ends(spark: SparkSession, tmp_path: Path) -> None:
    """The drain waits for the batch, which must get an answer: the query has ended."""
    script = Script(
        tmp_path,
        """
        def live():
            return start("live", read("in"))

        query = live()

        def refresh(frame, batch):
            global query
            say("refreshes")
            while not Path(home, "go").exists():
                time.sleep(0.02)
            query.stop()
            query = live()
            say("refreshed", query.isActive)

        rules = read("rules").writeStream.queryName("rules").foreachBatch(refresh).trigger(**OFTEN)
        rules.start().awaitTermination()
        say("over")
        """,
    )
    script.feed.minutes(0, 1)
    (tmp_path / "rules").mkdir()
    with script.driver() as driver:
        await_batch(driver, "live", 0)
        (tmp_path / "rules" / "0.json").write_text('{"k": "rule"}\n')
        eventually(lambda: said(driver.log) == ["refreshes"], "the batch")
        driver.terminate(Mode.DRAIN)
        eventually(lambda: "stage live: holds no state" in driver.log.read_text(), "the end of live")
        (tmp_path / "go").touch()
        assert driver.finish().drained
    assert said(driver.log) == ["refreshes", "refreshed False", "over"]
    assert script.values(spark, "live") == [0]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("", id="falls off"),
        pytest.param("spark.streams.awaitAnyTermination()", id="any", marks=pytest.mark.slow),
    ],
)
def test_batches_run_another_query_after_the_main_thread_has_ended(
    spark: SparkSession, tmp_path: Path, end: str
) -> None:
    """`awaitAnyTermination` returns with the first query that a batch has run to its end."""
    script = Script(
        tmp_path,
        f"""
        def load(frame, batch):
            frame.write.mode("overwrite").json(f"{{home}}/stage/b={{batch}}")
            inner = read("stage/*").writeStream.queryName("load").format("json").trigger(**{NOW})
            inner.start(f"{{home}}/out").awaitTermination()
            say("loaded", batch)

        read("in").writeStream.queryName("outer").foreachBatch(load).trigger(**OFTEN).start()
        {end}
        """,
    )
    for minute in range(3):
        script.feed.minutes(minute, minute + 1)
    with script.driver() as driver:
        await_said(driver, "loaded 2")
        assert driver.finish(Mode.DRAIN).drained
    assert script.values(spark, "out") == [0, 1, 2]


def test_a_stop_ends_only_the_batch_that_waits(spark: SparkSession, tmp_path: Path) -> None:
    """The batch of the query that it waits for commits, and its function is not called a second time."""
    script = Script(
        tmp_path,
        f"""
        def inner(frame, batch):
            Path(home, "inside").touch()
            while not Path(home, "go").exists():
                time.sleep(0.02)
            frame.write.mode("append").json(f"{{home}}/out")

        def load(frame, batch):
            if not Path(home, f"stage/b={{batch}}/_SUCCESS").exists():
                frame.write.mode("overwrite").json(f"{{home}}/stage/b={{batch}}")
            writer = read("stage/*").writeStream.queryName("load").foreachBatch(inner).trigger(**{NOW})
            writer.start().awaitTermination()

        query = read("in").writeStream.queryName("outer").foreachBatch(load).trigger(**OFTEN).start()
        query.awaitTermination()
        """,
    )
    script.feed.minutes(0, 1)
    _, shown = stop_inside(script, "inside", "the stop has ended its batch")
    assert "interrupted" not in shown
    assert "StopAtBoundary(task='outer') failed" not in shown
    drain(script)
    assert script.values(spark, "out") == [0]


def test_a_batch_that_a_stop_has_ended_is_not_committed_whatever_it_catches(
    spark: SparkSession, tmp_path: Path
) -> None:
    script = Script(
        tmp_path,
        f"""
        def load(frame, batch):
            frame.write.mode("overwrite").json(f"{{home}}/stage/b={{batch}}")
            try:
                Path(home, "inside").touch()
                while not Path(home, "go").exists():
                    time.sleep(0.02)
                inner = read("stage/*").writeStream.queryName("load").format("json").trigger(**{NOW})
                inner.start(f"{{home}}/out").awaitTermination()
            except Exception as e:
                say("the next batch retries:", type(e).__name__)

        query = read("in").writeStream.queryName("outer").foreachBatch(load).trigger(**OFTEN).start()
        query.awaitTermination()
        """,
    )
    script.feed.minutes(0, 1)
    words, shown = stop_inside(script, "inside")
    assert words == ["the next batch retries: BatchEndedByStop"], shown
    drain(script)
    assert script.values(spark, "out") == [0]


@pytest.mark.slow
def test_a_drain_that_leaves_windows_of_a_batch_s_query_behind_fails(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Without input no batch starts the query, so nothing would ever emit its windows."""
    script = Script(
        tmp_path,
        f"""
        def load(frame, batch):
            frame.write.mode("overwrite").json(f"{{home}}/stage/b={{batch}}")
            rows = windows(read("stage/*")).select("v")
            inner = rows.writeStream.queryName("load").format("json").trigger(**{NOW})
            inner.start(f"{{home}}/out").awaitTermination()
            say("loaded", batch)

        read("in").writeStream.queryName("outer").foreachBatch(load).trigger(**OFTEN).start().awaitTermination()
        """,
    )
    script.feed.minutes(0, 10)
    with script.driver() as driver:
        await_said(driver, "loaded 0")
        driver.finish(Mode.STOP)
    with script.next(driver) as draining:
        draining.wait_for(lambda s: True)
        draining.terminate(Mode.DRAIN)
        assert draining.wait() == 1, draining.tail()
    problem = draining.report().problem
    assert problem is not None
    assert (problem.reason, problem.retryable) == ("StateWithoutStage", False)
    assert "'load'" in problem.message
    with script.next(draining, restore=Restore(latest=driver.record, again=True)) as again:
        script.feed.minutes(10, 20)
        await_said(again, "loaded 1")
        assert again.finish(Mode.DRAIN).drained
    assert script.values(spark, "out") == script.windows(spark)


def test_a_nested_query_that_its_own_batch_stops_ends_there(tmp_path: Path) -> None:
    """It does not read on to the end of its input, as it would in a drain."""
    script = Script(
        tmp_path,
        f"""
        inner = None

        def enough(frame, batch):
            say("inner", batch)
            spark.streams.get(inner.id).stop()

        def load(frame, batch):
            global inner
            writer = read("rules").writeStream.queryName("inner").foreachBatch(enough).trigger(**{NOW})
            inner = writer.start()
            inner.awaitTermination()
            say("outer", batch)

        read("in").writeStream.queryName("outer").foreachBatch(load).trigger(**{NOW}).start().awaitTermination()
        """,
    )
    script.feed.minutes(0, 1)
    (tmp_path / "rules").mkdir()
    for number in range(3):
        (tmp_path / "rules" / f"{number}.json").write_text('{"k": "rule"}\n')
    with script.driver() as driver:
        assert driver.wait() == 0, driver.tail()
    assert said(driver.log) == ["inner 0", "outer 0"]


def test_a_nested_batch_may_stop_the_query_that_waits_for_it(tmp_path: Path) -> None:
    script = Script(
        tmp_path,
        f"""
        outer = None

        def inside(frame, batch):
            while outer is None:
                time.sleep(0.02)
            outer.stop()
            say("stopped")

        def load(frame, batch):
            writer = read("rules").writeStream.queryName("inner").foreachBatch(inside).trigger(**{NOW})
            writer.start().awaitTermination()
            say("outer", batch)

        outer = read("in").writeStream.queryName("outer").foreachBatch(load).trigger(**OFTEN).start()
        outer.awaitTermination()
        """,
    )
    script.feed.minutes(0, 1)
    script.feed.minutes(1, 2)
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "0.json").write_text('{"k": "rule"}\n')
    with script.driver() as driver:
        assert driver.wait() == 0, driver.tail()
    assert said(driver.log) == ["stopped", "outer 0"]


def test_a_query_that_a_listener_stops_begins_no_other_batch(tmp_path: Path) -> None:
    """Batch 2 runs until the listener's stop has returned."""
    script = Script(
        tmp_path,
        """
        from pyspark.sql.streaming import StreamingQueryListener
        from streamjob.runtime.query import task

        third, stopped, another = (threading.Event() for _ in range(3))
        stop = task.stop_at_boundary

        def stop_late(*args, **options):
            another.wait(1)
            return stop(*args, **options)

        task.stop_at_boundary = stop_late

        def each(frame, batch):
            if batch == 2:
                third.set()
                stopped.wait()
            if batch > 2:
                another.set()

        class Stops(StreamingQueryListener):
            def onQueryStarted(self, event): pass
            def onQueryIdle(self, event): pass
            def onQueryTerminated(self, event): pass
            def onQueryProgress(self, event):
                if event.progress.batchId == 1:
                    third.wait()
                    query.stop()
                    stopped.set()

        spark.streams.addListener(Stops())
        query = spark.readStream.format("rate").load().writeStream.foreachBatch(each).trigger(**OFTEN).start()
        query.awaitTermination()
        """,
    )
    with script.driver() as driver:
        assert driver.wait() == 0, driver.tail()
    assert driver.boundary() == (2, 2)
