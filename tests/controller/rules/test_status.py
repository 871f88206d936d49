"""What people read: conditions, and the error with its remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamjob.api import ConditionType, Phase
from streamjob.controller.reports.messages import sentence
from streamjob.controller.rules.status import fail, seen, settle
from streamjob.protocol.formats.records import OperatorKind, OperatorRecord
from streamjob.protocol.messages.driver_status import Problem
from streamjob.protocol.times import timestamp

from ..factories import MINUTE, NOW, driver, index, job, observed, ran, record, requested, running

PROBLEM = Problem("StorageFull", "no space on /data.", "Make room")


def flags(phase: Phase, *, stalled: bool = False) -> dict[str, str]:
    s = settle(job().status, job(), NOW, phase, "Because", "so", stalled=stalled)
    return {c.type.value: c.status for c in s.conditions}


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_is_exactly_one_of_ready_reconciling_stalled(phase: Phase) -> None:
    assert sorted(flags(phase).values()) == ["False", "False", "True"]
    assert flags(phase, stalled=True) == {"Ready": "False", "Reconciling": "False", "Stalled": "True"}


def test_the_time_of_a_condition_changes_with_it_only() -> None:
    j = job()
    first = settle(j.status, j, NOW, Phase.STARTING, "Starting", "a")
    second = settle(first, j, NOW + MINUTE, Phase.STOPPING, "Stopping", "b")
    third = settle(second, j, NOW + MINUTE, Phase.STOPPED, "Stopped", "c")
    times = [c.last_transition_time for c in second.conditions]
    assert times == [timestamp(NOW)] * 3
    ready = third.condition(ConditionType.READY)
    assert ready is not None
    assert (ready.last_transition_time, ready.status) == (timestamp(NOW + MINUTE), "True")


def test_the_same_error_keeps_its_time() -> None:
    once = fail(job().status, PROBLEM, NOW)
    assert fail(once, PROBLEM, NOW + MINUTE) == once
    assert sentence(PROBLEM) == "no space on /data. Make room."


def test_what_the_driver_reports_is_shown() -> None:
    o = observed(job(status=ran()), pods=[running()], index=index(record()), reported=driver())
    s = seen(o)
    (stage,) = s.stages
    assert (stage.uid, stage.batch, stage.watermark) == ("windows", 7, "2026-01-02T03:00:00Z")
    assert s.checkpoint is not None
    assert s.checkpoint.latest == 1
    assert s.driver is not None
    assert s.driver.started_at == timestamp(NOW - MINUTE)


def test_a_termination_has_ended_when_its_checkpoint_is_in_the_index() -> None:
    o = observed(job(status=ran(termination=requested())), index=index(record()))
    t = seen(o).termination
    assert t is not None
    assert t.final_checkpoint == 1
    other = observed(job(status=ran(termination=requested())), index=index(record(request="eviction-1")))
    t = seen(other).termination
    assert t is not None
    assert t.final_checkpoint is None, "exactly that savepoint, no other"


def test_operators_stay_when_a_final_report_had_no_room_for_them() -> None:
    reported = driver()
    known = OperatorRecord("source-0", OperatorKind.SOURCE, "source-0", finished=True)
    full = replace(reported, stages=tuple(replace(stage, operators=(known,)) for stage in reported.stages))
    first = seen(observed(job(status=ran()), pods=[running()], reported=full))
    later = seen(observed(job(status=first.plain()), pods=[running()], reported=reported))
    assert [o.finished for stage in later.stages for o in stage.operators] == [True]


def test_an_index_that_was_read_before_another_controller_wrote_it_turns_nothing_back() -> None:
    """V7. The world, seed 5173."""
    status = ran(checkpoint={"latest": 2, "epoch": 1, "completedAt": timestamp(NOW)})
    place = {"latest": "file:///2", "checkpoint": 2, "completedAt": timestamp(NOW), "drained": False}
    s = seen(observed(job(status=status | {"savepoint": place}), pods=[running()], index=index(record(1))))
    assert s.checkpoint is not None
    assert s.savepoint is not None
    assert (s.checkpoint.latest, s.savepoint.checkpoint) == (2, 2)
