"""Run the controller."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
import uuid
from pathlib import Path

import kopf

from .api_server.finalizers import remove_last_finalizers
from .api_server.kube import Kube
from .api_server.leader import Leader
from .objects.pod_parts import Platform
from .objects.ui import UiKind
from .process import logs
from .process.memory import spare_memory
from .reconciler.reconciler import Reconciler
from .triggers import register
from .web import served

OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
EXAMPLE = """\
It uses the pod's service account, or outside of a cluster $KUBECONFIG.

example:
  KUBECONFIG=~/.kube/config python -m streamjob.controller --namespace streaming
"""


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m streamjob.controller",
        description="Runs StreamJobs: starts drivers, stops and drains them, restarts what failed.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--namespace",
        metavar="NS",
        action="append",
        help="serve this namespace; may be repeated (default: the pod's own, else `default`)",
    )
    where.add_argument("--all-namespaces", action="store_true", help="serve all; needs a ClusterRole")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="0.0.0.0:8080",
        help="where /healthz and /metrics are answered (default: %(default)s)",
    )
    parser.add_argument(
        "--lease",
        metavar="NAME",
        default="streamjob",
        help="the Lease that all replicas share, in the pod's own namespace, else in the first that is "
        "served; whoever holds it acts (default: %(default)s)",
    )
    parser.add_argument(
        "--log-format",
        choices=logs.FORMATS,
        default="text",
        help="json: one object a line (default: %(default)s)",
    )
    parser.add_argument(
        "--platform-assigns-users",
        action="store_true",
        help="ask for no user or group in pods: the cluster chooses them and refuses others (OpenShift)",
    )
    parser.add_argument(
        "--ui",
        metavar="KIND",
        action="append",
        choices=[kind.value for kind in UiKind],
        default=[],
        help="create objects of this kind for Spark's UI where a job asks for them; may be repeated: "
        f"{', '.join(kind.value for kind in UiKind)} (default: none)",
    )
    parser.add_argument("--verbose", action="store_true", help="log each step")
    return parser.parse_args(argv)


def own_namespace() -> str | None:
    """Return the pod's namespace, or None outside a cluster."""
    found = os.environ.get("POD_NAMESPACE")
    return found or (OWN_NAMESPACE.read_text().strip() if OWN_NAMESPACE.exists() else None)


def main(argv: list[str]) -> int:
    given = arguments(argv)
    logs.configure(given.log_format, verbose=given.verbose)
    spare_memory()
    own = own_namespace()
    namespaces = [] if given.all_namespaces else given.namespace or [own or "default"]
    home = own or (namespaces or ["default"])[0]
    platform = Platform(assigns_users=given.platform_assigns_users)
    ui = frozenset(UiKind(kind) for kind in given.ui)
    asyncio.run(serve(namespaces, home, given.lease, given.listen, platform, ui))
    return 0


async def serve(
    namespaces: list[str], own: str, lease: str, address: str, platform: Platform, ui: frozenset[UiKind]
) -> None:
    """Run the controller until a signal ends it.

    :param namespaces: the namespaces to serve; empty: all.
    :param own: the namespace of the Lease.
    :param lease: the name of the Lease.
    :param address: `HOST:PORT` of /healthz and /metrics.
    :param platform: what the cluster does to pods by itself.
    :param ui: the kinds of objects that it may create for Spark's UI.
    """
    kube = Kube(namespaces)
    # A process that restarts in the same pod is a new candidate.
    identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
    reconciler = Reconciler(kube, Leader(kube, own, lease, identity), platform=platform, ui=ui)
    async with served(reconciler, address):
        await kopf.operator(
            registry=register(reconciler), clusterwide=not namespaces, namespaces=namespaces, standalone=True
        )
    await remove_last_finalizers(Kube(namespaces), own)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
