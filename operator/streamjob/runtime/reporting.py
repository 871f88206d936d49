"""The driver's status, put together from the coordinator's state and the notes of those who carry out its effects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..protocol.coordinator import Coordinator
from ..protocol.errors import StreamJobError
from ..protocol.lifecycle import OperatorState, Scenario, TaskState
from ..protocol.messages import (
    DriverPhase,
    Mode,
    Problem,
    StageStatus,
    Step,
    TaskStatus,
    TerminationStatus,
)
from .causes import one_line
from .stage import Stage

STEPS = list(Step)


@dataclass
class Notes:
    """What the workers know beyond the coordinator: a line of progress for each task ("" for the job), rows flushed, what
    is stuck, what failed."""

    progress: dict[str, str] = field(default_factory=dict)
    flushed_rows: int | None = None
    failures: int = 0
    stuck: Problem | None = None
    failure: Problem | None = None

    def fail(self, error: BaseException, what: str) -> None:
        """The first failure is the cause; what fails after it is a consequence."""
        if self.failure is None:
            self.failure = problem_of(error, what)


def problem_of(error: BaseException, what: str = "") -> Problem:
    """An error as the status says it; one that is not ours is taken for one that may pass."""
    if isinstance(error, StreamJobError):
        return Problem(error.reason, error.message[:2000], error.remedy, error.retryable)
    message = f"{what}: {one_line(error)}".lstrip(": ")
    return Problem("QueryFailed", message, "See the driver's log for the cause", retryable=True)


def phase(coordinator: Coordinator) -> DriverPhase:
    """While the script runs: that it failed is known only when it has ended."""
    if not coordinator.tasks:
        return DriverPhase.STARTING
    if coordinator.terminated:
        return DriverPhase.TERMINATED
    return DriverPhase.TERMINATING if coordinator.terminating else DriverPhase.RUNNING


def stage_statuses(coordinator: Coordinator, stages: dict[str, Stage]) -> tuple[StageStatus, ...]:
    statuses = []
    for uid, stage in stages.items():
        task = coordinator.tasks[uid]
        batch = task.batch if task.batch is not None else stage.figures.batch
        finished = task.operator is not OperatorState.RUNNING and task.scenario is not Scenario.STOP
        statuses.append(
            StageStatus(
                uid=uid,
                tasks=(TaskStatus(0, task.state, batch),),
                operators=tuple(replace(o, finished=finished) for o in stage.figures.operators),
                watermark=stage.figures.watermark,
                input_rows_per_second=stage.figures.rows_per_second,
                state_rows=stage.figures.state_rows,
            )
        )
    return tuple(statuses)


def termination_status(coordinator: Coordinator, notes: Notes, epoch: int) -> TerminationStatus | None:
    """Where the termination is: at the step of its slowest task."""
    if not coordinator.tasks or not (coordinator.terminating or coordinator.terminated):
        return None
    request = coordinator.request
    # One whose upstream has not ended yet has not begun: it is the slowest.
    steps = {name: t.step or Step.BOUNDARY for name, t in coordinator.tasks.items()}
    mode = Mode.STOP if all(t.scenario is Scenario.STOP for t in coordinator.tasks.values()) else Mode.DRAIN
    step = min(steps.values(), key=STEPS.index, default=Step.BOUNDARY)
    slowest = ["", *(name for name, at in steps.items() if at is step)]
    progress = "; ".join(text for name in slowest if (text := notes.progress.get(name)))
    return TerminationStatus(
        request_id=request.request_id if request else f"end-of-input-{epoch}",
        mode=request.mode if request else mode,
        step=step,
        progress="" if step is Step.CLOSED else progress[:300],
        final_checkpoint=coordinator.final_checkpoint,
        flushed_rows=notes.flushed_rows,
        problem=notes.stuck,
    )


def closed(coordinator: Coordinator, uid: str) -> bool:
    return coordinator.tasks[uid].state is TaskState.CLOSED
