"""The driver's pod.

There is no Service: executors get the address of the driver's pod, and nothing else has to find it by name.
"""

from __future__ import annotations

import copy
import json
from dataclasses import replace

from ...api import Runtime, StreamJob
from ...api.specification import LIMIT, Specification
from ...api.types import mebibytes, seconds
from ...protocol.errors import StreamJobError
from ...protocol.formats import codec
from ...protocol.formats import index as indices
from ...protocol.messages.commands import METRICS_PORT
from ...protocol.messages.driver_config import DriverConfig
from . import Obj, names, runtime_files
from .executor_template import executor_template
from .merging import merge
from .owned import owner
from .pod_parts import (
    RUNTIME_FOLDER,
    VANILLA,
    Platform,
    container_security,
    pod_security,
    runtime_volume,
    volumes_and_mounts,
)
from .spark_conf import OVERHEAD_FACTOR

CONFIG_LIMIT = 120 << 10  # characters, all ASCII; Linux gives a variable 128 KiB
SECRETS = "/var/run/streamjob"
INDEX = "/var/run/streamjob-index"
OVERHEAD_MIN = 384  # MiB, Spark's default
# The image's entry point stays: it may set up what the image needs.
START = {
    Runtime.IMAGE: ["python", "-m", "streamjob.runtime"],
    Runtime.INJECTED: ["/bin/sh", f"{RUNTIME_FOLDER}/{runtime_files.LAUNCHER}"],
}


class SpecificationTooLarge(StreamJobError):
    """What the driver is made from does not fit into its pod."""

    reason = "SpecificationTooLarge"


def driver_pod(job: StreamJob, config: DriverConfig, platform: Platform = VANILLA) -> Obj:
    """Build the driver's pod in three layers, each over the one before.

    These are our defaults, the user's template, and the fields that the operator relies on.

    :raises SpecificationTooLarge: a template, the dependencies or the arguments are too long.
    """
    spec, meta = job.spec, job.metadata
    if spec.executor.numbers is not None:
        template_of_executors = json.dumps(executor_template(job, config.epoch, platform))
        config = replace(config, executor_template=template_of_executors)
    template = copy.deepcopy(spec.driver.template or {})
    template = {"metadata": template.get("metadata") or {}, "spec": template.get("spec") or {}}
    heap = mebibytes(spec.driver.memory)
    memory = f"{heap + max(int(heap * OVERHEAD_FACTOR), OVERHEAD_MIN)}Mi"
    volumes, mounts = volumes_and_mounts(spec.storage)
    index_volumes, index_mounts = _index(job) if config.restore.latest is not None else ([], [])
    runtime_volumes, runtime_mounts = runtime_volume(spec.runtime)
    injected = spec.runtime is Runtime.INJECTED
    application = names.spark_application(job, config.epoch)
    defaults: Obj = {
        "metadata": {
            "labels": {
                **names.common_labels(job, names.DRIVER),
                names.SPARK_ROLE: names.DRIVER,
                names.SPARK_APPLICATION: config.spark_conf.get("spark.app.id", application),
                names.SPARK_NAME: names.spark_name(config.spark_conf["spark.app.name"]),
            }
        },
        "spec": {
            "securityContext": pod_security(spec.runtime, platform),
            "containers": [
                {
                    "name": names.CONTAINER,
                    "securityContext": container_security(spec.runtime),
                    "resources": {
                        "requests": {"cpu": spec.driver.cores, "memory": memory},
                        "limits": {"memory": memory},
                    },
                    # The pod's own emptyDir. Other images say themselves where their home is.
                    "env": [] if injected else [{"name": "HOME", "value": "/tmp"}],  # noqa: S108
                }
            ],
        },
    }
    container: Obj = {
        "name": names.CONTAINER,
        "image": spec.image,
        "args": START[spec.runtime],
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT}],
        "terminationMessagePath": "/dev/termination-log",
        # A driver that dies before it can report leaves the end of its log instead.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "env": [
            *[e.plain() for e in spec.application.env],
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "STREAMJOB_CONFIG", "value": _configuration(job, config)},
        ],
        "volumeMounts": [
            {"name": "streamjob-control", "mountPath": SECRETS, "readOnly": True},
            *index_mounts,
            *runtime_mounts,
            {"name": "streamjob-tmp", "mountPath": "/tmp"},  # noqa: S108
            *mounts,
        ],
    }
    pull_secrets = [s.plain() for s in spec.image_pull_secrets]
    if spec.application.env_from:
        container["envFrom"] = [*_env_from(template), *(e.plain() for e in spec.application.env_from)]
    if spec.image_pull_policy is not None:
        container["imagePullPolicy"] = spec.image_pull_policy.value
    fixed: Obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names.driver_pod(meta.name, config.epoch),
            "namespace": meta.namespace,
            "labels": {
                **names.labels(job),
                names.LABEL_EPOCH: str(config.epoch),
                names.LABEL_COMPONENT: names.DRIVER,
                **({names.LABEL_PREPARED: "true"} if config.prepared else {}),
                **({names.LABEL_RUNTIME: runtime_files.name()} if injected else {}),
            },
            "annotations": {names.ANNOTATION_GENERATION: str(meta.generation), **_specification(job)},
            "ownerReferences": [owner(job)],
        },
        "spec": {
            # A restart is a new epoch: the kubelet must not restart this one on its own.
            "restartPolicy": "Never",
            "serviceAccountName": spec.driver.service_account_name,
            "automountServiceAccountToken": spec.executor.numbers is not None,
            "terminationGracePeriodSeconds": seconds(spec.termination.grace_period),
            **({"imagePullSecrets": pull_secrets} if pull_secrets else {}),
            "containers": [container],
            "volumes": [
                {
                    "name": "streamjob-control",
                    "secret": {"secretName": names.control_secret(meta.name), "defaultMode": 0o440},
                },
                *index_volumes,
                *runtime_volumes,
                {"name": "streamjob-tmp", "emptyDir": {}},
                *volumes,
            ],
        },
    }
    pod: Obj = merge(merge(defaults, template), fixed)
    return pod


def _env_from(template: Obj) -> list[Obj]:
    """The template's own sources of variables.

    They have no names to merge by, so a later list replaces them.
    """
    containers = template["spec"].get("containers") or ()
    return [e for c in containers if c.get("name") == names.CONTAINER for e in c.get("envFrom") or ()]


def _configuration(job: StreamJob, config: DriverConfig) -> str:
    text = codec.dumps(_without_stages(config))
    return _fitting(job, text, CONFIG_LIMIT)


def _without_stages(config: DriverConfig) -> DriverConfig:
    """Remove the stages from the record: the driver reads them from the index.

    A record may have 900 KiB.
    """
    latest = config.restore.latest
    if latest is None:
        return config
    return replace(config, restore=replace(config.restore, latest=replace(latest, stages=())))


def _index(job: StreamJob) -> tuple[list[Obj], list[Obj]]:
    """Build the volume that holds the index, and its mount.

    The volume is optional: a driver whose index was deleted has to start in order to report what it lacks.
    """
    source = {"name": names.index_config_map(job.metadata.name), "optional": True}
    items = [{"key": indices.KEY, "path": indices.KEY}]
    volume = {"name": "streamjob-index", "configMap": {**source, "items": items}}
    return [volume], [{"name": "streamjob-index", "mountPath": INDEX, "readOnly": True}]


def _specification(job: StreamJob) -> dict[str, str]:
    """Build the annotation that says what the driver is made from, so that a changed spec is noticed."""
    return {names.ANNOTATION_SPECIFICATION: _fitting(job, Specification.of(job.spec).text, LIMIT)}


def _fitting(job: StreamJob, text: str, limit: int) -> str:
    """The text, if it is not too long.

    :raises SpecificationTooLarge: it is; names the largest fields.
    """
    if len(text) <= limit:
        return text
    parts = json.loads(Specification.of(job.spec).text)
    largest = sorted(((len(json.dumps(part)), field) for field, part in parts.items()), reverse=True)[:2]
    fields = ", ".join(f"spec.{field} ({size >> 10} KiB)" for size, field in largest)
    raise SpecificationTooLarge(
        f"what the driver's pod is made from has {len(text) >> 10} KiB, and {limit >> 10} KiB are the limit; "
        f"the largest fields are {fields}",
        remedy="Move what is long into a ConfigMap that the pods mount, or into the image",
    )
