"""The node: containerd, kubelet, kube-proxy and DNS, with their configuration.

Order: containerd and the kubelet look for the cgroup and the network configuration when they start, so both
must exist first. DNS waits for the API. Pods that start earlier merely have to repeat their lookups.
"""

import json
from pathlib import Path

from dev.cluster.layout import NODE_NAME, Layout
from dev.cluster.network import Addresses
from dev.cluster.pause import PAUSE_IMAGE
from dev.cluster.processes import HOLDER, Daemons

# containerd, the kubelet and CNI write to these folders regardless of their flags, so the node gets its own.
# Without -n, mount would create a folder in the host's /run. /run comes last, because it is empty afterwards.
PRIVATE = """\
set -e
mount -n --make-rshared /
for name in lib log; do
  mkdir -p {root}/node/$name
  mount -n --bind {root}/node/$name /var/$name
done
mount -n -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock /run/netns
exec sleep infinity
"""

CONTAINERD = """\
version = 2
root = "{root}/containerd"
state = "/run/containerd"
oom_score = 0

[grpc]
  address = "{socket}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # runc dies without CAP_SYS_RESOURCE when it is to lower an oom score.
  restrict_oom_score_adj = true
  max_container_log_line_size = 262144
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{config}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""

# The second node has the same address as the first, so its kubelet needs other ports.
SECOND_PORTS = {"port": 10350, "healthzPort": 10348}

# Names outside the cluster do not exist. CoreDNS answers so at once; a forwarder would time out.
COREFILE = """\
.:53 {{
    bind {address}
    errors
    ready {address}:8181
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 5
    }}
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
"""


def network_configuration(addresses: Addresses, *, second: bool = False) -> dict[str, object]:
    """The CNI configuration: one routed veth pair for each pod. With a bridge, a pod's answers to another pod
    of the node would bypass kube-proxy's rules.

    The pods of the second node get the upper half of the addresses.
    """
    half = list(addresses.pods.subnets())[second]
    ranges = [[{"subnet": str(addresses.pods), "rangeStart": str(half[2]), "rangeEnd": str(half[-2])}]]
    ipam = {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
    return {
        "cniVersion": "0.4.0",
        "name": "streamjob",
        "plugins": [
            {"type": "ptp", "ipMasq": False, "ipam": ipam},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def kubelet_configuration(layout: Layout, addresses: Addresses) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": addresses.node,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(layout.certs / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(layout.certs / "server.crt"),
        "tlsPrivateKeyFile": str(layout.certs / "server.key"),
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.cgroup}",
        "failCgroupV1": False,
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "clusterDNS": [addresses.node],
        "clusterDomain": "cluster.local",
        "resolvConf": str(layout.config / "resolv.conf"),
        "maxPods": 110,
        # The developer watches the disk. An image that the kubelet removes could not be pulled again.
        "evictionHard": {"nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%"},
        "imageGCHighThresholdPercent": 100,
        "volumePluginDir": str(layout.root / "node" / "volume-plugins"),
        # More often than by default, for tests that wait for the end of a pod.
        "syncFrequency": "10s",
        "nodeStatusUpdateFrequency": "4s",
    }


def make_configuration(layout: Layout, addresses: Addresses, *, second: bool = False) -> None:
    config = layout.config
    (config / "cni").mkdir(exist_ok=True)
    network = network_configuration(addresses, second=second)
    (config / "cni" / "10-streamjob.conflist").write_text(json.dumps(network, indent=1))
    kubelet = kubelet_configuration(layout, addresses) | (SECOND_PORTS if second else {})
    (config / "kubelet.json").write_text(json.dumps(kubelet, indent=1))
    (config / "resolv.conf").write_text("")
    (config / "Corefile").write_text(COREFILE.format(address=addresses.node, kubeconfig=layout.kubeconfig))
    (config / "containerd.toml").write_text(
        CONTAINERD.format(root=layout.root, config=config, socket=layout.containerd_socket, pause=PAUSE_IMAGE)
    )


def start_holder(layout: Layout, daemons: Daemons, network: int | None = None) -> None:
    """Create the namespaces. Once the holder sleeps, it has its own /run, /var/lib and /var/log.

    :param network: pid of a process whose network namespace the holder shares; None creates a new one.
    """
    script = PRIVATE.format(root=layout.root)
    net = ["unshare", "--net"] if network is None else ["nsenter", f"--net=/proc/{network}/ns/net", "unshare"]
    daemons.start(HOLDER, *net, "--mount", "--propagation", "private", "sh", "-c", script)
    command = Path(f"/proc/{daemons.holder}/cmdline")
    daemons.wait(HOLDER, "make its mounts", lambda: command.read_bytes().startswith(b"sleep"))


def start_containerd(layout: Layout, daemons: Daemons) -> None:
    daemons.start("containerd", "containerd", "--config", layout.config / "containerd.toml")


def start_kubelet(layout: Layout, addresses: Addresses, daemons: Daemons, name: str = NODE_NAME) -> None:
    daemons.start(
        "kubelet",
        layout.bin / "kubelet",
        f"--config={layout.config / 'kubelet.json'}",
        f"--kubeconfig={layout.config / 'kubelet.kubeconfig'}",
        f"--hostname-override={name}",
        f"--node-ip={addresses.node}",
    )


def start_proxy(layout: Layout, addresses: Addresses, daemons: Daemons) -> None:
    daemons.start(
        "kube-proxy",
        layout.bin / "kube-proxy",
        f"--kubeconfig={layout.config / 'proxy.kubeconfig'}",
        f"--hostname-override={NODE_NAME}",
        f"--cluster-cidr={addresses.pods}",
        "--proxy-mode=iptables",
        # These limits belong to the whole machine and cannot be set from within the namespace.
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
        "--metrics-bind-address=127.0.0.1:10249",
    )


def start_dns(layout: Layout, addresses: Addresses, daemons: Daemons) -> None:
    daemons.start("coredns", layout.bin / "coredns", "-conf", layout.config / "Corefile")
