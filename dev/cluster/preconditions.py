"""What the machine must have. Checked before anything is changed; each refusal says in one sentence what to
do.
"""

import os
import platform
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dev.cluster.commands import PATH, run
from dev.cluster.layout import HIDDEN, ClusterError, cache_folder
from dev.cluster.locks import locked

INSTEAD = "or use a cluster you already have: CLUSTER=context"

# Program -> the Debian package that has it.
PROGRAMS: Mapping[str, str] = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
    "iptables": "iptables",
    "ip": "iproute2",
    "conntrack": "conntrack",
    "nsenter": "util-linux",
    "mount": "mount",
}
IMAGE_PROGRAMS: Mapping[str, str] = {
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    "newuidmap": "uidmap",
}
POLICY = Path("/usr/sbin/policy-rc.d")


@dataclass(frozen=True)
class Machine:
    """The facts that decide whether a cluster can run here."""

    system: str
    architecture: str
    user: int
    has_apt: bool
    has_cgroups: bool
    has_overlay: bool

    @staticmethod
    def observe() -> "Machine":
        filesystems = Path("/proc/filesystems")
        return Machine(
            system=platform.system(),
            architecture=platform.machine(),
            user=os.geteuid(),
            has_apt=find("apt-get") is not None,
            has_cgroups=Path("/sys/fs/cgroup").is_dir() and os.access("/sys/fs/cgroup", os.W_OK),
            has_overlay=filesystems.exists() and "overlay" in filesystems.read_text(),
        )


def find(program: str) -> str | None:
    return shutil.which(program, path=os.environ.get("PATH", "") + ":" + PATH)


def missing_packages(programs: Mapping[str, str], look: Callable[[str], str | None] = find) -> list[str]:
    return sorted({package for program, package in programs.items() if look(program) is None})


def objection(machine: Machine, missing: list[str]) -> str | None:
    """One sentence that says why no cluster can run here; None if one can."""
    if machine.system != "Linux" or machine.architecture != "x86_64":
        return (
            f"the built-in cluster needs Linux on x86_64, this is {machine.system} on "
            f"{machine.architecture}; {INSTEAD}"
        )
    if machine.user != 0:
        return f"the built-in cluster needs root (namespaces, cgroups, mounts): run it with sudo, {INSTEAD}"
    if missing and not machine.has_apt:
        return f"this machine has no apt-get to install {' '.join(missing)}: install them, {INSTEAD}"
    if not machine.has_cgroups:
        return (
            "/sys/fs/cgroup cannot be written, as in an unprivileged container: run on a machine or VM, "
            f"{INSTEAD}"
        )
    if not machine.has_overlay:
        return f"the kernel has no overlay file system: `modprobe overlay`, {INSTEAD}"
    return None


def objection_to_folders(folder: Path, cache: Path) -> str | None:
    """Why a cluster cannot keep its state in `folder` and its binaries in `cache`; None if it can."""
    for path, variable in ((folder, "STREAMJOB_CLUSTER_DIR"), (cache, "XDG_CACHE_HOME")):
        if any(path.is_relative_to(hidden) for hidden in HIDDEN):
            return (
                f"the node has its own {', '.join(HIDDEN)} and would not see {path}: set {variable} to "
                "another folder"
            )
    if len(str(folder)) > 72:
        return f"{folder} is too long for the name of a socket: set STREAMJOB_CLUSTER_DIR to a shorter path"
    return None


def require(programs: Mapping[str, str], folder: Path | None = None) -> list[str]:
    """Check the machine, and return the packages that must still be installed.

    :raises ClusterError: no cluster can run on this machine.
    """
    missing = missing_packages(programs)
    problem = objection(Machine.observe(), missing)
    if problem is None and folder is not None:
        problem = objection_to_folders(folder, cache_folder())
    if problem:
        raise ClusterError(problem)
    return missing


def install(packages: list[str], log: Path) -> None:
    """Install Debian packages without letting any of them start a service.

    A containerd that was already installed is not in the list and is left alone, running or not. A containerd
    that we install must start neither now (policy-rc.d) nor at the next boot (disable).
    """
    # dev/bootstrap.sh takes the same lock: apt itself waits for another installation, but not for another
    # update.
    with locked(cache_folder() / "locks" / "apt", "another installation of packages"):
        _install(packages, log)
    if "containerd" in packages and find("systemctl"):
        run("systemctl", "disable", "containerd", check=False)


def _install(packages: list[str], log: Path) -> None:
    ours = not POLICY.exists()
    if ours:
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
    try:
        environment = {"DEBIAN_FRONTEND": "noninteractive"}
        apt = ("apt-get", "-o", "DPkg::Lock::Timeout=120")
        command = (*apt, "install", "-y", "--no-install-recommends", *packages)
        try:
            run(*command, timeout=600, env=environment, log=log)
        except ClusterError:
            run(*apt, "update", timeout=300, env=environment, log=log)
            run(*command, timeout=600, env=environment, log=log)
    finally:
        if ours:
            POLICY.unlink(missing_ok=True)
