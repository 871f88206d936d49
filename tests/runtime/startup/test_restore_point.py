"""What a stage starts from, and how often the savepoint is read for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamjob.protocol.formats import manifest as manifests
from streamjob.protocol.formats.records import CheckpointRecord, JobRef, StageRecord, TaskRecord
from streamjob.protocol.formats.savepoint_cause import ADOPTION
from streamjob.protocol.messages.driver_config import Application, DriverConfig, Restore
from streamjob.runtime.query.runs import Runs
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.runtime.startup.begin_from import begin_from, copy_foreign, plan_of_only_task
from streamjob.runtime.startup.carried_stages import CarriedStages
from streamjob.runtime.startup.missing_stages import MissingStages
from streamjob.runtime.startup.restore_point import CheckpointMoved, RestorePoints, StageNotInSavepoint

from ..localfiles import LocalFiles
from ..queries import STAGE, Query

JOB = JobRef("shop", "orders", "uid-1")


class CountingFiles(LocalFiles):
    def __init__(self) -> None:
        self.reads = 0  # of manifests

    def read_bytes(self, uri: str, limit: int = 1 << 20) -> bytes:
        self.reads += uri.endswith(manifests.NAME)
        return super().read_bytes(uri, limit)


@pytest.fixture
def files() -> Any:
    return CountingFiles()


def config(home: Path, **restore: Any) -> DriverConfig:
    return DriverConfig(JOB, 1, Application("app.py"), f"file:{home}/checkpoints", restore=Restore(**restore))


def record(home: Path, *uids: str) -> CheckpointRecord:
    stages = (StageRecord(uid, (TaskRecord(0, f"file:{home}/old/{uid}/0", None),), ()) for uid in uids)
    return CheckpointRecord(3, 1, None, None, None, "2026-01-01T00:00:00Z", tuple(stages))


def savepoint(files: Any, home: Path, *uids: str) -> str:
    uri = f"file:{home}/savepoint"
    manifest = manifests.new(JOB, "4.1.4", record(home, *uids), ())
    files.write_new(f"{uri}/{manifests.NAME}", manifests.dumps(manifest))
    return uri


def test_the_record_of_a_savepoint_is_read_once(files: Any, tmp_path: Path) -> None:
    points = RestorePoints(config(tmp_path, savepoint=savepoint(files, tmp_path, "a", "b")))
    missing, carried = MissingStages(points, Runs()), CarriedStages(points)
    for uid in ("a", "b"):
        assert missing.uids(files) == ["a", "b"]
        point = points.of(files, uid)
        assert point.record is not None
        assert point.is_foreign
        assert point.directory(point.record.tasks[0]).uri == f"file:{tmp_path}/savepoint/stages/{uid}/0"
    assert missing.left(files).live == ("a", "b")
    assert files.reads == 1
    for _ in range(2):
        assert [s.uid for s in carried.records(files, ["a"])] == ["b"]
    assert files.reads == 2, "for the list of the files that are copied"


@pytest.mark.parametrize(("cause", "elsewhere"), [(ADOPTION, False), ("stop-1", True)])
def test_a_location_that_a_script_chose_and_a_directory_that_was_adopted(
    files: Any, tmp_path: Path, cause: str, elsewhere: bool
) -> None:
    """The unnamed query of a script is the adopted `main`, but not another query's."""
    stage = StageRecord("main", (TaskRecord(0, f"file:{tmp_path}/bare", None),), ())
    found = replace(record(tmp_path), request_id=cause, stages=(stage,))
    uri = f"file:{tmp_path}/savepoint"
    files.write_new(f"{uri}/{manifests.NAME}", manifests.dumps(manifests.new(JOB, "4.1.4", found, ())))
    points = RestorePoints(config(tmp_path, savepoint=uri))
    assert points.is_elsewhere(files, "main") is elsewhere


def test_of_a_stage_that_the_savepoint_does_not_have(files: Any, tmp_path: Path) -> None:
    uri = savepoint(files, tmp_path, "a")
    with pytest.raises(StageNotInSavepoint, match="'b' is not in"):
        RestorePoints(config(tmp_path, savepoint=uri)).of(files, "b")
    allowed = RestorePoints(config(tmp_path, savepoint=uri, allow_non_restored_state=True))
    assert allowed.of(files, "b").record is None


def test_a_job_with_a_checkpoint_of_its_own_reads_no_savepoint(files: Any, tmp_path: Path) -> None:
    uri = savepoint(files, tmp_path, "a")
    points = RestorePoints(config(tmp_path, savepoint=uri, latest=record(tmp_path, "a", "b")))
    point = points.of(files, "b")
    assert point.record is not None
    assert not point.is_foreign
    assert point.directory(point.record.tasks[0]).uri == f"file:{tmp_path}/old/b/0"
    assert [d.uri for d in point.directories_of_others()] == [f"file:{tmp_path}/old/a/0"]
    assert files.reads == 0


def test_a_query_that_moves_on_to_another_directory_resumes_in_each_where_it_stands(
    files: Any, tmp_path: Path
) -> None:
    """The checkpoint has the last of the directories only."""
    last = f"file:{tmp_path}/last"
    task = TaskRecord(0, last, 0)
    latest = CheckpointRecord(
        3, 1, None, None, None, "2026-01-01T00:00:00Z", (StageRecord("load", (task,), ()),)
    )
    point = RestorePoints(config(tmp_path, latest=latest, exact=True)).of(files, "load")
    for name in ("first", "last"):
        for number in range(3):
            files.write_new(f"file:{tmp_path}/{name}/commits/{number}", b"v1\n{}")
    first = CheckpointDir(files, f"file:{tmp_path}/first")
    plan = plan_of_only_task(point)
    assert begin_from(point, 0, plan, first) == (f"batch 2 of {first.uri}", ())
    with pytest.raises(CheckpointMoved):
        begin_from(point, 0, plan, CheckpointDir(files, last))


def test_a_checkpoint_directory_that_is_restored_is_a_warning(files: Any, tmp_path: Path) -> None:
    """It has been deleted while the job was stopped."""
    uri, gone = savepoint(files, tmp_path, "load"), CheckpointDir(files, f"file:{tmp_path}/gone")
    stage = StageRecord("load", (TaskRecord(0, gone.uri, 2),), ())
    latest = CheckpointRecord(3, 1, None, None, uri, "2026-01-01T00:00:00Z", (stage,))
    point = RestorePoints(config(tmp_path, latest=latest, exact=True)).of(files, "load")
    words, (warning,) = begin_from(point, 0, plan_of_only_task(point), gone)
    assert words == f"savepoint {uri}: its checkpoint directory was gone"
    assert warning.reason == "CheckpointRestored"
    assert warning.message == (
        f"{gone.uri}, the checkpoint directory of query 'load', was gone and has been restored from {uri}, "
        "with which the job had ended"
    )


@pytest.mark.parametrize("allowed", [False, True])
def test_a_flush_that_a_savepoint_of_a_stop_has_stays_unless_it_may_be_taken_back(
    files: Any, tmp_path: Path, *, allowed: bool
) -> None:
    query = Query(files, tmp_path)
    query.batch()
    query.directory.mark_drained()
    query.save("one")
    points = RestorePoints(config(tmp_path, savepoint=query.uri("one"), allow_drained=allowed))
    copy_foreign(points.of(files, STAGE), 0, query.at("copy"))
    assert CheckpointDir(files, query.at("copy")).is_drained() is not allowed
