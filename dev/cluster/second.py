"""A second node, to show that a job continues on another node after `kubectl drain`.

Like the first node, it has its own containerd, kubelet, images, pods, mount namespace and cgroup. The two
share this machine's disk (both see a hostPath volume) and the network namespace with its address and
kube-proxy. The kubelets therefore differ only in their ports, and nothing here tests a network between nodes.
The second kubelet uses the admin's credentials for the API.
"""

import shutil
import subprocess

from dev.cluster import cgroups, images, node, processes
from dev.cluster.api import Api
from dev.cluster.commands import run
from dev.cluster.console import say, step
from dev.cluster.layout import SECOND_NODE_NAME, ClusterError, Layout
from dev.cluster.network import Addresses


def add(layout: Layout, addresses: Addresses) -> None:
    """Boot the second node next to the first, which must be up, and copy all images of the first."""
    ours, api = layout.second, Api(layout, addresses.node)
    if processes.recorded(ours) and not processes.dead(ours) and api.node_ready(SECOND_NODE_NAME):
        return say("The second node is up already.")
    end(layout)
    _make_folders(layout)
    daemons = processes.Daemons(ours, cgroups.create(ours))
    with step("second node: containerd and its images"):
        node.start_holder(ours, daemons, processes.Daemons.recall(layout).holder)
        node.make_configuration(ours, addresses, second=True)
        node.start_containerd(ours, daemons)
        daemons.wait("containerd", "accept connections", lambda: images.reachable(ours))
        _copy_images(layout)
    with step("second node: kubelet"):
        node.start_kubelet(ours, addresses, daemons, SECOND_NODE_NAME)
        daemons.wait("kubelet", "node Ready", lambda: api.node_ready(SECOND_NODE_NAME))
    return None


def remove(layout: Layout) -> None:
    """Delete the Node object, and kill everything that still runs on the node."""
    kubectl = (layout.bin / "kubectl", "--kubeconfig", layout.kubeconfig)
    run(*kubectl, "delete", "node", SECOND_NODE_NAME, "--ignore-not-found", title="kubectl delete node")
    end(layout)


def end(layout: Layout) -> None:
    """Kill all processes of the second node, and remove its files."""
    ours = layout.second
    cgroups.kill_all(ours)
    cgroups.remove(ours)
    if ours.root.exists():
        shutil.rmtree(ours.root)


def _make_folders(layout: Layout) -> None:
    ours = layout.second
    for folder in (ours.root, ours.logs, ours.config):
        folder.mkdir()
    for name in ("bin", "certs"):
        (ours.root / name).symlink_to(layout.root / name)
    shutil.copy(layout.kubeconfig, ours.config / "kubelet.kubeconfig")


def _copy_images(layout: Layout) -> None:
    """Copy all images from containerd to containerd, through a pipe."""
    names = [name for name in images.digests(layout) if not name.startswith("sha256:")]
    export = [*images.ctr(layout), "images", "export", "-", *names]
    with subprocess.Popen(export, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as source:
        copied = subprocess.run(
            [*images.ctr(layout.second), "images", "import", "-"],
            stdin=source.stdout,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        source.kill()  # it would not end if nobody reads its output any more
    if copied.returncode:
        raise ClusterError(f"the second node's containerd did not take the images: {copied.stderr.strip()}")
