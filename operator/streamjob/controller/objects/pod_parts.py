"""What the pods of drivers and executors have in common: volumes and security contexts."""

from __future__ import annotations

from ...api import Volume as VolumeSpec
from . import Obj

USER = 10001


def volumes_and_mounts(volumes: tuple[VolumeSpec, ...]) -> tuple[list[Obj], list[Obj]]:
    sources, mounts = [], []
    for volume in volumes:
        plain = volume.plain()
        mounts.append(
            {"name": volume.name, "mountPath": plain.pop("mountPath"), "readOnly": plain.pop("readOnly")}
        )
        sources.append(plain)
    return sources, mounts


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
