"""The spec of a StreamJob: what the user requests."""

from __future__ import annotations

from enum import Enum

from pydantic import ConfigDict, Field

from .deps import Deps
from .pods.executor import Executor
from .policies import Restart, Schedule, Termination, Upgrade
from .program import Application, Driver, ImagePullPolicy, ImagePullSecret, SparkConf
from .storage import Checkpoint, RestoreFrom, Savepoint, Storage
from .types import Model, cel, merged_by
from .ui.access import Ui


class State(str, Enum):
    """The requested state. Stopped takes a savepoint and can be resumed. Drained flushes all windows and ends
    the job permanently. Cancelled ends the job at once, without a savepoint.
    """

    RUNNING = "Running"
    STOPPED = "Stopped"
    DRAINED = "Drained"
    CANCELLED = "Cancelled"


class Runtime(str, Enum):
    """Where the driver and the executors have the StreamJob runtime from. Injected: the operator mounts its
    own into the pods, so any image with Spark and Python works. Image: the image has the package, of the
    operator's version.
    """

    INJECTED = "Injected"
    IMAGE = "Image"


_NONE = "''"  # the empty string in CEL


def _source(spec: str, field: str, otherwise: str) -> str:
    """A CEL expression: this field of restoreFrom if it is set, else `otherwise`."""
    source = f"{spec}.restoreFrom"
    return f"(has({source}) && has({source}.{field}) ? {source}.{field} : {otherwise})"


def _setting(key: str, otherwise: str) -> str:
    """A CEL expression: this setting of sparkConf if it is there, else `otherwise`."""
    return f"(has(self.sparkConf) && '{key}' in self.sparkConf ? self.sparkConf['{key}'] : '{otherwise}')"


class Spec(Model):
    """The requested state of the job and how to run it.

    Changes of `state`, `suspend`, `schedule`, `savepoint` and the number of executors take effect at once.
    Changes of image, runtime, application, deps, sparkConf, driver, executor and volumes take effect as
    `upgrade` says, with a schedule in the next round.
    Other changes restart nothing.
    """

    state: State = State.RUNNING
    suspend: bool = Field(
        default=False,
        description="While true, a job in state Running has no driver: a running driver stops with a "
        "savepoint, and none starts. Queue controllers set this field. The other states end the job "
        "regardless.",
    )
    schedule: Schedule | None = None
    image: str = Field(
        min_length=1,
        max_length=1024,
        description="Image of the driver and the executors, with Spark, Python and the program.",
    )
    image_pull_policy: ImagePullPolicy | None = Field(
        default=None,
        description="When the kubelet pulls the image. Kubernetes' own default applies if unset.",
    )
    runtime: Runtime = Runtime.INJECTED
    image_pull_secrets: tuple[ImagePullSecret, ...] = Field(
        default=(),
        max_length=32,
        description="Secrets with which the kubelet pulls the image, for the driver and the executors.",
        json_schema_extra=merged_by("name"),
    )
    application: Application
    deps: Deps = Field(default_factory=Deps)
    spark_conf: SparkConf = Field(default_factory=dict)
    driver: Driver = Field(default_factory=Driver)
    executor: Executor = Field(default_factory=Executor)
    storage: Storage
    restore_from: RestoreFrom | None = None
    checkpoint: Checkpoint = Field(default_factory=Checkpoint)
    savepoint: Savepoint = Field(default_factory=Savepoint)
    termination: Termination = Field(default_factory=Termination)
    restart: Restart = Field(default_factory=Restart)
    upgrade: Upgrade = Field(default_factory=Upgrade)
    ui: Ui | None = None

    @property
    def suspended(self) -> bool:
        """Whether `suspend` applies."""
        return self.suspend and self.state is State.RUNNING

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "oldSelf.state != 'Drained' || self.state in ['Drained', 'Cancelled']",
                "a drain is an end and is not taken back. If the job is Drained, make a new StreamJob with "
                "restoreFrom.savepoint and restoreFrom.allowDrained: true; while it is still Draining, "
                "Cancelled breaks the drain off",
            ),
            (
                f"{_source('self', 'savepoint', _NONE)} == {_source('oldSelf', 'savepoint', _NONE)} && "
                f"{_source('self', 'checkpoints', '{}')} == {_source('oldSelf', 'checkpoints', '{}')}",
                "restoreFrom.savepoint and restoreFrom.checkpoints cannot change, they are where the job's "
                "first epoch began; make a new StreamJob",
            ),
            (
                "self.state != 'Running' || self.suspend || self.executor.instances > 0 || "
                "has(self.executor.dynamicAllocation) || has(self.executor.autoscale) || "
                "oldSelf.executor.instances == 0",
                "a running job cannot be scaled to 0 executors: everything would run in its driver. To pause "
                "it, set spec.suspend to true; a job that is suspended can also be changed so",
            ),
            (
                "has(self.schedule) == has(oldSelf.schedule) || self.state in ['Stopped', 'Cancelled']",
                "schedule can be added or removed only while state is Stopped or Cancelled: a running driver "
                "keeps its windows at the end of its script, or flushes them, as it was started",
            ),
            (
                "!has(self.schedule) || !((has(self.driver) && has(self.driver.standby) && "
                "self.driver.standby) || (has(self.upgrade) && has(self.upgrade.mode) && "
                "self.upgrade.mode == 'Handover'))",
                "schedule excludes driver.standby and upgrade.mode Handover: they need a driver that runs, "
                "and between two rounds there is none",
            ),
            (
                f"!has(self.ui) || ({_setting('spark.ui.enabled', 'true')} != 'false' && "
                f"{_setting('spark.ui.port', '4040')}.matches('^[1-9][0-9]{{0,4}}$'))",
                "spec.ui needs Spark's UI: sparkConf must not set spark.ui.enabled to false, nor "
                "spark.ui.port to 0, which is a random port",
            ),
        ),
    )
