"""Scripts that wait for their queries in other places than their main thread, and a query without a name."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_status import DriverPhase

from .scripts import Script, await_batch, said

pytestmark = pytest.mark.any_spark
NOW = "{'availableNow': True}"


def test_the_only_unnamed_query_goes_on_when_it_is_started_again_and_another_one_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The other function would get nothing: it would begin behind what the first has read."""
    script = Script(
        tmp_path,
        """
        def refreshed(name, files=1):
            return read("in", files).writeStream.foreachBatch(into(name)).trigger(**OFTEN).start()

        for batch in 1, 3:
            query = refreshed("out")
            await_batch(query, batch)
            query.stop()
        try:
            refreshed("out", files=2)  # an option, which the plan does not show, may say what is read
        except Exception as e:
            say(e.reason)
        refreshed("report")
        """,
    )
    for minute in range(4):
        script.feed.minutes(minute, minute + 1)
    with script.driver() as driver:
        assert driver.wait() == 1, driver.tail()
    problem = driver.report().problem
    assert problem is not None
    assert (problem.reason, problem.retryable) == ("QueryNameMissing", False)
    assert said(driver.log) == ["QueryNameMissing"]
    assert [s.uid for s in driver.report().stages] == ["main"]
    assert script.values(spark, "out") == [0, 1, 2, 3]
    assert not (tmp_path / "report").exists()


def test_a_flush_that_fails_behind_the_script_is_no_success(tmp_path: Path) -> None:
    """The script has ended well, and its last windows are not out."""
    script = Script(
        tmp_path,
        f"""
        closed = []

        def write(frame, batch):
            if closed:
                raise RuntimeError("the connection is closed")
            frame.collect()

        query = windows(read("in")).writeStream.foreachBatch(write).trigger(**{NOW}).start()
        query.awaitTermination()
        closed.append(True)
        """,
    )
    script.feed.minutes(0, 30)
    with script.driver() as driver:
        assert driver.wait() == 1, driver.tail()
    assert driver.report().phase is DriverPhase.FAILED
    assert "the connection is closed" in driver.report().problem.message  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "wait",
    [
        pytest.param("done.wait()", id="for an event"),
        pytest.param(
            "while thread.is_alive(): time.sleep(0.05)", id="until a thread is gone", marks=pytest.mark.slow
        ),
        pytest.param("results.get()", id="at a queue", marks=pytest.mark.slow),
    ],
)
def test_a_stop_ends_the_main_thread_that_waits_for_a_thread_that_waits(tmp_path: Path, wait: str) -> None:
    """It would take the input for read, and archive it."""
    script = Script(
        tmp_path,
        f"""
        import queue
        done, results = threading.Event(), queue.Queue()

        def ingest():
            try:
                start("only", read("in"), {{"processingTime": "100 milliseconds"}}).awaitTermination()
            finally:
                done.set()
                results.put("done")

        thread = threading.Thread(target=ingest)
        thread.start()
        try:
            {wait}
            say("archived")
        finally:
            say("finally")
        """,
    )
    script.feed.minutes(0, 3)
    with script.driver() as first:
        await_batch(first, "only", 0)
        first.finish(Mode.STOP)
    assert said(first.log) == ["finally"]
    with script.next(first) as second:
        second.finish(Mode.DRAIN)
    assert said(second.log) == ["archived", "finally"]
