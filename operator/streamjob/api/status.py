"""What the operator reports. Written by the controller only, under optimistic locking; it never goes back."""

from __future__ import annotations

from enum import Enum

from pydantic import Field

from .policies import Escalation
from .spec import State
from .types import Model, Timestamp


class Phase(str, Enum):
    """Where the job is. Every phase there is; the controller and the documentation use no other."""

    PENDING = "Pending"  # no driver yet
    STARTING = "Starting"  # the driver's pod is there, its script has started no query
    RUNNING = "Running"
    STOPPING = "Stopping"
    DRAINING = "Draining"
    CANCELLING = "Cancelling"
    RESTARTING = "Restarting"  # the driver failed, another epoch begins after the backoff
    STOPPED = "Stopped"  # the final checkpoint is in the index; Running resumes from it
    DRAINED = "Drained"  # an end: every window is flushed
    FINISHED = "Finished"  # an end: all sources ran out
    CANCELLED = "Cancelled"
    FAILED = "Failed"  # goes on when the spec (or restart.nonce) changes


class ConditionType(str, Enum):
    """As kstatus reads them: Ready is good; Reconciling is work under way; Stalled needs a person."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    UPGRADED = "Upgraded"  # only once the specification has changed while a driver ran
    DEGRADED = "Degraded"  # only while a query of the running job is dead


class Condition(Model):
    type: ConditionType
    status: str = Field(json_schema_extra={"enum": ["True", "False", "Unknown"]})
    reason: str
    message: str
    observed_generation: int
    last_transition_time: Timestamp


class DriverInfo(Model):
    """The driver's pod of the current epoch. `uid` is known once the pod was seen."""

    pod: str
    uid: str | None = None
    phase: str | None = None
    started_at: Timestamp | None = None


class ExitStatus(Model):
    """How the last driver that has ended did.

    `code`: of the script, or of the container if the driver could not report. `phase`: of the driver in its report: Terminated if
    every query has ended, Failed if the script has failed or has left a dead query behind. `reason`: one line, why it exited.
    """

    epoch: int
    code: int
    phase: str | None = None
    reason: str = ""
    time: Timestamp | None = None


class TaskInfo(Model):
    index: int
    state: str
    batch: int | None = None


class OperatorInfo(Model):
    uid: str
    kind: str
    name: str
    finished: bool


class StageInfo(Model):
    uid: str
    tasks: tuple[TaskInfo, ...] = ()
    operators: tuple[OperatorInfo, ...] = ()
    watermark: str | None = None
    batch: int | None = None
    input_rows_per_second: float | None = None


class CheckpointStatus(Model):
    """The newest checkpoint in the index."""

    latest: int
    epoch: int
    completed_at: Timestamp


class AbortedCheckpointStatus(Model):
    """The last checkpoint that was given up while the job went on. The next one is taken as if nothing had happened."""

    checkpoint: int
    epoch: int
    reason: str
    time: Timestamp


class SavepointStatus(Model):
    """The newest savepoint in the index. A drained one is an end: see restoreFrom.allowDrained."""

    latest: str
    checkpoint: int
    completed_at: Timestamp
    drained: bool


class SavepointCause(str, Enum):
    TRIGGER = "Trigger"
    SCHEDULE = "Schedule"


class SavepointRequestStatus(Model):
    """The last savepoint that was asked for beside the run. Recorded before the driver is told.

    It is over when `checkpoint` (it is in the index) or `failure` (it came to nothing, the job goes on) is set.
    """

    request_id: str
    cause: SavepointCause
    requested_at: Timestamp
    deadline: Timestamp
    savepoint: str
    progress: str | None = None
    checkpoint: int | None = None
    failure: str | None = None

    @property
    def over(self) -> bool:
        return self.checkpoint is not None or self.failure is not None


class TerminationInfo(Model):
    """The termination under way or the last one. Recorded before the driver is told.

    `finalCheckpoint` is set when that checkpoint is in the index: then the termination is over. Of a drain: `flushedRows` went to
    the sinks when the timers fired, `stateRowsLeft` stay in the operators.
    """

    request_id: str
    mode: str
    requested_at: Timestamp
    deadline: Timestamp
    savepoint: str | None = None
    step: str | None = None
    progress: str | None = None
    final_checkpoint: int | None = None
    flushed_rows: int | None = None
    state_rows_left: int | None = None


class EscalationStatus(Model):
    """What a stop or drain has become, for as long as `spec.state` is `state`. `epoch`: whose driver did not end in time;
    `waitedFor`: what kept it."""

    state: State
    mode: Escalation
    epoch: int
    request_id: str
    since: Timestamp
    waited_for: str


class RestartStatus(Model):
    """`epoch` is the last that failed, under `generation` of the spec; without `nextAt` there is no further restart."""

    count: int
    epoch: int
    generation: int
    next_at: Timestamp | None = None


class ErrorStatus(Model):
    """What went wrong last, and what to do about it. Stays after it is over."""

    reason: str
    message: str
    remedy: str = ""
    time: Timestamp


class WarningStatus(Model):
    """What a person should know of the driver that runs, or ran last, though the job goes on."""

    reason: str
    message: str


class UpgradeStep(str, Enum):
    """How far a change of the specification is."""

    PENDING = "Pending"  # it waits for the next epoch, as upgrade.mode says
    STOPPING = "Stopping"  # the driver that runs is asked to stop
    STARTING = "Starting"  # another begins, and has not come up yet
    COMPLETED = "Completed"
    ROLLED_BACK = "RolledBack"  # it did not come up: the job runs with `previous`


class UpgradeStatus(Model):
    """The upgrade under way or the last one.

    `target` stands for the specification that is asked for; `previous` is the one that ran before (as JSON), kept until the new
    one has come up; `epoch` is the first with the new one, `deadline` until when its container should have started, `savepoint`
    what was taken before it began.
    """

    step: UpgradeStep
    generation: int
    target: str
    previous: str | None = None
    epoch: int | None = None
    deadline: Timestamp | None = None
    savepoint: str | None = None
    error: ErrorStatus | None = None


class Status(Model):
    """What the operator reports. `startedEpoch`: the newest epoch whose driver may have done anything. `term`: in which a
    controller last took charge of the job; one of an earlier term changes nothing. `savepointTrigger`: the value of
    `spec.savepoint.trigger` that has been answered last."""

    observed_generation: int | None = None
    phase: Phase | None = None
    conditions: tuple[Condition, ...] = Field(
        default=(),
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    term: int = 0
    epoch: int = 0
    started_epoch: int = 0
    driver: DriverInfo | None = None
    last_exit: ExitStatus | None = None
    stages: tuple[StageInfo, ...] = ()
    checkpoint: CheckpointStatus | None = None
    aborted_checkpoint: AbortedCheckpointStatus | None = None
    savepoint: SavepointStatus | None = None
    savepoint_request: SavepointRequestStatus | None = None
    savepoint_trigger: int | None = None
    next_savepoint_at: Timestamp | None = None
    termination: TerminationInfo | None = None
    escalation: EscalationStatus | None = None
    restarts: RestartStatus | None = None
    upgrade: UpgradeStatus | None = None
    last_error: ErrorStatus | None = None
    warnings: tuple[WarningStatus, ...] = ()

    def condition(self, kind: ConditionType) -> Condition | None:
        return next((c for c in self.conditions if c.type is kind), None)
