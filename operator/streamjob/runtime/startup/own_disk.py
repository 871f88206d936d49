"""Refuses checkpoints and savepoints on the pod's own disk: they would be lost with the pod."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ...protocol.errors import StreamJobError
from ...protocol.messages.driver_config import DriverConfig
from ...storage.local_disk import path_of

IN_POD = "POD_NAME"  # the controller sets this variable
# The container's own files; and an emptyDir that the controller mounts.
OWN = (Path("/"), Path("/tmp"))  # noqa: S108
MOUNTS = Path("/proc/self/mountinfo")


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


def mount_point(path: Path, mounts: str | None = None) -> Path:
    """The mount point below which this path is, or will be. Links are followed.

    `os.path.ismount` does not see a volume that is on the same disk as what it is mounted in.

    :param mounts: as proc(5) describes `/proc/self/mountinfo`, which is read if this is None.
    """
    text = MOUNTS.read_text() if mounts is None else mounts
    points = {Path(_unescaped(line.split(" ")[4])) for line in text.splitlines()}
    path = Path(os.path.realpath(path))
    return next((place for place in (path, *path.parents) if place in points), Path("/"))


def _unescaped(field: str) -> str:
    """Spaces, tabs, newlines and backslashes are written as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


def _is_local(uri: str, settings: DriverConfig, environment: Mapping[str, str]) -> bool:
    """A path without a scheme is on Hadoop's default file system, which the job or its image may set."""
    elsewhere = "spark.hadoop.fs.defaultFS" in settings.spark_conf or "HADOOP_CONF_DIR" in environment
    return uri.startswith("file:") or (uri.startswith("/") and not elsewhere)
