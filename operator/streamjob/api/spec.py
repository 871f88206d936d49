"""What the user asks for."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from .types import Cron, Duration, Location, Memory, Model, cel

ANYTHING: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"

# What the controller sets itself; a value of the user's would cut the driver off from it or name a second truth.
REFUSED_CONF = (
    "spark.master",
    "spark.remote",
    "spark.api.mode",
    "spark.submit.deployMode",
    "spark.driver.host",
    "spark.driver.bindAddress",
    "spark.driver.memory",
    "spark.driver.cores",
    "spark.executor.instances",
    "spark.executor.cores",
    "spark.executor.memory",
    "spark.kubernetes.namespace",
    "spark.kubernetes.driver.pod.name",
    "spark.kubernetes.container.image",
    "spark.kubernetes.executor.podNamePrefix",
    "spark.kubernetes.executor.podTemplateFile",
    "spark.kubernetes.executor.podTemplateContainerName",
)
# Who may read a StreamJob may read these. Ends of names, because Hadoop has them for each bucket and account as well; no pattern,
# because the API server has to know what a rule costs at most, and a key has no greatest length.
SECRET_ENDS = (".access.key", ".secret.key", ".session.token", "encryption.key", ".private.key")
SECRET_BEGINNINGS = (
    "spark.hadoop.fs.azure.account.key",
    "spark.hadoop.fs.azure.account.oauth2.client.secret",
    "spark.executorEnv.AWS_ACCESS_KEY",
    "spark.executorEnv.AWS_SECRET",
    "spark.executorEnv.AWS_SESSION",
)
SECRET_CONF = " || ".join(
    [
        *(f"k.endsWith({end!r})" for end in SECRET_ENDS),
        *(f"k.startsWith({beginning!r})" for beginning in SECRET_BEGINNINGS),
    ]
)
SECRET_ENV = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
FROM_SECRETS = (
    "take it from a Secret (application.env with valueFrom.secretKeyRef) or from the pod's identity"
)
Named = Annotated[str, Field(min_length=1, max_length=253)]


class State(str, Enum):
    """What the job shall be. Stopped can be resumed, Drained is an end, Cancelled takes no savepoint."""

    RUNNING = "Running"
    STOPPED = "Stopped"
    DRAINED = "Drained"
    CANCELLED = "Cancelled"


class OnDelete(str, Enum):
    STOP = "Stop"
    DRAIN = "Drain"
    CANCEL = "Cancel"


class Escalation(str, Enum):
    """What a stop or drain may become when its timeout has passed."""

    STOP = "Stop"
    CANCEL = "Cancel"


class RestartPolicy(str, Enum):
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


class UpgradeMode(str, Enum):
    """How a running driver makes way for one with another specification."""

    SAVEPOINT = "Savepoint"
    CHECKPOINT = "Checkpoint"
    NEXT_EPOCH = "NextEpoch"


class ImagePullPolicy(str, Enum):
    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class SecretKeyRef(Model):
    """A key of a Secret in the job's own namespace."""

    name: Named
    key: Named


class EnvVarSource(Model):
    secret_key_ref: SecretKeyRef


class EnvVar(Model):
    """An environment variable of the driver."""

    name: str = Field(min_length=1, max_length=253)
    value: str | None = Field(default=None, max_length=32768)
    value_from: EnvVarSource | None = None

    model_config = ConfigDict(
        json_schema_extra=cel(
            ("!(has(self.value) && has(self.valueFrom))", "value and valueFrom exclude each other"),
            (
                "!self.name.startsWith('STREAMJOB_') && !(self.name in ['POD_IP', 'POD_NAME'])",
                "STREAMJOB_*, POD_IP and POD_NAME are set by the operator",
            ),
            (
                f"!(has(self.value) && self.name in [{', '.join(map(repr, SECRET_ENV))}])",
                f"a credential must not stand in the StreamJob: {FROM_SECRETS}",
            ),
        ),
    )


class Application(Model):
    """The PySpark program: a script in the image, or a module."""

    file: str | None = Field(
        default=None, min_length=1, max_length=1024, description="Path of the script in the image."
    )
    module: str | None = Field(
        default=None, min_length=1, max_length=253, description="Module, as in `python -m`."
    )
    args: tuple[Annotated[str, Field(max_length=4096)], ...] = Field(default=(), max_length=256)
    env: tuple[EnvVar, ...] = Field(default=(), max_length=256)

    model_config = ConfigDict(
        json_schema_extra=cel(
            ("has(self.file) != has(self.module)", "exactly one of file and module must be set")
        )
    )


class Driver(Model):
    """The driver's pod."""

    cores: int = Field(default=1, ge=1, le=1024, description="CPU request; also the threads of local[*].")
    memory: Memory = Field(
        default="1Gi",
        description="Heap of the JVM. The pod gets 40 % more, at least 384Mi, for Python and the JVM's own needs.",
    )
    service_account: str = Field(default="streamjob-driver", min_length=1, max_length=253)
    template: dict[str, Any] | None = Field(
        default=None,
        description="A pod template (metadata.labels, metadata.annotations, spec) merged into the driver's pod: named list "
        "entries by name, the container is called `driver`. What the operator needs stays as it is.",
        json_schema_extra=ANYTHING,
    )


class Executor(Model):
    """Executor pods, made by Spark's own scheduler."""

    instances: int = Field(
        default=0, ge=0, le=1000, description="0 runs everything in the driver, as local[*]."
    )
    cores: int = Field(default=1, ge=1, le=1024)
    memory: Memory = Field(
        default="1Gi", description="Heap of the JVM; Spark adds its own overhead to the pod."
    )


class PersistentVolumeClaim(Model):
    claim_name: Named


class HostPath(Model):
    path: str = Field(min_length=1, max_length=1024)


class ConfigMapVolume(Model):
    name: Named


class SecretVolume(Model):
    secret_name: Named


class EmptyDir(Model):
    """Lives as long as the pod."""


class Volume(Model):
    """A volume in the driver and in every executor, at the same place."""

    name: str = Field(min_length=1, max_length=63)
    mount_path: str = Field(min_length=1, max_length=1024)
    read_only: bool = False
    persistent_volume_claim: PersistentVolumeClaim | None = None
    host_path: HostPath | None = None
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    empty_dir: EmptyDir | None = None

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "[has(self.persistentVolumeClaim), has(self.hostPath), has(self.configMap), has(self.secret), "
                "has(self.emptyDir)].filter(x, x).size() == 1",
                "exactly one of persistentVolumeClaim, hostPath, configMap, secret and emptyDir must be set",
            ),
            (
                f"self.name.matches(r'{LABEL}')",
                "name must be a DNS label: lower-case letters, digits and '-'",
            ),
            (
                "!self.name.startsWith('streamjob-') && !self.name.startsWith('spark-')",
                "volume names that begin with streamjob- or spark- are taken",
            ),
            (
                "self.mountPath.startsWith('/') && !(self.mountPath in ['/', '/tmp', '/var/run/streamjob'])",
                "mountPath must be absolute, and neither /, /tmp nor /var/run/streamjob",
            ),
        ),
    )


class Storage(Model):
    """Where state lives, as the driver and the executors reach it."""

    checkpoints: Location = Field(description="Below it each job has a folder of its own. Cannot change.")
    savepoints: Location = Field(
        description="Below it each job has a folder of its own. Nothing here is deleted but what savepoint.retained says."
    )
    volumes: tuple[Volume, ...] = Field(default=(), max_length=32)

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "self.checkpoints == oldSelf.checkpoints",
                "storage.checkpoints cannot change, the job's state is there; make a new StreamJob with "
                "restoreFrom.savepoint to move it",
            ),
        ),
    )


class RestoreFrom(Model):
    """Where the first epoch begins. Later epochs begin at the job's own latest checkpoint."""

    savepoint: Location | None = None
    checkpoints: dict[str, Location] | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="Checkpoint directories of a PySpark job that no StreamJob has run, by the names of its queries (main: the "
        "one without a name). They are copied, never changed; the job must not run any more.",
    )
    allow_drained: bool = Field(
        default=False,
        description="Also from a drained savepoint: its windows are closed, so rows older than that end count as late.",
    )

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "has(self.savepoint) != has(self.checkpoints)",
                "exactly one of savepoint and checkpoints must be set",
            )
        )
    )


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


class Checkpoint(Model):
    """Periodic checkpoints: a job-wide consistent cut over all queries, taken without holding them, recorded in the index.
    With one of them a stage whose input has ended is finished for good, while the others run on."""

    interval: Duration = Field(default="10m", description="0s: none but those of a stop and a drain.")
    timeout: Duration = Field(
        default="10m", description="One that takes longer is given up; the job goes on. 0s: never."
    )
    min_pause: Duration = Field(default="0s", description="Between the end of one and the next.")
    max_concurrent: int = Field(default=1, ge=1, le=100)


class Retained(Model):
    """Savepoints beside the run that are beyond `count` or older than `age` are deleted; without both, none is. The newest
    savepoint, and those of stops, drains and evictions, are never deleted."""

    count: int | None = Field(default=None, ge=1, le=100)
    age: Duration | None = None


class Savepoint(Model):
    """Savepoints beside the run. What is asked for while the job does not run, or is about to end, comes to nothing: a stop and a
    drain take one of their own."""

    trigger: int | None = Field(
        default=None,
        ge=0,
        description="Change it to ask for a savepoint now. The value that the job is created with asks for none.",
    )
    schedule: Cron | None = Field(
        default=None,
        description="When to take one, as cron says it, in UTC. Of moments that were missed while the job was to run, one is "
        "made up for.",
    )
    timeout: Duration = Field(
        default="30m", description="One that takes longer is given up and deleted; the job goes on."
    )
    retained: Retained = Field(default_factory=Retained)

    model_config = ConfigDict(
        json_schema_extra=cel(
            ("!has(self.timeout) || self.timeout.matches('[1-9]')", "savepoint.timeout must not be 0")
        )
    )


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


class Spec(Model):
    """What the user asks for. `state` and `savepoint` take effect at once, what the driver is made from as `upgrade` says; the
    rest restarts nothing."""

    state: State = State.RUNNING
    image: str = Field(
        min_length=1, max_length=1024, description="Has the program, Spark and streamjob's runtime."
    )
    image_pull_policy: ImagePullPolicy | None = None
    application: Application
    spark_conf: dict[str, Annotated[str, Field(max_length=4096)]] = Field(
        default_factory=dict,
        max_length=512,
        json_schema_extra=cel(
            (
                f"!self.exists(k, k in [{', '.join(repr(k) for k in REFUSED_CONF)}])",
                "sparkConf must not set what the operator sets: master, deploy mode, driver host, pod names and "
                "template, namespace, image, cores, memory and instances (see spec.driver and spec.executor)",
            ),
            (
                f"!self.exists(k, {SECRET_CONF})",
                f"sparkConf must not hold a credential of a storage: {FROM_SECRETS}",
            ),
        ),
    )
    driver: Driver = Field(default_factory=Driver)
    executor: Executor = Field(default_factory=Executor)
    storage: Storage
    restore_from: RestoreFrom | None = None
    checkpoint: Checkpoint = Field(default_factory=Checkpoint)
    savepoint: Savepoint = Field(default_factory=Savepoint)
    termination: Termination = Field(default_factory=Termination)
    restart: Restart = Field(default_factory=Restart)
    upgrade: Upgrade = Field(default_factory=Upgrade)

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "oldSelf.state != 'Drained' || self.state in ['Drained', 'Cancelled']",
                "a drain is an end and is not taken back: set Cancelled to break it off, or make a new StreamJob with "
                "restoreFrom.savepoint (and restoreFrom.allowDrained: true if the drain has completed)",
            ),
            (
                "has(self.restoreFrom) == has(oldSelf.restoreFrom) && "
                "(!has(self.restoreFrom) || "
                "(has(self.restoreFrom.savepoint) == has(oldSelf.restoreFrom.savepoint) && "
                "(has(self.restoreFrom.savepoint) ? self.restoreFrom.savepoint == oldSelf.restoreFrom.savepoint : "
                "self.restoreFrom.checkpoints == oldSelf.restoreFrom.checkpoints)))",
                "restoreFrom cannot change but for allowDrained, it is where the job's first epoch began; make a new StreamJob",
            ),
        ),
    )
