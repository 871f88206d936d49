"""What a driver is made from: the program, its configuration, its pods. With `storage.volumes`, all that `specification` has."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from .types import Memory, Model, Named, cel

ANYTHING: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}

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
SparkConf = Annotated[
    dict[str, Annotated[str, Field(max_length=4096)]],
    Field(
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
    ),
]


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
