"""Run the controller."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from pathlib import Path

import kopf

from .kube import Kube
from .reconciler import Reconciler
from .triggers import register

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
        "--liveness",
        metavar="URL",
        default="http://0.0.0.0:8080/healthz",
        help="where the liveness probe is answered (default: %(default)s)",
    )
    parser.add_argument("--verbose", action="store_true", help="log each step")
    return parser.parse_args(argv)


def own_namespace() -> str:
    found = os.environ.get("POD_NAMESPACE")
    return found or (OWN_NAMESPACE.read_text().strip() if OWN_NAMESPACE.exists() else "default")


def main(argv: list[str]) -> int:
    given = arguments(argv)
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        level=logging.DEBUG if given.verbose else logging.INFO,
    )
    for noisy in ("kopf", "asyncio", "aiohttp.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    namespaces = [] if given.all_namespaces else given.namespace or [own_namespace()]
    asyncio.run(serve(namespaces, given.liveness))
    return 0


async def serve(namespaces: list[str], liveness: str) -> None:
    """Until a signal ends it. No namespaces: all of them."""
    reconciler = Reconciler(Kube(namespaces))
    await kopf.operator(
        registry=register(reconciler),
        clusterwide=not namespaces,
        namespaces=namespaces,
        standalone=True,
        liveness_endpoint=liveness,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
