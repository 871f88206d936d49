"""The controllers of a cluster: which namespaces each watches, and whether one of its replicas leads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ..printing.times import moment

Obj = Mapping[str, Any]
SELECTOR = "app.kubernetes.io/name=streamjob"
# A leader renews every 2 s and loses the Lease after 10. The clocks of a node and of this machine may differ.
AWAY = timedelta(seconds=60)


@dataclass(frozen=True)
class Controller:
    """A Deployment of the operator.

    :param watches: namespaces; None: all of them.
    :param ready: replicas, of those that are wanted.
    :param holder: the pod that leads; empty: none does.
    :param renewed: when its Lease was last renewed; None: there is no Lease, or it may not be read.
    """

    namespace: str
    name: str
    watches: frozenset[str] | None
    ready: int
    wanted: int
    lease_is_known: bool = False
    holder: str = ""
    renewed: datetime | None = None

    def serves(self, namespace: str) -> bool:
        return self.watches is None or namespace in self.watches

    def is_away(self, at: datetime) -> bool:
        """Whether no replica leads. Without the Lease, that is known only if none is ready."""
        if not self.lease_is_known:
            return self.ready == 0
        return not self.holder or self.renewed is None or at - self.renewed > AWAY


def controllers(deployments: Iterable[Obj], leases: Mapping[tuple[str, str], Obj | None]) -> list[Controller]:
    """
    :param leases: those that could be read, by namespace and name; None: it does not exist.
    """
    return [_controller(obj, leases) for obj in deployments if arguments(obj)]


def lease_of(deployment: Obj) -> tuple[str, str]:
    """Namespace and name of its Lease."""
    name = next((a.partition("=")[2] for a in arguments(deployment) if a.startswith("--lease=")), "")
    return deployment["metadata"]["namespace"], name


def arguments(deployment: Obj) -> list[str]:
    """Of the controller's container; empty: the Deployment has none."""
    pod = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    found = (c.get("args") or [] for c in pod.get("containers") or () if c.get("name") == "controller")
    return next(found, [])


def _controller(obj: Obj, leases: Mapping[tuple[str, str], Obj | None]) -> Controller:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    named = frozenset(a.partition("=")[2] for a in arguments(obj) if a.startswith("--namespace="))
    place = lease_of(obj)
    lease = ((leases.get(place) or {}).get("spec")) or {}
    return Controller(
        *(obj["metadata"]["namespace"], obj["metadata"]["name"]),
        None if "--all-namespaces" in arguments(obj) else named,
        status.get("readyReplicas") or 0,
        spec.get("replicas", 1),
        place in leases,
        lease.get("holderIdentity") or "",
        moment(lease.get("renewTime")),
    )
