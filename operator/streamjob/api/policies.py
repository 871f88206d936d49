"""Policies: how a job ends, restarts after a failure, and is upgraded to another specification."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum

from pydantic import ConfigDict, Field

from .types import Cron, Duration, Model, TimeZone, cel, duration


class OnDelete(str, Enum):
    STOP = "Stop"
    DRAIN = "Drain"
    CANCEL = "Cancel"


class Escalation(str, Enum):
    """What a stop or drain may become after its timeout."""

    STOP = "Stop"
    CANCEL = "Cancel"


class Termination(Model):
    """How the job ends: timeouts, escalation, and what deletion does."""

    stop_timeout: Duration = Field(
        default="10m",
        description="Timeout of a stop. After it `escalation` applies; without escalation the stop continues "
        "and the status says what it waits for.",
    )
    drain_timeout: Duration = Field(
        default="30m",
        description="Timeout of a drain. After it `escalation` applies; without escalation the drain "
        "continues and the status says what it waits for.",
    )
    grace_period: Duration = Field(
        default="60s",
        description="Time between SIGTERM (eviction, node drain) and SIGKILL, 1s to 24h. The driver uses it "
        "to stop with a savepoint.",
    )
    on_delete: OnDelete = Field(
        default=OnDelete.STOP,
        description="How a running driver ends when the StreamJob is deleted. After the timeout of the stop "
        "or drain, the job is cancelled.",
    )
    escalation: tuple[Escalation, ...] = Field(
        default=(),
        max_length=2,
        description="What a drain or stop becomes after its timeout: [Stop], [Cancel] or [Stop, Cancel]. A "
        "stop can only become Cancel. Empty (default): it continues, and the status says what it waits for.",
    )

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "!has(self.gracePeriod) || (duration(self.gracePeriod) >= duration('1s') && "
                "duration(self.gracePeriod) <= duration('24h'))",
                "gracePeriod must be 1s to 24h",
            ),
            (
                "!has(self.escalation) || size(self.escalation) < 2 || self.escalation == ['Stop', 'Cancel']",
                "escalation must be [Stop], [Cancel] or [Stop, Cancel]: each is more forceful than the one "
                "before",
            ),
        )
    )


class Schedule(Model):
    """When rounds begin, of a script that ends by itself (availableNow, once). A round runs the script to its
    end. Windows that are open then stay open for the next round. Between rounds the job has no driver.

    Two rounds never run at once. Times that pass while a round runs, or while the operator is down, are made
    up for by one round.
    """

    cron: Cron = Field(description="When a round begins, as a CronJob's schedule.")
    time_zone: TimeZone | None = Field(
        default=None,
        description="Time zone of the schedule, as an IANA name (`Europe/Berlin`); UTC if unset. A local "
        "time that a change of the clock leaves out is left out; one that comes twice is scheduled twice.",
    )
    starting_deadline: Duration | None = Field(
        default=None,
        description="How late a round may begin. A time that is missed by more is skipped. Unset: it is made "
        "up for, however late.",
    )
    timeout: Duration = Field(
        default="12h",
        description="How long a round may take, restarts included. A round that takes longer is stopped "
        "without a savepoint and has failed: its script waits for a query that does not end by itself. Must "
        "not be 0.",
    )
    nonce: int | None = Field(
        default=None,
        ge=0,
        description="Change the number to begin a round now, or when the running one has ended. The initial "
        "value begins none.",
    )

    model_config = ConfigDict(
        json_schema_extra=cel(
            ("!has(self.timeout) || self.timeout.matches('[1-9]')", "schedule.timeout must not be 0")
        )
    )


class RestartPolicy(str, Enum):
    """OnFailure: a new driver starts after a failure that a restart may fix. Never: the job fails at once."""

    ON_FAILURE = "OnFailure"
    NEVER = "Never"


class Backoff(Model):
    """The delay before a restart. It doubles with each failure in a row, from `initial` to `max`."""

    initial: Duration = Field(default="10s", description="Delay before the first restart.")
    max: Duration = Field(default="5m", description="Longest delay.")

    def delay(self, failures: int) -> timedelta:
        """The delay after so many failures in a row."""
        # The exponent is bounded only so that the product does not overflow.
        return min(duration(self.initial) * (1 << min(failures - 1, 20)), duration(self.max))


class Restart(Model):
    """What happens after a failure. Ten minutes of running reset the count of failures."""

    policy: RestartPolicy = RestartPolicy.ON_FAILURE
    backoff: Backoff = Field(default_factory=Backoff)
    limit: int = Field(
        default=10, ge=0, le=10000, description="Restarts in a row before the job's phase becomes Failed."
    )
    failed_drivers_history_limit: int = Field(
        default=1,
        ge=0,
        le=10,
        description="How many pods of failed drivers stay for their logs when the next driver starts, the "
        "newest first. They have ended and hold no resources. 0: none.",
    )
    nonce: int | None = Field(
        default=None,
        ge=0,
        description="Change the number to start a failed job again, or to retry a specification that "
        "was rolled back.",
    )


class UpgradeMode(str, Enum):
    """How a running driver is replaced by one with another specification."""

    SAVEPOINT = "Savepoint"
    CHECKPOINT = "Checkpoint"
    NEXT_EPOCH = "NextEpoch"
    HANDOVER = "Handover"


class Upgrade(Model):
    """How a change of image, runtime, application, sparkConf, driver, executor or volumes reaches a running
    job. If the new driver does not come up, the job is rolled back to the previous specification.
    """

    mode: UpgradeMode = Field(
        default=UpgradeMode.SAVEPOINT,
        description="Savepoint: the driver stops with a savepoint, and the new driver resumes from it. "
        "Checkpoint: the same, without copying a savepoint. NextEpoch: the driver keeps running; the change "
        "takes effect with the next epoch, without a rollback. Handover: the new driver starts beside the "
        "running one and runs the script up to its first query; only then is the running one stopped, as by "
        "Savepoint. If it does not come that far, the running driver is not touched. What the script does "
        "before its first query, it does while the other driver runs, and both need room at the same time.",
    )
    start_timeout: Duration = Field(
        default="5m",
        description="How long the new driver's container may take to start; with Handover, how long until "
        "its script is about to start its first query.",
    )
    probation: Duration = Field(
        default="1m",
        description="The upgrade succeeds when the new driver has run this long, or has completed a "
        "checkpoint.",
    )
