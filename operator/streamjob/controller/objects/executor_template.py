"""The pod template that Spark creates executors from."""

from __future__ import annotations

from ...api import StreamJob
from . import Obj, names
from .pod_parts import container_security, pod_security, volumes_and_mounts

# Spark uses a volume with such a name for its local files. Without one it mounts its own at SPARK_LOCAL_DIRS,
# which is /tmp in our image, and two volumes at one path are refused.
LOCAL_DIR = "spark-local-dir-1"


def executor_template(job: StreamJob, epoch: int) -> Obj:
    """Build the pod template to which Spark adds its own fields for each executor.

    Spark makes the driver's pod the owner of the executors.
    """
    volumes, mounts = volumes_and_mounts(job.spec.storage)
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
            "securityContext": pod_security(),
            "containers": [
                {
                    "name": "spark-kubernetes-executor",
                    "securityContext": container_security(),
                    "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108
                    "volumeMounts": [{"name": LOCAL_DIR, "mountPath": "/tmp"}, *mounts],  # noqa: S108
                }
            ],
            "volumes": [{"name": LOCAL_DIR, "emptyDir": {}}, *volumes],
        },
    }
