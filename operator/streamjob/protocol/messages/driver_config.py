"""The configuration that a driver gets at its start."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..formats import codec
from ..formats.records import CheckpointRecord, JobRef
from .commands import TerminationRequest


@dataclass(frozen=True)
class Application:
    """A script (`file`) or a module, exactly one of them, and its arguments."""

    file: str | None = None
    module: str | None = None
    args: tuple[str, ...] = ()


@dataclass(frozen=True)
class Deps:
    """What the driver fetches before the script begins: `spec.deps` of the custom resource."""

    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    exclude_packages: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()
    py_files: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Restore:
    """The checkpoint or savepoint that the job is restored from.

    :param latest: the newest record of the index. Its directories hold batch N or a later one.
    :param exact: the job ended with `latest` and no driver has started a query since, so its directories hold
        exactly batch N. Without `latest`: none ever has.
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
class Gate:
    """Opens the gate of a prepared driver: what its queries continue from. Body of `PUT /v1/gate`.

    :param token: the same in every repetition. A driver takes one.
    :param restore: whole, with the stages of the record: nothing is read from the index.
    :param termination: a request that an earlier epoch did not complete.
    """

    token: str
    epoch: int
    restore: Restore = field(default_factory=Restore)
    next_checkpoint: int = 1
    termination: TerminationRequest | None = None


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
    :param prepared: the driver waits before its first query until it is told by a `Gate` what to continue
        from. Then `restore`, `next_checkpoint` and `termination` are not set.
    :param round: the script runs as a round of a schedule: when it has ended by itself, its windows stay.
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
    deps: Deps = field(default_factory=Deps, metadata=codec.NEW)
    prepared: bool = field(default=False, metadata=codec.NEW)
    round: bool = field(default=False, metadata=codec.NEW)
