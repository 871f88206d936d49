"""Stages of the restored checkpoint that the script has not started: what new checkpoints have of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamjob.protocol.formats import index as indices
from streamjob.protocol.formats.records import (
    CheckpointRecord,
    JobRef,
    OperatorKind,
    OperatorRecord,
    StageRecord,
    TaskRecord,
)
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.driver_config import Application, DriverConfig, Restore
from streamjob.runtime.query.runs import Runs
from streamjob.runtime.startup.carried_stages import CarriedStages, ended_by, left
from streamjob.runtime.startup.missing_stages import MissingStages
from streamjob.runtime.startup.restore_point import RestorePoints

from ..localfiles import LocalFiles

FILES: Any = LocalFiles()
PREPARED = ("ns.orders.daily.abc@0.5",)


def stage(root: Path, uid: str, *, finished: bool = False, **task: Any) -> StageRecord:
    record = TaskRecord(0, f"file:{root}/{uid}/0", task.pop("batch", 0), finished, **task)
    return StageRecord(uid, (record,), (OperatorRecord("sink", OperatorKind.SINK, "sink", finished),))


def points(root: Path, record: CheckpointRecord) -> RestorePoints:
    restore = Restore(record, exact=False)
    return RestorePoints(
        DriverConfig(
            JobRef("ns", "orders", "uid"), 2, Application(file="app.py"), f"file:{root}", restore=restore
        )
    )


def checkpoint(number: int, epoch: int, *stages: StageRecord, **fields: Any) -> CheckpointRecord:
    values: dict[str, Any] = {"scenario": None, "request_id": None, "savepoint": None}
    return CheckpointRecord(
        number, epoch, completed_at="2026-01-01T00:00:00Z", stages=stages, **{**values, **fields}
    )


def test_w3_a_stop_in_front_of_a_stage_keeps_its_transactions(tmp_path: Path) -> None:
    """Nobody has committed them: the exit of this epoch's driver says nothing about a sink it has not had."""
    five = checkpoint(
        5, 1, stage(tmp_path, "backfill"), stage(tmp_path, "daily", finished=True, transactions=PREPARED)
    )
    index = indices.add(indices.empty("uid"), five)
    assert index.latest is not None
    assert index.latest.uncommitted
    carried = CarriedStages(points(tmp_path, index.latest)).records(FILES, ["backfill"])
    stop = checkpoint(6, 2, stage(tmp_path, "backfill"), *carried, scenario=Scenario.STOP, request_id="s")
    index = indices.add(index, stop)
    assert not stop.uncommitted, "its driver has nothing to commit, and nobody waits for that"
    settled = indices.committed(index, 2).latest
    assert settled is not None
    assert {s.uid: s.tasks[0].transactions for s in settled.stages} == {"backfill": (), "daily": PREPARED}


def test_w3_transactions_of_this_epoch_are_settled_by_its_exit_and_those_of_others_are_not() -> None:
    mine, other = (
        replace(stage(Path("/x"), uid, transactions=PREPARED), carried_from=carried)
        for uid, carried in (("mine", None), ("other", 5))
    )
    index = indices.add(indices.empty("uid"), checkpoint(6, 2, mine, other, scenario=Scenario.STOP))
    settled = indices.committed(index, 2).latest
    assert settled is not None
    assert [s.holds_transactions for s in settled.stages] == [False, True]
    assert not settled.uncommitted


@pytest.mark.parametrize("finished", [True, False])
def test_w3_a_job_does_not_end_while_a_stage_that_has_not_started_has_to_commit(finished: bool) -> None:
    carried = replace(stage(Path("/x"), "daily", finished=finished, transactions=PREPARED), carried_from=5)
    stages = (stage(Path("/x"), "live", finished=True), carried)
    assert left(stages) == ["daily"]
    assert ended_by(Scenario.END_OF_INPUT, stages) is Scenario.STOP


def test_w3_a_finished_stage_that_has_to_commit_is_missed(tmp_path: Path) -> None:
    record = checkpoint(5, 1, stage(tmp_path, "daily", finished=True, transactions=PREPARED))
    assert MissingStages(points(tmp_path, record), Runs()).uids(FILES) == ["daily"]
    done = checkpoint(5, 1, stage(tmp_path, "daily", finished=True))
    assert MissingStages(points(tmp_path, done), Runs()).uids(FILES) == []


def test_a_stage_that_is_carried_again_keeps_the_checkpoint_that_it_is_from(tmp_path: Path) -> None:
    five = checkpoint(5, 1, stage(tmp_path, "daily"))
    (once,) = CarriedStages(points(tmp_path, five)).records(FILES, ["other"])
    (twice,) = CarriedStages(points(tmp_path, checkpoint(9, 2, once))).records(FILES, ["other"])
    assert (once.carried_from, twice.carried_from) == (5, 5)


def test_w9_a_stage_that_had_no_batch_is_recorded_with_those_that_it_has_run_since(tmp_path: Path) -> None:
    FILES.write_new(f"file:{tmp_path}/live/0/commits/3", b"v1")
    record = checkpoint(5, 1, stage(tmp_path, "live", batch=None))
    (carried,) = CarriedStages(points(tmp_path, record)).records(FILES, ["other"])
    assert carried.tasks[0].batch == 3
