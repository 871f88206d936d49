"""What a script that starts again has to start of its checkpoint, and what may be left as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
from streamjob.protocol.restore.recovery import AlreadyDrained
from streamjob.runtime.startup.carried_stages import CarriedStages, at_the_end, ended_by
from streamjob.runtime.startup.missing_stages import Missing, sort_out
from streamjob.runtime.startup.restore_point import RestorePoints

from ..localfiles import LocalFiles

FILES: Any = LocalFiles()
SINK = OperatorRecord("sink", OperatorKind.SINK, "sink", False)
WINDOWS = OperatorRecord("state-0", OperatorKind.STATE, "stateStoreSave", False)


class Job:
    """Its checkpoint, and directories as Spark leaves them."""

    def __init__(self, home: Path) -> None:
        self.root = f"file:{home}"
        self.stages: list[StageRecord] = []

    def stage(self, uid: str, *operators: OperatorRecord, **task: Any) -> StageRecord:
        """One that has committed batch 0."""
        self.log(uid, "offsets", 0)
        self.log(uid, "commits", 0)
        record = TaskRecord(0, f"{self.root}/{uid}/0", 0, **task)
        stage = StageRecord(uid, (record,), (*operators, SINK))
        self.stages.append(stage)
        return stage

    def log(self, uid: str, name: str, batch: int) -> None:
        FILES.write_new(f"{self.root}/{uid}/0/{name}/{batch}", b"v1")

    def config(self, scenario: Scenario | None = None, **restore: Any) -> DriverConfig:
        record = CheckpointRecord(1, 1, scenario, None, None, "2026-01-01T00:00:00Z", tuple(self.stages))
        application = Application("app.py")
        restores = Restore(latest=record, **restore)
        return DriverConfig(JobRef("n", "j", "u"), 2, application, self.root, restore=restores)

    def missing(self) -> Missing:
        return sort_out(FILES, RestorePoints(self.config()), [s.uid for s in self.stages])


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_a_backfill_that_is_done_need_not_be_started(job: Job) -> None:
    job.stage("live")
    job.stage("history", exhausted=True)
    job.stage("windows", WINDOWS, exhausted=True)
    job.stage("counts", exhausted=True, state={"counts": ("a",)})
    job.stage("rows", exhausted=True, transactions=("rows@0.1",))
    assert job.missing() == Missing(("live", "rows"), ("windows", "counts"))
    assert sort_out(FILES, RestorePoints(job.config()), []) == Missing()


@pytest.mark.parametrize("committed", [False, True])
def test_a_backfill_that_ran_again_and_died_has_to_be_started(job: Job, committed: bool) -> None:
    """Its record is older than that run."""
    job.stage("history", exhausted=True)
    carried = CarriedStages(RestorePoints(job.config()))
    (record,) = carried.records(FILES, ["live"])
    assert record.exhausted
    job.log("history", "offsets", 1)
    if committed:
        job.log("history", "commits", 1)
    assert job.missing() == Missing(("history",))
    (record,) = carried.records(FILES, ["live"])
    assert (record.exhausted, record.tasks[0].batch) == (False, int(committed))


def test_a_backfill_without_input_has_nothing_left(job: Job) -> None:
    job.stages = [
        StageRecord("history", (TaskRecord(0, f"{job.root}/history/0", None, exhausted=True),), (SINK,))
    ]
    assert job.missing() == Missing()
    job.log("history", "offsets", 0)
    assert job.missing() == Missing(("history",))


def test_a_backfill_that_is_done_has_finished_when_all_else_has(job: Job) -> None:
    done, windows = job.stage("history", exhausted=True), job.stage("windows", WINDOWS, exhausted=True)
    (ended,) = at_the_end((done,))
    assert ended.finished
    assert ended.tasks[0].finished
    assert at_the_end((done, windows)) == (done, windows), "there is something to resume"


@pytest.mark.parametrize("scenario", [None, *Scenario])
def test_the_end_of_all_input_is_a_stop_if_a_stage_that_has_not_started_is_left(
    job: Job, scenario: Scenario | None
) -> None:
    (finished,), left = at_the_end((job.stage("history", exhausted=True),)), job.stage("windows", WINDOWS)
    assert ended_by(scenario, (finished,)) is scenario
    assert ended_by(scenario, (finished, left)) is (
        Scenario.STOP if scenario is Scenario.END_OF_INPUT else scenario
    )


@pytest.mark.parametrize("exact", [False, True])
def test_a_drained_job_is_refused_however_often_it_is_started(job: Job, exact: bool) -> None:
    job.stages = list(at_the_end((job.stage("history", exhausted=True),)))
    with pytest.raises(AlreadyDrained):
        RestorePoints(job.config(Scenario.END_OF_INPUT, exact=exact)).checkpoint(FILES)
    for allowed in ({"again": True}, {"allow_drained": True}):
        config = job.config(Scenario.END_OF_INPUT, exact=exact, **allowed)
        assert RestorePoints(config).checkpoint(FILES) == config.restore.latest
