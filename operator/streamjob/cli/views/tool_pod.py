"""A pod that reads a job's storage: its image, volumes, variables and account are those of the driver."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from .events import Event
from .job import Job
from .pods import COMPONENT, container_statuses, reasons_to_wait

CONTAINER = "driver"
RUNTIME_FOLDER = "/opt/streamjob"
LAUNCHER = f"{RUNTIME_FOLDER}/driver.sh"
RUNTIMES = f"{COMPONENT}=runtime"
MEMORY, MEMORY_OF_SPARK = "768Mi", "2Gi"  # of Java without and with a Spark session
LIFETIME = 3600  # seconds; then Kubernetes ends it, whatever has become of us
_KEPT = (
    "nodeSelector", "affinity", "tolerations", "priorityClassName", "runtimeClassName", "schedulerName",
    "securityContext", "hostAliases", "dnsPolicy", "dnsConfig", "volumes", "initContainers",
)  # fmt: skip


def command(job: Job, words: Sequence[str]) -> list[str]:
    """The command line of `python -m streamjob.runtime WORDS` in a pod of the job.

    Settings of file systems are those of the job.
    """
    settings = job.spec.get("sparkConf") or {}
    conf = [
        word
        for key, value in sorted(settings.items())
        if key.startswith("spark.hadoop.")
        for word in ("--conf", f"{key}={value}")
    ]
    return [*start(job), *words, *conf]


def start(job: Job) -> list[str]:
    """The command line of `python -m streamjob.runtime` in a pod of the job."""
    return ["python", "-m", "streamjob.runtime"] if _has_package(job) else ["/bin/sh", LAUNCHER]


def pod(job: Job, name: str, runtime: str | None, *, memory: str) -> dict[str, Any]:
    """The pod. It only waits; what it has to do is started in it.

    :param runtime: the ConfigMap with the runtime, None if the image has it.
    """
    spec = job.spec
    driver = spec.get("driver") or {}
    template = copy.deepcopy((driver.get("template") or {}).get("spec") or {})
    own: dict[str, Any] = next(
        (c for c in template.get("containers") or () if c.get("name") == CONTAINER), {}
    )
    storage, application = spec.get("storage") or {}, spec.get("application") or {}
    packaged = _has_package(job)
    mounts = [{"name": "streamjob-tmp", "mountPath": "/tmp"}, *(storage.get("volumeMounts") or ())]  # noqa: S108
    volumes = [{"name": "streamjob-tmp", "emptyDir": {}}, *(storage.get("volumes") or ())]
    if runtime is not None:
        mounts.append({"name": "streamjob-runtime", "mountPath": RUNTIME_FOLDER, "readOnly": True})
        volumes.append({"name": "streamjob-runtime", "configMap": {"name": runtime, "defaultMode": 0o444}})
    container = {
        "name": CONTAINER,
        "image": spec.get("image"),
        "command": ["/bin/sh", "-c", f"trap 'exit 0' TERM; sleep {LIFETIME} & wait"],
        "env": [
            *(own.get("env") or ()),
            *(application.get("env") or ()),
            *([{"name": "HOME", "value": "/tmp"}] if packaged else ()),  # noqa: S108
        ],
        "envFrom": [*(own.get("envFrom") or ()), *(application.get("envFrom") or ())],
        "volumeMounts": _merged(own.get("volumeMounts") or (), mounts, "mountPath"),
        "resources": {"requests": {"cpu": "100m", "memory": memory}, "limits": {"memory": memory}},
        "securityContext": own.get("securityContext")
        or {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            **({"readOnlyRootFilesystem": True} if packaged else {}),
        },
    }
    if spec.get("imagePullPolicy"):
        container["imagePullPolicy"] = spec["imagePullPolicy"]
    kept = {key: template[key] for key in _KEPT if template.get(key)}
    group = 10001 if packaged else 185
    security = {
        "fsGroup": group,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if packaged:
        security |= {"runAsNonRoot": True, "runAsUser": group, "runAsGroup": group}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": {
                "app.kubernetes.io/name": "streamjob-tool",
                "app.kubernetes.io/instance": job.name,
                "app.kubernetes.io/part-of": "streamjob",
                COMPONENT: "tool",
            },
            # With the job it goes, too, if nobody else removes it.
            "ownerReferences": [
                {
                    "apiVersion": job.obj.get("apiVersion", "streamjob.dev/v1alpha1"),
                    "kind": "StreamJob",
                    "name": job.name,
                    "uid": job.uid,
                }
            ],
        },
        "spec": {
            **kept,
            "securityContext": {**security, **(kept.get("securityContext") or {})},
            "volumes": _merged(kept.get("volumes") or (), volumes, "name"),
            "containers": [container],
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LIFETIME,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            **(
                {"serviceAccountName": driver["serviceAccountName"]}
                if driver.get("serviceAccountName")
                else {}
            ),
            **({"imagePullSecrets": list(spec["imagePullSecrets"])} if spec.get("imagePullSecrets") else {}),
        },
    }


def needs_runtime(job: Job) -> bool:
    """Whether the pod needs the operator's ConfigMap with the runtime."""
    return not _has_package(job)


def newest(config_maps: Sequence[dict[str, Any]]) -> str | None:
    """The name of the newest ConfigMap with a runtime."""
    metas = [c.get("metadata") or {} for c in config_maps]
    return max(metas, key=lambda m: m.get("creationTimestamp") or "", default={}).get("name")


def waits_for(found: dict[str, Any], told: Sequence[Event]) -> str:
    """What a pod that does not run yet waits for, most particular first.

    :param told: its Events, oldest first.
    """
    status = found.get("status") or {}
    for reason, message in reasons_to_wait(container_statuses(found)):
        what = "its image" if "Image" in reason else "its container"
        return f"{what} ({f'{reason}: {message}'.rstrip(': ')})"
    last = told[-1] if told else None
    if last is not None and last.warning:
        what = "a node" if last.reason == "FailedScheduling" else "its container"
        return f"{what} ({last.reason}: {' '.join(last.message.split())})"
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("status") == "False":
        return f"a node ({scheduled.get('reason')}: {scheduled.get('message', '')})"
    if not scheduled and not (found.get("spec") or {}).get("nodeName"):
        return "a node"
    if last is not None and last.reason == "Pulling":
        return f"its image ({last.message})"
    inits = status.get("initContainerStatuses") or ()
    init = next((s.get("name") for s in inits if "running" in (s.get("state") or {})), None)
    return f"its init container {init}" if init else "its container to start"


def _has_package(job: Job) -> bool:
    return job.spec.get("runtime") == "Image"


def _merged(first: Sequence[Any], second: Sequence[Any], key: str) -> list[Any]:
    return list({entry.get(key): entry for entry in [*first, *second]}.values())
