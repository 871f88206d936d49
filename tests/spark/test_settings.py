"""Settings of the session that a script changes between its queries, and those that Spark itself refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver
from dev.s3.server import CONNECTOR
from streamjob.protocol.messages.commands import Mode
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.runtime.spark.session_conf import Settings
from streamjob.runtime.startup.checks.pinned_settings import tell_pinned
from streamjob.storage.hadoop import HadoopFiles
from tests import gate

from .apps.windows import SCHEMA, windows
from .job import APP, Feed

ABORTABLE = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"


def test_what_is_started_again_has_the_settings_that_it_had(spark: SparkSession) -> None:
    conf = spark.conf
    conf.set("streamjob.tests.a", "then")
    settings = Settings(spark)
    try:
        conf.set("streamjob.tests.a", "now")
        conf.set("streamjob.tests.b", "now")
        with settings.in_force():
            assert (conf.get("streamjob.tests.a"), conf.get("streamjob.tests.b", None)) == ("then", None)
        assert (conf.get("streamjob.tests.a"), conf.get("streamjob.tests.b")) == ("now", "now")
    finally:
        conf.unset("streamjob.tests.a")
        conf.unset("streamjob.tests.b")


ZONES = """
from pyspark.sql import SparkSession
from tests.spark.apps.windows import SCHEMA, windows

source, out = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()

def writer_of(name):
    def write(frame, batch):
        times = frame.selectExpr("date_format(window.start, 'HH:mm XXX') AS t").distinct().collect()
        with open(f"{out}/{name}", "a") as file:
            file.writelines(f"{row.t}\\n" for row in times)
    return write

for name, zone in (("first", "UTC"), ("second", "Asia/Tokyo")):
    spark.conf.set("spark.sql.session.timeZone", zone)
    writer = windows(spark.readStream.schema(SCHEMA).json(source)).writeStream.queryName(name)
    query = writer.foreachBatch(writer_of(name)).trigger(processingTime="200 milliseconds").start()
query.awaitTermination()
"""


@pytest.mark.any_spark
def test_a_drained_query_has_the_settings_that_it_started_with(feed: Feed, tmp_path: Path) -> None:
    """What its foreachBatch function sees of the session, here the zone of times, though the script has set
    another one since.
    """
    feed.add(3)
    script = tmp_path / "app.py"
    script.write_text(f"import sys\nsys.path.append({str(Path(__file__).parents[2])!r}){ZONES}")
    with LocalDriver(tmp_path, script, str(feed.source), str(tmp_path)) as driver:
        driver.wait_for(lambda s: len(s.stages) == 2 and all(g.tasks[0].batch is not None for g in s.stages))
        driver.finish(Mode.DRAIN)
    assert (tmp_path / "first").read_text() == "00:00 Z\n"
    assert (tmp_path / "second").read_text() == "09:00 +09:00\n"


def test_settings_that_a_checkpoint_pins_are_named(
    spark: SparkSession, files: HadoopFiles, feed: Feed, tmp_path: Path
) -> None:
    """Spark goes on with those of the first batch: in the next one, too, and whatever is asked for."""
    directory = CheckpointDir(files, files.qualify(f"{tmp_path}/checkpoint"))
    assert tell_pinned(directory) == []

    def run() -> None:
        feed.add(1)
        writer = windows(spark.readStream.schema(SCHEMA).json(str(feed.source))).writeStream
        writer = writer.option("checkpointLocation", directory.uri).trigger(availableNow=True)
        writer.start(str(feed.sink)).awaitTermination()

    run()
    assert tell_pinned(directory) == []
    wanted = {
        "spark.sql.shuffle.partitions": ("2", "5"),
        "spark.sql.streaming.multipleWatermarkPolicy": ("min", "max"),
    }
    before = {key: spark.conf.get(key) for key in wanted}
    try:
        for key, (_, asked) in wanted.items():
            spark.conf.set(key, asked)
        run()
        (told,) = tell_pinned(directory)
    finally:
        for key, value in before.items():
            spark.conf.set(key, str(value))
    assert told.reason == "SettingPinned"
    for key, (value, asked) in wanted.items():
        assert f"{key} is {value} and stays so ({asked} is asked for)" in told.message
        assert f"{key}={value}" in told.remedy
    latest = directory.latest_offset()
    assert latest is not None
    assert latest > 0
    settings = directory.entry(latest).settings
    assert {key: settings[key] for key in wanted} == {key: value for key, (value, _) in wanted.items()}


@pytest.mark.parametrize(
    "manager", gate.slow_but(["org.example.NoSuchManager"], [ABORTABLE, "org.example.NoSuchManager"])
)
@pytest.mark.default_spark
def test_a_manager_of_checkpoint_files_that_does_not_fit_is_refused(
    feed: Feed, tmp_path: Path, manager: str
) -> None:
    """A volume cannot give up a file that is half written, as an object store can."""
    feed.add(1)
    conf = {"spark.jars": CONNECTOR, "spark.sql.streaming.checkpointFileManagerClass": manager}
    with LocalDriver(tmp_path, APP, *feed.arguments(), spark_conf=conf) as driver:
        assert driver.wait() == 1, driver.tail()
    problem = driver.report().problem
    assert problem is not None
    assert (problem.reason, problem.retryable) == ("FileManagerUnfit", False)
    assert manager in problem.message
    assert f"{tmp_path}/checkpoints" in problem.message
    assert "checkpointFileManagerClass" in problem.remedy
    assert not (tmp_path / "checkpoints/main/0/offsets").exists()
