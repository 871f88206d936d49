"""A second node, for what one cannot show: that what is drained from a node goes on on another one.

It is a node as the first: containerd, kubelet, images, pods, a mount namespace and a cgroup of its own. What they share: this
machine's disk (a hostPath volume is seen by both), and the network namespace with its address and kube-proxy. So the kubelets
differ in their ports only, and a network between two nodes is not seen here. Its kubelet speaks to the API as the admin.
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
    """Boot it beside the first one, which is up, and copy all images of that one."""
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
    """Delete the Node object, and with it what still runs there."""
    kubectl = (layout.bin / "kubectl", "--kubeconfig", layout.kubeconfig)
    run(*kubectl, "delete", "node", SECOND_NODE_NAME, "--ignore-not-found", title="kubectl delete node")
    end(layout)


def end(layout: Layout) -> None:
    """Kill all that it runs, and remove its files."""
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
    """From containerd to containerd, through a pipe."""
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
        source.kill()  # if nobody reads it any more, it would not end
    if copied.returncode:
        raise ClusterError(f"the second node's containerd did not take the images: {copied.stderr.strip()}")
