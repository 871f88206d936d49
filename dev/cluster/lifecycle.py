"""Up and down. Down assumes nothing about what came before: a half-failed start and a killed daemon are the same to it."""

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
)
from dev.cluster.api import Api
from dev.cluster.commands import run
from dev.cluster.console import elapsed, say, step
from dev.cluster.layout import NODE_NAME, ClusterError, Layout


@contextmanager
def locked(layout: Layout) -> Iterator[None]:
    """One `up`, `down` or `load` at a time for each cluster."""
    with locks.locked(layout.lock, "another command on this cluster"):
        yield


def prepare(layout: Layout) -> None:
    """Check the machine, then bring what is missing: packages and binaries."""
    missing = preconditions.require(preconditions.PROGRAMS, layout.root)
    if missing:
        with step(f"installing {' '.join(missing)}"[:60]):
            preconditions.install(missing, layout.lock.parent.parent / "logs" / "apt")
    build.install(layout)


def is_up(layout: Layout) -> bool:
    """All daemons run and the node is ready."""
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


@contextmanager
def without(layout: Layout, name: str) -> Iterator[None]:
    """While the block runs, one of the daemons is dead: killed as in a crash, then started again as it was."""
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
    """The second one, as when its power fails: the API still has it."""
    with locked(layout):
        second.end(layout)


def _show(layout: Layout) -> None:
    say(f"  kubeconfig  {layout.kubeconfig}")
    say(f"  programs    {layout.bin}  (kubectl, helm)")
    say(f"  volumes     {layout.volumes}  (use it for hostPath)")
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
    """Kill all, then wait until the kernel has taken the namespaces away, then remove the files.

    Nothing is asked to stop first: all that a daemon or pod could save would be deleted a moment later. Pods that are
    to end in an orderly way are deleted with kubectl before.
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
    # Mounts are in the cluster's own namespace and ended with it. If one is here all the same, somebody used the
    # host's: deleting files before it is gone would delete what is mounted.
    for mountpoint in mounts_below(layout.root, Path("/proc/self/mountinfo").read_text()):
        run("umount", "--lazy", mountpoint, check=False)
    if mounts_below(layout.root, Path("/proc/self/mountinfo").read_text()):
        raise ClusterError(
            f"there are mounts below {layout.root} that cannot be taken away (see /proc/self/mountinfo)"
        )
    for entry in layout.root.iterdir() if layout.root.exists() else ():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def mounts_below(folder: Path, mountinfo: str) -> list[Path]:
    """Return the mount points below a folder, deepest first. Blanks are written as \\040."""
    found = []
    for line in mountinfo.splitlines():
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), line.split(" ")[4])
        if Path(point).is_relative_to(folder):
            found.append(Path(point))
    return sorted(found, key=lambda path: len(path.parts), reverse=True)


def status(layout: Layout) -> int:
    """Print what runs. The exit code is 0 only if the node is ready."""
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
