"""What the status says of the job's pods: the driver's, the executors, and how the last driver has ended."""

from __future__ import annotations

from enum import Enum

from pydantic import Field

from ...protocol.messages.driver_status import DriverPhase
from ..types import Model, Timestamp, one_of
from .errors import ErrorStatus


class PodPhase(str, Enum):
    """The phase of a driver's pod, as the driver's container alone would have it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"
    NOT_MADE = "NotMade"  # the API server refused the pod


class DriverInfo(Model):
    """The driver's pod of the current epoch."""

    pod: str = Field(description="Name of the pod.")
    uid: str | None = Field(
        default=None, description="UID of the pod, once the operator has seen the pod in the cluster."
    )
    phase: str | None = Field(
        default=None,
        description="Phase of the pod; NotMade if the API server refused it.",
        json_schema_extra=one_of(PodPhase),
    )
    started_at: Timestamp | None = Field(default=None, description="When the driver's container started.")


class StandbyStatus(Model):
    """The driver that is prepared to take over (`driver.standby`, `upgrade.mode: Handover`). It has written
    nothing.
    """

    pod: str = Field(description="Name of the pod.")
    epoch: int = Field(description="The epoch that begins when it takes over.")
    phase: str | None = Field(
        default=None,
        description="Phase of the pod, once the operator has seen it.",
        json_schema_extra=one_of(PodPhase),
    )
    prepared: bool = Field(
        default=False, description="Whether its script waits at its first query until it takes over."
    )
    deadline: Timestamp | None = Field(
        default=None,
        description="When its script should have come to its first query (spec.upgrade.startTimeout). If no "
        "other driver runs, it is waited for until then.",
    )
    failures: int = Field(default=0, description="How many standbys have failed in a row.")
    generation: int | None = Field(
        default=None, description="Generation of the spec under which the last of them failed."
    )
    next_at: Timestamp | None = Field(
        default=None, description="It has failed, and the next one is made then (spec.restart.backoff)."
    )
    error: ErrorStatus | None = Field(
        default=None, description="Why it has failed, or what keeps it from its first query."
    )


class ExecutorsStatus(Model):
    """The executors of the running driver. Absent while none runs, and if everything runs in the driver."""

    wanted: int = Field(description="Number of executors that Spark wants now.")
    running: int = Field(description="Number of executors that are connected to the driver.")
    min: int = Field(description="Lower bound of `wanted` in the running driver.")
    max: int = Field(
        description="Upper bound of `wanted` in the running driver. Without dynamicAllocation it is `min`."
    )


class AutoscaleStatus(Model):
    """The number of executors that the load asks for (`spec.executor.autoscale`)."""

    desired: int = Field(description="Number of executors.")
    since: Timestamp = Field(description="When it became that.")
    reason: str = Field(default="", description="Why, or why it stays although figures are missing.")
    limited_by: str | None = Field(
        default=None, description="What keeps the number from what the load asks for. Empty: nothing."
    )
    next: int | None = Field(
        default=None, description="Another number that the load asks for; it is taken if that lasts."
    )
    next_since: Timestamp | None = Field(default=None, description="Since when the load asks for another.")


class ExitStatus(Model):
    """The exit of the most recent driver that has ended."""

    epoch: int = Field(description="Epoch of the driver.")
    pod: str | None = Field(
        default=None,
        description="Name of the driver's pod while it exists, for `kubectl logs`. Pods of failed drivers "
        "stay, as many as spec.restart.failedDriversHistoryLimit says.",
    )
    code: int | None = Field(
        default=None,
        description="Exit code of the script, or of the container if the driver could not report. Empty if "
        "nobody has seen how the driver ended.",
    )
    phase: str | None = Field(
        default=None,
        description="Phase in the driver's final report. Terminated: every query has ended. Failed: the "
        "script failed or left a dead query behind. Empty if there was no report.",
        json_schema_extra=one_of(DriverPhase),
    )
    reason: str = Field(default="", description="Why the driver exited, in one line.")
    unchanged_since: int | None = Field(
        default=None,
        description="If the driver has started no query: number of the checkpoint with which the job had "
        "ended and since which no driver has started one; 0 if none ever has. Empty if one may have.",
    )
    time: Timestamp | None = Field(default=None, description="When the driver exited.")
