"""The runtime without Kubernetes: Ctrl-C stops with a savepoint, the next start continues, --drain ends for
good.
"""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import SparkSession

from streamjob.runtime.savepoints import cli
from streamjob.runtime.savepoints.catalog import list_savepoints
from streamjob.storage.hadoop import HadoopFiles

from .feeds import eventually
from .job import APP, Feed
from .terminal import Terminal, index

pytestmark = pytest.mark.any_spark


def start(state: Path, *options: str, feed: Feed) -> Terminal:
    return Terminal(state, APP, *options, arguments=feed.arguments())


def test_stop_go_on_and_drain_from_a_shell(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.add(6)
    state = tmp_path / "state"
    first = start(state, feed=feed).running(1)
    code, shown = start(state, feed=feed).ended()
    assert (code, "another process runs" in shown) == (2, True), shown
    code, shown = first.interrupt().ended()
    assert code == 0, shown
    stopped = index(state).latest
    assert stopped is not None
    assert (
        f"checkpoint {stopped.checkpoint}, savepoint {stopped.savepoint}: the next start resumes from it"
        in shown
    )
    code, shown = start(state, "--restore", str(stopped.savepoint), feed=feed).ended()
    assert (code, "has checkpoints of its own" in shown) == (2, True), shown
    code, shown = start(state, feed=feed).running(5).interrupt().ended()
    assert code == 0, shown
    code, shown = start(state, "--drain", feed=feed).ended()
    assert code == 0, shown
    assert "drained, nothing is left to resume" in shown
    ends = [r for r in index(state).checkpoints if r.scenario is not None]
    assert [r.drained for r in ends] == [False, False, True]
    assert feed.output(spark) == feed.expected(spark)


@pytest.mark.slow
def test_the_second_interrupt_cancels_and_nothing_is_lost(feed: Feed, tmp_path: Path) -> None:
    feed.add(3)
    obstacle = tmp_path / "savepoints"
    obstacle.write_text("a file where a folder is needed, so that the stop cannot come to its end")
    first = start(tmp_path, feed=feed).running(1).interrupt()
    first.shows("Stop: WritingSavepoint", str(obstacle))
    code, shown = first.interrupt().ended()
    assert (code, "cancelled" in shown) == (130, True), shown
    assert not [r for r in index(tmp_path).checkpoints if r.scenario is not None]
    obstacle.unlink()
    code, shown = start(tmp_path, "--drain", feed=feed).ended()
    assert code == 0, shown
    record = index(tmp_path).latest
    assert record is not None
    assert record.drained


@pytest.mark.slow
def test_a_state_folder_with_a_name_that_a_uri_would_encode(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.add(4)
    odd = tmp_path / "state dir ü" / "50%" / "a%20b#1"
    odd.mkdir(parents=True)
    state = odd / "job"
    code, shown = start(Path(os.path.relpath(state)), feed=feed).running(1).interrupt().ended()
    assert code == 0, shown
    stopped = index(state).latest
    assert stopped is not None
    assert stopped.savepoint == f"file://{state}/savepoints/stop-1"
    assert stopped.stages[0].tasks[0].location == f"file:{state}/checkpoints/main/0"
    code, shown = start(state, feed=feed).running(3).interrupt().ended()
    assert code == 0, shown
    code, shown = start(state, "--drain", feed=feed).ended()
    assert code == 0, shown
    assert "drained, nothing is left to resume" in shown
    elsewhere = (str(feed.source), str(tmp_path / "fork"), "await")
    fork = Terminal(odd / "fork", APP, "--restore", stopped.savepoint, "--drain", arguments=elsewhere)
    code, shown = fork.ended()
    assert (code, "drained, nothing is left to resume" in shown) == (0, True), shown
    files = HadoopFiles(spark)
    assert cli.answer(files, ["list", f"{state}/savepoints"]) == 0
    found = list_savepoints(files, files.qualify(f"{state}/savepoints"))
    names = ("stop-1", "stop-2", "drain-3")
    assert {s.uri for s in found} == {f"file:{state}/savepoints/{name}" for name in names}
    for name in names:
        assert cli.answer(files, ["verify", f"{state}/savepoints/{name}"]) == 0
    assert {p.name for p in tmp_path.iterdir() if p.is_dir()} == {"in", "out", "fork", "state dir ü"}
    assert feed.output(spark) == feed.expected(spark)


ELSEWHERE = """
    import os
    import sys
    from pyspark.sql import SparkSession

    home = sys.argv[1]
    os.chdir(home)
    spark = SparkSession.builder.getOrCreate()
    os.chdir(f"{home}/elsewhere")
    rows = spark.readStream.schema("v long").json(f"{home}/in")
    how = {"processingTime": "100 milliseconds"}
    for name in ("ü" * 100, "ü" * 200, "ü" * 200 + "/%"):
        rows.writeStream.queryName(name).format("noop").trigger(**how).start()
    main = rows.writeStream.queryName("main").format("noop").trigger(**how)
    main.option("checkpointLocation", "checkpoints/main/0").start()
    spark.streams.awaitAnyTermination()
    """


@pytest.mark.slow
def test_long_names_and_a_location_that_counts_from_the_folder_of_the_jvm(tmp_path: Path) -> None:
    """Spark counts a relative one from where the JVM was started, wherever the script has gone since."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text('{"v": 1}')
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "app.py").write_text(dedent(ELSEWHERE))
    checkpoints = tmp_path / "checkpoints"
    for epoch in (1, 2):
        (tmp_path / f"in/{epoch}.json").write_text('{"v": 2}')
        with Terminal(tmp_path, tmp_path / "app.py", arguments=(str(tmp_path),)) as script:
            script.running(epoch - 1)
            eventually(lambda: len(list(checkpoints.glob("**/commits/0"))) == 4, "a batch of each query")
            code, shown = script.interrupt().ended()
        assert code == 0, shown
        record = index(tmp_path).latest
        assert record is not None
        assert len(record.stages) == 4
        places = {t.location for s in record.stages for t in s.tasks}
        assert all(Path(p.removeprefix("file:"), "commits/0").exists() for p in places), places
    assert (checkpoints / "main/0/commits/0").exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []
