"""The rules of an admission, without Spark: on checkpoint directories and sink logs as Spark leaves them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamjob.protocol.formats.records import CheckpointRecord, JobRef, StageRecord, TaskRecord
from streamjob.protocol.graph import TaskName
from streamjob.protocol.messages.driver_config import Application, DriverConfig, Restore
from streamjob.protocol.restore.recovery import UnfinishedBeforeFinished
from streamjob.runtime.query.bounded_input import InputEnd
from streamjob.runtime.query.edges import Channel, Endpoints
from streamjob.runtime.query.run import Run
from streamjob.runtime.query.runs import Runs
from streamjob.runtime.spark.checkpoint_dir import MAX_WATERMARK_MS, CheckpointDir
from streamjob.runtime.spark.sink_log import SinkAhead
from streamjob.runtime.spark.stream_writer import WriterOptions
from streamjob.runtime.spark.versions.table import BY_VERSION
from streamjob.runtime.startup import admission
from streamjob.runtime.startup.admission import ADMISSION, CHECK, AsyncProgress, admit
from streamjob.runtime.startup.carried_stages import CarriedStages
from streamjob.runtime.startup.checks.neighbours import CheckpointShared
from streamjob.runtime.startup.checks.sources import QueryChanged
from streamjob.runtime.startup.missing_stages import MissingStages
from streamjob.runtime.startup.query_start import QueryStart
from streamjob.runtime.startup.restore_point import RestorePoints

from ..localfiles import LocalFiles

JOB = JobRef("shop", "orders", "uid-1")
SPARK = SimpleNamespace(version="4.1.4", conf=SimpleNamespace(get=lambda key, default=None: default))


class Files(LocalFiles):
    """`written` are the URIs of what was made, written or deleted."""

    def __init__(self) -> None:
        self.spark = SPARK
        self.written: list[str] = []

    def make_directory(self, uri: str, what: str) -> None:
        self.written.append(uri)
        self._path(uri).mkdir(parents=True, exist_ok=True)

    def write_new(self, uri: str, data: bytes) -> None:
        self.written.append(uri)
        super().write_new(uri, data)

    def delete(self, uri: str) -> None:
        if self.exists(uri):
            self.written.append(uri)
        super().delete(uri)


class Job:
    """A job with queries that run."""

    drains = False

    def __init__(self, home: Path, *runs: Run, restore: Restore | None = None, asked_to_end: bool = False):
        self.config = DriverConfig(
            JOB, 2, Application("app.py"), f"file:{home}/checkpoints", restore=restore or Restore()
        )
        self.points = RestorePoints(self.config)
        self.carried = CarriedStages(self.points)
        self.runs = Runs({run.task: run for run in runs})
        self.missing = MissingStages(self.points, self.runs)
        self.asked_to_end = asked_to_end
        self.refused: list[bool] = []  # with which `drained` the engine was asked

    def refuse_start(self, task: str, upstream: object, *, drained: bool) -> None:
        self.refused.append(drained)

    def flushed_reader(self, task: str) -> str | None:
        return None

    def recorded_transactions(self, task: str) -> tuple[str, ...]:
        return ()


def engine_of(files: LocalFiles) -> Any:
    return SimpleNamespace(
        files=files, jvm=None, internals=SimpleNamespace(traits=BY_VERSION["4.1"]), spark=SPARK
    )


def query(home: Path, job: Job | None = None, **options: Any) -> QueryStart:
    """A query without sources, which writes files below `home/out`.

    :param options: fields of the `QueryStart`. The whole list (`admit`) needs `written=with_location(home)`.
    """
    written = options.pop(
        "written", WriterOptions(format="json", options={"path": f"{home}/out"}, name="orders")
    )
    shown = Endpoints(sink=Channel("files", frozenset({f"file:{home}/out"})))
    chosen: dict[str, str] = {}
    writer: Any = SimpleNamespace(_spark=SPARK, option=chosen.__setitem__, chosen=chosen)
    return QueryStart(
        TaskName("orders", "orders"),
        writer,
        written,
        engine_of(options.pop("files", Files())),
        job or Job(home),
        lambda *_, **__: None,  # type: ignore[arg-type]
        sources=[],
        shown=shown,
        **options,
    )


def with_location(home: Path, at: str = "own") -> WriterOptions:
    options = {"path": f"{home}/out", "checkpointlocation": f"{home}/{at}"}
    return WriterOptions(format="json", options=options, name="orders")


def batch(directory: str, number: int, watermark: int = 5, log: str = "offsets") -> None:
    entry = "\n".join(["v1", json.dumps({"batchWatermarkMs": watermark, "conf": {}}), "{}"])
    text = entry if log == "offsets" else "v1\n{}"
    LocalFiles().write_new(f"{directory}/{log}/{number}", text.encode())


def run_of(home: Path, uid: str, **facts: Any) -> Run:
    directory = CheckpointDir(Files(), f"file:{home}/checkpoints/{uid}/0")  # type: ignore[arg-type]
    end = InputEnd(None, directory)
    return Run(TaskName(uid, uid), engine_of(Files()), directory, lambda *_, **__: None, end, **facts)  # type: ignore[arg-type]


def test_only_the_rules_at_the_end_write_down_what_is_the_querys_own(tmp_path: Path) -> None:
    """A query that is refused has written nothing but an empty directory, or a copy of what it restores."""
    files = Files()
    start = query(tmp_path, files=files, written=with_location(tmp_path))
    wrote = []
    for rule in ADMISSION:
        before = len(files.written)
        rule(start)
        if len(files.written) > before:
            wrote.append(rule.__name__)
    last = ADMISSION.index(admission.keep_driver_state)
    assert wrote == ["make_directory", "take_directory", "note_endpoints"]
    assert {rule.__name__ for rule in ADMISSION[last:]} >= set(wrote[1:])


def test_the_rules_of_a_check_write_nothing(tmp_path: Path) -> None:
    """They are all others, in the same order."""
    files = Files()
    start = query(tmp_path, files=files, written=with_location(tmp_path))
    for rule in CHECK:
        rule(start)
    assert not files.written
    assert [rule for rule in ADMISSION if rule in CHECK] == [rule for rule in CHECK if rule in ADMISSION]
    gone = {"make_directory", "bring_directory_to_its_batch", "take_directory", "note_endpoints"}
    assert {r.__name__ for r in ADMISSION} - {r.__name__ for r in CHECK} == {*gone, "recover_transactions"}


def test_a_new_query_begins_with_nothing(tmp_path: Path) -> None:
    start = query(tmp_path, written=with_location(tmp_path))
    admit(start)
    assert (start.beginning, start.drained, start.finished, start.new) == ("nothing", False, False, True)
    assert start.own_sink is not None
    assert start.own_sink.begins_after is None
    assert not start.warnings


def test_asynchronous_progress_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    files = Files()
    options = {"path": f"{tmp_path}/out", "asyncprogresstrackingenabled": "TRUE"}
    with pytest.raises(AsyncProgress):
        admit(
            query(tmp_path, files=files, written=WriterOptions(format="json", options=options, name="orders"))
        )
    assert not files.written


def test_a_log_ahead_of_the_query_is_refused_before_its_directory_is_taken(tmp_path: Path) -> None:
    files = Files()
    LocalFiles().write_new(f"file:{tmp_path}/out/_spark_metadata/3", b"v1\n")
    with pytest.raises(SinkAhead):
        admit(query(tmp_path, files=files, written=with_location(tmp_path)))
    assert files.written == [f"file:{tmp_path}/own"]


@pytest.mark.parametrize(("name", "refused"), [("orders", False), ("another", True)])
def test_a_directory_of_another_job_is_refused(tmp_path: Path, name: str, refused: bool) -> None:
    first = query(tmp_path, written=with_location(tmp_path))
    admit(first)
    job = Job(tmp_path / ("" if name == "orders" else name))
    job.config = DriverConfig(
        JobRef("shop", name, f"uid of {name}"), 1, Application("app.py"), job.config.checkpoints
    )
    second = query(tmp_path, job, written=with_location(tmp_path))
    if refused:
        with pytest.raises(CheckpointShared, match="shop/orders"):
            admit(second)
    else:
        admit(second)  # a job that is created again has the same folder, and goes on


def test_a_query_that_is_started_again_elsewhere_is_another_one(tmp_path: Path) -> None:
    before = run_of(tmp_path, "orders")
    with pytest.raises(QueryChanged, match="two queries with one name"):
        admit(query(tmp_path, before=before, written=with_location(tmp_path)))


def test_what_an_epoch_has_begun_to_flush_stays_drained(tmp_path: Path) -> None:
    """Its sources are compared with nothing: it reads no more. The engine admits it, whatever was flushed."""
    at = f"file:{tmp_path}/own"
    for number, watermark in enumerate([5, MAX_WATERMARK_MS]):
        batch(at, number, watermark)
        batch(at, number, log="commits")
    job = Job(tmp_path)
    start = query(tmp_path, job, written=with_location(tmp_path))
    admission.bring_directory_to_its_batch(start)
    admission.refuse_too_late(start)
    assert (start.drained, job.refused, admission.reads_on(start)) == (True, [True], False)
    assert [problem.reason for problem in start.warnings] == ["DrainContinues"]
    asked = query(tmp_path, Job(tmp_path, asked_to_end=True), written=with_location(tmp_path))
    admission.bring_directory_to_its_batch(asked)
    assert (asked.drained, asked.warnings) == (True, [])


def test_row10_what_reads_on_does_not_feed_what_has_finished(tmp_path: Path) -> None:
    """Unless the job is to end: then it reads nothing, and writes nothing that could be missed."""
    reader = run_of(tmp_path, "report", all_finished=True)
    for ends in (False, True):
        job = Job(tmp_path, reader, asked_to_end=ends)
        start = query(tmp_path, job, readers=(reader,))
        if ends:
            admission.refuse_unfit_neighbours(start)
        else:
            with pytest.raises(UnfinishedBeforeFinished):
                admission.refuse_unfit_neighbours(start)


def test_a_finished_query_goes_into_no_log(tmp_path: Path) -> None:
    """It is not started, so what is in its folder now is not its concern."""
    record = StageRecord(
        "orders", (TaskRecord(0, f"file:{tmp_path}/checkpoints/orders/0", 1, finished=True),), ()
    )
    latest = CheckpointRecord(3, 1, None, None, None, "2026-01-01T00:00:00Z", (record,))
    LocalFiles().write_new(f"file:{tmp_path}/out/_spark_metadata/3", b"v1\n")
    start = query(tmp_path, Job(tmp_path, restore=Restore(latest=latest, again=True)))
    assert start.finished
    admission.find_own_sink(start)
    assert start.own_sink is None


def test_a_moved_sink_is_told_and_not_refused(tmp_path: Path) -> None:
    admit(query(tmp_path, written=with_location(tmp_path)))
    for log in ("offsets", "commits"):
        batch(f"file:{tmp_path}/own", 0, log=log)
    start = query(tmp_path, written=with_location(tmp_path))
    start.shown = Endpoints(sink=Channel("files", frozenset({f"file:{tmp_path}/elsewhere"})))
    admission.bring_directory_to_its_batch(start)
    admission.warn_of_moved_sink(start)
    (problem,) = start.warnings
    assert problem.reason == "SinkMoved"
    assert "up to batch 0" in problem.message


def test_a_rule_of_the_first_run_is_not_asked_again(tmp_path: Path) -> None:
    """What is missing of the restored checkpoint may be this query under another name, but not its second
    run.
    """
    run = run_of(tmp_path, "orders")
    start = query(tmp_path, before=run)
    start.job = None  # type: ignore[assignment]  # the rule would ask it
    admission.refuse_other_name(start)
    assert not start.warnings
