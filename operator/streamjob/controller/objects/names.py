"""Names, labels and storage locations of everything that belongs to a job.

All of them follow from the job and the epoch, so creating an object twice, or in two controllers at the same
time, yields one object.
"""

from __future__ import annotations

import re

from ...api import GROUP, StreamJob

FINALIZER = f"{GROUP}/termination"
LABEL_JOB = f"{GROUP}/job"
LABEL_UID = f"{GROUP}/uid"
LABEL_EPOCH = f"{GROUP}/epoch"
LABEL_PREPARED = f"{GROUP}/prepared"  # of a driver's pod that was made to wait at the gate (ADR 46)
LABEL_COMPONENT = f"{GROUP}/component"
ANNOTATION_GENERATION = f"{GROUP}/generation"
ANNOTATION_SPECIFICATION = f"{GROUP}/specification"
ANNOTATION_TERM = f"{GROUP}/term"
LABEL_RUNTIME = f"{GROUP}/runtime"  # of a driver's pod: the ConfigMap that it mounts
DRIVER = "driver"
EXECUTOR = "executor"
RUNTIME = "runtime"
ALL_DRIVERS = f"{LABEL_COMPONENT}={DRIVER}"
ALL_RUNTIMES = f"{LABEL_COMPONENT}={RUNTIME}"
CONTAINER = "driver"
# Spark's own labels, on the executors.
SPARK_ROLE, SPARK_APPLICATION, SPARK_NAME = "spark-role", "spark-app-selector", "spark-app-name"

TOKEN_KEY = "token"  # noqa: S105  the name of a key
CERTIFICATE_KEY = "tls.crt"
PRIVATE_KEY_KEY = "tls.key"


def driver_pod(job: str, epoch: int) -> str:
    return f"{job}-driver-{epoch}"


def control_secret(job: str) -> str:
    return f"{job}-control"


def index_config_map(job: str) -> str:
    return f"{job}-checkpoints"


def labels(job: StreamJob) -> dict[str, str]:
    return {LABEL_JOB: job.metadata.name, LABEL_UID: job.metadata.uid}


def common_labels(job: StreamJob, component: str) -> dict[str, str]:
    """Kubernetes' recommended labels, for dashboards and inventories. The controller does not go by them.

    The name is not the chart's, by whose labels the controller's own pods are selected.
    """
    found = {"name": "spark", "instance": job.metadata.name, "component": component}
    found |= {"managed-by": "streamjob", "part-of": "streamjob"}
    return {f"app.kubernetes.io/{key}": value for key, value in found.items()}


def runtime_labels() -> dict[str, str]:
    """The labels of a ConfigMap of the runtime. It belongs to a namespace, not to one job."""
    found = {"name": RUNTIME, "component": RUNTIME, "managed-by": "streamjob", "part-of": "streamjob"}
    return {LABEL_COMPONENT: RUNTIME, **{f"app.kubernetes.io/{key}": value for key, value in found.items()}}


def spark_application(job: StreamJob, epoch: int) -> str:
    """Spark's application id, which no other epoch has. Spark labels the executors with it."""
    return f"{job.metadata.name}-{job.metadata.uid[:8]}-{epoch}"


def spark_name(application: str) -> str:
    """The label that Spark makes of an application's name."""
    name = re.sub("[^a-z0-9]+", "-", application.strip().lower())
    return name[:63].strip("-")


def driver_selector(uid: str) -> str:
    return f"{LABEL_UID}={uid},{LABEL_COMPONENT}={DRIVER}"


def all_executors(uid: str) -> str:
    """The label selector of the job's executors, whatever their epoch."""
    return f"{LABEL_UID}={uid},{LABEL_COMPONENT}={EXECUTOR}"


def executor_selector(uid: str, epoch: int) -> str:
    return f"{all_executors(uid)},{LABEL_EPOCH}={epoch}"


def _folder(job: StreamJob) -> str:
    meta = job.metadata
    # Includes the uid: a job recreated under the same name is another job and must not find this one's state.
    return f"{meta.namespace}-{meta.name}-{meta.uid[:8]}"


def checkpoints_root(job: StreamJob) -> str:
    return f"{job.spec.storage.checkpoints.rstrip('/')}/{_folder(job)}"


def savepoint(job: StreamJob, request_id: str) -> str:
    return f"{job.spec.storage.savepoints.rstrip('/')}/{_folder(job)}/{request_id}"


def eviction_savepoint(job: StreamJob, epoch: int) -> str:
    return savepoint(job, f"eviction-{epoch}")
