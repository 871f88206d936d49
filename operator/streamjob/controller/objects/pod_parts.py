"""What the pods of drivers and executors have in common: volumes and security contexts."""

from __future__ import annotations

from ...api.storage import Storage
from . import Obj

USER = 10001


def volumes_and_mounts(storage: Storage) -> tuple[list[Obj], list[Obj]]:
    return [v.plain() for v in storage.volumes], [m.plain() for m in storage.volume_mounts]


def pod_security() -> Obj:
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Obj:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
