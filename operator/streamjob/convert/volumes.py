"""Volumes: in the StreamJob's storage if driver and executors mount them alike, else in a template."""

from __future__ import annotations

from dataclasses import dataclass

from ..api.pods.template import TAKEN_PATHS
from ..api.storage import KINDS
from .pods import DRIVER, PATH_TAKEN, Pod
from .source import Obj, Path, Source

TAKEN = ("streamjob-", "spark-")
LOCAL_DIR = "spark-local-dir-"


@dataclass(frozen=True)
class Mounted:
    """A volume in a pod, and the fields of the input that say so."""

    pod: Pod
    volume: Obj
    mount: Obj
    paths: tuple[Path, ...]


class Volumes:
    """Which pod mounts which volume."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.mounted: list[Mounted] = []

    def mount(self, pod: Pod, volume: Obj, mount: Obj, *paths: Path) -> None:
        """Mount a volume into Spark's container of a pod.

        :param volume: with its name, as in a pod's spec.
        :param paths: the fields that ask for it.
        """
        if len(volume) == 1:
            volume = {**volume, "emptyDir": {}}
        self.mounted.append(Mounted(pod, volume, {**mount, "name": volume["name"]}, paths))

    def place(self, pods: tuple[Pod, ...]) -> Obj:
        """Put each volume where it belongs.

        :returns: what belongs into the StreamJob's storage.
        """
        volumes: list[Obj] = []
        mounts: list[Obj] = []
        for one in self.mounted:
            if one.mount["mountPath"] in (*TAKEN_PATHS, "/"):
                for path in one.paths:
                    self.source.dropped(path, PATH_TAKEN)
            elif self._everywhere(one, pods):
                _append(volumes, one.volume)
                _append(mounts, one.mount)
                for path in one.paths:
                    self.source.kept(path, "spec.storage.volumes and volumeMounts")
            else:
                self._place_in(one)
        return {k: v for k, v in (("volumes", volumes), ("volumeMounts", mounts)) if v}

    def _everywhere(self, one: Mounted, pods: tuple[Pod, ...]) -> bool:
        name, kinds = one.volume["name"], [key for key in one.volume if key != "name"]
        fits = not name.startswith(TAKEN) and len(kinds) == 1 and kinds[0] in KINDS
        alike = [m.pod for m in self.mounted if (m.volume, m.mount) == (one.volume, one.mount)]
        return fits and one.mount["mountPath"].startswith("/") and all(pod in alike for pod in pods)

    def _place_in(self, one: Mounted) -> None:
        at = f"{one.pod.at}.spec"
        if one.volume not in one.pod.spec.get("volumes", ()):
            one.pod.spec.setdefault("volumes", []).append(one.volume)
        one.pod.container.setdefault("volumeMounts", []).append(one.mount)
        local = one.pod.role == DRIVER and one.volume["name"].startswith(LOCAL_DIR)
        if local:
            before = one.pod.variables.get("SPARK_LOCAL_DIRS")
            folders = ",".join([before[0]["value"]] if before else []) + ("," if before else "")
            value = {"name": "SPARK_LOCAL_DIRS", "value": folders + one.mount["mountPath"]}
            one.pod.variables["SPARK_LOCAL_DIRS"] = (value, ())
        for path in one.paths:
            if local:
                self.source.changed(
                    path, f"{at}.volumes", "the variable SPARK_LOCAL_DIRS says so to the driver"
                )
            else:
                self.source.kept(path, f"{at}.volumes and volumeMounts")


def _append(entries: list[Obj], entry: Obj) -> None:
    if entry not in entries:
        entries.append(entry)
