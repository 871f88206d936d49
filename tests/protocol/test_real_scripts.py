"""What the engine owes a script, by the numbers of the findings."""

from __future__ import annotations

import pytest

from streamjob.protocol import effects as fx
from streamjob.protocol.finished import UnionStatePartlyFinished
from streamjob.protocol.records import OperatorKind, OperatorRecord, StageRecord, TaskRecord
from streamjob.protocol.recovery import Start, stage_plan
from tests.protocol.driver import STOP, Driver


def test_r14_what_has_finished_and_failed_behind_that_takes_its_place_again_as_finished() -> None:
    job = Driver()
    job.tell("task_started", "A")
    job.tell("task_started", "B")
    job.tell("input_ended", "A")
    job.run(until=fx.StoreCheckpoint)
    assert job.c.has_finished("A")
    job.tell("task_failed", "A")
    job.tell("task_started", "A")
    assert job.c.has_finished("A"), "a run of it would read on behind its end"
    job.tell("checkpoint_due")
    job.run()
    stored = [e for e in job.log if isinstance(e, fx.StoreCheckpoint)]
    assert all("A" in e.finished for e in stored), stored


def union() -> StageRecord:
    tasks = tuple(
        TaskRecord(i, f"file:/checkpoints/a/{i}", 3, finished=i == 0, state={"seen": (f"of {i}",)})
        for i in range(2)
    )
    return StageRecord("a", tasks, (OperatorRecord("seen", OperatorKind.UNION, "seen", False),))


def test_r15_union_state_that_has_finished_in_part_goes_on_in_place_and_holds_up_no_stop() -> None:
    plan = stage_plan("a", 2, union())
    assert [t.start for t in plan.tasks] == [Start.FINISHED, Start.RESUME]
    assert plan.tasks[1].state == {"seen": ("of 1",)}
    job = Driver()
    job.tell("task_started", "a/0")
    job.tell("task_started", "a/1")
    job.tell("input_ended", "a/0")
    job.run()
    job.tell("termination_requested", STOP)
    job.run()
    assert job.c.terminated


def test_r15_with_another_parallelism_it_is_refused() -> None:
    with pytest.raises(UnionStatePartlyFinished) as e:
        stage_plan("a", 3, lists_too(union()))
    assert e.value.remedy


def lists_too(stage: StageRecord) -> StageRecord:
    operators = (*stage.operators, OperatorRecord("splits", OperatorKind.LIST, "splits", False))
    return StageRecord(stage.uid, stage.tasks, operators)
