"""Builds the driver's status from the coordinator's state and from `Notes` on the effects."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ...jvm.errors import line_with, one_line
from ...protocol.engine.coordinator import Coordinator
from ...protocol.errors import StreamJobError
from ...protocol.graph import TaskName
from ...protocol.lifecycle import Scenario
from ...protocol.messages.commands import Mode
from ...protocol.messages.driver_status import (
    DriverPhase,
    Problem,
    StageStatus,
    TaskStatus,
    TerminationStatus,
    TerminationStep,
)
from ...protocol.messages.figures import merged, total
from ...protocol.wording import fill
from ...storage.errors import FULL, StorageFull
from ..query.figures import Figures
from ..spark.max_watermark.batch import DrainResult

STEPS = list(TerminationStep)


class Reported(Protocol):
    """What the status needs of a run. `query.run.Run` implements it."""

    name: TaskName
    uid: str
    task: str
    figures: Figures


@dataclass
class Notes:
    """What the threads that carry out effects know and the coordinator does not.

    :param progress: one line of progress by task, "" for the job.
    :param flushed_rows: rows that the drain gave to the sinks.
    :param state_rows_left: rows that the drain left in the state.
    :param stuck: why the current step does not succeed. It is tried again.
    :param failed: why the last run of a task failed, by task.
    :param failure: why the job failed.
    :param at_gate: the script is about to start its first query, and waits until it may.
    :param nothing_left: the script starts no query, and none has anything left: the job is over.
    """

    progress: dict[str, str] = field(default_factory=dict)
    flushed_rows: int | None = None
    state_rows_left: int | None = None
    stuck: Problem | None = None
    failed: dict[str, Problem] = field(default_factory=dict)
    failure: Problem | None = None
    at_gate: bool = False
    nothing_left: bool = False
    _sums: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def drained(self, result: DrainResult) -> None:
        """Add the result of one task. Takes a lock, because tasks are drained in threads of their own."""
        with self._sums:
            self.flushed_rows = total([self.flushed_rows, result.output_rows])
            self.state_rows_left = total([self.state_rows_left, result.state_rows_left])

    def fail(self, error: BaseException, what: str) -> None:
        """Keep the first failure: it is the cause, later ones are consequences."""
        if self.failure is None:
            self.failure = problem_of(error, what)


OF_KAFKA = ("org.apache.kafka.",)  # in the texts of an error


def problem_of(error: BaseException, what: str = "", brokers: Sequence[str] = ()) -> Problem:
    """The error as the status reports it. An error that is no StreamJobError counts as retryable.

    :param brokers: what its query reads from and writes to in Kafka, whose errors do not say it.
    """
    if isinstance(error, StreamJobError):
        return Problem.of(error)
    message = f"{what}: {one_line(error)}".lstrip(": ").removesuffix(".")
    if brokers and line_with(error, OF_KAFKA) is not None:
        message += f"; the query uses {', '.join(brokers)}"
    if (full := line_with(error, FULL)) is not None:
        remedy = (
            "Make room where the message says: in <checkpoints>, in the sink, or in <local-folder>; it is "
            "tried again"
        )
        told = message if full in message else f"{message}: {full}"
        return Problem(StorageFull.reason, told, fill(remedy), retryable=True)
    return Problem("QueryFailed", message, fill("See <log> for the cause"), retryable=True)


def interrupted(task: str, failed: str, problem: Problem) -> Problem:
    """Why a task does not run that an edge connects with a failed one.

    :param problem: why the other one failed.
    """
    message = (
        f"stage {task} does not run: it was interrupted when stage {failed}, which an edge connects with it, "
        f"failed: {problem.message}"
    )
    remedy = f"Let the script start both again: {task} continues after its last batch"
    return replace(problem, message=message, remedy=remedy)


def phase(coordinator: Coordinator, notes: Notes) -> DriverPhase:
    """The phase while the script runs. It is never FAILED: that is known only when the script has ended."""
    if not coordinator.has_tasks:
        if notes.nothing_left:
            return DriverPhase.TERMINATED
        return DriverPhase.PREPARED if notes.at_gate else DriverPhase.STARTING
    if coordinator.terminated:
        return DriverPhase.TERMINATED
    return DriverPhase.TERMINATING if coordinator.terminating else DriverPhase.RUNNING


def stage_statuses(coordinator: Coordinator, stages: Mapping[str, Reported]) -> tuple[StageStatus, ...]:
    """The status of each stage.

    :param stages: runs by task id. All runs with the same uid belong to one stage.
    """
    by_uid: dict[str, list[Reported]] = {}
    for run in stages.values():
        by_uid.setdefault(run.uid, []).append(run)
    return tuple(_stage_status(coordinator, uid, tasks) for uid, tasks in by_uid.items())


def _stage_status(coordinator: Coordinator, uid: str, stages: Sequence[Reported]) -> StageStatus:
    tasks, figures = [], [run.figures for run in stages]
    for run in stages:
        task = coordinator.tasks[run.task]
        batch = task.batch if task.batch is not None else run.figures.batch
        tasks.append(TaskStatus(run.name.index, task.state, batch, task.step))
    finished = all(coordinator.tasks[s.task].operators_finished for s in stages)
    operators = max((f.operators for f in figures), key=len)
    watermarks = [f.watermark for f in figures if f.watermark is not None]
    return StageStatus(
        uid=uid,
        tasks=tuple(sorted(tasks, key=lambda t: t.index)),
        operators=tuple(replace(o, finished=finished) for o in operators),
        watermark=min(watermarks, default=None),
        input_rows_per_second=total(f.input_rows_per_second for f in figures),
        state_rows=total(f.state_rows for f in figures),
        figures=merged([f.query for f in figures]),
        upstream=coordinator.upstream(uid),
    )


def termination_status(coordinator: Coordinator, notes: Notes, epoch: int) -> TerminationStatus | None:
    """The termination's progress: that of its slowest task. None if none is in progress or done."""
    if not coordinator.has_tasks or not (coordinator.terminating or coordinator.terminated):
        return None
    request = coordinator.request
    # A task without a step has not begun to end, because its upstream has not ended: it is the slowest.
    steps = {name: t.step or TerminationStep.BOUNDARY for name, t in coordinator.tasks.items()}
    mode = Mode.STOP if all(t.scenario is Scenario.STOP for t in coordinator.tasks.values()) else Mode.DRAIN
    step = min(steps.values(), key=STEPS.index)
    slowest = ["", *(name for name, at in steps.items() if at is step)]
    progress = "; ".join(text for name in slowest if (text := notes.progress.get(name)))
    return TerminationStatus(
        request_id=request.request_id if request else f"end-of-input-{epoch}",
        mode=request.mode if request else mode,
        step=step,
        progress="" if step is TerminationStep.CLOSED else progress[:300],
        final_checkpoint=coordinator.final_checkpoint,
        flushed_rows=notes.flushed_rows,
        state_rows_left=notes.state_rows_left,
        problem=notes.stuck,
    )
