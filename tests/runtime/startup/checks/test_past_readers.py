"""A new query that writes what a finished one has read: refused before it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamjob.protocol.formats import codec
from streamjob.protocol.formats import manifest as manifests
from streamjob.protocol.formats.records import (
    CheckpointRecord,
    JobRef,
    OperatorKind,
    OperatorRecord,
    StageRecord,
    TaskRecord,
)
from streamjob.protocol.messages.driver_config import Application, DriverConfig, Restore
from streamjob.protocol.restore.recovery import UnfinishedBeforeFinished
from streamjob.runtime.query.edges import Channel, Endpoints
from streamjob.runtime.query.endpoints import FORMAT, NAME, VERSION, Endpoint, RecordedEndpoints
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.runtime.spark.max_watermark.batch import MAX_WATERMARK_MS
from streamjob.runtime.startup.checks.neighbours import PastReader, refuse_before_past_readers
from streamjob.runtime.startup.restore_point import RestorePoints

from ...localfiles import LocalFiles

FILES: Any = LocalFiles()
CLEAN = Channel("files", frozenset({"file:/data/clean"}))
WRITES_CLEAN = Endpoints(sink=CLEAN)


def points(root: Path, *stages: StageRecord) -> RestorePoints:
    record = CheckpointRecord(5, 1, None, None, None, "2026-01-01T00:00:00Z", stages)
    job, application = JobRef("ns", "orders", "uid"), Application(file="app.py")
    return RestorePoints(DriverConfig(job, 2, application, f"file:{root}", restore=Restore(record)))


def stage(
    root: Path, uid: str, source: Endpoint, *, finished: bool = True, watermark: int = 5
) -> StageRecord:
    """One whose directory says what it reads, and how far it is."""
    at = f"file:{root}/{uid}/0"
    FILES.write_new(f"{at}/{NAME}", codec.dumps(RecordedEndpoints(FORMAT, VERSION, (source,))).encode())
    FILES.write_new(f"{at}/offsets/0", f'v1\n{{"batchWatermarkMs":{watermark},"conf":{{}}}}\n{{}}'.encode())
    sink = OperatorRecord("sink", OperatorKind.SINK, "sink", finished)
    return StageRecord(uid, (TaskRecord(0, at, 0, finished),), (sink,))


def test_w7_a_new_query_that_writes_the_input_of_a_finished_one_is_refused(tmp_path: Path) -> None:
    """The finished one has not been started in this epoch: what it has read says its directory."""
    report = stage(tmp_path, "report", Endpoint("files", "file:/data/clean"))
    past = points(tmp_path, report).past_readers(FILES, ())
    with pytest.raises(
        UnfinishedBeforeFinished, match=r"'report' has finished, and stage 'new' before it is new"
    ):
        refuse_before_past_readers("new", WRITES_CLEAN, past, new=True)
    other = Endpoints(sink=replace(CLEAN, names=frozenset({"file:/data/other"})))
    refuse_before_past_readers("new", other, past, new=True)


def test_w7_what_runs_on_or_has_started_is_no_past_reader(tmp_path: Path) -> None:
    live = stage(tmp_path, "live", Endpoint("files", "file:/data/clean"), finished=False)
    done = stage(tmp_path, "done", Endpoint("files", "file:/data/clean"))
    assert points(tmp_path, live, done).past_readers(FILES, ["done"]) == []


@pytest.mark.parametrize("allowed", [True, False])
def test_a_drained_savepoint_that_is_reopened_has_no_past_reader(tmp_path: Path, allowed: bool) -> None:
    """Each of its queries is started again, with empty windows, in whatever order. A part of it that was
    drained and may not be reopened reads no more.
    """
    report, live = (
        stage(tmp_path, uid, Endpoint("files", "file:/data/clean"), finished=False)
        for uid in ("report", "live")
    )
    record = CheckpointRecord(5, 1, None, None, None, "2026-01-01T00:00:00Z", (report, live))
    savepoint, job = f"file:{tmp_path}/stop-1", JobRef("ns", "orders", "uid")
    manifest = manifests.new(job, "4.1.4", record, ())
    FILES.write_new(f"{savepoint}/{manifests.NAME}", manifests.dumps(manifest))
    restore = Restore(savepoint=savepoint, allow_drained=allowed)
    config = DriverConfig(job, 1, Application("app.py"), f"file:{tmp_path}/new", restore=restore)
    begun = RestorePoints(config)
    drained = begun.directory(FILES, "report", report.tasks[0])
    FILES.write_new(
        f"{drained.uri}/offsets/1",
        f'v1\n{{"batchWatermarkMs":{MAX_WATERMARK_MS},"conf":{{}}}}\n{{}}'.encode(),
    )
    assert [past.uid for past in begun.past_readers(FILES, ())] == ([] if allowed else ["report"])


def test_the_directories_are_read_once_however_many_queries_start(tmp_path: Path) -> None:
    class Counting(LocalFiles):
        reads = 0

        def read_bytes(self, uri: str, limit: int = 1 << 20) -> bytes:
            self.reads += 1
            return super().read_bytes(uri, limit)

    files: Any = Counting()
    live = stage(tmp_path, "live", Endpoint("files", "file:/data/clean"), finished=False)
    done = stage(tmp_path, "done", Endpoint("files", "file:/data/clean"))
    restored = points(tmp_path, live, done)
    first = restored.past_readers(files, ())
    reads = files.reads
    assert [past.uid for past in restored.past_readers(files, ["live"])] == [past.uid for past in first]
    assert files.reads == reads > 0


@pytest.mark.parametrize("marked", [False, True], ids=["windows", "no windows"])
@pytest.mark.parametrize("new", [False, True])
def test_w6_a_query_that_reads_on_behind_one_that_a_crash_has_left_flushed_is_refused(
    tmp_path: Path, *, new: bool, marked: bool
) -> None:
    place = Endpoint("files", "file:/data/clean")
    watermark = 5 if marked else MAX_WATERMARK_MS
    flushed = stage(tmp_path, "totals", place, finished=False, watermark=watermark)
    if marked:
        CheckpointDir(FILES, flushed.tasks[0].location).mark_drained()
    past = points(tmp_path, flushed).past_readers(FILES, ())
    with pytest.raises(UnfinishedBeforeFinished):
        refuse_before_past_readers("clean", WRITES_CLEAN, past, new=new)


def test_w7_an_edge_of_the_checkpoint_is_enough() -> None:
    past = [PastReader("report", (), upstream=("clean",))]
    with pytest.raises(UnfinishedBeforeFinished, match="'clean' before it is not finished"):
        refuse_before_past_readers("clean", Endpoints(), past, new=False)


@pytest.mark.parametrize(
    ("at", "topic", "refused"),
    [
        ("orders", "orders", True),
        ("a, orders", "orders", True),
        ("ord.*", "orders", True),
        ('{"orders":[0,1]}', "orders", True),
        ("other", "orders", False),
        ("order", "orders", False),
    ],
)
def test_w7_topics_are_known_as_they_were_subscribed(
    tmp_path: Path, at: str, topic: str, *, refused: bool
) -> None:
    report = stage(tmp_path, "report", Endpoint("Kafka", at, ("broker:9092",)))
    past = points(tmp_path, report).past_readers(FILES, ())
    sink = Endpoints(sink=Channel("kafka", frozenset({topic}), brokers=frozenset({"broker:9092"})))
    if not refused:
        return refuse_before_past_readers("new", sink, past, new=True)
    with pytest.raises(UnfinishedBeforeFinished):
        refuse_before_past_readers("new", sink, past, new=True)
