"""`spec.ui`: the Service for Spark's UI, and what leads to it."""

from __future__ import annotations

from enum import Enum

from pydantic import ConfigDict, Field

from ..types import Model, cel
from .routes import TAILS, Annotations, HTTPRoute, Ingress

PORT = 4040  # Spark's default


class ServiceType(str, Enum):
    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class UiService(Model):
    """The Service `NAME-ui`, whose one port leads to the UI of the running driver."""

    type: ServiceType = Field(
        default=ServiceType.CLUSTER_IP,
        description="As in a Service. NodePort and LoadBalancer open the UI, which asks nobody for a "
        "password, outside of the cluster.",
    )
    port: int = Field(default=PORT, ge=1, le=65535, description="The port of the Service.")
    annotations: Annotations = Field(default_factory=dict, description="Annotations of the Service.")
    labels: Annotations = Field(default_factory=dict, description="Further labels of the Service.")


_BEHIND = ", ".join(f"self.httpRoute.path + '{tail}'" for tail in ("", *TAILS))


class Ui(Model):
    """Access to Spark's UI. `{}` is a Service of type ClusterIP.

    Spark's UI has no authentication. By default there is no Service; `kubectl port-forward` needs none.
    """

    service: UiService = Field(default_factory=UiService)
    ingress: Ingress | None = None
    http_route: HTTPRoute | None = None

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "!has(self.ingress) || !has(self.httpRoute) || self.ingress.path in ['/', '/*'] || "
                f"self.ingress.path in [{_BEHIND}]",
                "ingress.path and httpRoute.path must have the same prefix: Spark's pages link to one only",
            )
        )
    )

    @property
    def proxy_base(self) -> str:
        """What the driver has to put in front of its links, because no header tells it."""
        return self.ingress.prefix if self.ingress is not None else ""

    @classmethod
    def behind(cls, proxy_base: str) -> Ui | None:
        """The part of it that concerns the driver."""
        return cls(ingress=Ingress(path=proxy_base)) if proxy_base else None
