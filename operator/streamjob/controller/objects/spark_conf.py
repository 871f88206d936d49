"""Spark's configuration of a job."""

from __future__ import annotations

from ...api import Spec, StreamJob
from ...api.types import mebibytes, seconds, whole_cores
from . import names

# Spark's defaults for a driver on Kubernetes. In client mode Spark would pick ports at random, and no
# NetworkPolicy could name them.
DRIVER_PORT, BLOCK_MANAGER_PORT = 7078, 7079
OVERHEAD_FACTOR = 0.4  # of the heap; Spark's default for PySpark on Kubernetes


def _of_ui(spec: Spec) -> dict[str, str]:
    """Build the defaults of Spark's UI.

    Its links `(kill)` would fail a query, and it asks nobody for a password. It redirects to paths behind the
    proxy that a request came through: `/` is every server.
    """
    behind = {"spark.ui.proxyBase": spec.ui.proxy_base} if spec.ui is not None and spec.ui.proxy_base else {}
    return {"spark.ui.killEnabled": "false", "spark.ui.proxyRedirectUri": "/", **behind}


def spark_conf(job: StreamJob, epoch: int) -> dict[str, str]:
    """Build Spark's configuration in three layers, each over the one before.

    These are our defaults, the user's settings, and the settings without which the job could not be
    controlled.
    """
    spec, meta = job.spec, job.metadata
    fixed = {"spark.driver.memory": f"{mebibytes(spec.driver.memory)}m"}
    numbers, dynamic = spec.executor.numbers, spec.executor.dynamic_allocation
    ours = {"spark.app.name": meta.name, **_of_ui(spec)}
    if numbers is None:
        return {**ours, **spec.spark_conf, "spark.master": "local[*]", **fixed}
    ours |= {
        # Each of these three turns off what needs permissions that the driver's account lacks, for objects
        # that our jobs do not have. A claim on demand then belongs to its executor and is deleted with it.
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        # An executor that has to go finishes its tasks and moves its shuffle files to others.
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
        # It looks at what is left to move this often, at least twice, and Spark's 30 s are for cached data.
        "spark.storage.decommission.replicationReattemptInterval": "5s",
        "spark.kubernetes.executor.request.cores": spec.executor.cores,
        "spark.app.id": names.spark_application(job, epoch),
        "spark.driver.port": str(DRIVER_PORT),
        "spark.driver.blockManager.port": str(BLOCK_MANAGER_PORT),
    }
    if "spark.kubernetes.memoryOverheadFactor" not in spec.spark_conf:
        # spark-submit's default for Python, whose workers are outside of the heap. A driver in client mode
        # would give its executors that of the JVM alone.
        ours["spark.executor.memoryOverheadFactor"] = str(OVERHEAD_FACTOR)
    if spec.image_pull_policy is not None:
        ours["spark.kubernetes.container.image.pullPolicy"] = spec.image_pull_policy.value
    fixed |= {
        "spark.master": "k8s://https://kubernetes.default.svc",
        "spark.submit.deployMode": "client",
        "spark.kubernetes.namespace": meta.namespace,
        "spark.kubernetes.driver.pod.name": names.driver_pod(meta.name, epoch),
        "spark.kubernetes.container.image": spec.image,
        "spark.kubernetes.executor.podNamePrefix": f"{meta.name}-{epoch}",
        "spark.kubernetes.executor.podTemplateContainerName": names.EXECUTOR,
        "spark.executor.cores": str(whole_cores(spec.executor.cores)),
        "spark.executor.memory": f"{mebibytes(spec.executor.memory)}m",
    }
    if dynamic is None:
        fixed["spark.executor.instances"] = str(numbers.least)
    else:
        # What is moved need not be kept: with it, an executor would be idle only when Spark's driver has
        # collected the garbage of all shuffles that it has files of.
        ours["spark.dynamicAllocation.shuffleTracking.enabled"] = "false"
        fixed |= {
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.minExecutors": str(numbers.least),
            "spark.dynamicAllocation.initialExecutors": str(numbers.least),
            "spark.dynamicAllocation.maxExecutors": str(numbers.most),
            "spark.dynamicAllocation.executorIdleTimeout": f"{seconds(dynamic.idle_timeout)}s",
        }
    return {**ours, **spec.spark_conf, **fixed}
