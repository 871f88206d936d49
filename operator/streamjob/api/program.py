"""The program, its configuration and its pods: together with `storage.volumes`, everything in
`specification`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from .deps import FILE_RULES
from .pods import template as pod_template
from .types import Cores, Memory, Model, Named, Quantity, cel, merged_by

# Settings of the controller. A user's value would cut the driver off from it, or contradict the spec.
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
    "spark.dynamicAllocation.enabled",
    "spark.dynamicAllocation.minExecutors",
    "spark.dynamicAllocation.maxExecutors",
    "spark.dynamicAllocation.initialExecutors",
    "spark.dynamicAllocation.executorIdleTimeout",
    "spark.kubernetes.executor.podNamePrefix",
    "spark.kubernetes.executor.podTemplateFile",
    "spark.kubernetes.executor.podTemplateContainerName",
)
# What spec.deps has: the driver fetches and checks it, which Spark does not do with its settings.
DEPS_CONF = (
    "spark.jars",
    "spark.jars.packages",
    "spark.jars.excludes",
    "spark.jars.repositories",
    "spark.submit.pyFiles",
    "spark.files",
)
# Whoever may read the StreamJob may read these. Name suffixes, because Hadoop also has these settings for
# each bucket and account. No pattern, because the API server must estimate the maximum cost of a rule, and
# the length of a key is not limited.
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


def _none_of(keys: Sequence[str], why: str) -> dict[str, str]:
    """A rule: none of these keys is in the map. Its message names the first that is."""
    listed = f"[{', '.join(map(repr, keys))}]"
    return {
        "rule": f"!{listed}.exists(k, k in self)",
        "message": f"sparkConf must not set {', '.join(keys)}: {why}",
        "messageExpression": f"'sparkConf must not set ' + {listed}.filter(k, k in self)[0] + {': ' + why!r}",
    }


SECRET_ENV = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
FROM_SECRETS = (
    "take it from a Secret (application.env with valueFrom.secretKeyRef) or from the pod's identity"
)
SparkConf = Annotated[
    dict[str, Annotated[str, Field(max_length=4096)]],
    Field(
        max_length=512,
        description="Spark settings. Refused: settings that the operator controls, and credentials "
        "of a storage.",
        json_schema_extra={
            "x-kubernetes-validations": [
                _none_of(REFUSED_CONF, "the operator sets it (see spec.driver and spec.executor)"),
                _none_of(DEPS_CONF, "name jars, packages and files in spec.deps"),
                {
                    "rule": f"!self.exists(k, {SECRET_CONF})",
                    "message": f"sparkConf must not hold a credential of a storage: {FROM_SECRETS}",
                    "messageExpression": f"'sparkConf must not hold a credential of a storage, as ' + "
                    f"self.filter(k, {SECRET_CONF})[0] + {' is: ' + FROM_SECRETS!r}",
                },
            ]
        },
    ),
]


class ImagePullPolicy(str, Enum):
    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class ImagePullSecret(Model):
    """A Secret of the job's own namespace with the credentials of a registry."""

    name: Named = Field(description="Name of the Secret.")


class KeyRef(Model):
    """A key of an object in the job's own namespace."""

    name: Named = Field(description="Name of the object.")
    key: Named = Field(description="Key in the object.")
    optional: bool | None = Field(
        default=None, description="Start without the variable if object or key is missing."
    )


class FieldRef(Model):
    """A field of the driver's pod."""

    api_version: str | None = Field(default=None, max_length=253, description="Version of the pod's schema.")
    field_path: Named = Field(description="Path of the field, such as spec.nodeName.")


class ResourceFieldRef(Model):
    """A resource of a container of the driver's pod."""

    container_name: Named | None = Field(
        default=None, description="Name of the container; `driver` if unset."
    )
    resource: Named = Field(description="Resource, such as limits.memory.")
    divisor: Quantity | None = Field(default=None, description="Unit of the value; 1 if unset.")


class EnvVarSource(Model):
    """Where the variable's value comes from. Set exactly one source."""

    secret_key_ref: KeyRef | None = Field(default=None, description="A key of a Secret.")
    config_map_key_ref: KeyRef | None = Field(default=None, description="A key of a ConfigMap.")
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef), "
                "has(self.resourceFieldRef)].filter(x, x).size() == 1",
                "exactly one of secretKeyRef, configMapKeyRef, fieldRef and resourceFieldRef must be set",
            )
        )
    )


class EnvSource(Model):
    """An object of the job's own namespace."""

    name: Named = Field(description="Name of the object.")
    optional: bool | None = Field(default=None, description="Start without it if it is missing.")


class EnvFrom(Model):
    """All keys of a ConfigMap or a Secret as variables.

    A variable of `env` overrides one of the same name.
    """

    prefix: str | None = Field(default=None, max_length=253, description="Prefix of each variable's name.")
    config_map_ref: EnvSource | None = Field(default=None, description="A ConfigMap.")
    secret_ref: EnvSource | None = Field(default=None, description="A Secret.")

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "has(self.configMapRef) != has(self.secretRef)",
                "exactly one of configMapRef and secretRef must be set",
            ),
            (
                "!has(self.prefix) || !self.prefix.startsWith('STREAMJOB_')",
                "STREAMJOB_* is set by the operator",
            ),
        )
    )


class EnvVar(Model):
    """An environment variable of the driver. STREAMJOB_*, POD_IP and POD_NAME are reserved."""

    name: str = Field(min_length=1, max_length=253, description="Name of the variable.")
    value: str | None = Field(
        default=None, max_length=32768, description="The value itself. Credentials belong in `valueFrom`."
    )
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


_WITH_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*:/.*"


class Application(Model):
    """The PySpark program. Set either `file` or `module`."""

    file: str | None = Field(
        default=None,
        min_length=1,
        max_length=1024,
        description="The script: a path in the driver's container, or the URI of a file that the driver "
        "fetches when it starts (s3a://, https://, hdfs://, gs://).",
        json_schema_extra=cel(
            *(
                (f"!self.matches(r'^{_WITH_SCHEME}$') || self.matches(r'^{pattern}$')", message)
                for pattern, message in FILE_RULES
            )
        ),
    )
    module: str | None = Field(
        default=None, min_length=1, max_length=253, description="Python module to run, as in `python -m`."
    )
    args: tuple[Annotated[str, Field(max_length=4096)], ...] = Field(
        default=(), max_length=256, description="Command-line arguments of the program."
    )
    env: tuple[EnvVar, ...] = Field(
        default=(),
        max_length=256,
        description="Environment variables of the driver. Executors get those of executor.template, of "
        "spark.executorEnv.* and of spark.kubernetes.executor.secretKeyRef.*.",
        json_schema_extra=merged_by("name"),
    )
    env_from: tuple[EnvFrom, ...] = Field(
        default=(),
        max_length=64,
        description="ConfigMaps and Secrets whose keys are variables of the driver.",
    )

    model_config = ConfigDict(
        json_schema_extra=cel(
            ("has(self.file) != has(self.module)", "exactly one of file and module must be set")
        )
    )


class Driver(Model):
    """The driver's pod."""

    cores: Cores = Field(default="1", description="CPU request of the pod, such as 1 or 500m.")
    memory: Memory = Field(
        default="1Gi",
        description="Heap of the JVM, as spark.driver.memory. The pod requests 40 % more, at least 384Mi, "
        "for Python and the JVM's overhead, and is limited to that.",
    )
    service_account_name: str = Field(
        default="streamjob-driver",
        min_length=1,
        max_length=253,
        description="ServiceAccount of the pod. With executors it must be allowed to manage pods.",
    )
    template: dict[str, Any] | None = Field(
        default=None,
        description="Pod template (metadata.labels, metadata.annotations, spec) to merge into the driver's "
        "pod. Named list entries are merged by name; the container is named `driver`. Fields that the "
        "operator sets are refused.",
        json_schema_extra=pod_template.DRIVER,
    )
    standby: bool = Field(
        default=False,
        description="Keep a second driver beside the running one that has run the script up to its first "
        "query. It takes over when the running one dies or is evicted, and needs room of its own. What the "
        "script does before its first query, it does while the other driver runs.",
    )
