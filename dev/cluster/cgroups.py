"""The cgroup that holds every process of the cluster: what is in it is ours, whoever started it and whatever it is.

This is what makes `down` safe. Pods' processes and containerd's shims are nobody's recorded children, but they cannot
leave the cgroup. Works on cgroup v2, on v1 (one tree for each controller) and on the hybrid of both.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from dev.cluster.layout import ClusterError, Layout

DAEMONS = "daemons"
# Any one tree of v1 is enough to hold the daemons together. Those with a meaning for memory or cpu stay as they are.
TRACKING = ("pids", "freezer", "systemd")


def parse_trees(mountinfo: str) -> dict[str, Path]:
    """Map each mounted cgroup tree's type, `cgroup` or `cgroup2`, and mount point; the key is the last path part."""
    trees: dict[str, Path] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if after.split(" ")[0] in {"cgroup", "cgroup2"}:
            mountpoint = Path(before.split(" ")[4])
            trees[mountpoint.name] = mountpoint
    return trees


def trees() -> dict[str, Path]:
    return parse_trees(Path("/proc/self/mountinfo").read_text())


def unified_only() -> bool:
    return Path("/sys/fs/cgroup/cgroup.controllers").exists()


def create(layout: Layout) -> Path:
    """Make the cluster's cgroup in every tree (the kubelet insists on it) and return the folder of the daemons."""
    found = trees()
    if not found:
        raise ClusterError("no cgroup tree is mounted: run on a machine or VM, or use CLUSTER=context")
    for name, top in found.items():
        ours = top / layout.cgroup
        if name == "unified":
            continue  # a hybrid's second tree has no controllers; nobody needs us there
        ours.mkdir(exist_ok=True)
        if name == "cpuset" or (ours / "cpuset.cpus").exists():
            _inherit_cpus(top, ours)
        if unified_only():
            _delegate(top)
            _delegate(ours)
    # A pure v2 machine has one tree, which `found` holds under the name of its mount point.
    tracking = next(found[name] for name in (*TRACKING, *found) if name in found)
    daemons = tracking / layout.cgroup / DAEMONS
    daemons.mkdir(exist_ok=True)
    return daemons


def _inherit_cpus(top: Path, ours: Path) -> None:
    """A new v1 cpuset is empty and lets no process in. On v2 an empty one means: as the parent."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not unified_only() and not (ours / name).read_text().strip():
            (ours / name).write_text((top / name).read_text())


def _delegate(folder: Path) -> None:
    available = (folder / "cgroup.controllers").read_text().split()
    for controller in available:
        try:
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError:
            continue  # not every controller can be handed on (realtime processes, threaded trees)


def folders(layout: Layout) -> list[Path]:
    """All cgroups of this cluster, deepest first."""
    found: list[Path] = []
    for top in trees().values():
        for folder, _, _ in os.walk(top / layout.cgroup, topdown=False):
            found.append(Path(folder))
    return found


def members(layout: Layout) -> set[int]:
    """All processes of this cluster."""
    pids: set[int] = set()
    for folder in folders(layout):
        try:
            pids |= {int(line) for line in (folder / "cgroup.procs").read_text().split()}
        except OSError:
            continue  # taken away meanwhile
    return pids - {0}


def kill_all(layout: Layout, limit: float = 20.0) -> None:
    """Kill until nobody is left: a shim may start one more process between two looks."""
    if not _until(lambda: not _kill(layout), limit):
        raise ClusterError(
            f"these processes cannot be killed: {sorted(members(layout))} (in cgroup {layout.cgroup})"
        )


def _kill(layout: Layout) -> bool:
    alive = members(layout)
    for pid in alive:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return bool(alive)


def remove(layout: Layout, limit: float = 10.0) -> None:
    """Remove the empty cgroups. The kernel may say "busy" for a moment after the last process has ended."""
    if not _until(lambda: not _remove(layout), limit):
        raise ClusterError(f"the cgroups named {layout.cgroup} below /sys/fs/cgroup cannot be removed")


def _remove(layout: Layout) -> bool:
    for folder in folders(layout):
        try:
            folder.rmdir()
        except OSError:
            continue
    return bool(folders(layout))


def _until(fact: Callable[[], bool], limit: float) -> bool:
    deadline = time.monotonic() + limit
    while not fact():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
