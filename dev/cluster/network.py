"""The cluster's addresses, and the veth pair (the wire) that connects its network namespace to the host.

The namespace has no name and exists as long as a process is in it. When the last process ends, the kernel
removes the namespace, and with it the wire and the host's routes. The namespace has no default route, so pods
cannot reach the outside.
"""

import ipaddress
import json
import socket
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dev.cluster.commands import run
from dev.cluster.layout import ClusterError, Layout

Network = ipaddress.IPv4Network
CHOICES = 64


@dataclass(frozen=True)
class Addresses:
    """Three subnets, derived from one number: the wire (host end and node end), the pods,
    and the services.
    """

    number: int

    @property
    def wire(self) -> Network:
        return Network(f"172.30.{self.number}.0/30")

    @property
    def host(self) -> str:
        return str(self.wire[1])

    @property
    def node(self) -> str:
        return str(self.wire[2])

    @property
    def pods(self) -> Network:
        return Network(f"10.{128 + self.number}.0.0/24")

    @property
    def services(self) -> Network:
        return Network(f"10.{128 + self.number}.128.0/20")

    @property
    def apiserver_service(self) -> str:
        return str(self.services[1])

    def all(self) -> tuple[Network, Network, Network]:
        return self.wire, self.pods, self.services


def choose(cluster_id: str, taken: Sequence[Network]) -> Addresses:
    """Choose the first number, starting from the one that the id gives, whose subnets are unused on the host.

    :raises ClusterError: every number is in use.
    """
    first = int(cluster_id, 16) % CHOICES
    for offset in range(CHOICES):
        candidate = Addresses((first + offset) % CHOICES)
        if not any(ours.overlaps(theirs) for ours in candidate.all() for theirs in taken):
            return candidate
    raise ClusterError("every private subnet that a cluster could use is routed on this machine already")


def parse_routes(lines: Iterable[str]) -> list[Network]:
    """The destinations in the output of `ip -4 route show table all`, without the default route."""
    kinds = {"local", "broadcast", "unreachable", "blackhole", "prohibit", "unicast", "multicast"}
    networks = []
    for line in lines:
        words = [word for word in line.split() if word not in kinds]
        if not words or words[0] == "default":
            continue
        try:
            networks.append(Network(words[0], strict=False))
        except ValueError:
            continue
    return networks


def host_device(layout: Layout) -> str:
    return f"sj{layout.id}h"


def node_device(layout: Layout) -> str:
    return f"sj{layout.id}n"


def device_exists(name: str) -> bool:
    return Path("/sys/class/net", name).exists()


def remember(layout: Layout) -> Addresses:
    """Choose the addresses for this life of the cluster, and record them in a file."""
    routes = run("ip", "-4", "route", "show", "table", "all").splitlines()
    addresses = choose(layout.id, parse_routes(routes))
    layout.network.write_text(json.dumps(asdict(addresses)))
    return addresses


def connect(layout: Layout, addresses: Addresses, holder: int) -> None:
    """Connect the host to the namespace of the holder process, and route pods and services to it."""
    outside, inside = host_device(layout), node_device(layout)
    run("ip", "link", "add", outside, "type", "veth", "peer", "name", inside)
    run("ip", "link", "set", inside, "netns", str(holder))
    run("ip", "addr", "add", f"{addresses.host}/30", "dev", outside)
    run("ip", "link", "set", outside, "up")

    def within(*command: str) -> None:
        run("nsenter", f"--net=/proc/{holder}/ns/net", *command)

    within("ip", "link", "set", "lo", "up")
    within("ip", "addr", "add", f"{addresses.node}/30", "dev", inside)
    within("ip", "link", "set", inside, "up")
    # Without this route, and without a default route, the node's own calls to a service would fail before
    # they reach kube-proxy's rules.
    within("ip", "route", "add", str(addresses.services), "dev", "lo", "src", addresses.node)
    within("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    for network in (addresses.pods, addresses.services):
        run("ip", "route", "add", str(network), "via", addresses.node, "dev", outside)


def disconnect(layout: Layout) -> None:
    """Remove the wire. Normally it has vanished with the namespace."""
    if device_exists(host_device(layout)):
        run("ip", "link", "delete", host_device(layout), check=False)


def recall(layout: Layout) -> Addresses | None:
    try:
        return Addresses(**json.loads(layout.network.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def accepts(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=1).close()
    except OSError:
        return False
    return True
