"""A prepared driver waits at the gate, and goes on where the running one has stopped."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import Gate, Restore
from streamjob.protocol.messages.driver_status import DriverPhase
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.runtime.startup.warm_up import copy_last_batch
from streamjob.storage.hadoop import CopiedFile, HadoopFiles, NotFound
from streamjob.storage.local_disk import uri_of

from .feeds import eventually
from .job import APP, Feed
from .terminal import Terminal, index
from .test_adoption import digest

pytestmark = pytest.mark.any_spark


# With a listener that says what it hears. Arguments: input, output, what becomes of files that are read.
LISTENS = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener


class Listener(StreamingQueryListener):
    def onQueryStarted(self, event):
        print("script: heard of", event.name, flush=True)

    def onQueryProgress(self, event):
        pass

    def onQueryIdle(self, event):
        pass

    def onQueryTerminated(self, event):
        print("script: heard of an end", flush=True)


def write(frame, batch):
    print("script: called for batch", batch, flush=True)
    frame.write.mode("append").parquet(sys.argv[2])


spark = SparkSession.builder.getOrCreate()
spark.streams.addListener(Listener())
rows = spark.readStream.schema("t timestamp, k string, v long").option("maxFilesPerTrigger", 1)
rows = rows.option("cleanSource", sys.argv[3]).json(sys.argv[1])
rows.dropDuplicates(["v"]).writeStream.foreachBatch(write).queryName("seen").start().awaitTermination()
"""


def contents(checkpoints: Path, feed: Feed) -> list[dict[str, str]]:
    """Without hidden files: when a commit is there, its temporary checksum may still be."""
    found = (digest(folder) for folder in (checkpoints, feed.source, feed.sink))
    return [{p: d for p, d in files.items() if not Path(p).name.startswith(".")} for files in found]


def prepared(driver: LocalDriver) -> LocalDriver:
    driver.wait_for(lambda s: s.phase is DriverPhase.PREPARED)
    return driver


@pytest.mark.slow
def test_it_writes_nothing_before_the_gate_and_goes_on_behind_it(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.add(4)
    with (
        LocalDriver(tmp_path, APP, *feed.arguments()) as first,
        LocalDriver(tmp_path, APP, *feed.arguments(), epoch=2, prepared=True) as second,
    ):
        first.running(2)
        prepared(second)
        assert second.status().stages == ()
        refused, why = first.call("PUT", "/v1/gate", Gate("handover-1", 1))
        assert (refused, "this driver has begun" in why) == (409, True)
        stopped = first.finish(Mode.STOP)
        before = digest(tmp_path / "checkpoints"), digest(feed.sink)
        feed.add(4)
        gate = Gate("handover-2", 2, Restore(latest=stopped, exact=True), stopped.checkpoint + 1)
        assert second.call("PUT", "/v1/gate", Gate("handover-1", 1))[0] == 412, "of another epoch"
        assert second.status().phase is DriverPhase.PREPARED
        assert (digest(tmp_path / "checkpoints"), digest(feed.sink)) == before
        assert [second.call("PUT", "/v1/gate", gate)[0] for _ in range(2)] == [202, 202]
        other, why = second.call("PUT", "/v1/gate", Gate("handover-3", 2))
        assert (other, "opened by handover-2" in why) == (409, True)
        directory = tmp_path / "checkpoints" / "main" / "0"
        eventually(lambda: len(feed.read_files(directory)) == 8, "all files read")
        drained = second.finish(Mode.DRAIN)
    assert (drained.checkpoint, drained.drained) == (stopped.checkpoint + 1, True)
    assert feed.output(spark) == feed.expected(spark)


@pytest.mark.parametrize("reads", ["off", "delete"])
@pytest.mark.slow
def test_it_warms_up_unnoticed(feed: Feed, tmp_path: Path, reads: str) -> None:
    """The last batch runs again: without sink, function, listener or trace. Not if reading has an effect."""
    feed.add(3)
    app, scratch = tmp_path / "app.py", tmp_path / "tmp"
    app.write_text(LISTENS)
    scratch.mkdir()
    arguments = (str(feed.source), str(feed.sink), reads)
    with LocalDriver(tmp_path, app, *arguments) as first:
        commits = tmp_path / "checkpoints" / "seen" / "0" / "commits"
        eventually((commits / "2").exists, "batch 2")
        before = contents(tmp_path / "checkpoints", feed)
        with LocalDriver(
            tmp_path, app, *arguments, epoch=2, prepared=True, environment={"TMPDIR": str(scratch)}
        ) as second:
            prepared(second)
        after = contents(tmp_path / "checkpoints", feed)
        first.finish(Mode.STOP)
    said = second.log.read_text()
    assert ("warmed up, its last batch ran again" in said) == (reads == "off"), said
    assert ("not warmed up" in said) == (reads == "delete"), said
    assert "script:" not in said
    assert not list(scratch.glob("streamjob-warm-up-*"))
    assert after == before


class Purging(HadoopFiles):
    """Spark purges a batch after it has been listed, before it is copied."""

    def __init__(self, spark: SparkSession, purged: int) -> None:
        super().__init__(spark)
        self.purged = purged

    def copy(self, source: str, target: str) -> CopiedFile:
        if source.endswith(f"/offsets/{self.purged}"):
            self.delete(source)
        return super().copy(source, target)


def purging(spark: SparkSession, tmp_path: Path, batches: int, purged: int) -> CheckpointDir:
    files = Purging(spark, purged)
    for log in ("offsets", "commits"):
        for batch in range(batches):
            files.write_new(uri_of(tmp_path / "q" / log / str(batch)), b"v1\n{}\n")
    return CheckpointDir(files, uri_of(tmp_path / "q"))


@pytest.mark.parametrize("last", [0, 3])
def test_it_does_not_warm_up_with_a_batch_that_is_purged(
    spark: SparkSession, tmp_path: Path, last: int
) -> None:
    """Spark would plan another one."""
    directory = purging(spark, tmp_path, last + 1, purged=last)
    with pytest.raises(NotFound):
        copy_last_batch(directory.files, directory, uri_of(tmp_path / "copy"))


def test_it_warms_up_while_the_running_driver_purges_old_batches(spark: SparkSession, tmp_path: Path) -> None:
    directory = purging(spark, tmp_path, 4, purged=0)
    batch = copy_last_batch(directory.files, directory, uri_of(tmp_path / "copy"))
    found = {str(p.relative_to(tmp_path / "copy")) for p in (tmp_path / "copy").rglob("*") if p.is_file()}
    assert batch == 3
    assert found == {"metadata", *(f"offsets/{n}" for n in (1, 2, 3)), *(f"commits/{n}" for n in (0, 1, 2))}


@pytest.mark.slow
def test_a_query_that_does_not_fit_its_state_is_refused_before_the_gate(feed: Feed, tmp_path: Path) -> None:
    feed.add(3)
    app, other = tmp_path / "app.py", tmp_path / "other.py"
    app.write_text(LISTENS)
    other.write_text(LISTENS.replace('dropDuplicates(["v"])', 'dropDuplicates(["k"])'))
    arguments = (str(feed.source), str(feed.sink), "off")
    with LocalDriver(tmp_path, app, *arguments) as first:
        commits = tmp_path / "checkpoints" / "seen" / "0" / "commits"
        eventually((commits / "1").exists, "batch 1")
        with LocalDriver(tmp_path, other, *arguments, epoch=2, prepared=True) as second:
            assert second.wait() != 0
        problem = second.report().problem
        assert problem is not None
        assert problem.reason == "QueryChanged"
        feed.add(1)
        eventually((commits / "3").exists, "batch 3 of the running driver")
        first.finish(Mode.STOP)


def test_one_that_is_not_needed_leaves_no_trace(feed: Feed, tmp_path: Path) -> None:
    feed.add(2)
    with LocalDriver(tmp_path, APP, *feed.arguments(), prepared=True) as driver:
        prepared(driver)
        driver.process.terminate()
        assert driver.wait() == 0
    report = driver.report()
    assert report.problem is None
    assert "before its first query began" in report.exit_reason
    assert not (tmp_path / "checkpoints").exists()
    assert not feed.sink.exists()


@pytest.mark.slow
def test_one_that_comes_too_late_does_not_stop_who_has_taken_over(feed: Feed, tmp_path: Path) -> None:
    feed.add(4)
    state, slow, go = tmp_path / "state", tmp_path / "slow.py", tmp_path / "go"
    slow.write_text(
        f"import runpy, time\nfrom pathlib import Path\nwhile not Path({str(go)!r}).exists():\n"
        f"    time.sleep(0.1)\nrunpy.run_path({str(APP)!r}, run_name='__main__')\n"
    )
    with (
        Terminal(state, APP, arguments=feed.arguments()).running(1) as old,
        Terminal(state, slow, "--handover", arguments=feed.arguments()) as late,
        Terminal(state, APP, "--handover", arguments=feed.arguments()) as fast,
    ):
        late.shows("streamjob: epoch 2")
        assert old.ended()[0] == 0
        fast.shows("streamjob: Running")
        go.touch()
        code, shown = late.ended()
        assert (code, "another process has run the job" in shown) == (1, True), shown
        code, shown = fast.interrupt().ended()
        assert (code, "savepoint" in shown) == (0, True), shown
    assert [r.epoch for r in index(state).checkpoints if r.savepoint] == [1, 2]


def test_a_running_local_job_is_taken_over(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """By a script that fails, and nothing happens; then by one that comes to its first query."""
    feed.add(4)
    state = tmp_path / "state"
    bad = tmp_path / "bad.py"
    bad.write_text(
        dedent("""
            from pyspark.sql import SparkSession

            SparkSession.builder.getOrCreate()
            raise SystemExit("a table is missing")
        """)
    )
    with Terminal(state, APP, arguments=feed.arguments()).running(1) as old:
        code, shown = Terminal(state, bad, "--handover", arguments=feed.arguments()).ended()
        assert (code, "a table is missing" in shown) == (1, True), shown
        feed.add(1)
        old.running(5)
        with Terminal(state, APP, "--handover", arguments=feed.arguments()) as new:
            new.shows("prepared; process", str(old.process.pid))
            code, shown = old.ended()
            assert code == 0, shown
            feed.add(3)
            new.shows("streamjob: Running")
            directory = state / "checkpoints" / "main" / "0"
            eventually(lambda: len(feed.read_files(directory)) == 8, "all files read")
            code, shown = new.interrupt().ended()
            assert code == 0, shown
    epochs = [(r.epoch, r.savepoint and r.savepoint.rpartition("/")[2]) for r in index(state).checkpoints]
    assert [e for e in epochs if e[1]] == [(1, "stop-1"), (2, "stop-2")]
    code, shown = Terminal(state, APP, "--handover", "--drain", arguments=feed.arguments()).ended()
    assert (code, "drained" in shown) == (0, True), f"nobody runs it: it starts as ever; {shown}"
    assert feed.output(spark) == feed.expected(spark)
