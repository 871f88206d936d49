"""Where state is stored: volumes, checkpoints, savepoints, and the state from which the
first epoch starts.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from pydantic import ConfigDict, Field

from .types import ANYTHING, Cron, Duration, Location, Model, Named, TimeZone, cel, merged_by

# Whether the location `p` is in the mounted volume `m`: a path, or file: with one slash or three.
BELOW = (
    "(p.replace('file:///', '/').replace('file:/', '/') + '/')"
    ".startsWith(m.mountPath.endsWith('/') ? m.mountPath : m.mountPath + '/')"
)
LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


class Source(Model):
    """A volume's source, with all fields that Kubernetes has for it.

    The API server checks them with the pod.
    """

    model_config = ConfigDict(extra="allow", json_schema_extra=ANYTHING)


class PersistentVolumeClaim(Source):
    """Mount a PersistentVolumeClaim of the job's namespace."""

    claim_name: Named = Field(description="Name of the PersistentVolumeClaim.")


class HostPath(Source):
    """Mount a folder of the node."""

    path: str = Field(min_length=1, max_length=1024, description="Path on the node.")


class ConfigMapVolume(Source):
    """Mount a ConfigMap of the job's namespace."""

    name: Named = Field(description="Name of the ConfigMap.")


class SecretVolume(Source):
    """Mount a Secret of the job's namespace."""

    secret_name: Named = Field(description="Name of the Secret.")


class EmptyDir(Source):
    """An empty folder of the pod. It is deleted with the pod."""


# The other kinds of volumes that a pod may have. Their fields are Kubernetes' own.
OTHER_KINDS = (
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "downwardAPI",
    "ephemeral",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "projected",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
)
KINDS = ("persistentVolumeClaim", "hostPath", "configMap", "secret", "emptyDir", *OTHER_KINDS)


def _all_kinds(schema: dict[str, Any]) -> None:
    """Complete the schema of a volume: the model keeps what it does not name."""
    schema["properties"] |= {kind: {"type": "object", **ANYTHING} for kind in OTHER_KINDS}
    schema |= cel(
        (
            f"[{', '.join(f'has(self.{kind})' for kind in KINDS)}].filter(x, x).size() == 1",
            "a volume must have exactly one source, such as persistentVolumeClaim, configMap, secret or "
            "emptyDir",
        ),
        (
            f"self.name.matches(r'{LABEL}')",
            "name must be a DNS label: lower-case letters, digits and '-'",
        ),
        (
            "!self.name.startsWith('streamjob-') && !self.name.startsWith('spark-')",
            "volume names that begin with streamjob- or spark- are taken",
        ),
    )


class Volume(Model):
    """A volume of the pods, as in a pod's `spec.volumes`."""

    name: str = Field(
        min_length=1,
        max_length=63,
        description="Name of the volume, a DNS label. The prefixes streamjob- and spark- are reserved.",
    )
    persistent_volume_claim: PersistentVolumeClaim | None = None
    host_path: HostPath | None = None
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    empty_dir: EmptyDir | None = None

    model_config = ConfigDict(extra="allow", json_schema_extra=_all_kinds)


class MountPropagation(str, Enum):
    NONE = "None"
    HOST_TO_CONTAINER = "HostToContainer"
    BIDIRECTIONAL = "Bidirectional"


class RecursiveReadOnly(str, Enum):
    DISABLED = "Disabled"
    IF_POSSIBLE = "IfPossible"
    ENABLED = "Enabled"


class VolumeMount(Model):
    """Where a volume is mounted, as in a container's `volumeMounts`: at the same path in the driver and in
    every executor.
    """

    name: str = Field(min_length=1, max_length=63, description="Name of one of `volumes`.")
    mount_path: str = Field(
        min_length=1, max_length=1024, description="Absolute path of the volume in the containers."
    )
    read_only: bool | None = Field(default=None, description="Mount the volume read-only.")
    recursive_read_only: RecursiveReadOnly | None = Field(
        default=None, description="Whether mounts below a read-only mount are read-only too."
    )
    mount_propagation: MountPropagation | None = Field(
        default=None, description="How mounts travel between host and container."
    )
    sub_path: str | None = Field(
        default=None, max_length=1024, description="Path in the volume that is mounted; its root if unset."
    )
    sub_path_expr: str | None = Field(
        default=None, max_length=1024, description="The same, with $(NAME) for a variable's value."
    )

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "self.mountPath.startsWith('/') && "
                "!(self.mountPath in ['/', '/tmp', '/tmp/', '/opt/streamjob', '/var/run/streamjob', "
                "'/var/run/streamjob-index'])",
                "mountPath must be absolute, and none of /, /tmp, /opt/streamjob, /var/run/streamjob and "
                "/var/run/streamjob-index",
            ),
            ("!(has(self.subPath) && has(self.subPathExpr))", "subPath and subPathExpr exclude each other"),
        ),
    )


class Storage(Model):
    """Where state is stored. The driver and all executors must be able to reach the locations: Hadoop file
    system URIs (s3a://bucket/path, file:///data) or absolute paths.
    """

    checkpoints: Location = Field(
        description="Location of checkpoints. Each job has a folder of its own below it. Cannot change."
    )
    savepoints: Location = Field(
        description="Location of savepoints. Each job has a folder of its own below it. Only "
        "savepoint.retained deletes savepoints; deleting the StreamJob does not."
    )
    volumes: tuple[Volume, ...] = Field(
        default=(),
        max_length=32,
        description="Volumes of the driver's pod and of every executor's.",
        json_schema_extra=merged_by("name"),
    )
    volume_mounts: tuple[VolumeMount, ...] = Field(
        default=(),
        max_length=64,
        description="Where driver and executors mount the volumes.",
        json_schema_extra=merged_by("mountPath"),
    )

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "self.checkpoints == oldSelf.checkpoints",
                "storage.checkpoints cannot change, the job's state is there; make a new StreamJob with "
                "restoreFrom.savepoint to move it",
            ),
            (
                "!has(self.volumeMounts) || self.volumeMounts.all(m, has(self.volumes) && "
                "self.volumes.exists(v, v.name == m.name))",
                "each of storage.volumeMounts must name one of storage.volumes",
            ),
            (
                "self.checkpoints != self.savepoints",
                "storage.savepoints must be another place than storage.checkpoints",
            ),
            (
                "!has(self.volumes) || !has(self.volumeMounts) || !self.volumeMounts.exists(m, "
                "self.volumes.exists(v, v.name == m.name && (has(v.emptyDir) || has(v.ephemeral))) && "
                f"[self.checkpoints, self.savepoints].exists(p, {BELOW}))",
                "storage.checkpoints and storage.savepoints must not be on a volume of the pod's own "
                "(emptyDir, ephemeral): the next driver has another one",
            ),
            (
                "![self.checkpoints, self.savepoints].exists(p, p.matches('^file:(//)?/tmp(/.*)?$') && "
                f"!(has(self.volumeMounts) && self.volumeMounts.exists(m, {BELOW})))",
                "storage.checkpoints and storage.savepoints must not be in /tmp, which is lost with the pod",
            ),
        ),
    )


class RestoreFrom(Model):
    """The state from which the job's first epoch starts. Later epochs resume from the job's own latest
    checkpoint.
    """

    savepoint: Location | None = Field(
        default=None, description="Location of the savepoint to restore. Cannot change."
    )
    checkpoints: dict[str, Location] | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="Checkpoint directories of a PySpark job that ran without StreamJob, by query name "
        "(`main` for a query without a name). They are copied, never changed. The old job must have ended. "
        "Cannot change.",
    )
    allow_drained: bool = Field(
        default=False,
        description="Allow a drained savepoint. Its windows are closed, so rows older than its end "
        "count as late.",
    )
    allow_non_restored_state: bool = Field(
        default=False,
        description="Allow the script not to start every query that has state; the state of missing queries "
        "is lost. Applies to every epoch, also when the job resumes from its own checkpoint after an "
        "upgrade. May be set without a source.",
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
    """Periodic checkpoints: a consistent snapshot of all queries, taken without pausing them and recorded in
    the index. When one completes, a stage whose input has ended is finished permanently while the others keep
    running.
    """

    interval: Duration = Field(
        default="10m", description="Time between checkpoints. 0s: only a stop or drain takes a checkpoint."
    )
    timeout: Duration = Field(
        default="10m",
        description="A checkpoint that takes longer is aborted; the job keeps running. 0s: no timeout.",
    )
    min_pause: Duration = Field(
        default="0s", description="Shortest pause between the end of a checkpoint and the start of the next."
    )
    max_concurrent: int = Field(
        default=1, ge=1, le=100, description="How many checkpoints may be pending at the same time."
    )


class Retained(Model):
    """Which live savepoints are kept.

    Those beyond `count` or older than `age` are deleted; without both, all are kept. Never deleted: the
    newest savepoint, those of stops, drains and evictions, and those that a StreamJob of the namespace
    restores from.
    """

    count: int | None = Field(default=None, ge=1, le=100, description="How many live savepoints to keep.")
    age: Duration | None = Field(default=None, description="How long to keep a live savepoint.")


class Savepoint(Model):
    """Live savepoints, taken while the job keeps running.

    A request fails if the job has ended or has been asked to end: a stop and a drain take their own
    savepoint.
    """

    nonce: int | None = Field(
        default=None,
        ge=0,
        description="Change the number to request a savepoint now. The initial value requests none.",
    )
    schedule: Cron | None = Field(
        default=None,
        description="When to take savepoints, as a CronJob's schedule. If times are missed although the job "
        "should run, one savepoint makes up for them.",
    )
    time_zone: TimeZone | None = Field(
        default=None,
        description="Time zone of the schedule, as an IANA name (`Europe/Berlin`); UTC if unset. A local "
        "time that a change of the clock leaves out is left out; one that comes twice is scheduled twice.",
    )
    timeout: Duration = Field(
        default="30m",
        description="A savepoint that takes longer is aborted and deleted; the job keeps running. Must not "
        "be 0.",
    )
    retained: Retained = Field(default_factory=Retained)

    model_config = ConfigDict(
        json_schema_extra=cel(
            ("!has(self.timeout) || self.timeout.matches('[1-9]')", "savepoint.timeout must not be 0")
        )
    )
