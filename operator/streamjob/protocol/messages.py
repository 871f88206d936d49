"""Messages between controller and driver: the driver's configuration, commands, status and final report.

Controller → driver, HTTP/JSON over TLS. Each command is an idempotent PUT that carries the epoch:

    PUT /v1/termination                     TerminationRequest → 202, 409 (one is pending), 412 (epoch, term)
    PUT /v1/savepoint                       SavepointRequest → 202, 409 (the job is ending), 412
    PUT /v1/deletions                       SavepointDeletion → 202, 412
    PUT /v1/records                         RecordsRequest → 202, 412
    PUT /v1/checkpoints/{n}/completed       Completed: checkpoint n is in the index (notifyCheckpointComplete)
    GET /v1/status?after=V&timeout=S        DriverStatus: at once if its version is above V, else on a change

The header Streamjob-Term says in which term the controller leads. Every command must have it; a GET may have
it, so that the driver learns the term. A command of an earlier term than the driver knows is refused with
412, and the answer's header names the later term. Anybody with the token may read the status, also without a
term.

When the driver exits, it leaves its last status, cut to 4 KiB, as the pod's termination message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from . import codec
from .lifecycle import TaskState
from .records import CheckpointRecord, JobRef, OperatorRecord

REQUEST_LIMIT = 64 << 10  # bytes of a command's body
REPORT_LIMIT = 4096  # bytes of a pod's termination message
CONTROL_PORT = 7443
TERM_HEADER = "Streamjob-Term"
SAVEPOINT_ID = "savepoint-"  # prefix of savepoint request ids; termination ids do not have it
TLS_NAME = "driver.streamjob.dev"  # the name in every driver's certificate; connections use the pod's address


class Mode(str, Enum):
    """How a job is asked to end. The end of the input has the mode Drain, because it takes the same path."""

    STOP = "Stop"
    DRAIN = "Drain"


class DriverPhase(str, Enum):
    STARTING = "Starting"  # the script has started no query yet
    RUNNING = "Running"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"  # every task is closed
    FAILED = "Failed"


class Step(str, Enum):
    """The steps of a termination, in order (V4)."""

    BOUNDARY = "WaitingForBoundary"  # the running micro-batch ends
    MAX_WATERMARK = "FiringTimers"  # only a drain
    SNAPSHOT = "WritingSavepoint"
    COMPLETING = "WaitingForIndex"  # the record is durable, but not yet committed to the index
    CLOSED = "Closed"


@dataclass(frozen=True)
class Application:
    """A script (`file`) or a module, exactly one of them, and its arguments."""

    file: str | None = None
    module: str | None = None
    args: tuple[str, ...] = ()


@dataclass(frozen=True)
class Restore:
    """The checkpoint or savepoint that the job is restored from.

    :param latest: the newest record of the index. Its directories hold batch N or a later one.
    :param exact: the previous epoch ended with `latest`, so its directories hold exactly batch N.
    :param savepoint: URI of a savepoint to copy into empty checkpoint directories; only if there is no
        `latest`.
    :param recorded: the index is lost: URI of this job's savepoint whose manifest has the record to use as
        `latest`. `exact` then says only that no driver has run since.
    :param checkpoints: instead of a savepoint: checkpoint directories (URIs), by stage, of a job that
        StreamJob never ran.
    :param allow_non_restored_state: the script need not start every stage that the checkpoint has.
    :param again: a driver or its script has failed since `latest`. The script runs again, even if nothing is
        left to resume.
    """

    latest: CheckpointRecord | None = None
    exact: bool = False
    savepoint: str | None = None
    allow_drained: bool = False
    checkpoints: dict[str, str] = field(default_factory=dict, hash=False)
    recorded: str | None = None
    allow_non_restored_state: bool = False
    again: bool = False


@dataclass(frozen=True)
class TerminationRequest:
    """End the job, with a savepoint if one is named.

    :param request_id: the same in every repetition (V8).
    :param savepoint: URI of the savepoint to write, None for no copy.
    :param timeout: seconds from the request within which the script must end by itself after its queries have
        ended; None: the pod's grace period.
    """

    request_id: str
    epoch: int
    mode: Mode
    savepoint: str | None = None
    timeout: float | None = None


@dataclass(frozen=True)
class SavepointRequest:
    """Write a copy to `savepoint` (URI) while the job keeps running.

    :param request_id: the same in every repetition; together they are one savepoint (V8).
    :param timeout: seconds from the first attempt. Then the savepoint is aborted, and what was written is
        deleted.
    """

    request_id: str
    epoch: int
    savepoint: str
    timeout: float


@dataclass(frozen=True)
class SavepointDeletion:
    """Delete savepoints of this job (URIs) that left the index. A repetition deletes what is left."""

    epoch: int
    savepoints: tuple[str, ...]


@dataclass(frozen=True)
class RecordsRequest:
    """The index is lost: report which checkpoints are known.

    :param reached: number of the newest checkpoint that the job's status has heard of.
    """

    epoch: int
    reached: int

    @property
    def token(self) -> str:
        """The request's entry among the acknowledged commands."""
        return f"records-{self.reached}"


@dataclass(frozen=True)
class Completed:
    """Body of `PUT /v1/checkpoints/{n}/completed`."""

    epoch: int


@dataclass(frozen=True)
class CheckpointSettings:
    """Periodic job-wide checkpoints, in seconds; see `checkpoints.Checkpointing`. `interval` 0: none."""

    interval: float = 0.0
    timeout: float | None = 600.0
    min_pause: float = 0.0
    max_concurrent: int = 1


@dataclass(frozen=True)
class DriverConfig:
    """Everything that a driver gets at its start, in the environment variable STREAMJOB_CONFIG. Holds no
    secret.

    In a pod it lacks the stages of `restore.latest`, which may be too large for a variable; the driver reads
    them from the index.

    :param checkpoints: URI below which queries without a location of their own get one.
    :param eviction_savepoint: URI for the savepoint that a SIGTERM causes.
    :param grace: seconds between SIGTERM and SIGKILL.
    :param termination: a request that an earlier epoch did not complete.
    :param executor_template: pod template (as JSON) for the executors, None in local mode.
    """

    job: JobRef
    epoch: int
    application: Application
    checkpoints: str
    next_checkpoint: int = 1
    restore: Restore = field(default_factory=Restore)
    checkpointing: CheckpointSettings = field(default_factory=CheckpointSettings)
    termination: TerminationRequest | None = None
    eviction_savepoint: str | None = None
    grace: int = 30
    spark_conf: dict[str, str] = field(default_factory=dict)
    executor_template: str | None = None


@dataclass(frozen=True)
class Problem:
    """An error for a human reader; see `StreamJobError`."""

    reason: str
    message: str
    remedy: str = ""
    retryable: bool = False


@dataclass(frozen=True)
class TaskStatus:
    index: int
    state: TaskState
    batch: int | None = None


@dataclass(frozen=True)
class StageStatus:
    """The state of one stage.

    :param watermark: RFC 3339, None if there is none.
    :param input_rows_per_second: from the last progress.
    """

    uid: str
    tasks: tuple[TaskStatus, ...]
    operators: tuple[OperatorRecord, ...] = ()
    watermark: str | None = None
    input_rows_per_second: float | None = None
    state_rows: int | None = None


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
    step: Step
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
class KnownRecords:
    """The answer to a `RecordsRequest`.

    :param asked: the `reached` of that request.
    :param records: ascending by number.
    """

    asked: int
    records: tuple[CheckpointRecord, ...]


@dataclass(frozen=True)
class DriverStatus:
    """The status of a driver.

    :param version: grows with each change.
    :param completed: the last durable checkpoint, to be committed to the index.
    :param aborted: the last checkpoint that was aborted.
    :param degraded: a query of the running job has failed, and the script has neither started it again nor
        ended.
    :param exit_code: of the script; None while it runs.
    :param exit_reason: one line in the final report: why the driver exits, by which query, on whose request.
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
    exit_code: int | None = None
    exit_reason: str = ""

    @property
    def durable(self) -> tuple[CheckpointRecord, ...]:
        """The records that belong in the index, ascending by number."""
        beside = self.savepoint.completed if self.savepoint else None
        found = {r.checkpoint: r for r in (beside, self.completed) if r is not None}
        return tuple(found[n] for n in sorted(found))


def report(status: DriverStatus) -> str:
    """The status as a termination message of at most REPORT_LIMIT bytes: what matters least goes first."""
    for candidate in _ever_shorter(status):
        text = codec.dumps(candidate)
        if len(text) <= REPORT_LIMIT:  # our JSON is ASCII: a character is a byte
            break
    return text


def _ever_shorter(status: DriverStatus) -> Iterator[DriverStatus]:
    status = replace(status, known=None)
    yield status
    status = replace(status, aborted=None, warnings=())
    yield status
    # A savepoint that the index does not have is requested again: the same request writes it again.
    status = replace(status, savepoint=None, deleted=())
    yield status
    yield replace(status, stages=tuple(replace(s, operators=()) for s in status.stages))
    status = replace(status, stages=())
    yield status
    for size in (1000, 100):
        status = _with_texts_cut(status, size)
        yield status
    if status.completed:
        # The savepoint's own manifest has the operators; the controller needs number, epoch and URI.
        status = replace(status, completed=replace(status.completed, stages=()))
        yield status
    if status.termination:
        status = replace(status, termination=replace(status.termination, progress="", problem=None))
        yield status
    status = replace(status, problem=None)
    yield status
    status = replace(status, termination=None)
    yield status
    # A truncated URI would name another savepoint.
    yield replace(status, completed=None)


def _with_texts_cut(status: DriverStatus, size: int) -> DriverStatus:
    t = status.termination
    if t:
        t = replace(t, progress=t.progress[:size], problem=_cut(t.problem, size))
    return replace(status, termination=t, problem=_cut(status.problem, size))


def _cut(problem: Problem | None, size: int) -> Problem | None:
    return problem and replace(problem, message=problem.message[:size], remedy=problem.remedy[:size])
