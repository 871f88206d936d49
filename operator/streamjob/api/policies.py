"""How a job ends, begins again after a failure, and makes way for another specification."""

from __future__ import annotations

from enum import Enum

from pydantic import ConfigDict, Field

from .types import Duration, Model, cel


class OnDelete(str, Enum):
    STOP = "Stop"
    DRAIN = "Drain"
    CANCEL = "Cancel"


class Escalation(str, Enum):
    """What a stop or drain may become when its timeout has passed."""

    STOP = "Stop"
    CANCEL = "Cancel"


class Termination(Model):
    """How the job ends."""

    stop_timeout: Duration = Field(
        default="10m", description="After it the status says what a stop waits for."
    )
    drain_timeout: Duration = Field(
        default="30m", description="After it the status says what a drain waits for."
    )
    grace_period: int = Field(
        default=60, ge=1, le=86400, description="Seconds from SIGTERM (eviction, node drain) to SIGKILL."
    )
    on_delete: OnDelete = Field(
        default=OnDelete.STOP,
        description="What deleting the StreamJob does to a running driver. When its timeout has passed: Cancel.",
    )
    escalation: tuple[Escalation, ...] = Field(
        default=(),
        max_length=2,
        description="What a drain or a stop becomes when its timeout has passed: [Stop], [Cancel] or [Stop, Cancel] (of a stop: "
        "Cancel). Without it, it goes on, and the status says what it waits for.",
    )

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "!has(self.escalation) || size(self.escalation) < 2 || self.escalation == ['Stop', 'Cancel']",
                "escalation must be [Stop], [Cancel] or [Stop, Cancel]: each is more forceful than the one before",
            )
        )
    )


class RestartPolicy(str, Enum):
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


class Backoff(Model):
    """The wait before a restart doubles from `initial` to `max`."""

    initial: Duration = "10s"
    max: Duration = "5m"


class Restart(Model):
    """What happens after a failure. Ten minutes of stable running forget earlier ones."""

    policy: RestartPolicy = RestartPolicy.ON_FAILURE
    backoff: Backoff = Field(default_factory=Backoff)
    limit: int = Field(
        default=10, ge=0, le=10000, description="Restarts in a row; after them the job has Failed."
    )
    nonce: int | None = Field(
        default=None,
        ge=0,
        description="Change it to start a Failed job again, or to try a specification again that was rolled back.",
    )


class UpgradeMode(str, Enum):
    """How a running driver makes way for one with another specification."""

    SAVEPOINT = "Savepoint"
    CHECKPOINT = "Checkpoint"
    NEXT_EPOCH = "NextEpoch"


class Upgrade(Model):
    """What a change of image, application, sparkConf, driver, executor or volumes does to a running driver. If the new one does
    not come up, the job goes back to what ran before."""

    mode: UpgradeMode = Field(
        default=UpgradeMode.SAVEPOINT,
        description="Savepoint: it stops with savepoint, another begins there. Checkpoint: the same without the copy. NextEpoch: "
        "it runs on; the change takes effect with the next epoch, without going back.",
    )
    start_timeout: Duration = Field(
        default="5m", description="A new driver whose container has not started by then is given up."
    )
    probation: Duration = Field(
        default="1m",
        description="The new one has come up when it has run for so long, or has completed a checkpoint.",
    )
