"""The status of a StreamJob.

Only the controller writes it, under optimistic locking, and it never goes back.
"""

from __future__ import annotations

from enum import Enum

from pydantic import Field

from ..protocol.messages.commands import Mode
from ..protocol.messages.driver_status import TerminationStep
from .policies import Escalation
from .reported.conditions import Condition, ConditionType
from .reported.drivers import AutoscaleStatus, DriverInfo, ExecutorsStatus, ExitStatus, StandbyStatus
from .reported.errors import ErrorStatus
from .reported.stages import StageInfo
from .spec import State
from .types import Model, Timestamp, merged_by, one_of


class Phase(str, Enum):
    """Where the job is in its life cycle."""

    # The list is complete: the controller and the documentation use no other phase.
    PENDING = "Pending"  # no driver yet
    STARTING = "Starting"  # the driver's pod exists, its script has not started a query yet
    RUNNING = "Running"
    STOPPING = "Stopping"
    DRAINING = "Draining"
    CANCELLING = "Cancelling"
    RESTARTING = "Restarting"  # the driver failed; the next epoch starts after the backoff
    WAITING = "Waiting"  # spec.schedule: no driver runs until the next round
    SUSPENDED = "Suspended"  # spec.suspend is true, and no driver runs
    STOPPED = "Stopped"  # the final checkpoint is committed to the index; Running resumes from it
    DRAINED = "Drained"  # an end: every window is flushed
    FINISHED = "Finished"  # an end: all sources ran out
    CANCELLED = "Cancelled"
    FAILED = "Failed"  # starts again when the spec (or restart.nonce) changes


class CheckpointStatus(Model):
    """The newest checkpoint in the index."""

    latest: int = Field(description="Number of the checkpoint.")
    epoch: int = Field(description="Epoch whose driver took the checkpoint.")
    completed_at: Timestamp = Field(description="When the checkpoint completed.")


class AbortedCheckpointStatus(Model):
    """The last checkpoint that was aborted while the job kept running. The next checkpoint is unaffected."""

    checkpoint: int = Field(description="Number of the checkpoint.")
    epoch: int = Field(description="Epoch whose driver aborted the checkpoint.")
    reason: str = Field(description="Why the checkpoint was aborted.")
    time: Timestamp = Field(description="When the checkpoint was aborted.")


class SavepointStatus(Model):
    """The newest savepoint in the index."""

    latest: str = Field(description="Location of the savepoint.")
    checkpoint: int = Field(description="Number of the checkpoint that the savepoint is a copy of.")
    completed_at: Timestamp = Field(description="When the savepoint completed.")
    drained: bool = Field(
        description="Whether the job was drained. A new job restores from a drained savepoint only with "
        "restoreFrom.allowDrained."
    )


class SavepointCause(str, Enum):
    """What requested the savepoint: a change of `spec.savepoint.nonce`, or `spec.savepoint.schedule`."""

    MANUAL = "Manual"
    SCHEDULE = "Schedule"


class SavepointRequestStatus(Model):
    """The latest request for a live savepoint, recorded before the driver receives it. The request is over
    when `checkpoint` or `failure` is set.
    """

    request_id: str = Field(description="Identifies the request.")
    cause: SavepointCause
    requested_at: Timestamp = Field(description="When the savepoint was requested.")
    deadline: Timestamp = Field(description="When the savepoint is aborted if it has not completed.")
    savepoint: str = Field(description="Location of the savepoint.")
    progress: str | None = Field(default=None, description="What the savepoint is doing or waiting for.")
    checkpoint: int | None = Field(
        default=None, description="Number of the savepoint's checkpoint, once it is committed to the index."
    )
    failure: str | None = Field(
        default=None, description="Why there is no savepoint. The job itself is unaffected."
    )

    @property
    def over(self) -> bool:
        return self.checkpoint is not None or self.failure is not None


class TerminationInfo(Model):
    """The pending termination, or else the latest one, recorded before the driver receives the request. The
    termination is over when `finalCheckpoint` is set."""

    request_id: str = Field(description="Identifies the request.")
    mode: str = Field(description="How the job is asked to end.", json_schema_extra=one_of(Mode))
    requested_at: Timestamp = Field(description="When the termination was requested.")
    deadline: Timestamp = Field(
        description="When the timeout passes; spec.termination.escalation then applies."
    )
    savepoint: str | None = Field(default=None, description="Location of the final savepoint.")
    step: str | None = Field(
        default=None,
        description="Current step of the termination.",
        json_schema_extra=one_of(TerminationStep),
    )
    progress: str | None = Field(default=None, description="What the termination waits for.")
    final_checkpoint: int | None = Field(
        default=None, description="Number of the final checkpoint, once it is committed to the index."
    )
    flushed_rows: int | None = Field(
        default=None, description="Drain only: rows that went to the sinks when the event-time timers fired."
    )
    state_rows_left: int | None = Field(
        default=None, description="Drain only: rows of state that remain in the operators."
    )


class RoundsStatus(Model):
    """The rounds of a job with a schedule."""

    next: Timestamp | None = Field(default=None, description="When the next round is due.")
    began: Timestamp | None = Field(
        default=None, description="When the present round began. Absent while the job waits."
    )
    last: Timestamp | None = Field(default=None, description="When the last round that has succeeded began.")
    last_duration: str | None = Field(default=None, description="How long that one took.")
    missed: int = Field(default=0, description="Scheduled times for which no round has begun.")
    late_at: Timestamp | None = Field(
        default=None,
        description="If no round succeeds until then, none has for two periods of the schedule.",
    )
    nonce: int | None = Field(
        default=None, description="Latest value of `spec.schedule.nonce` that has been handled."
    )
    after_epoch: int = Field(default=0, description="Newest epoch before the present round, or the last one.")
    error: ErrorStatus | None = Field(
        default=None, description="Why the present round was stopped, or the last one: it took too long."
    )
    made_from: str | None = Field(
        default=None,
        description="The specification of the driver that ended the last successful round, as JSON: an "
        "upgrade that fails goes back to it.",
    )


class EscalationStatus(Model):
    """What a late stop or drain was escalated to. Applies for as long as `spec.state` stays at `state`."""

    state: State = Field(description="The value of `spec.state` for which the escalation applies.")
    mode: Escalation = Field(description="What the stop or drain was escalated to.")
    epoch: int = Field(description="Epoch whose driver did not end in time.")
    request_id: str = Field(description="Request that was escalated.")
    since: Timestamp = Field(description="When it was escalated.")
    waited_for: str = Field(description="What the stop or drain was waiting for when its timeout passed.")


class RestartStatus(Model):
    """The latest failure and the restart that follows it."""

    count: int = Field(description="Failures in a row.")
    epoch: int = Field(description="Latest epoch that failed.")
    generation: int = Field(description="Generation of the spec under which it failed.")
    next_at: Timestamp | None = Field(
        default=None, description="When the next driver starts. Empty if there is no further restart."
    )
    error: ErrorStatus | None = Field(
        default=None,
        description="Why the driver of that epoch failed. `lastError` may be newer: what the next driver "
        "waits for.",
    )


class WarningStatus(Model):
    """A problem that the running driver, or the latest one, reports although the job keeps running."""

    reason: str = Field(description="A stable identifier in CamelCase.")
    message: str = Field(description="The problem and its remedy.")


class UpgradeStep(str, Enum):
    """Pending: waits for the next epoch (`spec.upgrade.mode`). Preparing: the new driver starts beside the
    running one (`upgrade.mode: Handover`). Stopping: the old driver stops. Starting: the new driver has not
    proved itself yet. RolledBack: the new driver did not come up, and the job runs the previous
    specification.
    """

    PENDING = "Pending"  # waits for the next epoch, as upgrade.mode says
    PREPARING = "Preparing"  # the new driver starts beside the running one, as upgrade.mode says
    STOPPING = "Stopping"  # the running driver is asked to stop
    STARTING = "Starting"  # the new driver starts and has not come up yet
    COMPLETED = "Completed"
    ROLLED_BACK = "RolledBack"  # the new driver did not come up: the job runs with `previous`


class UpgradeStatus(Model):
    """The pending upgrade, or else the latest one."""

    step: UpgradeStep
    generation: int = Field(description="Generation of the spec that requests the upgrade.")
    target: str = Field(description="Hash of the requested specification.")
    previous: str | None = Field(
        default=None,
        description="The specification that ran before, as JSON. Kept until the new one has come up.",
    )
    epoch: int | None = Field(default=None, description="First epoch with the new specification.")
    deadline: Timestamp | None = Field(
        default=None,
        description="When the upgrade is given up if the new driver's container has not started; while it is "
        "being prepared, if its script has not come to its first query.",
    )
    savepoint: str | None = Field(
        default=None, description="Location of the savepoint that was taken before the new driver started."
    )
    waits_for: str | None = Field(
        default=None,
        description="What keeps the prepared driver from starting beside the running one: an image, room, a "
        "volume.",
    )
    error: ErrorStatus | None = Field(default=None, description="Why the new specification did not come up.")


class Status(Model):
    """The state of the job as the operator reports it."""

    observed_generation: int | None = Field(
        default=None, description="Generation of the spec that this status refers to."
    )
    phase: Phase | None = None
    conditions: tuple[Condition, ...] = Field(
        default=(),
        json_schema_extra=merged_by("type"),
        description="Whether the job is in the requested state, in transition, or needs a person to act.",
    )
    term: int = Field(
        default=0,
        description="Term of the controller that last fenced the job. A controller of an earlier term "
        "changes nothing.",
    )
    epoch: int = Field(default=0, description="Number of the driver's current attempt, from 1.")
    started_epoch: int = Field(default=0, description="Newest epoch whose driver may have started.")
    driver: DriverInfo | None = None
    standby: StandbyStatus | None = None
    handed_over: DriverInfo | None = Field(
        default=None,
        description="The driver that has handed over to the current one, until its pod is gone and the "
        "current one runs. Every query of it has ended; its process exits.",
    )
    executors: ExecutorsStatus | None = None
    autoscale: AutoscaleStatus | None = None
    selector: str | None = Field(
        default=None,
        description="Label selector of the executors' pods, for `kubectl scale` and a "
        "HorizontalPodAutoscaler.",
    )
    last_exit: ExitStatus | None = None
    stages: tuple[StageInfo, ...] = Field(
        default=(), description="The job's streaming queries, as the driver last reported them."
    )
    checkpoint: CheckpointStatus | None = None
    aborted_checkpoint: AbortedCheckpointStatus | None = None
    savepoint: SavepointStatus | None = None
    savepoint_request: SavepointRequestStatus | None = None
    savepoint_nonce: int | None = Field(
        default=None, description="Latest value of `spec.savepoint.nonce` that has been handled."
    )
    next_savepoint_at: Timestamp | None = Field(
        default=None, description="When the next scheduled savepoint is due."
    )
    rounds: RoundsStatus | None = None
    termination: TerminationInfo | None = None
    escalation: EscalationStatus | None = None
    restarts: RestartStatus | None = None
    upgrade: UpgradeStatus | None = None
    last_error: ErrorStatus | None = None
    warnings: tuple[WarningStatus, ...] = Field(
        default=(), description="Problems that the driver reports although the job keeps running."
    )

    def condition(self, kind: ConditionType) -> Condition | None:
        return next((c for c in self.conditions if c.type is kind), None)
