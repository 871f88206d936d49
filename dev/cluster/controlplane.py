"""The control plane: the command lines of etcd, the API server, the controllers and the scheduler."""

from dev.cluster import kubeconfig
from dev.cluster.api import PORT, Api
from dev.cluster.commands import run
from dev.cluster.layout import NODE_NAME, Layout
from dev.cluster.network import Addresses
from dev.cluster.processes import Daemons

PARTIES = ("controller-manager", "scheduler", "kubelet", "proxy")


def make_certificates(layout: Layout, addresses: Addresses) -> None:
    run(layout.bin / "certs", layout.certs, NODE_NAME, addresses.node, addresses.apiserver_service)
    kubeconfig.write(layout, addresses.node, "admin", layout.kubeconfig)
    for party in PARTIES:
        kubeconfig.write(layout, addresses.node, party, layout.config / f"{party}.kubeconfig")


def start(layout: Layout, addresses: Addresses, daemons: Daemons) -> Api:
    """Start etcd and the API server, and wait until the API is ready."""
    certs = layout.certs
    # The cluster does not outlive the machine, so etcd need not sync to the disk.
    daemons.start(
        "etcd",
        layout.bin / "etcd",
        f"--data-dir={layout.root / 'etcd'}",
        "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--unsafe-no-fsync",
        "--log-level=warn",
    )
    daemons.start(
        "kube-apiserver",
        layout.bin / "kube-apiserver",
        "--etcd-servers=http://127.0.0.1:2379",
        f"--secure-port={PORT}",
        # Pods can reach the API server through its Service only if this is not a loopback address.
        f"--advertise-address={addresses.node}",
        f"--service-cluster-ip-range={addresses.services}",
        f"--client-ca-file={certs / 'ca.crt'}",
        f"--tls-cert-file={certs / 'server.crt'}",
        f"--tls-private-key-file={certs / 'server.key'}",
        f"--kubelet-certificate-authority={certs / 'ca.crt'}",
        f"--kubelet-client-certificate={certs / 'admin.crt'}",
        f"--kubelet-client-key={certs / 'admin.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={certs / 'service-accounts.crt'}",
        f"--service-account-signing-key-file={certs / 'service-accounts.key'}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        "--profiling=false",
    )
    api = Api(layout, addresses.node)
    daemons.wait("kube-apiserver", "answer on /readyz", api.ready)
    return api


def start_controllers(layout: Layout, daemons: Daemons) -> None:
    certs = layout.certs
    daemons.start(
        "kube-controller-manager",
        layout.bin / "kube-controller-manager",
        f"--kubeconfig={layout.config / 'controller-manager.kubeconfig'}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--root-ca-file={certs / 'ca.crt'}",
        f"--service-account-private-key-file={certs / 'service-accounts.key'}",
        f"--cluster-signing-cert-file={certs / 'ca.crt'}",
        f"--cluster-signing-key-file={certs / 'ca.key'}",
        "--bind-address=127.0.0.1",
    )
    daemons.start(
        "kube-scheduler",
        layout.bin / "kube-scheduler",
        f"--kubeconfig={layout.config / 'scheduler.kubeconfig'}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
    )
