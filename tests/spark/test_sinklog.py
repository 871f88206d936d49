"""The file sink's log where a query continues in another folder than the one it came from."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamjob.runtime.spark.sink_log import begin_after, folder_of, read
from streamjob.runtime.spark.stream_writer import WriterOptions
from streamjob.storage.hadoop import HadoopFiles

from .feeds import Feed


class Stream:
    """A query that copies a file in each batch."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self._spark, self._home, self._feed = spark, home, Feed(home / "in")
        self._batches = 0

    def run(self, batches: int, folder: str) -> None:
        for _ in range(batches):
            self._feed.minutes(self._batches, self._batches + 1)
            self._batches += 1
        writer = self._feed.stream(self._spark).writeStream.format("json")
        writer = writer.option("checkpointLocation", str(self._home / "checkpoint"))
        writer.trigger(availableNow=True).start(str(self._home / folder)).awaitTermination()

    def rows(self, folder: str) -> int:
        """As a reader sees it that trusts the sink's log."""
        return self._spark.read.schema("k string").json(str(self._home / folder)).count()


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


@pytest.mark.parametrize(
    ("interval", "batches"),
    [
        ("3", 7),
        *(
            pytest.param(*of, marks=pytest.mark.slow)
            for of in (("3", 1), ("3", 3), ("3", 5), ("3", 12), ("10", 25))
        ),
    ],
)
def test_a_query_goes_on_in_a_new_folder_over_two_compactions(
    spark: SparkSession, files: HadoopFiles, stream: Stream, tmp_path: Path, batches: int, interval: str
) -> None:
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", interval)
    try:
        stream.run(batches, "old")
        for _ in range(2):  # a crash in between is a repetition
            begin_after(files, str(tmp_path / "new"), batches - 1)
        assert stream.rows("new") == 0
        more = 2 * int(interval) + 1
        stream.run(more, "new")
    finally:
        spark.conf.unset("spark.sql.streaming.fileSink.log.compactInterval")
    assert stream.rows("old") * more == stream.rows("new") * batches > 0


@pytest.mark.parametrize("elsewhere", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (7, 16))])
@pytest.mark.default_spark
def test_a_query_goes_on_in_a_folder_that_has_its_first_batches_only(
    spark: SparkSession, files: HadoopFiles, stream: Stream, tmp_path: Path, elsewhere: int
) -> None:
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "5")
    try:
        stream.run(7, "out")
        before = stream.rows("out")
        begin_after(files, str(tmp_path / "elsewhere"), 6)
        stream.run(elsewhere, "elsewhere")
        for _ in range(2):
            begin_after(files, str(tmp_path / "out"), 6 + elsewhere)
        assert stream.rows("out") == before > 0
        stream.run(7, "out")
    finally:
        spark.conf.unset("spark.sql.streaming.fileSink.log.compactInterval")
    assert stream.rows("out") == 2 * before


@pytest.mark.default_spark
def test_what_the_folder_has_is_left_alone(files: HadoopFiles, stream: Stream, tmp_path: Path) -> None:
    stream.run(12, "out")
    before = {p.name: p.read_bytes() for p in (tmp_path / "out" / "_spark_metadata").iterdir()}
    begin_after(files, str(tmp_path / "out"), 11)
    assert {p.name: p.read_bytes() for p in (tmp_path / "out" / "_spark_metadata").iterdir()} == before


def test_a_log_of_spark_s_lacks_nothing(files: HadoopFiles, stream: Stream, tmp_path: Path) -> None:
    stream.run(12, "out")
    found = read(files, str(tmp_path / "out"))
    assert (found.newest, found.lacks) == (11, [])
    (tmp_path / "out" / "_spark_metadata" / "10").write_bytes(b"")
    assert read(files, str(tmp_path / "out")).lacks == ["10"], "a file that was emptied is no entry"
    (tmp_path / "out" / "_spark_metadata" / "10").write_text("v1\n")
    (tmp_path / "out" / "_spark_metadata" / "9.compact").unlink()
    assert read(files, str(tmp_path / "out")).lacks == ["9.compact"]
    assert read(files, str(tmp_path / "none")).newest is None


@pytest.mark.parametrize(
    ("written", "found"),
    [
        (WriterOptions(options={"path": "/out/"}), True),
        (WriterOptions(format="JSON", options={"path": "/out"}), True),
        (WriterOptions(format="delta", options={"path": "/out"}), False),
        (WriterOptions(format="delta", options={"path": "/out"}, table="t"), False),
        (
            WriterOptions(format="parquet", options={"path": "/out"}, table="t"),
            True,
        ),  # Spark creates it there
        (WriterOptions(format="noop"), False),
    ],
)
def test_only_the_file_sink_has_such_a_folder(
    files: HadoopFiles, written: WriterOptions, found: bool
) -> None:
    writer = files.spark.readStream.format("rate").load().writeStream
    assert folder_of(files, writer, written) == ("file:/out" if found else None)


def test_a_table_of_files_has_such_a_folder(files: HadoopFiles, tmp_path: Path) -> None:
    writer = files.spark.readStream.format("rate").load().writeStream
    files.spark.sql(f"CREATE TABLE of_files (v INT) USING json LOCATION '{tmp_path}/t'")
    try:
        assert (
            folder_of(files, writer, WriterOptions(format="json", table="of_files")) == f"file:{tmp_path}/t"
        )
    finally:
        files.spark.sql("DROP TABLE of_files")
