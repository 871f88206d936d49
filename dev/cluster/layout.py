"""The paths and names of one cluster, all derived from its folder."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

KUBERNETES_VERSION = "1.35.4"
HELM_VERSION = "3.19.5"
NODE_NAME = "streamjob"
SECOND_NODE_NAME = "streamjob-2"
REPOSITORY = Path(__file__).resolve().parents[2]

# The node has its own folders in these places, so a cluster cannot keep its state below them.
HIDDEN = ("/run", "/var/run", "/var/lib", "/var/log")


class ClusterError(Exception):
    """What went wrong and what to do about it, for the person at the terminal."""


def cache_folder() -> Path:
    """Return the folder for what is kept from one cluster to the next."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base).resolve() / "streamjob"


@dataclass(frozen=True)
class Layout:
    """The folder of one cluster. `id` names what cannot live in a folder: network devices and cgroups."""

    root: Path

    @staticmethod
    def from_environment() -> "Layout":
        """The folder that STREAMJOB_CLUSTER_DIR names, or else `.cluster` below the repository's root."""
        named = os.environ.get("STREAMJOB_CLUSTER_DIR")
        return Layout(Path(named).resolve() if named else REPOSITORY / ".cluster")

    @property
    def second(self) -> "Layout":
        """The layout of the second node, which has its own folder (see second.py)."""
        return Layout(self.root / "second")

    @property
    def id(self) -> str:
        return hashlib.sha256(str(self.root).encode()).hexdigest()[:6]

    @property
    def cgroup(self) -> str:
        return f"streamjob-{self.id}"

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def certs(self) -> Path:
        return self.root / "certs"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def volumes(self) -> Path:
        return self.root / "volumes"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def processes(self) -> Path:
        return self.root / "processes.json"

    @property
    def network(self) -> Path:
        return self.root / "network.json"

    @property
    def containerd_root(self) -> Path:
        return self.root / "containerd"

    @property
    def containerd_socket(self) -> Path:
        return self.root / "containerd.sock"

    @property
    def lock(self) -> Path:
        """The lock file.

        It is outside the folder, because `down` deletes the folder while it holds the lock.
        """
        return cache_folder() / "locks" / self.id

    def make_folders(self) -> None:
        for folder in (self.bin, self.certs, self.logs, self.config, self.volumes):
            folder.mkdir(parents=True, exist_ok=True)
        self.certs.chmod(0o700)
        (self.root / ".gitignore").write_text("*\n")
