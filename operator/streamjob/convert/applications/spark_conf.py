"""Spark's settings, key by key.

Those of spark-submit about the driver's pod have no effect in a StreamJob, whose driver is not submitted.
They become fields. What Spark itself reads stays a setting.
"""

from __future__ import annotations

from ...api.program import SECRET_BEGINNINGS, SECRET_ENDS
from .. import values
from ..draft import Draft
from ..pods import CREDENTIAL
from ..source import Obj, Path, Source
from .settings import (
    CLAIMS,
    NO_SERVICE,
    NOT_SUBMITTED,
    OPERATORS,
    TEMPLATE_FILE,
    Rule,
    Setting,
    both,
    changed,
    dependencies,
    dropped,
    dynamic,
    factor,
    field,
    image_of,
    kept,
    location,
    named_hadoop_config,
    number,
    of_pod,
    overhead,
    pull_secrets,
    secret_mount,
    secret_variable,
    unneeded,
)

LOCATION = "spark.sql.streaming.checkpointLocation"
# What stays a setting although its beginning suggests something else.
STAYS = (
    "spark.kubernetes.driver.connectionTimeout",
    "spark.kubernetes.driver.requestTimeout",
    "spark.kubernetes.driver.reusePersistentVolumeClaim",
)
EXACT: dict[str, Rule] = {
    **dict.fromkeys(STAYS, kept),
    "spark.master": unneeded(OPERATORS),
    "spark.submit.deployMode": unneeded("the driver always runs in a pod of its own"),
    "spark.remote": dropped("a StreamJob's script has the session in its own process, not by Spark Connect"),
    "spark.api.mode": dropped(
        "a StreamJob's script has the session in its own process, not by Spark Connect"
    ),
    "spark.driver.host": unneeded(OPERATORS),
    "spark.driver.bindAddress": unneeded(OPERATORS),
    "spark.app.id": unneeded("each driver has an id of its own"),
    "spark.driver.memory": field("driver.memory"),
    "spark.driver.cores": field("driver.cores"),
    "spark.executor.memory": field("executor.memory"),
    "spark.executor.cores": field("executor.cores"),
    "spark.executor.instances": number("instances"),
    "spark.driver.memoryOverhead": overhead,
    "spark.driver.memoryOverheadFactor": factor(driver=True, executors=False),
    "spark.kubernetes.memoryOverheadFactor": factor(driver=True, executors=True),
    "spark.dynamicAllocation.enabled": dynamic,
    "spark.dynamicAllocation.minExecutors": number("min"),
    "spark.dynamicAllocation.maxExecutors": number("max"),
    "spark.dynamicAllocation.initialExecutors": number("initial"),
    "spark.dynamicAllocation.executorIdleTimeout": number("idle"),
    "spark.jars": dependencies("jars"),
    "spark.jars.packages": dependencies("packages"),
    "spark.jars.excludes": dependencies("excludePackages"),
    "spark.jars.repositories": dependencies("repositories"),
    "spark.submit.pyFiles": dependencies("pyFiles"),
    "spark.files": dependencies("files"),
    "spark.kubernetes.namespace": unneeded("the job's own namespace"),
    "spark.kubernetes.container.image": field("image"),
    "spark.kubernetes.container.image.pullPolicy": field("imagePullPolicy"),
    "spark.kubernetes.container.image.pullSecrets": pull_secrets,
    "spark.kubernetes.driver.container.image": image_of("driver"),
    "spark.kubernetes.executor.container.image": image_of("executor"),
    "spark.kubernetes.driver.request.cores": field("driver.cores"),
    "spark.kubernetes.driver.pod.name": dropped("the driver's pod is called NAME-driver-EPOCH"),
    "spark.kubernetes.executor.podNamePrefix": dropped("it is NAME-EPOCH"),
    "spark.kubernetes.driver.podTemplateFile": dropped(TEMPLATE_FILE.format(role="driver")),
    "spark.kubernetes.executor.podTemplateFile": dropped(TEMPLATE_FILE.format(role="executor")),
    "spark.kubernetes.driver.podTemplateContainerName": unneeded("the container is called driver"),
    "spark.kubernetes.executor.podTemplateContainerName": unneeded("the container is called executor"),
    "spark.kubernetes.driver.ownPersistentVolumeClaim": dropped(
        "claims that later executors take over need permissions that the chart does not give"
    ),
    "spark.kubernetes.driver.waitToReusePersistentVolumeClaim": dropped(
        "claims that later executors take over need permissions that the chart does not give"
    ),
    "spark.kubernetes.driver.annotateExitException": unneeded("the status says why a driver ended"),
    "spark.kubernetes.driver.master": unneeded(OPERATORS),
    "spark.kubernetes.authenticate.driver.serviceAccountName": field("driver.serviceAccountName"),
    "spark.kubernetes.authenticate.serviceAccountName": field("driver.serviceAccountName"),
    "spark.kubernetes.scheduler.name": both("schedulerName"),
    "spark.kubernetes.driver.scheduler.name": of_pod(
        "driver", lambda pod, s: pod.set("schedulerName", s.value, s.path)
    ),
    "spark.kubernetes.pyspark.pythonVersion": unneeded("the image's own Python is used"),
    "spark.kubernetes.hadoop.configMapName": named_hadoop_config,
    "spark.kubernetes.file.upload.path": unneeded("nothing is uploaded: spec.deps names files by URI"),
    "spark.kubernetes.report.interval": unneeded(NOT_SUBMITTED),
    "spark.kubernetes.appKillPodDeletionGracePeriod": unneeded(NOT_SUBMITTED),
    "spark.kubernetes.jars.avoidDownloadSchemes": unneeded(NOT_SUBMITTED),
    LOCATION: location,
}
PREFIX: dict[str, Rule] = {
    "spark.dynamicAllocation.shuffleTracking.": dropped(
        "an executor that is removed moves its shuffle files to others, so nothing is tracked"
    ),
    "spark.kubernetes.driver.label.": of_pod("driver", lambda pod, s: pod.label(s.rest, s.value, s.path)),
    "spark.kubernetes.driver.annotation.": of_pod(
        "driver", lambda pod, s: pod.annotation(s.rest, s.value, s.path)
    ),
    "spark.kubernetes.driverEnv.": of_pod(
        "driver", lambda pod, s: pod.variable({"name": s.rest, "value": s.value}, s.path, unless_set=True)
    ),
    "spark.kubernetes.driver.secretKeyRef.": of_pod("driver", secret_variable),
    "spark.kubernetes.driver.secrets.": of_pod("driver", secret_mount),
    "spark.kubernetes.driver.node.selector.": of_pod(
        "driver", lambda pod, s: pod.set("nodeSelector", {s.rest: s.value}, s.path)
    ),
    "spark.kubernetes.node.selector.": both("nodeSelector"),
    "spark.kubernetes.driver.service.": unneeded(NO_SERVICE),
    "spark.kubernetes.submission.": unneeded(NOT_SUBMITTED),
    "spark.kubernetes.authenticate.submission.": unneeded(NOT_SUBMITTED),
    "spark.kubernetes.authenticate.driver.": dropped(
        "the driver uses its pod's own service account: spec.driver.serviceAccountName"
    ),
    "spark.kubernetes.kerberos.": dropped(
        "spark-submit logs in and mounts the configuration: mount it with spec.driver.template and "
        "spec.executor.template, and let the script log in"
    ),
    "spark.kubernetes.driver.": dropped(f"{NOT_SUBMITTED}: see spec.driver.template"),
    "spark.streaming.": changed(
        "a setting of DStreams, which StreamJob neither stops nor saves; it is for Structured Streaming"
    ),
}
VOLUMES = "spark.kubernetes.driver.volumes."
LIMIT_CORES = "spark.kubernetes.driver.limit.cores"
SOURCES = {"hostPath", "emptyDir", "nfs", "persistentVolumeClaim"}


def is_credential(key: str) -> bool:
    return key.endswith(SECRET_ENDS) or key.startswith(SECRET_BEGINNINGS)


def translate(draft: Draft, settings: dict[str, tuple[str, Path]]) -> None:
    """Give the draft what the settings say, where no field of the resource has said it.

    :param settings: by key; and where each comes from.
    """
    _volumes(draft, {k: v for k, v in settings.items() if k.startswith(VOLUMES)})
    # What the pod requests comes before what the JVM is told.
    for key in sorted(settings, key=lambda k: (".request." not in k, k)):
        value, path = settings[key]
        if not key.startswith(VOLUMES):
            _rule(draft, key, value, path)


def _rule(draft: Draft, key: str, value: str, path: Path) -> None:
    source = draft.source
    if is_credential(key):
        source.dropped(path, f"{CREDENTIAL} (application.env), or use the pod's identity")
        source.decide("spec.application.env", f"where {key} comes from")
    elif key in EXACT:
        EXACT[key](Setting(draft, key, value, path))
    elif key == LIMIT_CORES:
        draft.driver.amount("limits", "cpu", value)
        source.kept(path, "spec.driver.template: the container's resources")
    elif key.endswith(".options.claimName") and value == "OnDemand":
        draft.setting(path, key, value, CLAIMS)
    else:
        prefix = next((p for p in PREFIX if key.startswith(p)), "")
        rule = PREFIX[prefix] if prefix else kept
        rule(Setting(draft, key, value, path, key[len(prefix) :] if prefix else ""))


def _volumes(draft: Draft, settings: dict[str, tuple[str, Path]]) -> None:
    """`spark.kubernetes.driver.volumes.TYPE.NAME.mount.path`, `.mount.readOnly`, `.options.…`."""
    found: dict[tuple[str, str], dict[str, tuple[str, Path]]] = {}
    for key, entry in settings.items():
        kind, name, *rest = key.removeprefix(VOLUMES).split(".")
        found.setdefault((kind, name), {})[".".join(rest)] = entry
    for (kind, name), parts in found.items():
        paths = tuple(path for _, path in parts.values())
        mount: Obj = {}
        options: Obj = {}
        for part, (value, _) in parts.items():
            group, _, option = part.partition(".")
            into = mount if group == "mount" else options
            into[option] = values.truth(value) if option == "readOnly" else value
        if kind not in SOURCES or "path" not in mount:
            for path in paths:
                draft.source.dropped(path, "no kind of volume that Spark has, or no mount.path")
            continue
        mount["mountPath"] = mount.pop("path")
        volume = {"name": name, kind: options}
        if options.get("claimName") == "OnDemand":
            volume = {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": _claim(options)}}}
        draft.volumes.mount(draft.driver, volume, mount, *paths)


def _claim(options: Obj) -> Obj:
    claim: Obj = {"accessModes": ["ReadWriteOnce"]}
    if "storageClass" in options:
        claim["storageClassName"] = options["storageClass"]
    claim["resources"] = {"requests": {"storage": options.get("sizeLimit", "1Gi")}}
    return claim


def settings_of(source: Source, path: Path, prefix: str = "") -> dict[str, tuple[str, Path]]:
    """The settings in an object of the input."""
    return {
        prefix + str(child[-1]): (values.string(source.get(child)), child)
        for child in source.children(path)
        if source.get(child) is not None
    }
