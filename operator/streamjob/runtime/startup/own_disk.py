"""Refuses checkpoints and savepoints on the pod's own disk: they would be lost with the pod."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ...protocol.errors import StreamJobError
from ...protocol.messages.driver_config import DriverConfig
from ...storage.local_disk import path_of

IN_POD = "POD_NAME"  # the controller sets this variable
# The container's own files; and an emptyDir that the controller mounts.
OWN = (Path("/"), Path("/tmp"))  # noqa: S108


class StorageNotOnVolume(StreamJobError):
    reason = "StorageNotOnVolume"


def refuse_own_disk(settings: DriverConfig, environment: Mapping[str, str]) -> None:
    """Check the places that are on a file system of the machine. Nothing need be there yet.

    :raises StorageNotOnVolume: one of them is on no volume of the pod.
    """
    if IN_POD not in environment:
        return
    for field, uri in (("checkpoints", settings.checkpoints), ("savepoints", settings.eviction_savepoint)):
        if uri and _is_local(uri, settings, environment) and mount_point(path_of(uri)) in OWN:
            raise StorageNotOnVolume(
                f"spec.storage.{field} is on no volume: {uri} would be lost with the driver's pod",
                remedy="Mount a volume there with spec.storage.volumes and spec.storage.volumeMounts, or "
                f"correct spec.storage.{field}",
            )


def mount_point(path: Path) -> Path:
    """The mount point of the file system on which this path is, or will be. Links are followed."""
    path = Path(os.path.realpath(path))
    while not os.path.ismount(path) and path != path.parent:
        path = path.parent
    return path


def _is_local(uri: str, settings: DriverConfig, environment: Mapping[str, str]) -> bool:
    """A path without a scheme is on Hadoop's default file system, which the job or its image may set."""
    elsewhere = "spark.hadoop.fs.defaultFS" in settings.spark_conf or "HADOOP_CONF_DIR" in environment
    return uri.startswith("file:") or (uri.startswith("/") and not elsewhere)
