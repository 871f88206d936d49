"""What the engine owes a script, by the numbers of the findings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamjob.protocol.engine import effects as fx
from streamjob.protocol.formats import codec
from streamjob.protocol.formats.records import OperatorKind, OperatorRecord, StageRecord, TaskRecord
from streamjob.protocol.restore.finished import UnionStatePartlyFinished
from streamjob.protocol.restore.recovery import Start, stage_plan
from tests.protocol.engine.minimal_driver import STOP, Driver


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


def exhausted(job: Driver) -> frozenset[str]:
    """As the newest checkpoint that was stored has it."""
    return [e for e in job.log if isinstance(e, fx.StoreCheckpoint)][-1].exhausted


def test_a_backfill_that_has_consumed_its_input_is_recorded_as_exhausted_and_what_is_stopped_is_not() -> None:
    job = Driver(script_runs=True)
    job.tell("task_started", "history")
    job.tell("task_started", "live")
    job.tell("run_ended", "history", exhausted=True)
    job.run()
    assert exhausted(job) == {"history"}, "by the checkpoint that closes it"
    job.tell("session_ended")
    job.tell("checkpoint_due")
    job.run()
    assert exhausted(job) == {"history"}, "though its session is gone"
    job.tell("termination_requested", STOP)
    job.run()
    assert exhausted(job) == {"history"}, "live was stopped where it was"
    assert job.c.terminated


def test_a_backfill_that_runs_again_is_not_exhausted() -> None:
    job = Driver(script_runs=True)
    job.tell("task_started", "history")
    job.tell("run_ended", "history", exhausted=True)
    job.run()
    job.tell("task_started", "history")
    job.tell("checkpoint_due")
    job.run()
    assert exhausted(job) == frozenset()
    job.tell("termination_requested", STOP)
    job.tell("run_ended", "history", exhausted=True)
    job.run()
    assert exhausted(job) == frozenset(), "the stop came first"


def test_a_record_says_what_of_a_stage_is_left() -> None:
    done = TaskRecord(0, "file:/checkpoints/a/0", 3, exhausted=True)
    bare = (OperatorRecord("source-0", OperatorKind.SOURCE, "source-0", False),)
    windows = (*bare, OperatorRecord("state-0", OperatorKind.STATE, "stateStoreSave", False))
    for tasks, operators, said in (
        ((done,), bare, (True, False)),
        ((done,), windows, (True, True)),
        ((replace(done, state={"seen": ("a",)}),), bare, (True, True)),
        ((replace(done, transactions=("a@1.1",)),), bare, (False, False)),
        ((done, replace(done, index=1, exhausted=False)), bare, (False, False)),
        ((done, replace(done, index=1, exhausted=False, finished=True)), bare, (True, False)),
        ((), bare, (False, False)),
    ):
        stage = StageRecord("a", tasks, operators)
        assert (stage.exhausted, stage.has_state) == said, stage
    older = codec.to_plain(done)
    del older["exhausted"]
    assert codec.from_plain(TaskRecord, older) == replace(done, exhausted=False)
