"""A query continues in positions of other sources: refused by name, told, or meant, as
Spark's own options say.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

from dev.localdriver import LocalDriver, manifest
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import Restore
from streamjob.protocol.messages.driver_status import Problem
from streamjob.runtime.query import endpoints
from streamjob.runtime.query.edges import Channel
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.runtime.spark.sources.plan_sources import sources_of_plan
from streamjob.runtime.startup.checks.dry_run import compare_sources
from streamjob.runtime.startup.checks.sources import QueryChanged
from streamjob.storage.hadoop import HadoopFiles

from .feeds import SCHEMA, Feed, eventually
from .job import APP
from .job import Feed as Input
from .test_changed_query import digest


class Reader:
    """A query that has read two files of a folder `in`."""

    def __init__(self, spark: SparkSession, files: HadoopFiles, home: Path) -> None:
        self.spark, self.home, self.files = spark, home, files
        self.feed = Feed(home / "in")
        self.feed.minutes(0, 2)
        self.feed.minutes(2, 4)
        self.directory = CheckpointDir(files, files.qualify(str(home / "checkpoint")))
        frame = self.feed.stream(spark)
        writer = frame.writeStream.format("json").option("checkpointLocation", self.directory.uri)
        writer.trigger(availableNow=True).start(str(home / "out")).awaitTermination()
        self.note(frame)

    def note(self, frame: DataFrame) -> None:
        sources = sources_of_plan(frame._jdf.queryExecution().analyzed())
        assert sources is not None
        sink = Channel("files", frozenset({str(self.home / "out")}))
        endpoints.note(self.directory, endpoints.ends(sources, sink, None, self.files.qualify))

    def told(self, path: str, *, written: str = "", **options: str) -> list[Problem]:
        """:param written: by another stage of the job, as far as that is known."""
        frame = self.spark.readStream.schema(SCHEMA).options(**options).json(path)
        return compare_sources(frame.writeStream, self.directory, fed=lambda was: was == written)


@pytest.fixture
def reader(spark: SparkSession, files: HadoopFiles, tmp_path: Path) -> Reader:
    return Reader(spark, files, tmp_path)


@pytest.mark.parametrize("bare", [False, True], ids=["noted", "bare directory"])
def test_a_folder_that_was_changed(reader: Reader, bare: bool) -> None:
    home = reader.home
    (home / "input").mkdir()
    if bare:
        (home / "checkpoint" / endpoints.NAME).unlink()
    before = digest(reader.directory)
    with pytest.raises(
        QueryChanged, match=f"had read files of file:{home}/in and reads file:{home}/input"
    ) as e:
        reader.told(f"{home}/input")
    # Both ways to go on that the message names are taken.
    assert "fileNameOnly" in e.value.remedy
    both = f"{home}/{{in,input}}"
    assert both in e.value.remedy
    assert reader.told(both) == []
    (told,) = reader.told(f"{home}/input", fileNameOnly="true")
    assert told.reason == "SourceMoved"
    assert len(reader.told(f"{home}/input", written=f"file:{home}/in")) == 1
    assert digest(reader.directory) == before


@pytest.mark.parametrize("path", ["{}/in", "{}/in/", "file://{}/in", "{}/i*", "{}/in/*.json", "{}"])
def test_another_name_of_the_same_folder_or_more_than_it(reader: Reader, path: str) -> None:
    assert reader.told(path.format(reader.home)) == []


def test_a_folder_that_nothing_was_read_of(spark: SparkSession, files: HadoopFiles, tmp_path: Path) -> None:
    reader = Reader(spark, files, tmp_path)
    log = tmp_path / "checkpoint" / "sources" / "0"
    for entry in log.iterdir():
        entry.unlink()
    (tmp_path / "other").mkdir()
    assert reader.told(f"{tmp_path}/other") == []


# Kafka's source is analyzed without asking Kafka.
def subscribed(
    spark: SparkSession, files: HadoopFiles, home: Path, **options: str
) -> tuple[CheckpointDir, Any]:
    folder = home / "checkpoint"
    directory = CheckpointDir(files, files.qualify(str(folder)))
    if not folder.exists():
        (folder / "offsets").mkdir(parents=True)
        (folder / "commits").mkdir()
        position = '{"orders":{"0":7,"1":9},"returns":{"0":3}}'
        (folder / "offsets" / "0").write_text(f'v1\n{{"batchWatermarkMs":0,"conf":{{}}}}\n{position}')
        (folder / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    settings = {"kafka.bootstrap.servers": "a:1,b:1", **options}
    return directory, spark.readStream.format("kafka").options(**settings).load()


@pytest.mark.skipif(pyspark.__version__ < "4.1", reason="no Kafka connector of this Spark")
@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"subscribe": "orders, returns"}, None),
        ({"subscribe": "orders,returns,more"}, None),
        ({"subscribePattern": "ord.*|returns"}, None),
        ({"assign": '{"orders":[0,1],"returns":[0]}'}, None),
        ({"subscribe": "orders"}, "returns"),
        ({"subscribe": "order,return"}, "orders, returns"),
        ({"subscribePattern": "ord.*"}, "returns"),
        ({"assign": '{"orders":[0],"returns":[0]}'}, "orders-1"),
    ],
)
def test_topics(
    spark: SparkSession, files: HadoopFiles, tmp_path: Path, options: dict[str, str], missing: str | None
) -> None:
    directory, frame = subscribed(spark, files, tmp_path, **options)
    if missing is None:
        assert compare_sources(frame.writeStream, directory) == []
        return
    with pytest.raises(QueryChanged, match=f"had read from {missing} and does not subscribe") as e:
        compare_sources(frame.writeStream, directory)
    assert "failOnDataLoss" in e.value.remedy
    _, frame = subscribed(spark, files, tmp_path, **options, failOnDataLoss="false")
    (told,) = compare_sources(frame.writeStream, directory)
    assert missing in told.message


@pytest.mark.skipif(pyspark.__version__ < "4.1", reason="no Kafka connector of this Spark")
def test_other_brokers_are_told(spark: SparkSession, files: HadoopFiles, tmp_path: Path) -> None:
    topics = {"subscribe": "orders,returns"}
    directory, frame = subscribed(spark, files, tmp_path, **topics)
    sources = sources_of_plan(frame._jdf.queryExecution().analyzed())
    assert sources is not None
    endpoints.note(directory, endpoints.ends(sources, None, None, files.qualify))
    for brokers, number in (("b:1,c:1", 0), ("c:1", 1)):
        _, frame = subscribed(spark, files, tmp_path, **topics, **{"kafka.bootstrap.servers": brokers})
        told = compare_sources(frame.writeStream, directory)
        assert len(told) == number
    assert "a:1,b:1" in told[0].message


@pytest.mark.slow
@pytest.mark.any_spark
def test_a_job_that_goes_on_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    """Its savepoint says what it read and wrote.

    Another folder for the output is told, and holds what comes from then on; another input of a job that is
    restored is refused.
    """
    feed = Input(tmp_path)
    feed.add(14)
    source, sink, how = feed.arguments()
    with LocalDriver(tmp_path, APP, source, sink, how) as first:
        first.running(3)
        stopped = first.finish(Mode.STOP)
    assert stopped.savepoint is not None
    assert f"stages/main/0/{endpoints.NAME}" in str(manifest(stopped.savepoint)["files"])
    batch = first.boundary()[0]
    other = tmp_path / "other"
    other.mkdir()
    restore = Restore(savepoint=stopped.savepoint)
    fork = tmp_path / "fork"
    fork.mkdir()
    with LocalDriver(fork, APP, str(other), str(fork / "out"), how, restore=restore) as wrong:
        assert wrong.wait() == 1
        problem = wrong.report().problem
    assert problem is not None
    assert problem.reason == "QueryChanged"
    assert f"had read files of file:{source} and reads file:{other}" in problem.message
    before = feed.output(spark)
    moved = tmp_path / "moved"
    with first.next_epoch(APP, source, str(moved), how) as unnamed:
        assert unnamed.wait() == 1
        problem = unnamed.report().problem
    assert problem is not None
    assert problem.reason == "QueryNameMissing", "it has no name, and its sink is another one"
    assert "the queryName 'main' if it is the same query" in problem.remedy
    named = tmp_path / "named.py"
    named.write_text(APP.read_text().replace(".writeStream", '.writeStream.queryName("main")'))
    with unnamed.next_epoch(named, source, str(moved), how) as second:
        status = second.running(batch + 1)
        told = {w.reason: w.message for w in status.warnings}
        assert set(told) == {"SinkMoved"}
        assert f"up to batch {batch} is in files file:{sink}" in told["SinkMoved"]
        feed.add(12)  # over a compaction of the sink's log
        eventually(lambda: len(feed.read_files(tmp_path / "checkpoints" / "main" / "0")) == 26, "all is read")
        assert second.finish(Mode.DRAIN).drained
    feed.sink = moved
    assert sorted(before + feed.output(spark)) == feed.expected(spark)
    notes = json.loads((tmp_path / "checkpoints" / "main" / "0" / endpoints.NAME).read_text())
    assert notes["sink"]["at"] == f"file:{moved}"
