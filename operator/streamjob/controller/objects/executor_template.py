"""The pod template that Spark creates executors from."""

from __future__ import annotations

from ...api import Runtime, StreamJob
from . import Obj, names
from .pod_parts import (
    VANILLA,
    Platform,
    container_security,
    pod_security,
    runtime_volume,
    volumes_and_mounts,
)

# Spark uses a volume with such a name for its local files. Without one it mounts its own at SPARK_LOCAL_DIRS,
# which is /tmp in our image, and two volumes at one path are refused.
LOCAL_DIR = "spark-local-dir-1"


def executor_template(job: StreamJob, epoch: int, platform: Platform = VANILLA) -> Obj:
    """Build the pod template to which Spark adds its own fields for each executor.

    Spark makes the driver's pod the owner of the executors.
    """
    runtime = job.spec.runtime
    volumes, mounts = volumes_and_mounts(job.spec.storage)
    runtime_volumes, runtime_mounts = runtime_volume(runtime)
    home = [{"name": "HOME", "value": "/tmp"}] if runtime is Runtime.IMAGE else []  # noqa: S108
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
            "securityContext": pod_security(runtime, platform),
            "containers": [
                {
                    "name": "spark-kubernetes-executor",
                    "securityContext": container_security(runtime),
                    "env": home,
                    "volumeMounts": [
                        {"name": LOCAL_DIR, "mountPath": "/tmp"},  # noqa: S108
                        *runtime_mounts,
                        *mounts,
                    ],
                }
            ],
            "volumes": [{"name": LOCAL_DIR, "emptyDir": {}}, *runtime_volumes, *volumes],
        },
    }
