"""Boot and end the cluster. `down` works from any state: after a failed start, or after a daemon has been
killed.
"""

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.cluster import (
    build,
    cgroups,
    controlplane,
    images,
    locks,
    network,
    node,
    pause,
    preconditions,
    processes,
    second,
    volumes,
)
from dev.cluster.api import Api
from dev.cluster.commands import run
from dev.cluster.console import elapsed, say, step
from dev.cluster.layout import NODE_NAME, ClusterError, Layout


@contextmanager
def locked(layout: Layout) -> Iterator[None]:
    """Allow only one `up`, `down` or `load` at a time on each cluster."""
    with locks.locked(layout.lock, "another command on this cluster"):
        yield


def prepare(layout: Layout) -> None:
    """Check the machine, then install missing packages and build missing binaries."""
    missing = preconditions.require(preconditions.PROGRAMS, layout.root)
    if missing:
        with step(f"installing {' '.join(missing)}"[:60]):
            preconditions.install(missing, layout.lock.parent.parent / "logs" / "apt")
    build.install(layout)


def is_up(layout: Layout) -> bool:
    """Whether all daemons run and the node is ready."""
    if not layout.kubeconfig.exists() or not processes.recorded(layout) or processes.dead(layout):
        return False
    addresses = network.recall(layout)
    return addresses is not None and Api(layout, addresses.node).node_ready(NODE_NAME)


def up(layout: Layout) -> None:
    with locked(layout):
        if is_up(layout):
            say("The cluster is up already.")
            return _show(layout)
        prepare(layout)
        if cgroups.folders(layout) or network.device_exists(network.host_device(layout)):
            with step("ending what was left of an earlier run"):
                _end(layout)
            build.install(layout)
        _boot(layout)
        say(f"The cluster is up after {elapsed()}.")
        _show(layout)


def _boot(layout: Layout) -> None:
    layout.make_folders()
    daemons = processes.Daemons(layout, cgroups.create(layout))
    with step("network and mount namespace"):
        addresses = network.remember(layout)
        node.start_holder(layout, daemons)
        network.connect(layout, addresses, daemons.holder)
        controlplane.make_certificates(layout, addresses)
        node.make_configuration(layout, addresses)
    with step("etcd, API server, containerd"):
        node.start_containerd(layout, daemons)
        api = controlplane.start(layout, addresses, daemons)
        daemons.wait("containerd", "accept connections", lambda: images.reachable(layout))
    with step("controllers, scheduler, DNS, kubelet, kube-proxy"):
        controlplane.start_controllers(layout, daemons)
        archive = layout.root / "pause.tar"
        pause.write_archive((layout.bin / "coredns").resolve().with_name("pause"), archive)
        images.import_archive(layout, archive)
        node.start_kubelet(layout, addresses, daemons)
        node.start_proxy(layout, addresses, daemons)
        node.start_dns(layout, addresses, daemons)
        daemons.wait("kubelet", "node Ready", lambda: api.node_ready(NODE_NAME))
        daemons.wait("coredns", "ready", lambda: network.accepts(addresses.node, 8181))
        daemons.wait("kube-controller-manager", "default service account", api.namespace_ready)
        volumes.make(layout)


@contextmanager
def without(layout: Layout, name: str) -> Iterator[None]:
    """Keep one of the daemons dead while the block runs. It is killed as in a crash, then started with the
    same command.
    """
    with locked(layout):
        daemons = processes.Daemons.recall(layout)
        command = daemons.kill(name)
        try:
            yield
        finally:
            daemons.start(name, *command)
            daemons.wait(name, "the cluster works again", lambda: is_up(layout))


def add_node(layout: Layout) -> None:
    with locked(layout):
        if not is_up(layout):
            raise ClusterError("the cluster is not up: start it with `python3 -m dev.cluster up`")
        addresses = network.recall(layout)
        assert addresses is not None
        second.add(layout, addresses)


def remove_node(layout: Layout) -> None:
    with locked(layout):
        second.remove(layout)


def lose_node(layout: Layout) -> None:
    """Kill the second node, as a power failure does. Its Node object stays in the API."""
    with locked(layout):
        second.end(layout)


def _show(layout: Layout) -> None:
    say(f"  kubeconfig  {layout.kubeconfig}")
    say(f"  programs    {layout.bin}  (kubectl, helm)")
    say(f"  volumes     {layout.volumes}  (of the storage class, and for hostPath)")
    say()
    say(f"export KUBECONFIG={layout.kubeconfig}")


def down(layout: Layout) -> None:
    with locked(layout):
        nothing = not layout.root.exists() and not cgroups.folders(layout)
        if nothing:
            return say("There is no cluster to end.")
        if os.geteuid() != 0:
            raise ClusterError("ending the cluster needs root, as starting it did: run it with sudo")
        with step("ending the cluster"):
            _end(layout)
            shutil.rmtree(layout.root, ignore_errors=True)
        if layout.root.exists():
            raise ClusterError(
                f"files are left in {layout.root}: something still writes there or is mounted there"
            )
        say("Nothing is left of it.")


def _end(layout: Layout) -> None:
    """Kill all processes, wait until the kernel has removed the namespaces, then remove the files.

    Nothing is asked to stop first, because everything that a daemon or pod could save is deleted a moment
    later. Whoever wants pods to end in an orderly way deletes them with kubectl first.
    """
    second.end(layout)
    cgroups.kill_all(layout)
    cgroups.remove(layout)
    deadline = time.monotonic() + 10
    while network.device_exists(network.host_device(layout)):
        if time.monotonic() > deadline:
            network.disconnect(layout)
            break
        time.sleep(0.05)
    # Mounts live in the cluster's own namespace and end with it. If one is left here, somebody mounted it in
    # the host's namespace: it must be unmounted first, or deleting the files would delete what is mounted.
    for mountpoint in mounts_below(layout.root, Path("/proc/self/mountinfo").read_text()):
        run("umount", "--lazy", mountpoint, check=False)
    if mounts_below(layout.root, Path("/proc/self/mountinfo").read_text()):
        raise ClusterError(
            f"there are mounts below {layout.root} that cannot be taken away (see /proc/self/mountinfo)"
        )
    for entry in layout.root.iterdir() if layout.root.exists() else ():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def mounts_below(folder: Path, mountinfo: str) -> list[Path]:
    """Return the mount points below a folder, deepest first. In mountinfo, a blank is \\040."""
    found = []
    for line in mountinfo.splitlines():
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), line.split(" ")[4])
        if Path(point).is_relative_to(folder):
            found.append(Path(point))
    return sorted(found, key=lambda path: len(path.parts), reverse=True)


def status(layout: Layout) -> int:
    """Print what runs. Return the exit code: 0 only if the node is ready."""
    if not layout.root.exists():
        say("There is no cluster. `python3 -m dev.cluster up` makes one.")
        return 1
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    ticks = os.sysconf("SC_CLK_TCK")
    for process in processes.recorded(layout):
        age = f"up {uptime - process.started / ticks:8.0f} s" if process.alive else "HAS ENDED"
        say(f"  {process.name:<26} pid {process.pid:<8} {age}")
    for name in processes.dead(layout):
        say(f"  {name} ended, its log: {layout.logs / (name + '.log')}")
    good = is_up(layout)
    say(
        "The node is ready." if good else "The cluster is not up. `python3 -m dev.cluster up` starts it anew."
    )
    say(f"export KUBECONFIG={layout.kubeconfig}")
    return 0 if good else 1
