"""What the controller and a driver say to each other: the driver's configuration, commands, status and final report.

Controller → driver, HTTP/JSON over TLS, each command an idempotent PUT that carries the epoch:

    PUT /v1/termination                     TerminationRequest → 202, 409 (another one is under way), 412 (epoch, term)
    PUT /v1/savepoint                       SavepointRequest → 202, 409 (the job is ending), 412
    PUT /v1/deletions                       SavepointDeletion → 202, 412
    PUT /v1/records                         RecordsRequest → 202, 412
    PUT /v1/checkpoints/{n}/completed       Completed: checkpoint n is in the index (notifyCheckpointComplete)
    GET /v1/status?after=V&timeout=S        DriverStatus, at once if its version is above V, else when it changes

The header Streamjob-Term says in which term the controller leads: in a command always, in a GET so that the driver hears of it.
A command of an earlier term than the driver has heard of is refused with 412, and the answer's header names the later one. The
status may be read by anybody who has the token, also without a term.

When the driver ends it leaves its last status, cut to 4 KiB, as the pod's termination message.
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
SAVEPOINT_ID = "savepoint-"  # how the ids of savepoint requests begin; those of terminations do not
TLS_NAME = "driver.streamjob.dev"  # the name in every driver's certificate; the address is the pod's


class Mode(str, Enum):
    """How a job is asked to end. The mode that end of input takes is Drain: it is the same path."""

    STOP = "Stop"
    DRAIN = "Drain"


class DriverPhase(str, Enum):
    STARTING = "Starting"  # the script has started no query yet
    RUNNING = "Running"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"  # every task is closed
    FAILED = "Failed"


class Step(str, Enum):
    """Where a termination is, in the order in which they come (V4)."""

    BOUNDARY = "WaitingForBoundary"  # the running micro-batch ends
    MAX_WATERMARK = "FiringTimers"  # only a drain
    SNAPSHOT = "WritingSavepoint"
    COMPLETING = "WaitingForIndex"  # the record is durable, the index does not have it yet
    CLOSED = "Closed"


@dataclass(frozen=True)
class Application:
    """A script (`file`) or a module, exactly one of them, and its arguments."""

    file: str | None = None
    module: str | None = None
    args: tuple[str, ...] = ()


@dataclass(frozen=True)
class Restore:
    """From where the first query starts.

    :param latest: the newest record of the index. Its directories hold batch N or later.
    :param exact: the epoch before ended with `latest`, so its directories hold exactly batch N.
    :param savepoint: URI of a savepoint to copy into empty checkpoint directories; only when there is no `latest`.
    :param recorded: the index is lost: URI of this job's savepoint whose manifest has the record that is `latest`. `exact` then
        says only that no driver has run since.
    :param checkpoints: instead of a savepoint: checkpoint directories (URIs) of a job that no StreamJob has run, by stage.
    :param allow_non_restored_state: the script need not start every stage that the checkpoint has.
    """

    latest: CheckpointRecord | None = None
    exact: bool = False
    savepoint: str | None = None
    allow_drained: bool = False
    checkpoints: dict[str, str] = field(default_factory=dict, hash=False)
    recorded: str | None = None
    allow_non_restored_state: bool = False


@dataclass(frozen=True)
class TerminationRequest:
    """`request_id` is the same in every repetition (V8). `savepoint`: URI to write, None for no copy.

    :param timeout: seconds that the script has, from the request on, to come to its own end when its queries have ended;
        None: the grace period of the pod.
    """

    request_id: str
    epoch: int
    mode: Mode
    savepoint: str | None = None
    timeout: float | None = None


@dataclass(frozen=True)
class SavepointRequest:
    """A copy to `savepoint` (URI) while the job runs on. The same `request_id` in every repetition is one savepoint (V8).

    :param timeout: seconds from now on; then it is given up, and what was written is deleted.
    """

    request_id: str
    epoch: int
    savepoint: str
    timeout: float


@dataclass(frozen=True)
class SavepointDeletion:
    """Savepoints of this job (URIs) that the index has no more, to be deleted. Told again, the driver deletes what is left."""

    epoch: int
    savepoints: tuple[str, ...]


@dataclass(frozen=True)
class RecordsRequest:
    """The index is lost: say which checkpoints are known. `reached`: the newest that the status has heard of."""

    epoch: int
    reached: int

    @property
    def token(self) -> str:
        """How it stands among the acknowledged commands."""
        return f"records-{self.reached}"


@dataclass(frozen=True)
class Completed:
    """Body of `PUT /v1/checkpoints/{n}/completed`."""

    epoch: int


@dataclass(frozen=True)
class CheckpointSettings:
    """Periodic job-wide checkpoints, all in seconds. `interval` 0: none. See `checkpoints.Checkpointing`."""

    interval: float = 0.0
    timeout: float | None = 600.0
    min_pause: float = 0.0
    max_concurrent: int = 1


@dataclass(frozen=True)
class DriverConfig:
    """All that a driver is told at its start, in the environment variable STREAMJOB_CONFIG. Holds no secret. In a pod it
    lacks the stages of `restore.latest`, which may be too large for a variable; the driver reads them from the index.

    :param checkpoints: URI below which queries without a location of their own get one.
    :param eviction_savepoint: URI for the savepoint of a SIGTERM.
    :param grace: seconds between SIGTERM and SIGKILL.
    :param termination: a request that an earlier epoch did not finish.
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
    """An error for the person who reads it; see StreamJobError."""

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
    """`watermark`: RFC 3339 or None; `input_rows_per_second` of the last progress."""

    uid: str
    tasks: tuple[TaskStatus, ...]
    operators: tuple[OperatorRecord, ...] = ()
    watermark: str | None = None
    input_rows_per_second: float | None = None
    state_rows: int | None = None


@dataclass(frozen=True)
class TerminationStatus:
    """`progress` is one line for a person: what it waits for now, how far it is.

    :param flushed_rows: rows that the max-watermark batches gave to the sinks; None unless draining.
    :param state_rows_left: rows that the operators kept after the drain; None if not known, or not draining.
    :param problem: why the step is stuck; it is tried again, and a cancel takes effect at any time.
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
    """One that was given up while the job went on. `time`: RFC 3339, UTC, seconds."""

    checkpoint: int
    reason: str
    time: str


@dataclass(frozen=True)
class SavepointStatus:
    """How far the last savepoint is that was asked for while the job runs.

    :param completed: it is durable, for the index to take. It stays here when later checkpoints have come.
    :param problem: why it was given up, or (while `over` is false) why it is tried again.
    :param over: nothing more comes of the request.
    """

    request_id: str
    progress: str = ""
    completed: CheckpointRecord | None = None
    problem: Problem | None = None
    over: bool = False


@dataclass(frozen=True)
class KnownRecords:
    """The answer to a RecordsRequest, which had `asked` as its `reached`; ascending by number."""

    asked: int
    records: tuple[CheckpointRecord, ...]


@dataclass(frozen=True)
class DriverStatus:
    """`version` grows with each change; `completed` is the last durable checkpoint, for the index to take, and `aborted` the
    last that was given up.

    :param degraded: a query of the running job has failed, and the script has neither started it again nor ended.
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
    deleted: tuple[str, ...] = ()  # savepoints that were to be deleted and are gone
    known: KnownRecords | None = None
    warnings: tuple[Problem, ...] = ()  # what a person should know though the job goes on
    degraded: Problem | None = None
    exit_code: int | None = None
    exit_reason: str = ""

    @property
    def durable(self) -> tuple[CheckpointRecord, ...]:
        """What the index should have, by number."""
        beside = self.savepoint.completed if self.savepoint else None
        found = {r.checkpoint: r for r in (beside, self.completed) if r is not None}
        return tuple(found[n] for n in sorted(found))


def report(status: DriverStatus) -> str:
    """The status as a termination message of at most REPORT_LIMIT bytes: what matters least goes first."""
    for candidate in _ever_shorter(status):
        text = codec.dumps(candidate)
        if len(text) <= REPORT_LIMIT:  # JSON of ours is ASCII
            break
    return text


def _ever_shorter(status: DriverStatus) -> Iterator[DriverStatus]:
    status = replace(status, known=None)
    yield status
    status = replace(status, aborted=None, warnings=())
    yield status
    # One that the index does not have is asked for again: the same request writes it anew.
    status = replace(status, savepoint=None, deleted=())
    yield status
    yield replace(status, stages=tuple(replace(s, operators=()) for s in status.stages))
    status = replace(status, stages=())
    yield status
    for size in (1000, 100):
        status = _with_texts_cut(status, size)
        yield status
    if status.completed:
        # The savepoint's own manifest has the operators; the controller needs number, epoch and place.
        status = replace(status, completed=replace(status.completed, stages=()))
        yield status
    if status.termination:
        status = replace(status, termination=replace(status.termination, progress="", problem=None))
        yield status
    status = replace(status, problem=None)
    yield status
    status = replace(status, termination=None)
    yield status
    # A place cut off would be another place.
    yield replace(status, completed=None)


def _with_texts_cut(status: DriverStatus, size: int) -> DriverStatus:
    t = status.termination
    if t:
        t = replace(t, progress=t.progress[:size], problem=_cut(t.problem, size))
    return replace(status, termination=t, problem=_cut(status.problem, size))


def _cut(problem: Problem | None, size: int) -> Problem | None:
    return problem and replace(problem, message=problem.message[:size], remedy=problem.remedy[:size])
