"""What a check of a job needs: the job as it would be, its configuration, and the pod that checks it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ...protocol.formats import codec
from ...protocol.formats import index as indices
from ...protocol.formats.records import JobRef
from ...protocol.messages.driver_config import Application, Deps, DriverConfig, Restore
from . import tool_pod
from .job import Job, Obj

INDEX = "/var/run/streamjob-index"
LOG = "/tmp/streamjob-check.log"  # noqa: S108  of the pod
LINES = 30  # of the log, if the script could not be checked
# What a check goes by. The rest of the specification says how the job runs, not what it continues from.
CHECKED = frozenset(
    {
        "application", "deps", "driver", "image", "imagePullPolicy", "imagePullSecrets", "restoreFrom",
        "runtime", "sparkConf", "storage",
    }
)  # fmt: skip


def changed(job: Job, spec: Obj) -> Job:
    """The job with another specification."""
    return replace(job, obj={**job.obj, "spec": spec}, image=spec.get("image", job.image))


def not_checked(before: Obj, after: Obj) -> list[str]:
    """The changed fields that a check does not look at."""
    others = (before.keys() | after.keys()) - CHECKED
    return sorted(key for key in others if before.get(key) != after.get(key))


def config(job: Job) -> DriverConfig:
    """As the controller gives it to a driver. What the job continues from is in the index."""
    spec, begin = job.spec, job.spec.get("restoreFrom") or {}
    application, root = spec.get("application") or {}, (spec.get("storage") or {}).get("checkpoints", "")
    return DriverConfig(
        job=JobRef(job.namespace, job.name, job.uid),
        epoch=int((job.obj.get("status") or {}).get("epoch") or 0) + 1,
        application=Application(
            application.get("file"), application.get("module"), tuple(application.get("args") or ())
        ),
        checkpoints=f"{root.rstrip('/')}/{job.folder}",
        restore=Restore(
            savepoint=begin.get("savepoint"),
            allow_drained=bool(begin.get("allowDrained")),
            checkpoints=dict(begin.get("checkpoints") or {}),
            allow_non_restored_state=bool(begin.get("allowNonRestoredState")),
        ),
        spark_conf={key: str(value) for key, value in (spec.get("sparkConf") or {}).items()},
        deps=Deps(**{_snake(key): tuple(value) for key, value in (spec.get("deps") or {}).items()}),
    )


def _snake(key: str) -> str:
    return re.sub("([A-Z])", r"_\1", key).lower()


def pod(job: Job, made: dict[str, Any]) -> dict[str, Any]:
    """The pod of a tool, for a check: it has the configuration and the index, and may only read the job's
    volumes.

    :param made: as `tool_pod.pod` makes it.
    """
    (container,) = made["spec"]["containers"]
    mounted = {m["mountPath"] for m in (job.spec.get("storage") or {}).get("volumeMounts") or ()}
    mounts = [{**m, "readOnly": True} if m["mountPath"] in mounted else m for m in container["volumeMounts"]]
    index = {"name": "streamjob-index", "mountPath": INDEX, "readOnly": True}
    volume = {"name": "streamjob-index", "configMap": {"name": job.index, "optional": True}}
    variables = [
        {"name": "STREAMJOB_CONFIG", "value": codec.dumps(config(job))},
        {"name": "STREAMJOB_INDEX", "value": f"{INDEX}/{indices.KEY}"},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]
    container = {**container, "env": [*container["env"], *variables], "volumeMounts": [*mounts, index]}
    volumes = [*made["spec"]["volumes"], volume]
    return {**made, "spec": {**made["spec"], "containers": [container], "volumes": volumes}}


def command(job: Job, words: list[str], width: int) -> list[str]:
    """The command line of the check. What the script says is shown if it could not be checked."""
    text = f'COLUMNS={width} "$@" 2>{LOG}; code=$?; [ $code != 2 ] || tail -n {LINES} {LOG} >&2; exit $code'
    return ["/bin/sh", "-c", text, "sh", *tool_pod.start(job), "check", *words]
