"""Refuses checkpoints and savepoints on the pod's own disk: they would be lost with the pod."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from ...protocol.errors import StreamJobError
from ...protocol.messages.driver_config import DriverConfig
from ...protocol.messages.driver_status import Problem
from ...storage.local_disk import path_of

IN_POD = "POD_NAME"  # the controller sets this variable
# The container's own files; an emptyDir that the controller mounts; memory of the container or the pod.
OWN = (Path("/"), Path("/tmp"), Path("/dev"), Path("/dev/shm"))  # noqa: S108
MOUNTS = Path("/proc/self/mountinfo")
OTHERWISE = {
    "checkpoints": "make the StreamJob again with another spec.storage.checkpoints, which cannot change",
    "savepoints": "correct spec.storage.savepoints",
}


class StorageNotOnVolume(StreamJobError):
    reason = "StorageNotOnVolume"


def refuse_own_disk(
    settings: DriverConfig, environment: Mapping[str, str], qualify: Callable[[str], str] = str
) -> None:
    """Check the places that are on a file system of the machine. Nothing need be there yet.

    :param qualify: gives a path without a scheme its file system. The image, its spark-defaults.conf, its
        core-site.xml and the script may set it, so only the JVM knows. Until it says so, such a path passes.

    :raises StorageNotOnVolume: one of them is on no volume of the pod.
    """
    if IN_POD not in environment:
        return
    for field, uri in (("checkpoints", settings.checkpoints), ("savepoints", settings.eviction_savepoint)):
        path = _path_on_own_disk(qualify(uri)) if uri else None
        if path is not None:
            plain = uri in (str(path), f"file:{path}", f"file://{path}")
            where = uri if plain else f"{uri}, which is {path},"
            raise StorageNotOnVolume(
                f"spec.storage.{field} is on no volume: {where} would be lost with the driver's pod",
                remedy="Mount a volume there with spec.storage.volumes and spec.storage.volumeMounts, or "
                + OTHERWISE[field],
            )


def warn_of_own_disk(query: str, uri: str, environment: Mapping[str, str]) -> list[Problem]:
    """Warn of a script's own checkpointLocation that will be lost with the pod. It may be meant so.

    :param uri: qualified.
    """
    path = _path_on_own_disk(uri) if IN_POD in environment else None
    if path is None:
        return []
    text = f"the checkpointLocation of query {query!r} is on no volume: {path} is lost with the driver's pod"
    remedy = "Remove the option checkpointLocation, or mount a volume there"
    return [Problem(StorageNotOnVolume.reason, text, remedy)]


def _path_on_own_disk(uri: str) -> Path | None:
    """The path of a URI, with its links followed, if it is on no volume; else None."""
    if not uri.startswith("file:"):
        return None
    path = Path(os.path.realpath(path_of(uri)))
    return path if mount_point(path) in OWN else None


def mount_point(path: Path, mounts: str | None = None) -> Path | None:
    """The mount point below which this path, which has no links, is or will be.

    `os.path.ismount` does not see a volume that is on the same disk as what it is mounted in.

    :param mounts: as proc(5) describes `/proc/self/mountinfo`, which is read if this is None.
    :returns: None if that is not known.
    """
    try:
        text = os.fsdecode(MOUNTS.read_bytes()) if mounts is None else mounts
    except OSError:
        return None
    # Not `splitlines`: a name may have other characters that it takes for the end of a line.
    lines = (line.split(" ") for line in text.split("\n"))
    points = {Path(_unescaped(fields[4])) for fields in lines if len(fields) > 4}
    return next((place for place in (path, *path.parents) if place in points), None)


def _unescaped(field: str) -> str:
    """Spaces, tabs, newlines and backslashes are written as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)
