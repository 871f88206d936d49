"""Builds the objects of a job: driver configuration, driver pod, Secret, index, executor template. Pure.

There is no Service: executors get the address of the driver's pod, and nothing else has to find it by name.
"""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

from ..api import GROUP, KIND, VERSION, StreamJob
from ..api.specification import LIMIT, Specification
from ..api.storage import Checkpoint, Storage
from ..api.types import duration, mebibytes, whole_cores
from ..protocol import codec
from ..protocol import index as indices
from ..protocol.index import Index
from ..protocol.messages import Application, CheckpointSettings, DriverConfig, Restore, TerminationRequest
from ..protocol.records import JobRef
from . import names
from .certs import Material
from .merging import merge
from .status import end_failed

Obj = dict[str, Any]
USER = 10001
SECRETS = "/var/run/streamjob"
INDEX = "/var/run/streamjob-index"
# Spark uses a volume with such a name for its local files. Without one it mounts its own at SPARK_LOCAL_DIRS,
# which is /tmp in our image, and two volumes at one path are refused.
LOCAL_DIR = "spark-local-dir-1"
# Spark's defaults for a driver on Kubernetes. In client mode Spark would pick ports at random, and no
# NetworkPolicy could name them.
DRIVER_PORT, BLOCK_MANAGER_PORT = 7078, 7079
OVERHEAD_FACTOR, OVERHEAD_MIN = 0.4, 384  # Spark's defaults for PySpark on Kubernetes


def driver_config(
    job: StreamJob,
    index: Index | None,
    epoch: int,
    started_epoch: int,
    termination: TerminationRequest | None,
) -> DriverConfig:
    """Build the configuration that the driver of `epoch` starts with.

    :param index: the index, None if it is not there or cannot be read.
    :param started_epoch: the newest epoch whose driver may have done anything.
    :param termination: the termination that the driver has to carry out, if any.
    """
    meta, app = job.metadata, job.spec.application
    known = job.status.checkpoint.latest if job.status.checkpoint else 0
    return DriverConfig(
        job=JobRef(meta.namespace, meta.name, meta.uid),
        epoch=epoch,
        application=Application(app.file, app.module, app.args),
        checkpoints=names.checkpoints_root(job),
        next_checkpoint=max(index.next_id if index else 1, known + 1),
        restore=_restore(job, index, started_epoch),
        checkpointing=_checkpointing(job.spec.checkpoint),
        termination=termination,
        eviction_savepoint=names.eviction_savepoint(job, epoch),
        grace=_grace(job),
        spark_conf=spark_conf(job, epoch),
        executor_template=json.dumps(executor_template(job, epoch)) if job.spec.executor.instances else None,
    )


def _restore(job: StreamJob, index: Index | None, started_epoch: int) -> Restore:
    """Say where the driver begins.

    It begins exactly at the newest checkpoint if no driver has run since; otherwise the checkpoint
    directories may be ahead of it. If the index does not have the full record, the driver gets the savepoint
    that has it.
    """
    latest = index.latest if index else None
    recorded: str | None = None
    exact = latest is not None and latest.scenario is not None and latest.epoch >= started_epoch
    if latest is not None and end_failed(latest, job.status):
        exact = False  # the queries have ended, the job has not: the script runs again
    if latest is not None and latest.savepoint is not None and not latest.stages:
        # The record comes from a final report, which had no room for the stages.
        recorded, latest = latest.savepoint, None
    if (
        index is None and job.status.checkpoint is not None and job.status.savepoint is not None
    ):  # see `rebuild`
        recorded, exact = job.status.savepoint.latest, job.status.checkpoint.epoch >= started_epoch
    source = job.spec.restore_from
    begins = source is not None and latest is None and recorded is None
    return Restore(
        latest=latest,
        exact=exact,
        savepoint=source.savepoint if source and begins else None,
        allow_drained=source.allow_drained if source else False,
        checkpoints=source.checkpoints or {} if source and begins else {},
        recorded=recorded,
        allow_non_restored_state=source.allow_non_restored_state if source else False,
        # A job that has come to its end gets no driver: if nothing is left to resume, a driver has failed since.
        again=(latest is not None or recorded is not None) and not exact,
    )


def _grace(job: StreamJob) -> int:
    return int(duration(job.spec.termination.grace_period).total_seconds())


def _checkpointing(spec: Checkpoint) -> CheckpointSettings:
    return CheckpointSettings(
        interval=duration(spec.interval).total_seconds(),
        timeout=duration(spec.timeout).total_seconds() or None,
        min_pause=duration(spec.min_pause).total_seconds(),
        max_concurrent=spec.max_concurrent,
    )


def spark_conf(job: StreamJob, epoch: int) -> dict[str, str]:
    """Build Spark's configuration in three layers, each over the one before.

    These are our defaults, the user's settings, and the settings without which the job could not be
    controlled.
    """
    spec, meta = job.spec, job.metadata
    fixed = {"spark.driver.memory": f"{mebibytes(spec.driver.memory)}m"}
    if not spec.executor.instances:
        return {"spark.app.name": meta.name, **spec.spark_conf, "spark.master": "local[*]", **fixed}
    ours = {
        "spark.app.name": meta.name,
        # Each of these three turns off what needs permissions that the driver's account lacks, for objects
        # that our jobs do not have.
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.executor.request.cores": spec.executor.cores,
        "spark.app.id": names.spark_application(job, epoch),
        "spark.driver.port": str(DRIVER_PORT),
        "spark.driver.blockManager.port": str(BLOCK_MANAGER_PORT),
    }
    if spec.image_pull_policy is not None:
        ours["spark.kubernetes.container.image.pullPolicy"] = spec.image_pull_policy.value
    fixed |= {
        "spark.master": "k8s://https://kubernetes.default.svc",
        "spark.submit.deployMode": "client",
        "spark.kubernetes.namespace": meta.namespace,
        "spark.kubernetes.driver.pod.name": names.driver_pod(meta.name, epoch),
        "spark.kubernetes.container.image": spec.image,
        "spark.kubernetes.executor.podNamePrefix": f"{meta.name}-{epoch}",
        "spark.executor.instances": str(spec.executor.instances),
        "spark.executor.cores": str(whole_cores(spec.executor.cores)),
        "spark.executor.memory": f"{mebibytes(spec.executor.memory)}m",
    }
    return {**ours, **spec.spark_conf, **fixed}


def driver_pod(job: StreamJob, config: DriverConfig) -> Obj:
    """Build the driver's pod in three layers, each over the one before.

    These are our defaults, the user's template, and the fields that the operator relies on.
    """
    spec, meta = job.spec, job.metadata
    template = copy.deepcopy(spec.driver.template or {})
    template = {"metadata": template.get("metadata") or {}, "spec": template.get("spec") or {}}
    heap = mebibytes(spec.driver.memory)
    memory = f"{heap + max(int(heap * OVERHEAD_FACTOR), OVERHEAD_MIN)}Mi"
    volumes, mounts = _volumes(spec.storage)
    index_volumes, index_mounts = _index(job) if config.restore.latest is not None else ([], [])
    application = names.spark_application(job, config.epoch)
    defaults: Obj = {
        "metadata": {
            "labels": {
                **names.common_labels(job, names.DRIVER),
                names.SPARK_ROLE: names.DRIVER,
                names.SPARK_APPLICATION: config.spark_conf.get("spark.app.id", application),
            }
        },
        "spec": {
            "securityContext": _pod_security(),
            "containers": [
                {
                    "name": names.CONTAINER,
                    "securityContext": _container_security(),
                    "resources": {
                        "requests": {"cpu": spec.driver.cores, "memory": memory},
                        "limits": {"memory": memory},
                    },
                    "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108  the pod's own emptyDir
                }
            ],
        },
    }
    container: Obj = {
        "name": names.CONTAINER,
        "image": spec.image,
        # The image's entry point stays: the image decides how Python and Spark are found.
        "args": ["python", "-m", "streamjob.runtime"],
        "terminationMessagePath": "/dev/termination-log",
        # A driver that dies before it can report leaves the end of its log instead.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "env": [
            *[e.plain() for e in spec.application.env],
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "STREAMJOB_CONFIG", "value": codec.dumps(_without_stages(config))},
        ],
        "volumeMounts": [
            {"name": "streamjob-control", "mountPath": SECRETS, "readOnly": True},
            *index_mounts,
            {"name": "streamjob-tmp", "mountPath": "/tmp"},  # noqa: S108
            *mounts,
        ],
    }
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
            },
            "annotations": {names.ANNOTATION_GENERATION: str(meta.generation), **_specification(job)},
            "ownerReferences": [owner(job)],
        },
        "spec": {
            # A restart is a new epoch: the kubelet must not restart this one on its own.
            "restartPolicy": "Never",
            "serviceAccountName": spec.driver.service_account_name,
            "automountServiceAccountToken": spec.executor.instances > 0,
            "terminationGracePeriodSeconds": _grace(job),
            "containers": [container],
            "volumes": [
                {
                    "name": "streamjob-control",
                    "secret": {"secretName": names.control_secret(meta.name), "defaultMode": 0o440},
                },
                *index_volumes,
                {"name": "streamjob-tmp", "emptyDir": {}},
                *volumes,
            ],
        },
    }
    pod: Obj = merge(merge(defaults, template), fixed)
    return pod


def _env_from(template: Obj) -> list[Obj]:
    """The template's own sources of variables. They have no names to merge by, so a later list replaces them."""
    containers = template["spec"].get("containers") or ()
    return [e for c in containers if c.get("name") == names.CONTAINER for e in c.get("envFrom") or ()]


def _without_stages(config: DriverConfig) -> DriverConfig:
    """Remove the stages from the record: the driver reads them from the index.

    Linux limits an environment variable to 128 KiB, and a record may have 900 KiB.
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
    """Build the annotation that says what the driver is made from, so that a changed spec is noticed.

    :returns: empty if the text is longer than LIMIT; then no upgrade is noticed while this driver runs.
    """
    text = Specification.of(job.spec).text
    return {names.ANNOTATION_SPECIFICATION: text} if len(text) <= LIMIT else {}


def executor_template(job: StreamJob, epoch: int) -> Obj:
    """Build the pod template to which Spark adds its own fields for each executor.

    Spark makes the driver's pod the owner of the executors.
    """
    volumes, mounts = _volumes(job.spec.storage)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "labels": {
                **names.common_labels(job, names.EXECUTOR),
                **names.labels(job),
                names.LABEL_EPOCH: str(epoch),
                names.LABEL_COMPONENT: names.EXECUTOR,
            }
        },
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": _pod_security(),
            "containers": [
                {
                    "name": "spark-kubernetes-executor",
                    "securityContext": _container_security(),
                    "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108
                    "volumeMounts": [{"name": LOCAL_DIR, "mountPath": "/tmp"}, *mounts],  # noqa: S108
                }
            ],
            "volumes": [{"name": LOCAL_DIR, "emptyDir": {}}, *volumes],
        },
    }


def secret(job: StreamJob, material: Material) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _owned(job, names.control_secret(job.metadata.name), "control"),
        "type": "Opaque",
        "stringData": {
            names.TOKEN_KEY: material.token,
            names.CERTIFICATE_KEY: material.certificate,
            names.PRIVATE_KEY_KEY: material.key,
        },
    }


def config_map(job: StreamJob, index: Index, version: str | None) -> Obj:
    """Build the ConfigMap of the index, with the term of the controller in charge of the job.

    :param version: the resourceVersion that it replaces, None to create it.
    """
    meta = _owned(job, names.index_config_map(job.metadata.name), "checkpoints")
    meta["annotations"] = {names.ANNOTATION_TERM: str(job.status.term)}
    if version is not None:
        meta["resourceVersion"] = version
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta,
        "data": {indices.KEY: indices.dumps(index)},
    }


def owner(job: StreamJob) -> Obj:
    """Build the owner reference to the job: Kubernetes deletes the object after the job."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _owned(job: StreamJob, name: str, component: str) -> Obj:
    return {
        "name": name,
        "namespace": job.metadata.namespace,
        "labels": {**names.common_labels(job, component), **names.labels(job)},
        "ownerReferences": [owner(job)],
    }


def _volumes(storage: Storage) -> tuple[list[Obj], list[Obj]]:
    return [v.plain() for v in storage.volumes], [m.plain() for m in storage.volume_mounts]


def _pod_security() -> Obj:
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _container_security() -> Obj:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
