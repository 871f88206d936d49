"""Who reads what when a stage with several shards starts, starts again, and starts with
another parallelism.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamjob import shards
from streamjob.protocol.formats import splits
from streamjob.protocol.formats.records import (
    CheckpointRecord,
    JobRef,
    OperatorKind,
    OperatorRecord,
    StageRecord,
    TaskRecord,
)
from streamjob.protocol.messages.driver_config import Application, DriverConfig, Restore
from streamjob.protocol.restore.recovery import Start, StateCannotMove
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir, MalformedCheckpoint
from streamjob.runtime.spark.sources.source_log import files_read
from streamjob.runtime.startup.carried_stages import CarriedStages
from streamjob.runtime.startup.restore_point import CheckpointLost, CheckpointMoved, RestorePoints
from streamjob.runtime.startup.sharding.remaining_splits import begin_behind
from streamjob.runtime.startup.sharding.split_assignment import ShardedStage
from streamjob.shards import Alone, BadShards, Shard

from ...localfiles import LocalFiles


class Job:
    """A stage `in` of some parallelism, in epoch after epoch; what Spark would write is written by hand."""

    def __init__(self, home: Path) -> None:
        self.root = f"file:{home}"
        self.files: Any = LocalFiles()
        self.record: CheckpointRecord | None = None

    def stage(self, parallelism: int, *, exact: bool = True) -> ShardedStage:
        config = DriverConfig(
            JobRef("n", "j", "u"),
            1,
            Application(file="app.py"),
            self.root,
            restore=Restore(self.record, exact and self.record is not None),
        )
        return ShardedStage(RestorePoints(config), "in", parallelism, lambda: self.files)

    def runs(self, stage: ShardedStage, index: int, batch: int, *lines: str, committed: bool = True) -> None:
        metadata = json.dumps({"batchWatermarkMs": 5, "conf": {}})
        where = stage.location(index)
        self.files.write_new(f"{where}/offsets/{batch}", "\n".join(["v1", metadata, *lines]).encode())
        if committed:
            self.files.write_new(f"{where}/commits/{batch}", b"v1\n{}")

    def checkpoint(
        self, number: int, stage: ShardedStage, finished: tuple[int, ...] = (), kind: str = ""
    ) -> None:
        tasks = []
        for index in range(stage.parallelism):
            directory = CheckpointDir(self.files, stage.location(index))
            batch, state = directory.latest_commit(), stage.state(index)
            if batch is not None and splits.OPERATOR in state:
                state = {
                    **state,
                    splits.OPERATOR: splits.left(
                        state[splits.OPERATOR], directory.source_offsets(batch).values(), ()
                    ),
                }
            tasks.append(TaskRecord(index, directory.uri, batch, index in finished, state=state))
        operators = [OperatorRecord("sink", OperatorKind.SINK, "sink", False)]
        if splits.OPERATOR in tasks[0].state:
            operators.append(OperatorRecord("splits", OperatorKind.LIST, "splits", False))
        if kind:
            operators.append(OperatorRecord("state-0", OperatorKind.STATE, kind, False))
        stage_record = StageRecord("in", tuple(tasks), tuple(operators))
        self.record = CheckpointRecord(number, 1, None, None, None, "2026-01-01T00:00:00Z", (stage_record,))


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def topic(partitions: int) -> list[str]:
    return [splits.partition("t", n) for n in range(partitions)]


def kafka(stage: ShardedStage, partitions: int) -> list[list[list[object]]]:
    """The entries of each task, as its query is about to start with them."""
    every = range(stage.parallelism)
    found = [[json.loads(e) for e in stage.assign(i, "kafka:t", lambda: topic(partitions))] for i in every]
    stage.prepare()
    return found


def starts(stage: ShardedStage) -> list[Start]:
    return [task.start for task in stage.plan.tasks]


def test_row9_a_new_stage_is_dealt_evenly_and_the_deal_is_remembered(job: Job) -> None:
    first = job.stage(2)
    assert [list(first.assign(i, "files", lambda: ["a", "b", "c"])) for i in range(2)] == [["a", "b"], ["c"]]
    assert not job.files.exists(f"{job.root}/in"), "nothing is written before a query starts"
    first.prepare()
    again = job.stage(2)
    assert list(again.assign(0, "files", lambda: ["0", "a", "b", "c"])) == ["a", "b"], "other files by now"
    assert starts(again) == [Start.NEW, Start.NEW]
    assert again.location(1) == f"{job.root}/in/1"


def test_row9_another_parallelism_goes_on_from_what_unfinished_tasks_have_left(job: Job) -> None:
    stage = job.stage(2)
    assert kafka(stage, 4) == [[["t", 0, None], ["t", 1, None]], [["t", 2, None], ["t", 3, None]]]
    job.runs(stage, 0, 4, '{"t":{"0":10,"1":11}}')
    job.runs(stage, 1, 6, '{"t":{"2":12,"3":13}}')
    job.checkpoint(3, stage, finished=(0,))
    resumed = job.stage(2)
    assert starts(resumed) == [Start.FINISHED, Start.RESUME]
    assert kafka(resumed, 4)[1] == [["t", 2, 12], ["t", 3, 13]]
    more = job.stage(3)
    assert kafka(more, 5) == [[["t", 2, 12], ["t", 4, None]], [["t", 3, 13]], []], (
        "and a partition that is new"
    )
    assert more.location(2) == f"{job.root}/in/2-of-3-from-3"
    assert more.like is not None
    assert more.like.uri == f"{job.root}/in/1", "the one with the highest batch"


def test_row9_after_a_crash_what_was_committed_since_is_not_dealt_again(job: Job) -> None:
    stage = job.stage(1)
    kafka(stage, 2)
    job.runs(stage, 0, 0, '{"t":{"0":1,"1":1}}')
    job.checkpoint(1, stage)
    job.runs(stage, 0, 1, '{"t":{"0":5,"1":6}}')
    assert kafka(job.stage(2, exact=False), 2) == [[["t", 0, 5]], [["t", 1, 6]]]
    with pytest.raises(CheckpointMoved):
        job.stage(2).plan  # noqa: B018
    job.runs(stage, 0, 2, '{"t":{"0":7,"1":7}}', committed=False)
    with pytest.raises(StateCannotMove, match="batch 2 of its task 0 uncommitted"):
        job.stage(2, exact=False).plan  # noqa: B018
    assert starts(job.stage(1, exact=False)) == [Start.RESUME]
    job.files.delete(stage.location(0))
    with pytest.raises(CheckpointLost):
        job.stage(2, exact=False).plan  # noqa: B018


def test_row9_without_a_checkpoint_since_the_parallelism_stays(job: Job) -> None:
    stage = job.stage(2)
    kafka(stage, 4)
    assert len(kafka(job.stage(3), 4)) == 3, "nothing has run"
    stage = job.stage(2)
    kafka(stage, 4)
    job.runs(stage, 0, 0, '{"t":{"0":1,"1":1}}')
    with pytest.raises(StateCannotMove, match="ran with 2"):
        kafka(job.stage(3), 4)
    job.checkpoint(1, stage)
    three = job.stage(3)
    kafka(three, 4)
    assert three.like is not None
    begin_behind(CheckpointDir(job.files, three.location(0)), three.like)
    two = job.stage(2)
    assert starts(two) == [Start.RESUME] * 2, "three were tried and have read nothing"
    two.prepare()
    job.runs(three, 0, 1, '{"t":{"0":2}}')
    for other in (2, 4):
        job.files.write_new(f"{job.root}/in/splits/from-1/other-{other}", b"")
        if other == 2:
            job.files.write_new(f"{job.root}/in/splits/from-1/parallelism", b"3")
        with pytest.raises(StateCannotMove, match="ran with 3"):
            job.stage(other).plan  # noqa: B018


def test_row9_keyed_state_and_unknown_positions_keep_the_parallelism(job: Job) -> None:
    stage = job.stage(2)
    kafka(stage, 2)
    job.checkpoint(1, stage, kind="stateStoreSave")
    with pytest.raises(StateCannotMove, match="state-0"):
        job.stage(3).plan  # noqa: B018
    names = job.stage(2)
    job.record = None
    names = job.stage(2)
    names.assign(0, "names", lambda: ["eu", "us", "asia"])
    assert names.state(0) == {"names": ("eu", "us")}
    job.checkpoint(2, names)
    with pytest.raises(StateCannotMove):
        job.stage(3).plan  # noqa: B018
    same = job.stage(2)
    assert list(same.assign(1, "names", lambda: ["asia", "us", "eu"])) == ["asia"], (
        "as they were assigned before"
    )
    with pytest.raises(BadShards, match="africa"):
        job.stage(2).assign(0, "names", lambda: ["eu", "us", "asia", "africa"])


def test_row9_splits_that_nobody_would_read_are_refused(job: Job) -> None:
    stage = job.stage(2)
    kafka(stage, 2)
    job.runs(stage, 0, 0, '{"t":{"0":1}}')
    job.checkpoint(1, stage)
    with pytest.raises(BadShards, match="1 more partitions"):
        kafka(job.stage(2), 3)
    assert kafka(job.stage(2), 2) == [[["t", 0, 1]], [["t", 1, None]]]
    uneven = job.stage(2)
    kafka(uneven, 2)
    uneven.assign(0, "kafka:u", lambda: topic(2))
    uneven.begin(0)
    with pytest.raises(BadShards, match="shard 1 of stage 'in' does not read kafka:u"):
        uneven.begin(1)
    with pytest.raises(BadShards, match="shard 0 of stage 'in' does not read kafka:v"):
        uneven.assign(1, "kafka:v", lambda: topic(2))
    other = job.stage(3)
    other.assign(0, "kafka:u", lambda: topic(0))
    with pytest.raises(StateCannotMove, match="kafka:t"):
        other.begin(0)


def test_row9_the_files_of_a_finished_stage_are_not_dealt_anew(job: Job) -> None:
    stage = job.stage(2)
    stage.assign(0, "files", lambda: ["a", "b"])
    job.record = CheckpointRecord(
        1,
        1,
        None,
        None,
        None,
        "2026-01-01T00:00:00Z",
        (
            StageRecord(
                "in",
                (
                    TaskRecord(0, f"{job.root}/in/0", None, finished=True, state={"splits": ()}),
                    TaskRecord(1, f"{job.root}/in/1", None, state={"splits": ()}),
                ),
                (OperatorRecord("splits", OperatorKind.LIST, "splits", False),),
            ),
        ),
    )
    more = job.stage(3)
    assert [list(more.assign(i, "files", lambda: ["a", "b"])) for i in range(3)] == [[], [], []]
    more.begin(0)


def test_row9_a_new_query_begins_behind_the_batches_of_another(job: Job) -> None:
    stage = job.stage(1)
    job.runs(stage, 0, 7, '{"t":{"0":1}}', "-")
    old, new = CheckpointDir(job.files, stage.location(0)), CheckpointDir(job.files, f"{job.root}/new")
    job.files.write_new(f"{new.uri}/offsets/6", b"of an attempt that died")
    begin_behind(new, old)
    assert (new.boundary(), new.watermark(7), new.source_offsets(7)) == (7, 0, {"0": None, "1": None})
    assert new.latest_offset() == 7
    query_id = new.query_id()
    begin_behind(new, old)
    assert new.query_id() == query_id is not None


def test_row9_what_a_file_source_has_read_up_to_a_batch(job: Job) -> None:
    def logged(entry: int) -> str:
        return json.dumps({"path": f"file:///in/{entry}", "timestamp": 1, "batchId": entry})

    stage = job.stage(1)
    job.runs(stage, 0, 5, '{"t":{"0":1}}', '{"logOffset":3}')
    directory = CheckpointDir(job.files, stage.location(0))
    log = f"{directory.uri}/sources/1"
    with pytest.raises(MalformedCheckpoint):
        files_read(directory, 5)
    for entry in range(5):
        job.files.write_new(f"{log}/{entry}", f"v1\n{logged(entry)}".encode())
    expected = [f"file:///in/{n}" for n in range(4)]
    assert files_read(directory, 5) == expected, "not what a later batch has planned"
    job.files.write_new(f"{log}/5.compact", "\n".join(["v1", *map(logged, range(6))]).encode())
    assert files_read(directory, 5) == expected
    for entry in range(3):
        Path(f"{log}/{entry}".removeprefix("file:")).unlink()
    assert files_read(directory, 5) == expected, "from the compacted entry"


def test_without_the_runtime_each_shard_has_its_even_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "_assigner", Alone())
    found = shards.shards("flights", 3)
    assert [s.name for s in found] == ["flights/0", "flights/1", "flights/2"]
    assert [s.splits(["a", "b", "c", "d"]) for s in found] == [("a", "b"), ("c",), ("d",)]
    assert [json.loads(s.kafka("t", partitions=4)["assign"]) for s in found] == [
        {"t": [0, 1]},
        {"t": [2]},
        {"t": [3]},
    ]
    with pytest.raises(BadShards, match="shard 2"):
        Shard("flights", 2, 3).kafka("small", partitions=2)
    for uid, parallelism in (("", 1), ("a", 0)):
        with pytest.raises(BadShards):
            shards.shards(uid, parallelism)


def test_w4_a_checkpoint_that_carries_the_stage_does_not_forget_what_another_parallelism_has_read(
    job: Job,
) -> None:
    """Two tasks, then three; a crash; then a stop in front of the stage, whose checkpoint carries it."""
    two = job.stage(2)
    kafka(two, 4)
    job.runs(two, 0, 0, '{"t":{"0":10,"1":10}}')
    job.runs(two, 1, 0, '{"t":{"2":10,"3":10}}')
    job.checkpoint(1, two)
    three = job.stage(3, exact=False)
    shares = kafka(three, 4)
    for index, share in enumerate(shares):
        three.begin(index)
        job.runs(three, index, 1, json.dumps({"t": {str(p): 50 for _, p, _ in share}}))
    config = DriverConfig(
        JobRef("n", "j", "u"), 3, Application(file="app.py"), job.root, restore=Restore(job.record, False)
    )
    carried = CarriedStages(RestorePoints(config)).records(job.files, ["backfill"])
    job.record = CheckpointRecord(2, 3, None, None, None, "2026-01-01T00:00:00Z", carried)
    again = job.stage(3)
    assert [again.location(i) for i in range(3)] == [three.location(i) for i in range(3)]
    assert kafka(again, 4) == shares
    with pytest.raises(StateCannotMove):  # its tasks are in nobody's record yet
        _ = job.stage(4).plan
