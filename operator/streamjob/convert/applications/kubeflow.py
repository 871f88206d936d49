"""SparkApplications of Kubeflow's Spark operator, `sparkoperator.k8s.io/v1beta2`."""

from __future__ import annotations

from typing import Any

from .. import values
from ..draft import Draft, Places
from ..source import Obj, Path, Refused, Source
from . import ui
from .kubeflow_pods import pod_of, template_of, volumes_of
from .metadata import file_of, metadata_of, name_of, old_state, version
from .policies import RESTARTS_MOST, backoff, never
from .settings import Setting, config_map, factor
from .spark_conf import settings_of, translate

SPEC: Path = ("spec",)
DEFAULT_EXECUTORS = 1
METRICS = (
    "each driver serves metrics of its queries, and the controller of its jobs (docs/operations.md). For "
    "Spark's own, set spark.metrics.* in sparkConf; a JMX exporter is a jar of the image and an option of "
    "spark.driver.extraJavaOptions"
)
RECOMMENDED = "app.kubernetes.io/"
GANG = "the operator makes no PodGroup: the scheduler admits each pod by itself"
DROPPED = {
    "proxyUser": "the driver runs as its own user: give its service account or keytab the permissions",
    "timeToLiveSeconds": "a StreamJob stays until it is deleted, so that it can be resumed",
    "driverIngressOptions": ui.OTHER_PORTS,
    "monitoring": METRICS,
}
UNNEEDED = {
    "type": "a StreamJob's program is Python",
    "mainClass": "a Python program has none",
    "mode": "the driver always runs in a pod of its own",
    "driverPodDisruptionBudget": "an eviction is a stop with savepoint: nothing is lost, and the job resumes",
    "failureRetries": "the Kubeflow operator ignores it; see restartPolicy",
    "retryInterval": "the Kubeflow operator ignores it; see restartPolicy",
}


def convert(source: Source, places: Places) -> tuple[str, Obj, Draft]:
    """The name, the metadata and the draft of the StreamJob.

    :raises Refused: the application is no Python program, or has values that no StreamJob may have.
    """
    kind = source.get((*SPEC, "type"), "Scala")
    if kind != "Python":
        raise Refused(
            f"its program is in {kind}, and a StreamJob's is in Python",
            remedy="It stays a SparkApplication; StreamJob has no runtime for other languages",
        )
    name, metadata = name_of(source), metadata_of(source)
    draft = Draft(source)
    _program(draft)
    _dependencies(draft)
    _scheduler(draft)
    for pod in draft.pods:
        pod_of(draft, pod)
    _scheduler_options(draft)
    _number_of_executors(draft)
    _restarts(draft)
    _labels(draft, metadata)
    settings = settings_of(source, (*SPEC, "sparkConf"))
    settings |= settings_of(source, (*SPEC, "hadoopConf"), "spark.hadoop.")
    translate(draft, settings)
    for pod in draft.pods:
        template_of(draft, pod)
    volumes_of(draft)
    ui.of_kubeflow(draft, (*SPEC, "sparkUIOptions"))
    draft.finish(places, DEFAULT_EXECUTORS)
    old_state(draft)
    for field, message in DROPPED.items():
        source.dropped((*SPEC, field), message)
    for field, message in UNNEEDED.items():
        source.unneeded((*SPEC, field), message)
    return name, metadata, draft


def _program(draft: Draft) -> None:
    source = draft.source
    file: Path = (*SPEC, "mainApplicationFile")
    if not source.get(file):
        raise Refused("it has no mainApplicationFile", remedy="Name the script")
    draft.keep(file, "application.file", file_of(str(source.get(file))))
    arguments = [values.string(a) for a in source.get((*SPEC, "arguments"), [])]
    draft.keep((*SPEC, "arguments"), "application.args", arguments)
    for field in ("image", "imagePullPolicy", "suspend"):
        path: Path = (*SPEC, field)
        if source.get(path) not in (None, ""):
            draft.keep(path, field, source.get(path))
    if source.get((*SPEC, "imagePullSecrets")):
        secrets = [{"name": name} for name in source.get((*SPEC, "imagePullSecrets"))]
        draft.keep((*SPEC, "imagePullSecrets"), "imagePullSecrets", secrets)
    version(source, (*SPEC, "sparkVersion"))
    if source.get((*SPEC, "pythonVersion")) == "2":
        source.decide("spec.image", "an image with Python 3.10 or newer: the old one had Python 2")
    source.unneeded((*SPEC, "pythonVersion"), "the image's own Python is used")
    overhead: Path = (*SPEC, "memoryOverheadFactor")
    if source.get(overhead):
        both = factor(driver=True, executors=True)
        both(Setting(draft, "", values.string(source.get(overhead)), overhead))
    metrics: Path = (*SPEC, "monitoring", "metricsPropertiesFile")
    if source.get(metrics):
        draft.setting(metrics, "spark.metrics.conf", source.get(metrics))
    for pod in draft.pods:
        for child in source.children((*SPEC, "nodeSelector")):
            pod.set("nodeSelector", {str(child[-1]): source.get(child)}, child)


def _dependencies(draft: Draft) -> None:
    source = draft.source
    for kind in ("jars", "packages", "excludePackages", "repositories", "pyFiles", "files"):
        draft.dependencies((*SPEC, "deps", kind), kind)
    archives: Path = (*SPEC, "deps", "archives")
    if source.get(archives):
        difference = "Spark fetches archives itself, when the script makes its session"
        draft.setting(archives, "spark.archives", ",".join(source.get(archives)), difference)
    for field, volume, folder, variable in (
        ("sparkConfigMap", "spark-conf", "/etc/spark/conf", "SPARK_CONF_DIR"),
        ("hadoopConfigMap", "hadoop-conf", "/etc/hadoop/conf", "HADOOP_CONF_DIR"),
    ):
        path: Path = (*SPEC, field)
        if source.get(path):
            config_map(draft, path, source.get(path), volume, folder, variable)


def _number_of_executors(draft: Draft) -> None:
    source, numbers = draft.source, draft.numbers
    instances: Path = (*SPEC, "executor", "instances")
    if source.get(instances) is not None:
        numbers.say("instances", source.get(instances), instances)
    at: Path = (*SPEC, "dynamicAllocation")
    enabled: Path = (*at, "enabled")
    if source.get(enabled) is not None:
        numbers.decided, numbers.dynamic = True, bool(source.get(enabled))
        source.kept(enabled, "spec.executor.dynamicAllocation")
    for name in ("min", "max", "initial"):
        path: Path = (*at, f"{name}Executors")
        if source.get(path) is not None:
            numbers.say(name, source.get(path), path)
    for field in ("shuffleTrackingEnabled", "shuffleTrackingTimeout"):
        message = "an executor that is removed moves its shuffle files to others, so nothing is tracked"
        source.dropped((*at, field), message)


def _restarts(draft: Draft) -> None:
    source = draft.source
    at: Path = (*SPEC, "restartPolicy")
    policy: Path = (*at, "type")
    kind = source.get(policy)
    retries: Path = (*at, "onFailureRetries")
    interval: Path = (*at, "onFailureRetryInterval")
    for field in ("onSubmissionFailureRetries", "onSubmissionFailureRetryInterval"):
        source.unneeded((*at, field), "nothing is submitted: the controller makes the pod, until it can")
    if kind is None or kind == "Never":
        never(draft, policy, at)
        return
    draft.put("restart.policy", "OnFailure")
    if kind == "Always":
        draft.put("restart.limit", RESTARTS_MOST)
        message = "OnFailure, with the highest limit: a stream whose script has ended with 0 is Finished"
        source.changed(policy, "spec.restart.policy", message)
        source.unneeded(retries, "the policy Always has no limit")
    source.kept(policy, "spec.restart.policy")
    if kind == "OnFailure" and source.get(retries) is not None:
        limit = values.number(source.get(retries), "spec.restartPolicy.onFailureRetries")
        draft.put("restart.limit", min(limit, RESTARTS_MOST))
        message = "ten minutes of running reset the count"
        source.changed(retries, "spec.restart.limit", message)
    elif kind == "OnFailure":
        source.default("spec.restart.limit", "10; without onFailureRetries there was no restart at all")
    if source.get(interval) is not None:
        time = values.number(source.get(interval), "spec.restartPolicy.onFailureRetryInterval")
        draft.put("restart.backoff", backoff(time))
        source.changed(
            interval, "spec.restart.backoff", "it doubles with each failure, instead of growing by itself"
        )


def _scheduler(draft: Draft) -> None:
    source = draft.source
    path: Path = (*SPEC, "batchScheduler")
    scheduler = source.get(path)
    if scheduler:
        for pod in draft.pods:
            pod.set("schedulerName", scheduler, path, source_is=GANG)


def _scheduler_options(draft: Draft) -> None:
    source = draft.source
    scheduler = source.get((*SPEC, "batchScheduler"))
    options: Path = (*SPEC, "batchSchedulerOptions")
    queue: Path = (*options, "queue")
    if source.get(queue):
        _queue(draft, scheduler, queue)
    priority: Path = (*options, "priorityClassName")
    if source.get(priority):
        for pod in draft.pods:
            pod.set("priorityClassName", source.get(priority), priority)
    source.dropped((*options, "resources"), GANG)


def _queue(draft: Draft, scheduler: Any, path: Path) -> None:
    value = draft.source.get(path)
    for pod in draft.pods:
        if scheduler == "yunikorn":
            pod.label("yunikorn.apache.org/queue", value, path)
        else:
            pod.annotation("scheduling.volcano.sh/queue-name", value, path)


def _labels(draft: Draft, metadata: Obj) -> None:
    """The Kubeflow operator gives the labels of the object to its pods. StreamJob's pods have their own of
    `app.kubernetes.io`.
    """
    for key, value in metadata.get("labels", {}).items():
        for pod in draft.pods if not key.startswith(RECOMMENDED) else ():
            pod.label(key, value, ("metadata", "labels", key))
