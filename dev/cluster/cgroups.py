"""The cgroup that holds every process of the cluster. Every process in it is ours, no matter who started it.

The cgroup makes `down` safe: nobody records the processes of pods and containerd's shims, but they cannot
leave the cgroup. Works with cgroup v2, with v1 (one tree for each controller) and with the hybrid of both.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from dev.cluster.layout import ClusterError, Layout

DAEMONS = "daemons"
# One tree of v1 is enough to hold the daemons together. The trees that limit memory or cpu are not used for
# this.
TRACKING = ("pids", "freezer", "systemd")


def parse_trees(mountinfo: str) -> dict[str, Path]:
    """The mount points of the cgroup trees (of type `cgroup` or `cgroup2`), by the last
    part of their path.
    """
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
    """Create the cluster's cgroup in every tree, as the kubelet requires, and return the folder of the
    daemons.
    """
    found = trees()
    if not found:
        raise ClusterError("no cgroup tree is mounted: run on a machine or VM, or use CLUSTER=context")
    for name, top in found.items():
        ours = top / layout.cgroup
        if name == "unified":
            continue  # the second tree of a hybrid has no controllers, so nobody needs our cgroup there
        ours.mkdir(exist_ok=True)
        if name == "cpuset" or (ours / "cpuset.cpus").exists():
            _inherit_cpus(top, ours)
        if unified_only():
            _delegate(top)
            _delegate(ours)
    # On a pure v2 machine, `found` has the only tree under the name of its mount point.
    tracking = next(found[name] for name in (*TRACKING, *found) if name in found)
    daemons = tracking / layout.cgroup / DAEMONS
    daemons.mkdir(exist_ok=True)
    return daemons


def _inherit_cpus(top: Path, ours: Path) -> None:
    """Copy the parent's CPUs and memory nodes. A new v1 cpuset is empty and admits no process; on v2, an
    empty one inherits those of its parent.
    """
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not unified_only() and not (ours / name).read_text().strip():
            (ours / name).write_text((top / name).read_text())


def _delegate(folder: Path) -> None:
    available = (folder / "cgroup.controllers").read_text().split()
    for controller in available:
        try:
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError:
            continue  # not every controller can be delegated (realtime processes, threaded trees)


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
            continue  # removed in the meantime
    return pids - {0}


def kill_all(layout: Layout, limit: float = 120.0) -> None:
    """Kill until no process is left: a shim may start another process between two looks.

    :raises ClusterError: some processes are still alive after `limit` seconds.
    """
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


def remove(layout: Layout, limit: float = 60.0) -> None:
    """Remove the empty cgroups. The kernel may report "busy" for a moment after the last process has ended.

    :raises ClusterError: some cgroups still exist after `limit` seconds.
    """
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
