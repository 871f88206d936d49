"""Spark's configuration of a job."""

from __future__ import annotations

from ...api import StreamJob
from ...api.types import mebibytes, whole_cores
from . import names

# Spark's defaults for a driver on Kubernetes. In client mode Spark would pick ports at random, and no
# NetworkPolicy could name them.
DRIVER_PORT, BLOCK_MANAGER_PORT = 7078, 7079


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
