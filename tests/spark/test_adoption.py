"""Row 8, version 1: a PySpark job that was killed as such jobs are today continues as a StreamJob, from a
copy of its directory.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dev.localdriver import FAST, LocalDriver
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import Restore
from streamjob.runtime.savepoints.adopt import adopt_directories
from streamjob.storage.hadoop import HadoopFiles

from .apps.windows import SCHEMA, windows
from .feeds import eventually
from .job import APP, Feed
from .scripts import Script


def run_and_kill(home: Path, feed: Feed, commits: int) -> Path:
    """`python app.py` until it has committed some batches, then SIGKILL.

    The checkpoint directory of its query.
    """
    conf, root = home / "conf", home / "bare"
    conf.mkdir()
    settings = {**FAST, "spark.sql.streaming.checkpointLocation": root.as_uri()}
    (conf / "spark-defaults.conf").write_text("".join(f"{k} {v}\n" for k, v in settings.items()))
    environment = {**os.environ, "SPARK_CONF_DIR": str(conf), "PYSPARK_PYTHON": sys.executable}
    with (home / "bare.log").open("w") as log:
        command = [sys.executable, str(APP), *feed.arguments()]
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        eventually(
            lambda: len(list(root.glob("*/commits/[0-9]*"))) >= commits, f"{commits} batches committed"
        )
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    (directory,) = root.iterdir()
    return directory


def digest(folder: Path) -> dict[str, str]:
    return {
        str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest()
        for f in folder.rglob("*")
        if f.is_file()
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "half_done",
    [pytest.param(False, marks=pytest.mark.any_spark), True],
    ids=["row8-at a boundary", "row8-in a batch"],
)
def test_a_killed_pyspark_job_goes_on_as_a_streamjob(
    spark: SparkSession, feed: Feed, tmp_path: Path, half_done: bool
) -> None:
    feed.add(6)
    bare = run_and_kill(tmp_path, feed, 3)
    commits, offsets = ({int(f.name) for f in (bare / d).glob("[0-9]*")} for d in ("commits", "offsets"))
    if half_done and max(commits) == max(offsets):
        (bare / "commits" / str(max(commits))).unlink()
        (bare / "commits" / f".{max(commits)}.crc").unlink(missing_ok=True)
    before = digest(bare)
    feed.add(3)
    restore = Restore(checkpoints={"main": bare.as_uri()})
    with LocalDriver(tmp_path, APP, *feed.arguments(), restore=restore) as driver:
        directory = tmp_path / "checkpoints" / "main" / "0"
        driver.running(1)
        eventually(lambda: len(feed.read_files(directory)) == 9, "all files read")
        assert f"from a copy of file:{bare}" in driver.log.read_text()
        assert driver.finish(Mode.DRAIN).drained
    assert feed.output(spark) == feed.expected(spark)
    assert digest(bare) == before, "the job's own directory is as it was"


@pytest.mark.any_spark
def test_row8_a_bare_directory_becomes_a_savepoint_that_a_job_begins_with(
    spark: SparkSession, files: HadoopFiles, feed: Feed, tmp_path: Path
) -> None:
    feed.add(4)
    bare = tmp_path / "bare"
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(feed.source))
    writer = (
        windows(events).writeStream.option("checkpointLocation", bare.as_uri()).trigger(availableNow=True)
    )
    writer.start(str(feed.sink)).awaitTermination()
    before, early = digest(bare), feed.output(spark)
    adopted = (tmp_path / "savepoints" / "adopted").as_uri()
    adopt_directories(files, {"main": files.qualify(bare.as_uri())}, files.qualify(adopted))
    assert digest(bare) == before
    feed.add(3)
    source, _, how = feed.arguments()
    feed.sink = tmp_path / "new"
    with LocalDriver(
        tmp_path, APP, source, str(feed.sink), how, restore=Restore(savepoint=adopted)
    ) as driver:
        driver.running(4)
        directory = tmp_path / "checkpoints" / "main" / "0"
        eventually(lambda: len(feed.read_files(directory)) == 7, "all files read")
        assert driver.finish(Mode.DRAIN).drained
    assert sorted(early + feed.output(spark)) == feed.expected(spark)


@pytest.mark.any_spark
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.slow
def test_a_query_whose_script_sets_its_location_goes_on_there(
    spark: SparkSession, tmp_path: Path, named: bool
) -> None:
    """Beside another one, whose directory is copied."""
    own = '.option("checkpointLocation", f"{home}/bare/a")'
    queries = [
        f'read("in").writeStream.queryName("{name}").format("json").trigger(**OFTEN){option}'
        f'.start(f"{{home}}/{name}")'
        for name, option in (("a", own), ("b", ""))
    ]
    script = Script(tmp_path, "\n".join([*queries, "spark.streams.awaitAnyTermination()"]))
    script.feed.minutes(0, 1)
    bare = {name: tmp_path / "bare" / name for name in ("a", "b")}
    for name, place in bare.items():
        writer = (
            script.feed.stream(spark).writeStream.queryName(name).format("json").trigger(availableNow=True)
        )
        writer.option("checkpointLocation", place.as_uri()).start(
            str(tmp_path / "old" / name)
        ).awaitTermination()
    script.feed.minutes(1, 2)
    adopted = {name: place.as_uri() for name, place in bare.items() if named or name == "b"}
    with script.driver(restore=Restore(checkpoints=adopted)) as driver:
        driver.running(1)
        eventually(lambda: all(script.values(spark, name) for name in bare), "rows of both")
        status = driver.wait_for(lambda s: len(s.stages) == 2)
        told = [w.message for w in status.warnings if w.reason == "AdoptedInPlace"]
        assert ["'a' continues in" in text for text in told] == ([True] if named else [])
        driver.finish(Mode.STOP)
    assert script.values(spark, "a") == script.values(spark, "b") == [1]
    assert {f.name for f in (bare["a"] / "commits").glob("[0-9]*")} == {"0", "1"}
    assert {f.name for f in (bare["b"] / "commits").glob("[0-9]*")} == {"0"}


@pytest.mark.any_spark
@pytest.mark.slow
def test_row8_what_cannot_be_taken_over_is_refused_by_name(feed: Feed, tmp_path: Path) -> None:
    feed.add(1)
    bare = tmp_path / "bare"
    (bare / "offsets").mkdir(parents=True)
    for stage, reason, text in (
        ("other", "CheckpointNotAdopted", "'main' is not in restoreFrom.checkpoints, which has other"),
        ("main", "MalformedDocument", "no file 'metadata'"),
    ):
        restore = Restore(checkpoints={stage: bare.as_uri()})
        home = tmp_path / stage
        home.mkdir()
        with LocalDriver(home, APP, *feed.arguments(), restore=restore) as driver:
            assert driver.wait() != 0
            problem = driver.report().problem
        assert problem is not None
        assert problem.reason == reason
        assert text in problem.message
        assert problem.remedy
