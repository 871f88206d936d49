"""The pod template that Spark creates executors from."""

from __future__ import annotations

import copy

from ...api import Runtime, StreamJob
from . import Obj, names
from .merging import merge
from .pod_parts import (
    VANILLA,
    Platform,
    container_security,
    pod_security,
    runtime_volume,
    volumes_and_mounts,
)

# Spark uses volumes with such names for its local files. Without one it mounts its own at SPARK_LOCAL_DIRS,
# which is /tmp in our image, and two volumes at one path are refused.
LOCAL_DIR = "spark-local-dir-"


def executor_template(job: StreamJob, epoch: int, platform: Platform = VANILLA) -> Obj:
    """Build the pod template to which Spark adds its own fields for each executor.

    It has three layers, each over the one before: our defaults, the user's template, and the fields that the
    operator relies on. Spark makes the driver's pod the owner of the executors.
    """
    runtime = job.spec.runtime
    template = copy.deepcopy(job.spec.executor.template or {})
    template = {"metadata": template.get("metadata") or {}, "spec": template.get("spec") or {}}
    tmp = "streamjob-tmp" if _brings_local_dirs(job, template) else f"{LOCAL_DIR}1"
    home = [{"name": "HOME", "value": "/tmp"}] if runtime is Runtime.IMAGE else []  # noqa: S108
    defaults: Obj = {
        "metadata": {"labels": names.common_labels(job, names.EXECUTOR)},
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": pod_security(runtime, platform),
            "containers": [
                {"name": names.EXECUTOR, "securityContext": container_security(runtime), "env": home}
            ],
        },
    }
    volumes, mounts = volumes_and_mounts(job.spec.storage)
    runtime_volumes, runtime_mounts = runtime_volume(runtime)
    pull_secrets = [s.plain() for s in job.spec.image_pull_secrets]
    fixed: Obj = {
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
            **({"imagePullSecrets": pull_secrets} if pull_secrets else {}),
            "containers": [
                {
                    "name": names.EXECUTOR,
                    "volumeMounts": [
                        {"name": tmp, "mountPath": "/tmp"},  # noqa: S108
                        *runtime_mounts,
                        *mounts,
                    ],
                }
            ],
            "volumes": [{"name": tmp, "emptyDir": {}}, *runtime_volumes, *volumes],
        },
    }
    pod: Obj = merge(merge(defaults, template), fixed)
    return pod


def _brings_local_dirs(job: StreamJob, template: Obj) -> bool:
    """Whether the user has volumes for Spark's local files: then they do not go to /tmp."""
    volumes = template["spec"].get("volumes") or ()
    keys = job.spec.spark_conf
    by_setting = any(f".{LOCAL_DIR}" in k for k in keys if k.startswith("spark.kubernetes.executor.volumes."))
    return by_setting or any(str(v.get("name", "")).startswith(LOCAL_DIR) for v in volumes)
