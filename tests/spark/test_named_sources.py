"""Sources with names (Spark 4.2): they come, go and change places; what must not be mixed up is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from streamjob.protocol.messages.driver_status import Problem
from streamjob.runtime.query import endpoints
from streamjob.runtime.query.figures import Lags
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.runtime.spark.internals import Internals
from streamjob.runtime.spark.max_watermark.batch import write_max_watermark
from streamjob.runtime.spark.offset_log import FORMAT, NAMES_SOURCES
from streamjob.runtime.spark.sources.plan_sources import Source, sources_of_plan
from streamjob.runtime.spark.versions.table import order
from streamjob.runtime.startup.checks.data_loss import SourceGone, refuse_gone
from streamjob.runtime.startup.checks.dry_run import compare_sources
from streamjob.runtime.startup.checks.sources import QueryChanged
from streamjob.storage.hadoop import HadoopFiles

from .feeds import Feed
from .test_changed_query import digest
from .test_sources_gone import undo_commit

pytestmark = pytest.mark.skipif(order(pyspark.__version__) < (4, 2), reason="sources have no names yet")


class Union:
    """A query over folders: each is a source with the folder's name, or none."""

    def __init__(self, spark: SparkSession, files: HadoopFiles, home: Path) -> None:
        self.spark, self.home, self.files = spark, home, files
        self.feeds = {name: Feed(home / name) for name in "abc"}
        self.directory = CheckpointDir(files, files.qualify(str(home / "checkpoint")))
        self.fed: list[int] = []

    def feed(self, names: str) -> None:
        for name in names:
            self.fed.append(len(self.fed))
            self.feeds[name].add([{"v": self.fed[-1]}])

    def frame(self, names: str, *, named: bool = True) -> DataFrame:
        frames = []
        for name in names:
            reader = self.spark.readStream.schema("v LONG")
            if named:
                reader = reader.name(name)  # type: ignore[attr-defined, unused-ignore]
            frames.append(reader.json(str(self.feeds[name].folder)).withColumn("s", F.lit(name)))
        return reduce(DataFrame.unionByName, frames)

    def writer(self, names: str, *, named: bool = True) -> DataStreamWriter:
        writer = self.frame(names, named=named).writeStream.format("json").option("path", self.out)
        return writer.option("checkpointLocation", self.directory.uri).trigger(availableNow=True)

    @property
    def out(self) -> str:
        return str(self.home / "out")

    def run(self, names: str) -> None:
        writer = self.writer(names)
        writer.start().awaitTermination()
        sources = self.sources(writer)
        endpoints.note(self.directory, endpoints.ends(sources, None, "write", self.files.qualify))

    def sources(self, writer: DataStreamWriter) -> list[Source]:
        sources = sources_of_plan(writer._df._jdf.queryExecution().analyzed())
        assert sources is not None
        return sources

    def checked(self, names: str, *, named: bool = True) -> list[Problem]:
        writer = self.writer(names, named=named)
        warnings = compare_sources(writer, self.directory)
        return warnings + refuse_gone(self.directory, self.sources(writer), None)

    def rows(self) -> list[int]:
        files = Path(self.out).glob("part-*")
        return sorted(json.loads(line)["v"] for f in files for line in f.read_text().splitlines())


@pytest.fixture
def union(spark: SparkSession, files: HadoopFiles, tmp_path: Path) -> Iterator[Union]:
    spark.conf.set(NAMES_SOURCES, "true")
    spark.conf.set(FORMAT, "2")  # which Spark 4.3 takes by itself
    yield Union(spark, files, tmp_path)
    spark.conf.unset(NAMES_SOURCES)
    spark.conf.unset(FORMAT)


def test_sources_are_added_and_reordered_and_one_that_is_removed_does_not_come_back(union: Union) -> None:
    union.feed("ab")
    union.run("ab")
    assert union.directory.source_offsets(0) == {"a": '{"logOffset":0}', "b": '{"logOffset":0}'}
    assert [o.uid for o in union.directory.operators()] == ["source-a", "source-b", "sink"]
    union.feed("abc")
    assert union.checked("ba") == []
    (told,) = union.checked("bca")
    assert (told.reason, "reads c for the first time" in told.message) == ("SourcesChanged", True)
    union.run("bca")
    assert union.rows() == union.fed, "each row once"
    (told,) = union.checked("ab")
    assert re.search(r'no longer reads c, of which it had read up to \{"logOffset":0\}', told.message)
    for number in range(2):
        union.feed("ab")
        union.run("ab")
        if number == 0:
            assert union.checked("abc") == [], "the entry before the last one still has its position"
    before = digest(union.directory)
    with pytest.raises(QueryChanged, match="reads the source c again, and the checkpoint has lost"):
        union.checked("abc")
    assert digest(union.directory) == before
    assert union.rows() == union.fed
    union.run("abc")
    assert union.rows() == sorted([*union.fed, 4]), "Spark itself reads the first file of c twice"


def test_a_batch_that_is_run_again_is_checked_by_the_names(union: Union) -> None:
    union.feed("ab")
    union.run("ab")
    union.feed("ab")
    union.run("ba")
    undo_commit(union.directory)
    assert union.checked("ab") == []
    with pytest.raises(QueryChanged, match="has not committed and reads the source b"):
        union.checked("a")
    gone = union.feeds["b"].folder / "00001.json"
    gone.rename(union.home / "away")
    with pytest.raises(SourceGone, match=rf"1 files .* 1 are gone: file:.*{gone.name}"):
        union.checked("ab")


def test_names_are_neither_given_nor_taken_later(union: Union) -> None:
    union.feed("ab")
    union.run("ab")
    union.spark.conf.set(NAMES_SOURCES, "false")
    with pytest.raises(QueryChanged, match="its sources have no names and had some") as e:
        union.checked("ab", named=False)
    assert "a new checkpoint" in e.value.remedy


def test_the_lag_and_a_planned_last_batch_keep_the_names(union: Union, internals: Internals) -> None:
    union.feed("ab")
    frame = union.frame("ba").groupBy("s").count()
    writer = frame.writeStream.queryName("counts").format("noop").outputMode("complete")
    query = writer.option("checkpointLocation", union.directory.uri).start()
    try:
        query.processAllAvailable()
        streams = internals.execution(query).sources
        sources = sources_of_plan(frame._jdf.queryExecution().analyzed())
        lags = Lags(union.directory, sources, internals.jvm)
        lags.measure(lambda: streams)
        assert {figures.uid: figures.lag.files for figures in lags.sources} == {
            "source-a": 0,
            "source-b": 0,
        }
    finally:
        query.stop()
    before = union.directory.latest_offset()
    assert before is not None
    batch = write_max_watermark(union.directory, internals)
    assert batch == before + 1
    assert union.directory.source_offsets(batch) == union.directory.source_offsets(before)
    assert union.directory.entry(batch).names_sources
