"""Load images into the node's containerd. There is no registry to pull from."""

import socket
from pathlib import Path

from dev.cluster.commands import run
from dev.cluster.layout import ClusterError, Layout


def ctr(layout: Layout) -> list[str]:
    """The beginning of a `ctr` command to the node's containerd."""
    return ["ctr", "--address", str(layout.containerd_socket), "--namespace", "k8s.io"]


def _ctr(layout: Layout, *words: str | Path, timeout: float = 120) -> str:
    return run(*ctr(layout), *words, timeout=timeout)


def reachable(layout: Layout) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(layout.containerd_socket))
        except OSError:
            return False
    return True


def digests(layout: Layout) -> dict[str, str]:
    """Return the digest of each image that the node has, by name."""
    lines = _ctr(layout, "images", "list").splitlines()[1:]
    return {words[0]: words[2] for words in (line.split() for line in lines) if len(words) > 2}


def blobs(layout: Layout) -> set[str]:
    """Return the digests of all layers and manifests that the node has."""
    return set(_ctr(layout, "content", "list", "--quiet").split())


def import_archive(layout: Layout, archive: Path) -> None:
    _ctr(layout, "images", "import", archive, timeout=600)


def require_up(layout: Layout) -> None:
    if not reachable(layout):
        raise ClusterError("the cluster is not up: start it with `python3 -m dev.cluster up`")
