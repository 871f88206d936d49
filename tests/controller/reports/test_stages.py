"""The stages of the status, from what a driver reports."""

from __future__ import annotations

from dataclasses import replace

from streamjob.controller.reports.stages import stages
from streamjob.protocol.formats.records import OperatorKind, OperatorRecord
from streamjob.protocol.lifecycle import TaskState
from streamjob.protocol.messages.driver_status import StageStatus, TaskStatus, TerminationStep

from ..factories import driver

SINK = OperatorRecord("sink", OperatorKind.SINK, "files", False)
FULL = StageStatus(
    "sums",
    (TaskStatus(0, TaskState.RUNNING, 3, TerminationStep.MAX_WATERMARK),),
    (SINK,),
    upstream=("copy", "lookup"),
)


def test_edges_and_steps_are_in_the_status() -> None:
    (found,) = stages(replace(driver(), stages=(FULL,)), ())
    assert found.upstream == ("copy", "lookup")
    assert [t.step for t in found.tasks] == ["FiringTimers"]
    assert found.plain()["tasks"] == [{"index": 0, "state": "Running", "batch": 3, "step": "FiringTimers"}]


def test_a_final_report_has_no_edges_and_the_known_ones_stay() -> None:
    known = stages(replace(driver(), stages=(FULL,)), ())
    last = replace(FULL.without_figures, operators=(), tasks=(TaskStatus(0, TaskState.CLOSED, 4),))
    (found,) = stages(replace(driver(), stages=(last,)), known)
    assert (found.upstream, found.operators) == (known[0].upstream, known[0].operators)
    assert [(t.state, t.step) for t in found.tasks] == [("Closed", None)]
