"""Where state lives: volumes, checkpoints, savepoints, and what the first epoch begins with."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from .types import Cron, Duration, Location, Model, Named, cel

LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


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
                "self.mountPath.startsWith('/') && "
                "!(self.mountPath in ['/', '/tmp', '/var/run/streamjob', '/var/run/streamjob-index'])",
                "mountPath must be absolute, and none of /, /tmp, /var/run/streamjob and /var/run/streamjob-index",
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
    allow_non_restored_state: bool = Field(
        default=False,
        description="The script need not start every query that the state is of; what it leaves out loses its state. It holds "
        "for each epoch, also when the job goes on from its own checkpoint after an upgrade, and may be set without a source.",
    )

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "!(has(self.savepoint) && has(self.checkpoints))",
                "savepoint and checkpoints exclude each other",
            ),
            (
                "has(self.savepoint) || has(self.checkpoints) || "
                "(has(self.allowNonRestoredState) && self.allowNonRestoredState)",
                "savepoint or checkpoints must be set, unless allowNonRestoredState is true",
            ),
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
