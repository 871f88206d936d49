"""The pods of Kubeflow's SparkApplications: `spec.driver`, `spec.executor` and `spec.volumes`."""

from __future__ import annotations

from .. import values
from ..draft import Draft
from ..pods import LIFECYCLE, SPARK_CONTAINERS, Pod
from ..source import EMPTY, Path, Source, text
from .policies import grace_period
from .settings import NO_SERVICE, one_image

SPEC: Path = ("spec",)
IGNORED = "the Kubeflow operator ignores the field if there is a template; here both apply"
# Fields that driver and executor have, and the field of the pod's spec that each becomes.
POD_FIELDS = {
    "affinity": "affinity",
    "dnsConfig": "dnsConfig",
    "hostAliases": "hostAliases",
    "initContainers": "initContainers",
    "nodeSelector": "nodeSelector",
    "podSecurityContext": "securityContext",
    "priorityClassName": "priorityClassName",
    "schedulerName": "schedulerName",
    "shareProcessNamespace": "shareProcessNamespace",
    "tolerations": "tolerations",
}
CONTAINER_FIELDS = ("ports", "securityContext")
CREDENTIAL_FILES = {
    "GCPServiceAccount": ("GOOGLE_APPLICATION_CREDENTIALS", "key.json"),
    "HadoopDelegationToken": ("HADOOP_TOKEN_FILE_LOCATION", "hadoop.token"),
}


def pod_of(draft: Draft, pod: Pod) -> None:
    source, role = draft.source, pod.role
    at: Path = (*SPEC, role)
    ignored = IGNORED if source.get((*at, "template")) else ""
    one_image(draft, (*at, "image"), role)
    for field, to in POD_FIELDS.items():
        path: Path = (*at, field)
        if source.get(path) not in EMPTY:
            pod.set(to, source.get(path), path, source_is=ignored)
    for field in CONTAINER_FIELDS:
        path = (*at, field)
        if source.get(path) not in EMPTY:
            pod.set_in_container(field, source.get(path), path, source_is=ignored)
    network: Path = (*at, "hostNetwork")
    if source.get(network):
        pod.set("hostNetwork", True, network, source_is=ignored)
        pod.spec.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
    source.unneeded(network, "pods have a network of their own by default")
    for child in source.children((*at, "sidecars")):
        pod.sidecar(source.get(child), child)
    for field in ("labels", "annotations"):
        for child in source.children((*at, field)):
            getattr(pod, field.removesuffix("s"))(str(child[-1]), source.get(child), child)
    _variables(source, pod, at)
    _mounted_objects(draft, pod, at)
    gpu: Path = (*at, "gpu")
    if source.get(gpu):
        pod.amount("limits", str(source.get((*gpu, "name"))), str(source.get((*gpu, "quantity"))))
        source.kept(gpu, f"spec.{role}.template: the container's resources")
    draft.keep((*at, "memory"), f"{role}.memory", source.get((*at, "memory")))
    (_driver if role == "driver" else _executor)(draft, pod, at)


def template_of(draft: Draft, pod: Pod) -> None:
    template: Path = (*SPEC, pod.role, "template")
    spec: Path = (*template, "spec")
    if pod is draft.driver:
        grace_period(draft, (*spec, "terminationGracePeriodSeconds"))
        account: Path = (*spec, "serviceAccountName")
        draft.keep(account, "driver.serviceAccountName", draft.source.get(account))
    draft.source.unneeded((*spec, "serviceAccount"), "it is the old name of serviceAccountName")
    pod.merge(template, container=SPARK_CONTAINERS[pod.role == "executor"], first=False)


def volumes_of(draft: Draft) -> None:
    source = draft.source
    found: dict[str, Path] = {}
    for child in source.children((*SPEC, "volumes")):
        found[str(source.get((*child, "name")))] = child
    for pod in draft.pods:
        for child in source.children((*SPEC, pod.role, "volumeMounts")):
            name = str(source.get((*child, "name")))
            if name in found:
                draft.volumes.mount(pod, source.get(found[name]), source.get(child), child, found[name])
            elif any(v.get("name") == name for v in pod.spec.get("volumes", ())):
                pod.mount(source.get(child), child)
            else:
                source.dropped(child, f"there is no volume {name}")
    mounted = {one.volume["name"] for one in draft.volumes.mounted}
    for name, path in found.items():
        if name not in mounted:
            source.dropped(path, "no container mounts it")


def _driver(draft: Draft, pod: Pod, at: Path) -> None:
    source = draft.source
    request: Path = (*at, "coreRequest")
    draft.keep(request, "driver.cores", source.get(request))
    cores: Path = (*at, "cores")
    setting: Path = (*SPEC, "sparkConf", "spark.kubernetes.driver.request.cores")
    if source.get(setting) is None or draft.has("driver.cores"):
        draft.keep(cores, "driver.cores", source.get(cores))
    elif source.get(cores) is not None:  # what the pod requests counts, and is kept with the settings
        source.unneeded(cores, f"{text(setting)} overrides it")
    for field, resource in (("coreLimit", "cpu"), ("memoryLimit", "memory")):
        path: Path = (*at, field)
        if source.get(path):
            amount = str(source.get(path))
            whole = f"{values.mebibytes(amount, field)}Mi" if resource == "memory" else amount
            pod.amount("limits", resource, whole)
            source.kept(path, "spec.driver.template: the container's resources")
    overhead: Path = (*at, "memoryOverhead")
    if source.get(overhead):
        draft.overhead = values.mebibytes(source.get(overhead), "spec.driver.memoryOverhead")
        source.kept(overhead, "spec.driver.template: the container's memory")
    account: Path = (*at, "serviceAccount")
    if source.get(account):
        draft.put("driver.serviceAccountName", source.get(account))
        message = "it needs the permissions of the chart's own streamjob-driver: to manage pods"
        source.changed(account, "spec.driver.serviceAccountName", message)
    options: Path = (*at, "javaOptions")
    if source.get(options):
        draft.setting(options, "spark.driver.extraJavaOptions", source.get(options))
    lifecycle: Path = (*at, "lifecycle")
    if source.get(lifecycle):
        pod.set_in_container("lifecycle", source.get(lifecycle), lifecycle)
    grace_period(draft, (*at, "terminationGracePeriodSeconds"))
    source.dropped((*at, "podName"), "the driver's pod is called NAME-driver-EPOCH")
    source.unneeded((*at, "kubernetesMaster"), "the driver uses the API server of its own cluster")
    for field in ("serviceAnnotations", "serviceLabels"):
        source.dropped((*at, field), NO_SERVICE)


def _executor(draft: Draft, pod: Pod, at: Path) -> None:
    source = draft.source
    for field, key in (
        ("coreRequest", "spark.kubernetes.executor.request.cores"),
        ("coreLimit", "spark.kubernetes.executor.limit.cores"),
        ("memoryOverhead", "spark.executor.memoryOverhead"),
        ("javaOptions", "spark.executor.extraJavaOptions"),
        ("deleteOnTermination", "spark.kubernetes.executor.deleteOnTermination"),
        ("serviceAccount", "spark.kubernetes.authenticate.executor.serviceAccountName"),
    ):
        path: Path = (*at, field)
        if source.get(path) is not None:
            draft.setting(path, key, source.get(path))
    draft.keep((*at, "cores"), "executor.cores", source.get((*at, "cores")))
    grace: Path = (*at, "terminationGracePeriodSeconds")
    if source.get(grace) is not None:
        pod.set("terminationGracePeriodSeconds", source.get(grace), grace)
    source.dropped((*at, "lifecycle"), LIFECYCLE)
    source.dropped((*at, "memoryLimit"), "Spark limits an executor to its heap and overhead")


def _variables(source: Source, pod: Pod, at: Path) -> None:
    for child in source.children((*at, "envSecretKeyRefs")):
        reference = {"name": source.get((*child, "name")), "key": source.get((*child, "key"))}
        pod.variable({"name": str(child[-1]), "valueFrom": {"secretKeyRef": reference}}, child)
    for child in source.children((*at, "envVars")):
        pod.variable({"name": str(child[-1]), "value": values.string(source.get(child))}, child)
    for child in source.children((*at, "env")):
        pod.variable(source.get(child), child)
    for child in source.children((*at, "envFrom")):
        if str(source.get((*child, "prefix"), "")).startswith("STREAMJOB_"):
            source.dropped(child, "STREAMJOB_* is set by the operator")
        else:
            pod.set_in_container("envFrom", [source.get(child)], child)


def _mounted_objects(draft: Draft, pod: Pod, at: Path) -> None:
    source = draft.source
    for child in source.children((*at, "configMaps")):
        name, folder = source.get((*child, "name")), source.get((*child, "path"))
        volume = {"name": values.volume_name(f"{name}-vol"), "configMap": {"name": name}}
        draft.volumes.mount(pod, volume, {"mountPath": folder, "readOnly": True}, child)
    for child in source.children((*at, "secrets")):
        name, folder = source.get((*child, "name")), source.get((*child, "path"))
        volume = {"name": values.volume_name(f"{name}-volume"), "secret": {"secretName": name}}
        kind: Path = (*child, "secretType")
        if source.get(kind) in CREDENTIAL_FILES:
            variable, file = CREDENTIAL_FILES[source.get(kind)]
            pod.variable({"name": variable, "value": f"{folder.rstrip('/')}/{file}"}, kind)
        source.unneeded(kind, "it says nothing more than that the Secret is mounted")
        draft.volumes.mount(pod, volume, {"mountPath": folder}, child)
