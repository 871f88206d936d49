"""What a query reads next is gone: said before anything is written.

What Spark does by itself is shown beside it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from dev.broker import Kafka
from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_status import Problem
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.runtime.spark.sources import kafka_offsets
from streamjob.runtime.spark.sources.plan_sources import sources_of_plan
from streamjob.runtime.spark.sources.source_log import files_read
from streamjob.runtime.startup.checks.data_loss import SourceGone, refuse_gone
from streamjob.storage.hadoop import HadoopFiles

from .apps.windows import SCHEMA, windows
from .feeds import Feed, eventually, rows
from .job import APP
from .job import Feed as Input
from .test_changed_query import digest, without_state
from .test_drain import Job


def gone(
    directory: CheckpointDir,
    writer: DataStreamWriter,
    *,
    reads: bool = True,
    later: CheckpointDir | None = None,
) -> list[Problem]:
    sources = sources_of_plan(writer._df._jdf.queryExecution().analyzed())
    assert sources is not None
    return refuse_gone(directory, sources, writer._spark._jvm, reads=reads, later=later)


def undo_commit(directory: CheckpointDir) -> None:
    """As a driver leaves it that dies in its last batch."""
    commits = Path(directory.uri.removeprefix("file:")) / "commits"
    last = max(int(f.name) for f in commits.glob("[0-9]*"))
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


# --- files --------------------------------------------------------------------------------------------------


@pytest.fixture
def half_done(spark: SparkSession, files: HadoopFiles, tmp_path: Path) -> Job:
    """Its second batch, of one file, is planned and not committed."""
    job = Job(spark, files, tmp_path, without_state)
    job.run()
    undo_commit(job.directory)
    for entry in (tmp_path / "out" / "_spark_metadata").glob("*1*"):
        entry.unlink()
    return job


def writer_of(job: Job) -> DataStreamWriter:
    return job.query(lambda name: job.inputs[name].stream(job.spark)).writeStream


def test_a_file_of_the_batch_that_is_run_again(half_done: Job) -> None:
    job, file = half_done, half_done.inputs["a"].folder / "00001.json"
    assert gone(job.directory, writer_of(job)) == []
    file.rename(job.home / "away")
    before = digest(job.directory)
    for reads in (True, False):  # it is run again also by a job that is to end
        with pytest.raises(SourceGone, match=r"1 files .* 1 are gone: file:.*/00001\.json") as refused:
            gone(job.directory, writer_of(job), reads=reads)
    assert "ignoreMissingFiles" in refused.value.remedy
    assert not refused.value.retryable
    assert digest(job.directory) == before
    job.spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        (told,) = gone(job.directory, writer_of(job))
    finally:
        job.spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    assert told.reason == "SourceGone"
    assert "00001.json" in told.message
    (job.home / "away").rename(file)
    assert gone(job.directory, writer_of(job)) == []


def test_spark_itself_leaves_the_file_out_and_says_nothing(half_done: Job) -> None:
    """Which is why it is looked for: its rows would be in no output, and the batch committed."""
    job = half_done
    first = rows(job.inputs["a"].table(job.spark).where("v < 40"))
    job.inputs["a"].folder.joinpath("00001.json").unlink()
    job.run()
    assert job.directory.boundary() == 1
    assert job.output() == first, "of the second file nothing came"


def test_a_file_that_was_read_and_committed_may_go(
    spark: SparkSession, files: HadoopFiles, tmp_path: Path
) -> None:
    job = Job(spark, files, tmp_path, without_state)
    job.run()
    for file in job.inputs["a"].folder.glob("*.json"):
        file.unlink()
    assert gone(job.directory, writer_of(job)) == []


@pytest.mark.parametrize("clean", ["delete", "archive"])
def test_files_that_were_read_since_and_cleaned(
    spark: SparkSession, files: HadoopFiles, tmp_path: Path, clean: str
) -> None:
    """A savepoint is restored to before them: Spark itself goes on with what is left, and says nothing."""
    feed = Feed(tmp_path / "in")
    options = {"cleanSource": clean, "sourceArchiveDir": f"{tmp_path}/archive"}
    home, copy = (CheckpointDir(files, files.qualify(f"{tmp_path}/{name}")) for name in ("home", "copy"))

    def writer_to(directory: CheckpointDir) -> DataStreamWriter:
        frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).options(**options)
        writer = frame.json(str(feed.folder)).writeStream.format("noop")
        return writer.option("checkpointLocation", directory.uri).trigger(availableNow=True)

    def more() -> None:
        for minute in range(2):
            feed.minutes(minute, minute + 1)
        writer_to(home).start().awaitTermination()

    spark.conf.set("spark.sql.streaming.fileSource.cleaner.numThreads", "0")  # at once
    try:
        more()
        shutil.copytree(tmp_path / "home", tmp_path / "copy")
        more()
    finally:
        spark.conf.unset("spark.sql.streaming.fileSource.cleaner.numThreads")
    assert sorted(f.name for f in feed.folder.glob("*.json")) == ["00003.json"], "its batch is the last one"
    assert gone(copy, writer_to(copy)) == []
    assert gone(copy, writer_to(copy), later=home, reads=False) == []
    with pytest.raises(SourceGone, match=r"2 files .*home, and 1 are gone: file:.*/00002.json") as refused:
        gone(copy, writer_to(copy), later=home)
    assert f"cleanSource is {clean}" in refused.value.message
    assert (f"{tmp_path}/archive" in refused.value.remedy) == (clean == "archive")
    writer_to(copy).start().awaitTermination()
    last = copy.latest_offset()
    assert last is not None
    assert [Path(path).name for path in files_read(copy, last)] == [f"0000{n}.json" for n in (0, 1, 3)]


@pytest.mark.slow
def test_a_driver_that_died_in_a_batch_whose_file_is_gone(
    spark: SparkSession, files: HadoopFiles, tmp_path: Path
) -> None:
    feed = Input(tmp_path)
    feed.add(3)
    folder = tmp_path / "checkpoints" / "main" / "0"
    directory = CheckpointDir(files, files.qualify(folder.as_uri()))
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(feed.source))
    writer = (
        windows(events).writeStream.option("checkpointLocation", folder.as_uri()).trigger(availableNow=True)
    )
    writer.start(str(feed.sink)).awaitTermination()
    # As if it had died in the batch of the last file.
    batch = next(n for n in range(9) if json.loads(str(directory.source_offsets(n)["0"]))["logOffset"] == 2)
    for log in (folder / "offsets", folder / "commits", feed.sink / "_spark_metadata"):
        for entry in log.glob("[0-9]*"):
            if int(entry.name) > batch - (log.name != "offsets"):
                entry.unlink()
                (log / f".{entry.name}.crc").unlink(missing_ok=True)
    lost = feed.source / "0002.json"
    lost.unlink()
    with LocalDriver(tmp_path, APP, *feed.arguments()) as refused:
        assert refused.wait() == 1
        problem = refused.report().problem
    assert problem is not None
    assert (problem.reason, problem.retryable) == ("SourceGone", False)
    assert str(lost) in problem.message
    assert refused.boundary() == (batch, batch - 1)
    allowed = {"spark.sql.files.ignoreMissingFiles": "true"}
    with refused.next_epoch(APP, *feed.arguments(), spark_conf=allowed) as second:
        status = second.running(batch)
        assert [w.reason for w in status.warnings] == ["SourceGone"]
        second.finish(Mode.STOP)


# --- Kafka --------------------------------------------------------------------------------------------------


class Topic:
    """One partition, written and read by Spark."""

    def __init__(self, spark: SparkSession, files: HadoopFiles, kafka: Kafka, home: Path) -> None:
        self.spark, self.home, self.kafka, self.name = spark, home, kafka, f"gone-{home.name.lower()}"
        self.directory = CheckpointDir(files, files.qualify(str(home / "checkpoint")))
        gateway: Any = spark.sparkContext._gateway
        self._gateway, self._jvm = gateway, gateway.jvm
        settings = self._jvm.java.util.HashMap()
        settings.put("bootstrap.servers", kafka.address)
        self._admin = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        self._next = 0
        self.make()

    def make(self) -> None:
        topic = self._jvm.org.apache.kafka.clients.admin.NewTopic(self.name, 1, 1)
        self._admin.createTopics([topic]).all().get()
        eventually(self._known, "the broker to hear of the topic from its controller")

    def delete(self) -> None:
        self._admin.deleteTopics([self.name]).all().get()
        eventually(lambda: not self._known(), "the broker to hear of the deletion from its controller")

    def _known(self) -> bool:
        return bool(self._admin.listTopics().names().get().contains(self.name))

    def purge(self, before: int) -> None:
        partition = self._jvm.org.apache.kafka.common.TopicPartition(self.name, 0)
        # py4j does not find the static method.
        kind = (
            partition.getClass().getClassLoader().loadClass("org.apache.kafka.clients.admin.RecordsToDelete")
        )
        (method,) = [m for m in kind.getMethods() if m.getName() == "beforeOffset" and m.getParameterCount()]
        arguments = self._gateway.new_array(self._jvm.java.lang.Object, 1)
        arguments[0] = before
        records = self._jvm.java.util.HashMap()
        records.put(partition, method.invoke(None, arguments))
        self._admin.deleteRecords(records).all().get()

    def add(self, count: int) -> None:
        frame = self.spark.range(self._next, self._next + count, 1, 1).selectExpr(
            "cast(id as string) AS value"
        )
        self._next += count
        target = frame.write.format("kafka").option("kafka.bootstrap.servers", self.kafka.address)
        target.option("topic", self.name).save()

    def writer(self, **options: str) -> DataStreamWriter:
        settings = {"kafka.bootstrap.servers": self.kafka.address, "subscribe": self.name, **options}
        settings = {"startingOffsets": "earliest", **settings}
        frame = self.spark.readStream.format("kafka").options(**settings).load()
        return frame.selectExpr("cast(value as string) AS v").writeStream

    def run(self, **options: str) -> None:
        writer = self.writer(**options).format("json").option("checkpointLocation", self.directory.uri)
        writer.trigger(availableNow=True).start(str(self.home / "out")).awaitTermination()

    def rows(self) -> list[int]:
        return sorted(
            int(r.v) for r in self.spark.read.schema("v string").json(str(self.home / "out")).collect()
        )

    def close(self) -> None:
        self._admin.close()


@pytest.fixture
def topic(
    spark: SparkSession,
    files: HadoopFiles,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Topic]:
    """Ten records, read in batch 0, and ten more."""
    if pyspark.__version__ < "4.1":
        pytest.skip("no Kafka connector of this Spark")
    monkeypatch.setattr(kafka_offsets, "SECONDS", 300)  # a busy broker is none that does not answer
    made = Topic(spark, files, request.getfixturevalue("kafka"), tmp_path)
    made.add(10)
    made.run()
    made.add(10)
    yield made
    made.close()


def test_offsets_that_are_there(topic: Topic) -> None:
    assert gone(topic.directory, topic.writer()) == []
    topic.purge(10)  # what has been read may go
    assert gone(topic.directory, topic.writer()) == []


def test_offsets_that_retention_has_purged(topic: Topic) -> None:
    topic.purge(15)
    before = digest(topic.directory)
    with pytest.raises(SourceGone, match=f"offsets 10 to 14 of {topic.name}-0, which were purged") as refused:
        gone(topic.directory, topic.writer())
    assert "failOnDataLoss" in refused.value.remedy
    assert topic.kafka.address in refused.value.message
    assert digest(topic.directory) == before
    assert gone(topic.directory, topic.writer(), reads=False) == []  # a job that is to end reads no more
    (told,) = gone(topic.directory, topic.writer(failOnDataLoss="false"))
    assert "offsets 10 to 14" in told.message
    # Spark itself: the batch stands in the log when it fails, and each attempt fails again.
    for _ in range(2):
        with pytest.raises(StreamingQueryException):
            topic.run()
        assert (topic.directory.latest_offset(), topic.directory.latest_commit()) == (1, 0)
    with pytest.raises(SourceGone, match="offsets 10 to 14"):  # also of the batch that is uncommitted
        gone(topic.directory, topic.writer(), reads=False)
    topic.run(failOnDataLoss="false")
    assert topic.rows() == [*range(10), *range(15, 20)]


def test_a_topic_that_was_made_anew(topic: Topic) -> None:
    topic.delete()
    with pytest.raises(SourceGone, match=f"partition 0 of topic {topic.name}, which is not there"):
        gone(topic.directory, topic.writer())
    topic.make()
    topic.add(3)
    with pytest.raises(SourceGone, match=f"offset 10 of {topic.name}-0, which ends at 3: it was re-created"):
        gone(topic.directory, topic.writer())
    with pytest.raises(StreamingQueryException):
        topic.run()
    assert topic.directory.latest_commit() == 0


def test_a_broker_that_does_not_answer_is_the_query_s_problem(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_offsets, "SECONDS", 1)
    assert gone(topic.directory, topic.writer(**{"kafka.bootstrap.servers": "127.0.0.1:1"})) == []
