"""What the pods of drivers and executors have in common: volumes, the runtime, security contexts."""

from __future__ import annotations

from dataclasses import dataclass

from ...api import Runtime
from ...api.storage import Storage
from . import Obj, runtime_files

USER = 10001  # of our own images
GROUP = 185  # of Spark's own images
RUNTIME_VOLUME, RUNTIME_FOLDER = "streamjob-runtime", "/opt/streamjob"


@dataclass(frozen=True)
class Platform:
    """What the cluster does to pods by itself.

    :param assigns_users: it chooses the users and groups of pods, and refuses those that ask for others
        (OpenShift's default).
    """

    assigns_users: bool = False


VANILLA = Platform()


def volumes_and_mounts(storage: Storage) -> tuple[list[Obj], list[Obj]]:
    return [v.plain() for v in storage.volumes], [m.plain() for m in storage.volume_mounts]


def runtime_volume(runtime: Runtime) -> tuple[list[Obj], list[Obj]]:
    """Build the volume that holds the runtime, and its mount; none if the image has it."""
    if runtime is Runtime.IMAGE:
        return [], []
    source = {"name": runtime_files.name(), "defaultMode": 0o444}
    mount = {"name": RUNTIME_VOLUME, "mountPath": RUNTIME_FOLDER, "readOnly": True}
    return [{"name": RUNTIME_VOLUME, "configMap": source}], [mount]


def pod_security(runtime: Runtime, platform: Platform) -> Obj:
    """Build the pod's security context.

    An image that is not ours knows its user, perhaps by name only, which the kubelet cannot compare with
    root. It gets no user from us, only a group that may write to its volumes.
    """
    user: Obj = {"runAsUser": USER, "runAsGroup": USER} if runtime is Runtime.IMAGE else {}
    group = USER if runtime is Runtime.IMAGE else GROUP
    own: Obj = {} if platform.assigns_users else {**user, "fsGroup": group}
    return {
        **({"runAsNonRoot": True} if runtime is Runtime.IMAGE else {}),
        **own,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security(runtime: Runtime) -> Obj:
    """Build the container's security context. Only of our own image we know where it writes."""
    read_only: Obj = {"readOnlyRootFilesystem": True} if runtime is Runtime.IMAGE else {}
    return {"allowPrivilegeEscalation": False, **read_only, "capabilities": {"drop": ["ALL"]}}
