"""A default storage class with a fixed number of volumes, which are folders of this machine."""

import json
from typing import Any

from dev.cluster.commands import run
from dev.cluster.layout import Layout

CLASS = "folders"
NUMBER = 4
SIZE = "5Gi"


def make(layout: Layout) -> None:
    """Make the class and its volumes. A volume that was released is not used again: `down` removes it."""
    objects = layout.config / "volumes.json"
    objects.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": _objects(layout)}))
    run(layout.bin / "kubectl", "--kubeconfig", layout.kubeconfig, "apply", "-f", objects)


def _objects(layout: Layout) -> list[Any]:
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    of_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS, "annotations": default},
        "provisioner": "kubernetes.io/no-provisioner",
        "reclaimPolicy": "Retain",
    }
    return [of_class, *(_volume(layout, f"{CLASS}-{number}") for number in range(1, NUMBER + 1))]


def _volume(layout: Layout, name: str) -> Any:
    folder = layout.volumes / name
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)  # the pods' users do not exist on this machine
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": CLASS,
            "capacity": {"storage": SIZE},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(folder)},
        },
    }
