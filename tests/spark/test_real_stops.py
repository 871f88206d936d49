"""Scripts that start queries one after another, or that do more at their end than to wait, are stopped,
drained and resumed: what is behind a wait runs only when the input has ended, and nothing is forgotten.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver
from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.messages.driver_config import Restore
from streamjob.protocol.messages.driver_status import DriverPhase

from .feeds import Feed, Words, eventually
from .scripts import HEAD, Script, await_batch, files_below, latest, said
from .terminal import Terminal, index

pytestmark = pytest.mark.any_spark
NOW = "{'availableNow': True}"
GATE = """
@F.udf("long")
def gated(v):
    while v == 15 and not Path(home, "go").exists():
        Path(home, "reached").touch()
        time.sleep(0.02)
    return v


"""


def batches(record: CheckpointRecord) -> dict[str, int | None]:
    return {stage.uid: stage.tasks[0].batch for stage in record.stages}


@pytest.mark.slow
def test_r16_an_edge_that_is_declared_after_the_starts(spark: SparkSession, tmp_path: Path) -> None:
    """And the driver dies behind the reader's flush."""
    script = Script(
        tmp_path,
        """
        from streamjob import job

        read("in").writeStream.queryName("writer").foreachBatch(into("middle")).trigger(**OFTEN).start()
        start("reader", windows(read("middle/*")))
        job.edge("writer", "reader")
        spark.streams.awaitAnyTermination()
        """,
    )
    for minute in range(0, 30, 10):
        script.feed.minutes(minute, minute + 10)
    with script.driver(answers=False) as first:
        await_batch(first, "writer", 2)
        await_batch(first, "reader", 0)
        request = first.terminate(Mode.DRAIN)
        first.wait_for(lambda s: s.completed is not None and s.completed.scenario is not None)
        first.kill()
    assert script.values(spark, "reader") == script.windows(spark)
    with script.next(first, termination=request, answers=True) as second:
        record = second.finish()
    assert record.drained
    assert script.values(spark, "reader") == script.windows(spark)


def refused(driver: LocalDriver, *words: str) -> None:
    """It ends with a problem that does not pass by itself, which says all of this."""
    assert driver.wait() == 1, driver.tail()
    problem = driver.report().problem
    assert problem is not None
    assert not problem.retryable
    assert [word for word in words if word not in problem.message + problem.remedy] == []


@pytest.mark.slow
def test_r17_a_stage_that_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    script = Script(
        tmp_path,
        """
        for query in sys.argv[2:]:
            name, source = query.split("=")
            if source == "in":
                read(source).writeStream.queryName(name).foreachBatch(into(name)).trigger(**OFTEN).start()
            else:
                start(name, read(source))
        spark.streams.awaitAnyTermination()
        """,
    )
    other = Feed(tmp_path / "other")
    script.feed.minutes(0, 3)
    other.minutes(10, 13)
    with script.driver("orders=in", "returns=other") as first:
        for uid in ("orders", "returns"):
            await_batch(first, uid, 0)
        record = first.finish(Mode.STOP)
    other.minutes(13, 15)
    before = files_below(tmp_path / "checkpoints", tmp_path / "in", tmp_path / "orders")
    with script.next(first, "purchases=in", "returns=other") as renamed:
        refused(renamed, "'orders'", "'purchases'", "allowNonRestoredState")
    assert files_below(tmp_path / "checkpoints", tmp_path / "in", tmp_path / "orders") == before
    assert not (tmp_path / "purchases").exists()
    renamed.record = record
    with script.next(renamed, "returns=other") as removed:
        refused(removed, "'orders'", "'returns'", "allowNonRestoredState")
    allowed = Restore(latest=record, allow_non_restored_state=True)
    with script.next(removed, "purchases=in", "returns=other", restore=allowed) as third:
        await_batch(third, "purchases", 0)
        await_batch(third, "returns", 1)
        assert set(batches(third.finish(Mode.STOP))) == {"purchases", "returns"}
    assert script.values(spark, "purchases") == [0, 1, 2]
    assert script.values(spark, "returns") == list(range(10, 15))


def test_r18_a_stop_does_not_work_off_a_backlog(spark: SparkSession, tmp_path: Path) -> None:
    script = Script(
        tmp_path,
        """
        writer = start("writer", read("in"))
        writer.processAllAvailable()
        start("reader", windows(read("writer")), {"processingTime": "1 hour"})
        spark.streams.awaitAnyTermination()
        """,
    )
    for minute in range(0, 60, 10):
        script.feed.minutes(minute, minute + 10)
    with script.driver() as first:
        await_batch(first, "reader", 0)
        record = first.finish(Mode.STOP)
    assert batches(record) == {"writer": 5, "reader": 0}
    assert latest(tmp_path, "reader") == 0
    with script.next(first) as second:
        second.finish(Mode.DRAIN)
    assert script.values(spark, "reader") == script.windows(spark)


@pytest.mark.slow
def test_a_stop_that_is_asked_for_before_the_start_flushes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Though all that is upstream has finished in an earlier epoch."""
    script = Script(
        tmp_path,
        f"""{GATE}
start("writer", read("in"), {NOW}).awaitTermination()
start("reader", windows(read("writer").withColumn("v", gated("v")))).awaitTermination()
""",
    )
    script.feed.minutes(0, 20)
    with script.driver() as first:
        eventually((tmp_path / "reached").exists, "the reader's batch")
        first.wait_for(lambda s: any(o.finished for g in s.stages for o in g.operators if g.uid == "writer"))
        first.terminate(Mode.STOP)
        (tmp_path / "go").touch()
        record = first.finish()
    assert {s.uid: s.finished for s in record.stages} == {"writer": True, "reader": False}
    at, shown = latest(tmp_path, "reader"), script.values(spark, "reader")
    again = TerminationRequest("stop-2", 2, Mode.STOP, f"{tmp_path.as_uri()}/savepoints/stop-2")
    with script.next(first, termination=again) as second:
        record = second.finish()
    assert {s.uid: s.finished for s in record.stages} == {"writer": True, "reader": False}
    assert (latest(tmp_path, "reader"), script.values(spark, "reader")) == (at, shown)
    with script.next(second) as third:
        assert third.finish().drained
    assert script.values(spark, "reader") == script.windows(spark)


BACKFILL = f"""
if not Path(home, "done").exists():
    start("history", HISTORY, {NOW}).awaitTermination()
    Path(home, "done").touch()
    say("backfilled")
start("live", read("in")).awaitTermination()
"""


@pytest.mark.parametrize("end", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
@pytest.mark.slow
def test_a_backfill_that_is_done_once_need_not_be_started_again(
    spark: SparkSession, tmp_path: Path, end: signal.Signals
) -> None:
    """Whether the job is stopped or dies right behind it: the checkpoint that closed it is the newest one
    then.
    """
    script = Script(tmp_path, BACKFILL.replace("HISTORY", 'read("old")'))
    Feed(tmp_path / "old").minutes(0, 3)
    script.feed.minutes(10, 13)
    state = tmp_path / "state"
    commits = state / "checkpoints" / "live" / "0" / "commits"
    with Terminal(state, script.file, arguments=(str(tmp_path),)) as first:
        eventually(lambda: commits.exists() and (commits / "0").exists(), "the live query")
        eventually(
            lambda: (state / "index.json").exists() and index(state).latest is not None, "a checkpoint"
        )
        first.interrupt(end)
        code, shown = first.ended()
        assert code == (0 if end is signal.SIGTERM else -end), shown
    script.feed.minutes(13, 15)
    for batch in 1, 2:  # also in the epoch after the next: the record is carried along
        with Terminal(state, script.file, arguments=(str(tmp_path),)) as later:
            eventually((commits / str(batch)).exists, f"batch {batch}")
            time.sleep(1.5)  # a look at what has not started comes each second
            code, shown = later.interrupt(signal.SIGTERM).ended()
        assert (code, "StateWithoutStage" in shown) == (0, False), shown
        script.feed.minutes(15, 16)
    record = index(state).latest
    assert record is not None
    assert batches(record) == {"live": 2, "history": 0}
    assert script.values(spark, "history") == [0, 1, 2]
    assert script.values(spark, "live") == list(range(10, 16))


@pytest.mark.slow
def test_a_backfill_with_windows_is_told_and_not_refused(tmp_path: Path) -> None:
    script = Script(tmp_path, BACKFILL.replace("HISTORY", 'windows(read("old"))'))
    Feed(tmp_path / "old").minutes(0, 3)
    script.feed.minutes(10, 13)
    with script.driver() as first:
        await_batch(first, "live", 0)
        first.finish(Mode.STOP)
    with script.next(first) as second:
        status = second.wait_for(lambda s: bool(s.warnings))
        assert [(w.reason, "'history'" in w.message) for w in status.warnings] == [
            ("StateWithoutStage", True)
        ]
        assert set(batches(second.finish(Mode.STOP))) == {"live", "history"}


@pytest.mark.slow
def test_a_job_that_has_ended_is_refused_at_each_start(spark: SparkSession, tmp_path: Path) -> None:
    """The backfill that it did not start again has ended, too."""
    script = Script(
        tmp_path,
        BACKFILL.replace("HISTORY", 'read("old")').replace(
            'read("in"))', f'read("in").withColumn("v", gated("v")), {NOW})'
        )
        + """say("over")
""",
    )
    script.file.write_text(
        script.file.read_text().replace('if not Path(home, "done")', GATE + 'if not Path(home, "done")')
    )
    Feed(tmp_path / "old").minutes(0, 3)
    script.feed.minutes(10, 20)
    state = tmp_path / "state"
    with Terminal(state, script.file, arguments=(str(tmp_path),)) as first:
        eventually((tmp_path / "reached").exists, "the live query")
        first.interrupt(signal.SIGTERM).shows("Stop: WaitingForBoundary")
        (tmp_path / "go").touch()
        assert first.ended()[0] == 0, first.log.read_text()
    with Terminal(state, script.file, arguments=(str(tmp_path),)) as second:
        assert second.ended()[0] == 0, second.log.read_text()
    assert said(second.log) == ["over"]
    record = index(state).latest
    assert record is not None
    assert record.drained
    script.feed.minutes(20, 21)
    for _ in range(3):
        with Terminal(state, script.file, arguments=(str(tmp_path),)) as refused_each_time:
            code, shown = refused_each_time.ended()
        assert (code, "AlreadyDrained" in shown, said(refused_each_time.log)) == (2, True, []), shown
    script.file.write_text(
        HEAD + f'thread = threading.Thread(target=start, args=("live", read("in"), {NOW}))\n'
        "thread.start()\nthread.join()\n"
    )
    with Terminal(state, script.file, arguments=(str(tmp_path),)) as by_a_thread:
        code, shown = by_a_thread.ended()
    assert (code, "AlreadyDrained" in shown, "NoQueryStarted" in shown) == (2, True, False), shown
    assert (state / "epoch").read_text() == "2"
    assert script.values(spark, "live") == list(range(10, 20))


SEQUENCE = f"""{GATE}
start("bronze", read("in").withColumn("v", gated("v")), {NOW}).awaitTermination()
say("bronze is done")
start("silver", windows(read("bronze")), {NOW}).awaitTermination()
say("silver is done")
start("gold", read("silver").where("v > 30"), {NOW}).awaitTermination()
say("gold is done")
"""


@pytest.mark.slow
def test_r24_an_interrupt_while_the_first_of_three_runs(spark: SparkSession, tmp_path: Path) -> None:
    script = Script(tmp_path, SEQUENCE)
    for minute in range(0, 40, 5):
        script.feed.minutes(minute, minute + 5)
    state = tmp_path / "state"
    with Terminal(state, script.file, arguments=(str(tmp_path),)) as first:
        eventually((tmp_path / "reached").exists, "the batch in the middle")
        first.interrupt().shows("Stop: WaitingForBoundary")
        (tmp_path / "go").touch()
        code, shown = first.ended()
        assert (code, said(first.log)) == (0, []), shown
    record = index(state).latest
    assert record is not None
    assert (record.scenario, batches(record)) == (Scenario.STOP, {"bronze": 3})
    assert not (tmp_path / "silver").exists()
    assert {f.name for f in (state / "checkpoints").iterdir()} == {"bronze"}
    with Terminal(state, script.file, arguments=(str(tmp_path),)) as second:
        code, shown = second.ended()
        assert code == 0, shown
    assert said(second.log) == [f"{name} is done" for name in ("bronze", "silver", "gold")]
    assert script.values(spark, "bronze") == list(range(40))
    assert script.values(spark, "silver") == script.windows(spark)
    assert script.values(spark, "gold") == [v for v in script.windows(spark) if v > 30]


@pytest.mark.slow
def test_a_stop_ends_though_a_query_is_dead(spark: SparkSession, tmp_path: Path) -> None:
    script = Script(
        tmp_path,
        """
        write = into("fragile")

        def fragile(frame, number):
            if number == 2 and not Path(home, "repaired").exists():
                raise RuntimeError("the service is away")
            write(frame, number)

        read("in").writeStream.queryName("fragile").foreachBatch(fragile).trigger(**OFTEN).start()
        start("sound", read("in")).awaitTermination()
        """,
    )
    for minute in range(4):
        script.feed.minutes(minute, minute + 1)
    with script.driver() as first:
        await_batch(first, "sound", 3)
        status = first.wait_for(lambda s: s.degraded is not None)
        assert status.degraded is not None
        assert "service is away" in status.degraded.message
        script.feed.minutes(4, 5)
        await_batch(first, "sound", 4)
        assert first.status().phase is DriverPhase.RUNNING
        record = first.finish(Mode.STOP)
    assert batches(record) == {"fragile": 1, "sound": 4}
    (tmp_path / "repaired").touch()
    with script.next(first) as second:
        await_batch(second, "fragile", 4)
        second.finish(Mode.STOP)
    assert script.values(spark, "fragile") == script.values(spark, "sound") == [0, 1, 2, 3, 4]


def test_a_stop_ends_the_script_where_it_waits_and_a_drain_does_not(tmp_path: Path) -> None:
    script = Script(
        tmp_path,
        """
        atexit.register(say, "atexit")
        query = start("only", read("in"))
        try:
            query.awaitTermination()
            say("behind the wait")
        except Exception:
            say("an exception")
        finally:
            say("finally", query.isActive)
        say("the end")
        """,
    )
    script.feed.minutes(0, 3)
    with script.driver() as first:
        await_batch(first, "only", 0)
        first.finish(Mode.STOP)
    assert said(first.log) == ["finally False", "atexit"]
    with script.next(first) as second:
        second.finish(Mode.DRAIN)
    assert said(second.log) == ["behind the wait", "finally False", "the end", "atexit"]


@pytest.mark.slow
def test_queries_that_start_while_the_job_drains(spark: SparkSession, tmp_path: Path) -> None:
    """What something upstream has left is consumed and flushed; nothing is read besides."""
    script = Script(
        tmp_path,
        """
        start("first", read("in")).awaitTermination()
        say("drains")
        reader = start("reader", windows(read("first")))
        alone = start("alone", read("other"))
        reader.awaitTermination()
        alone.awaitTermination()
        say("drained")
        """,
    )
    for minute in range(0, 40, 10):
        script.feed.minutes(minute, minute + 10)
    Feed(tmp_path / "other").minutes(0, 10)
    with script.driver() as driver:
        await_batch(driver, "first", 3)
        record = driver.finish(Mode.DRAIN)
    assert said(driver.log) == ["drains", "drained"]
    assert record.drained
    assert batches(record)["alone"] is None
    assert script.values(spark, "reader") == script.windows(spark)
    assert {f.name for f in files_below(tmp_path / "alone")} <= {"streamjob-owner.json"}  # it wrote no row


@pytest.mark.slow
def test_a_web_server_that_raises_its_signal_again_turns_no_stop_into_a_cancel(tmp_path: Path) -> None:
    """It shuts down, gives the signal its handler back, and raises it, as uvicorn does."""
    script = Script(
        tmp_path,
        f"""{GATE}
start("only", read("in").withColumn("v", gated("v")))
got = []
before = signal.signal(signal.SIGINT, lambda number, frame: got.append(number))
while not got:
    time.sleep(0.02)
time.sleep(1)
signal.signal(signal.SIGINT, before)
signal.raise_signal(signal.SIGINT)
say("raised", list(map(int, got)))
time.sleep(1)
Path(home, "go").touch()
spark.streams.awaitAnyTermination()
""",
    )
    for minute in range(0, 40, 5):
        script.feed.minutes(minute, minute + 5)
    state = tmp_path / "state"
    with Terminal(state, script.file, arguments=(str(tmp_path),)) as first:
        eventually((tmp_path / "reached").exists, "the batch in the middle")
        code, shown = first.interrupt().ended()
    assert (code, said(first.log)) == (0, ["raised [2]"]), shown
    record = index(state).latest
    assert record is not None
    assert (record.scenario, batches(record), record.savepoint is not None) == (
        Scenario.STOP,
        {"only": 3},
        True,
    )


@pytest.mark.slow
def test_sigterm_on_a_laptop_is_a_stop_and_the_scripts_handler_runs(tmp_path: Path) -> None:
    """In the middle of a batch, and to the whole process group as systemd sends it."""
    script = Script(
        tmp_path,
        f"""{GATE}
signal.signal(signal.SIGTERM, lambda number, frame: say("handler", number))
start("only", read("in").withColumn("v", gated("v"))).awaitTermination()
say("behind the wait")
""",
    )
    for minute in range(0, 40, 5):
        script.feed.minutes(minute, minute + 5)
    state = tmp_path / "state"
    with Terminal(state, script.file, arguments=(str(tmp_path),)) as first:
        eventually((tmp_path / "reached").exists, "the batch in the middle")
        first.interrupt(signal.SIGTERM).shows("Stop: WaitingForBoundary")
        (tmp_path / "go").touch()
        code, shown = first.ended()
        assert code == 0, shown
    assert said(first.log) == ["handler 15"]
    record = index(state).latest
    assert record is not None
    assert (record.scenario, batches(record)) == (Scenario.STOP, {"only": 3})
    assert record.savepoint is not None
    assert Path(record.savepoint.removeprefix("file://"), "manifest.json").exists()


@pytest.mark.slow
def test_a_stop_does_not_wait_for_a_thread_without_end(tmp_path: Path) -> None:
    script = Script(
        tmp_path,
        """
        threading.Thread(target=lambda: [time.sleep(1) for _ in iter(int, 1)]).start()
        start("only", read("in")).awaitTermination()
        """,
    )
    script.feed.minutes(0, 3)
    with script.driver(grace=8) as driver:
        await_batch(driver, "only", 0)
        driver.finish(Mode.STOP)


@pytest.mark.slow
def test_r17_a_stage_that_is_gone_from_a_script_with_callbacks(spark: SparkSession, tmp_path: Path) -> None:
    """A foreachBatch function and a thread could start it; but the main thread had, beside the one that it
    waits for.
    """
    script = Script(
        tmp_path,
        """
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
        for name in sys.argv[2:]:
            read("in").writeStream.queryName(name).foreachBatch(into(name)).trigger(**OFTEN).start()
        spark.streams.awaitAnyTermination()
        """,
    )
    script.feed.minutes(0, 3)
    with script.driver("orders", "returns") as first:
        for uid in ("orders", "returns"):
            await_batch(first, uid, 0)
        record = first.finish(Mode.STOP)
    for left, gone in (("returns", "orders"), ("orders", "returns")):
        with script.next(first, left) as removed:
            refused(removed, f"'{left}'", f"'{gone}'", "allowNonRestoredState")
        first = removed
        first.record = record


@pytest.mark.slow
def test_one_that_follows_another_is_no_stage_that_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    """A thread ends the first one, and then the main thread starts the second: nobody knows that of the next
    epoch.
    """
    script = Script(
        tmp_path,
        """
        first = start("first", read("in"))

        def end():
            await_batch(first, 4 if Path(home, "again").exists() else 2)
            first.stop()

        threading.Thread(target=end).start()
        first.awaitTermination()
        start("second", read("in")).awaitTermination()
        """,
    )
    for minute in range(3):
        script.feed.minutes(minute, minute + 1)
    with script.driver() as before:
        await_batch(before, "second", 2)
        before.finish(Mode.STOP)
    (tmp_path / "again").touch()
    with script.next(before) as again:
        status = again.wait_for(lambda s: bool(s.warnings))
        assert [w.reason for w in status.warnings] == ["StateWithoutStage"]
        for minute in range(3, 6):
            script.feed.minutes(minute, minute + 1)
        await_batch(again, "second", 5)
        again.wait_for(lambda s: not s.warnings)
        again.finish(Mode.STOP)
    assert script.values(spark, "second") == list(range(6))


@pytest.mark.slow
def test_a_query_that_is_added_is_none_under_another_name(spark: SparkSession, tmp_path: Path) -> None:
    """It reads what others read, and all write with functions, or to memory, of which nobody knows where that
    goes.
    """
    script = Script(
        tmp_path,
        """
        def audit(frame, batch):
            into("audit")(frame, batch)

        if len(sys.argv) > 2:
            read("in").writeStream.queryName("audit").foreachBatch(audit).trigger(**OFTEN).start()
        read("in").writeStream.queryName("table").format("memory").trigger(**OFTEN).start()
        read("in").writeStream.queryName("counted").format("memory").trigger(**OFTEN).start()
        read("in").writeStream.queryName("orders").foreachBatch(into("orders")).trigger(**OFTEN).start()
        spark.streams.awaitAnyTermination()
        """,
    )
    script.feed.minutes(0, 3)
    with script.driver() as before:
        await_batch(before, "orders", 0)
        before.finish(Mode.STOP)
    with script.next(before, "audited") as again:
        await_batch(again, "audit", 0)
        again.finish(Mode.STOP)
    assert script.values(spark, "audit") == script.values(spark, "orders") == [0, 1, 2]


@pytest.mark.slow
def test_a_socket_begins_from_nothing_at_each_start(spark: SparkSession, tmp_path: Path) -> None:
    """The first example of Spark's guide, as its package has it."""
    guide = Path(pyspark.__file__).parent / "examples/src/main/python/sql/streaming"
    with Words() as words:
        with LocalDriver(tmp_path, guide / "structured_network_wordcount.py", *words.at) as first:
            first.running()
            first.finish(Mode.STOP)
        with first.next_epoch(guide / "structured_network_wordcount.py", *words.at) as second:
            status = second.running()
            assert [w.reason for w in status.warnings] == ["SourceNotReplayable"]
            assert second.finish(Mode.DRAIN).drained
    assert "|spark|" in "".join(second.log.read_text().split())
