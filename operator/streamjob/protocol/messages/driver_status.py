"""The status that a driver reports while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from ..errors import StreamJobError
from ..formats import codec
from ..formats.records import CheckpointRecord, OperatorRecord
from ..lifecycle import TaskState
from .commands import Mode
from .figures import QueryFigures


class DriverPhase(str, Enum):
    STARTING = "Starting"  # the script has started no query yet
    PREPARED = "Prepared"  # it is about to start its first one, and waits until the gate opens
    RUNNING = "Running"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"  # every task is closed
    FAILED = "Failed"


class TerminationStep(str, Enum):
    """The steps of a termination, in order (V4)."""

    BOUNDARY = "WaitingForBoundary"  # the running micro-batch ends
    MAX_WATERMARK = "FiringTimers"  # only a drain
    SNAPSHOT = "WritingSavepoint"
    COMPLETING = "WaitingForIndex"  # the record is durable, but not yet committed to the index
    CLOSED = "Closed"


SETTING_PINNED = "SettingPinned"  # the reason of a warning that is also a remark to an upgrade
EXECUTORS_MISSING = "ExecutorsMissing"
JVM_NOT_RESPONDING = "JvmNotResponding"
IDLE = (JVM_NOT_RESPONDING, EXECUTORS_MISSING)  # of warnings while no batch can run: the job is not Ready


@dataclass(frozen=True)
class Problem:
    """An error for a human reader; see `StreamJobError`."""

    reason: str
    message: str
    remedy: str = ""
    retryable: bool = False

    @classmethod
    def of(cls, error: StreamJobError) -> Problem:
        return cls(error.reason, error.message[:2000], error.remedy, error.retryable)


@dataclass(frozen=True)
class TaskStatus:
    """The state of one shard of a stage.

    :param step: how far its termination has come; None before it begins, and where nobody asked for figures.
    """

    index: int
    state: TaskState
    batch: int | None = None
    step: TerminationStep | None = field(default=None, metadata=codec.NEW)


@dataclass(frozen=True)
class StageStatus:
    """The state of one stage.

    :param watermark: RFC 3339, None if there is none.
    :param input_rows_per_second: from the last progress.
    :param figures: None where nobody asked for them.
    :param upstream: uids of the stages that it reads from, started or not. For display, as the figures.
    """

    uid: str
    tasks: tuple[TaskStatus, ...]
    operators: tuple[OperatorRecord, ...] = ()
    watermark: str | None = None
    input_rows_per_second: float | None = None
    state_rows: int | None = None
    figures: QueryFigures | None = field(default=None, metadata=codec.NEW)
    upstream: tuple[str, ...] = field(default=(), metadata=codec.NEW)

    @property
    def without_figures(self) -> StageStatus:
        """Without what is for display only."""
        tasks = tuple(replace(t, step=None) for t in self.tasks)
        return replace(self, tasks=tasks, figures=None, upstream=())


@dataclass(frozen=True)
class TerminationStatus:
    """How far a termination has come.

    :param progress: one line for a human reader: what the termination waits for now, and how far it is.
    :param flushed_rows: rows that the max-watermark batches gave to the sinks; None unless draining.
    :param state_rows_left: rows that the operators kept after the drain; None if unknown or not draining.
    :param problem: why the step is stuck. The step is retried, and a cancel takes effect at any time.
    """

    request_id: str
    mode: Mode
    step: TerminationStep
    progress: str = ""
    final_checkpoint: int | None = None
    flushed_rows: int | None = None
    state_rows_left: int | None = None
    problem: Problem | None = None


@dataclass(frozen=True)
class AbortedCheckpoint:
    """A checkpoint that was aborted while the job kept running.

    :param time: RFC 3339, UTC, seconds.
    """

    checkpoint: int
    reason: str
    time: str


@dataclass(frozen=True)
class SavepointStatus:
    """How far the last on-demand savepoint has come.

    :param completed: its record once it is durable, to be committed to the index. It stays here when later
        checkpoints follow.
    :param problem: why it was aborted or, while `over` is false, why it is retried.
    :param over: nothing more follows from the request.
    """

    request_id: str
    progress: str = ""
    completed: CheckpointRecord | None = None
    problem: Problem | None = None
    over: bool = False


@dataclass(frozen=True)
class ExecutorsStatus:
    """The executors of the job.

    :param least: lower bound of their number, as last requested; at the start that of the configuration.
    :param most: upper bound; equal to `least` unless Spark chooses the number.
    :param wanted: how many Spark wants now.
    :param running: how many are connected to the driver.
    """

    least: int
    most: int
    wanted: int
    running: int = 0


@dataclass(frozen=True)
class KnownRecords:
    """The answer to a `RecordsRequest`.

    :param reached: the `reached` of that request.
    :param records: ascending by number.
    """

    reached: int
    records: tuple[CheckpointRecord, ...]


@dataclass(frozen=True)
class DriverStatus:
    """The status of a driver.

    :param version: grows with each change.
    :param completed: the last durable checkpoint, to be committed to the index.
    :param aborted: the last checkpoint that was aborted.
    :param executors: None if everything runs in the driver.
    :param degraded: a query of the running job has failed, and the script has neither started it again nor
        ended.
    :param exit_code: of the script; None while it runs.
    :param exit_reason: one line in the final report: why the driver exits, by which query, on whose request.
    :param unchanged_since: in the final report of a driver that has started no query: number of the
        checkpoint with which the job had ended and since which no driver has run; 0 if none ever has. None if
        one may have.
    """

    version: int
    job_uid: str
    epoch: int
    phase: DriverPhase
    stages: tuple[StageStatus, ...] = ()
    termination: TerminationStatus | None = None
    completed: CheckpointRecord | None = None
    evicted: bool = False
    problem: Problem | None = None
    aborted: AbortedCheckpoint | None = None
    savepoint: SavepointStatus | None = None
    deleted: tuple[str, ...] = ()  # savepoints whose deletion was requested and that are gone
    known: KnownRecords | None = None
    warnings: tuple[Problem, ...] = ()  # what a person should know although the job keeps running
    degraded: Problem | None = None
    executors: ExecutorsStatus | None = field(default=None, metadata=codec.NEW)
    exit_code: int | None = None
    exit_reason: str = ""
    unchanged_since: int | None = field(default=None, metadata=codec.NEW)

    def without_figures(self) -> DriverStatus:
        """For a controller of an earlier version, which would refuse them, and for the final report."""
        return replace(self, stages=tuple(s.without_figures for s in self.stages))

    @property
    def frozen(self) -> Problem | None:
        """What the driver says of its JVM while that does not answer it: nothing goes on then."""
        return next((w for w in self.warnings if w.reason == JVM_NOT_RESPONDING), None)

    @property
    def durable(self) -> tuple[CheckpointRecord, ...]:
        """The records that belong in the index, ascending by number."""
        beside = self.savepoint.completed if self.savepoint else None
        found = {r.checkpoint: r for r in (beside, self.completed) if r is not None}
        return tuple(found[n] for n in sorted(found))
