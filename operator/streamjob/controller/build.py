"""The objects of a job, pure: what a driver is told, its pod, its Secret, its index, its executors' template.

No Service: a driver gives its executors its pod's own address, and nothing else has to find it by name.
"""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

from ..api import GROUP, KIND, VERSION, StreamJob
from ..api import Volume as VolumeSpec
from ..api.specification import LIMIT, Specification
from ..api.storage import Checkpoint
from ..api.types import duration, mebibytes
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
# Spark takes a volume of such a name for its local files. Without one it mounts its own at SPARK_LOCAL_DIRS, which is
# /tmp in our image, and two volumes in one place are refused.
LOCAL_DIR = "spark-local-dir-1"
# Spark's own figures for a driver on Kubernetes; in client mode it would choose any, and no NetworkPolicy could name them.
DRIVER_PORT, BLOCK_MANAGER_PORT = 7078, 7079
OVERHEAD_FACTOR, OVERHEAD_MIN = 0.4, 384  # Spark's own figures for PySpark on Kubernetes


def driver_config(
    job: StreamJob,
    index: Index | None,
    epoch: int,
    started_epoch: int,
    termination: TerminationRequest | None,
) -> DriverConfig:
    """What the driver of `epoch` is told."""
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
        grace=job.spec.termination.grace_period,
        spark_conf=spark_conf(job, epoch),
        executor_template=json.dumps(executor_template(job, epoch)) if job.spec.executor.instances else None,
    )


def _restore(job: StreamJob, index: Index | None, started_epoch: int) -> Restore:
    """Where the driver begins: exactly at the newest checkpoint if no driver has run since; else its directories may be ahead of
    it. Where the index cannot say what is in it, the driver is told the savepoint that has the record."""
    latest = index.latest if index else None
    recorded: str | None = None
    exact = latest is not None and latest.scenario is not None and latest.epoch >= started_epoch
    if latest is not None and end_failed(latest, job.status):
        exact = False  # it is not over: its queries are, and the script runs once more
    if latest is not None and latest.savepoint is not None and not latest.stages:
        # The index has it from a final report, which had no room for the stages.
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
    )


def _checkpointing(spec: Checkpoint) -> CheckpointSettings:
    return CheckpointSettings(
        interval=duration(spec.interval).total_seconds(),
        timeout=duration(spec.timeout).total_seconds() or None,
        min_pause=duration(spec.min_pause).total_seconds(),
        max_concurrent=spec.max_concurrent,
    )


def spark_conf(job: StreamJob, epoch: int) -> dict[str, str]:
    """Spark's configuration: ours, the user's, and on top what the job could not be controlled without."""
    spec, meta = job.spec, job.metadata
    fixed = {"spark.driver.memory": f"{mebibytes(spec.driver.memory)}m"}
    if not spec.executor.instances:
        return {"spark.app.name": meta.name, **spec.spark_conf, "spark.master": "local[*]", **fixed}
    ours = {
        "spark.app.name": meta.name,
        # All three need rights that the driver's account does not have, for things that a job of ours does not have.
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
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
        "spark.executor.cores": str(spec.executor.cores),
        "spark.executor.memory": f"{mebibytes(spec.executor.memory)}m",
    }
    return {**ours, **spec.spark_conf, **fixed}


def driver_pod(job: StreamJob, config: DriverConfig) -> Obj:
    """Our defaults, the user's template over them, and over both what the operator relies on."""
    spec, meta = job.spec, job.metadata
    template = copy.deepcopy(spec.driver.template or {})
    template = {"metadata": template.get("metadata") or {}, "spec": template.get("spec") or {}}
    heap = mebibytes(spec.driver.memory)
    memory = f"{heap + max(int(heap * OVERHEAD_FACTOR), OVERHEAD_MIN)}Mi"
    volumes, mounts = _volumes(spec.storage.volumes)
    index_volumes, index_mounts = _index(job) if config.restore.latest is not None else ([], [])
    defaults: Obj = {
        "spec": {
            "securityContext": _pod_security(),
            "containers": [
                {
                    "name": names.CONTAINER,
                    "securityContext": _container_security(),
                    "resources": {
                        "requests": {"cpu": str(spec.driver.cores), "memory": memory},
                        "limits": {"memory": memory},
                    },
                    "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108  the pod's own emptyDir
                }
            ],
        }
    }
    container: Obj = {
        "name": names.CONTAINER,
        "image": spec.image,
        # The image's entry point stays: it is the image's business how Python and Spark are found.
        "args": ["python", "-m", "streamjob.runtime"],
        "terminationMessagePath": "/dev/termination-log",
        # A driver that dies before it can report leaves the end of its log in its place.
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
            # A restart is a new epoch: the kubelet must not start this one again behind our back.
            "restartPolicy": "Never",
            "serviceAccountName": spec.driver.service_account,
            "automountServiceAccountToken": spec.executor.instances > 0,
            "terminationGracePeriodSeconds": spec.termination.grace_period,
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


def _without_stages(config: DriverConfig) -> DriverConfig:
    """Linux takes 128 KiB for a variable, and a record may have 900: the driver reads its stages from the index."""
    latest = config.restore.latest
    if latest is None:
        return config
    return replace(config, restore=replace(config.restore, latest=replace(latest, stages=())))


def _index(job: StreamJob) -> tuple[list[Obj], list[Obj]]:
    """The index as a volume and its mount. Optional: a driver whose index is deleted has to start to say what it lacks."""
    source = {"name": names.index_config_map(job.metadata.name), "optional": True}
    items = [{"key": indices.KEY, "path": indices.KEY}]
    volume = {"name": "streamjob-index", "configMap": {**source, "items": items}}
    return [volume], [{"name": "streamjob-index", "mountPath": INDEX, "readOnly": True}]


def _specification(job: StreamJob) -> dict[str, str]:
    """What the driver is made from, for whoever has to know when the spec has changed."""
    text = Specification.of(job.spec).text
    return {names.ANNOTATION_SPECIFICATION: text} if len(text) <= LIMIT else {}


def executor_template(job: StreamJob, epoch: int) -> Obj:
    """What Spark adds its own to for each executor. It makes the driver's pod their owner."""
    volumes, mounts = _volumes(job.spec.storage.volumes)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "labels": {
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
        "metadata": _owned(job, names.control_secret(job.metadata.name)),
        "type": "Opaque",
        "stringData": {
            names.TOKEN_KEY: material.token,
            names.CERTIFICATE_KEY: material.certificate,
            names.PRIVATE_KEY_KEY: material.key,
        },
    }


def config_map(job: StreamJob, index: Index, version: str | None) -> Obj:
    """The index as a ConfigMap; with the version that it replaces, and the term of who is in charge of the job."""
    meta = _owned(job, names.index_config_map(job.metadata.name))
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
    """Whose it is: Kubernetes deletes it after the job."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _owned(job: StreamJob, name: str) -> Obj:
    return {
        "name": name,
        "namespace": job.metadata.namespace,
        "labels": names.labels(job),
        "ownerReferences": [owner(job)],
    }


def _volumes(volumes: tuple[VolumeSpec, ...]) -> tuple[list[Obj], list[Obj]]:
    sources, mounts = [], []
    for volume in volumes:
        plain = volume.plain()
        mounts.append(
            {"name": volume.name, "mountPath": plain.pop("mountPath"), "readOnly": plain.pop("readOnly")}
        )
        sources.append(plain)
    return sources, mounts


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
