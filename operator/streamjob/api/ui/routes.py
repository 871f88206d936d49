"""What leads to the Service from outside of the cluster: an Ingress or an HTTPRoute."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from ..types import Model, Named, cel

# A segment of a path. Spark's pages take `proxy` and `history` in an address for a proxy of their own.
_SEGMENT = r"/[A-Za-z0-9_~-][A-Za-z0-9._~-]*"
_TAILS = (r"/", r"/[*]", r"[(]/[|][$][)][(][.][*][)]")
ROUTE_PATH = rf"/|({_SEGMENT})+"
INGRESS_PATH = rf"/|/[*]|({_SEGMENT})+({'|'.join(_TAILS)})?"
TAILS = ("(/|$)(.*)", "/*", "/")  # of an Ingress' path: what comes after the prefix
OF_SPARK = r"(.*/)?(proxy|history)([/(].*)?"
_MISTAKEN = "must not have a segment `proxy` or `history`: Spark's pages would take it for a proxy of theirs"
_HOST = r"([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"

Host = Annotated[
    str,
    Field(
        min_length=1,
        max_length=253,
        json_schema_extra=cel(
            (
                f"self.matches('^{_HOST}$')",
                "must be a DNS name in lower case, such as clicks.example.com or *.example.com",
            )
        ),
    ),
]
Annotations = Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=64)]


class IngressTLS(Model):
    """As in an Ingress."""

    hosts: tuple[Host, ...] = Field(default=(), max_length=16, description="Names in the certificate.")
    secret_name: Named | None = Field(
        default=None, description="Secret with the certificate, of type kubernetes.io/tls."
    )


class Ingress(Model):
    """An Ingress `NAME-ui` that leads to the Service.

    The Ingress controller has to authenticate the users: Spark's UI does not.
    """

    host: Host | None = Field(
        default=None, description="The host of its only rule. Without it, every host leads here."
    )
    path: Annotated[
        str,
        Field(
            min_length=1,
            max_length=256,
            description="Path of the UI. A path other than / is a prefix that the Ingress controller has to "
            "remove from requests, as its annotations say. The pattern (/|$)(.*) or /* may follow the "
            "prefix, for controllers that want it; then pathType is ImplementationSpecific, else Prefix. A "
            "new prefix is a change of the driver, which has it as spark.ui.proxyBase.",
            json_schema_extra=cel(
                (
                    f"self.matches(r'^({INGRESS_PATH})$')",
                    "must be /, or a path such as /streams/clicks, which (/|$)(.*) or /* may follow",
                ),
                (f"!self.matches(r'^{OF_SPARK}$')", _MISTAKEN),
            ),
        ),
    ] = "/"
    ingress_class_name: Named | None = Field(
        default=None, description="The IngressClass. The cluster's default one if unset."
    )
    annotations: Annotations = Field(default_factory=dict, description="Annotations of the Ingress.")
    tls: tuple[IngressTLS, ...] = Field(default=(), max_length=16, description="As in an Ingress.")

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "has(self.host) || !(self.path in ['/', '/*'])",
                "an Ingress with neither host nor path would take all requests of the Ingress controller",
            )
        )
    )

    @property
    def prefix(self) -> str:
        """The path in front of every page of the UI: `/streams/clicks`, or empty."""
        for tail in TAILS:
            if self.path.endswith(tail):
                return self.path.removesuffix(tail)
        return self.path


class ParentRef(Model):
    """A Gateway, as in an HTTPRoute."""

    name: Named = Field(description="Name of the Gateway.")
    namespace: Named | None = Field(default=None, description="Its namespace; the job's own if unset.")
    section_name: Named | None = Field(default=None, description="Its listener; all of them if unset.")
    port: int | None = Field(default=None, ge=1, le=65535, description="The listener's port.")


class HTTPRoute(Model):
    """An HTTPRoute `NAME-ui` of the Gateway API that leads to the Service.

    The Gateway has to authenticate the users: Spark's UI does not.
    """

    parent_refs: tuple[ParentRef, ...] = Field(
        min_length=1, max_length=32, description="The Gateways that it is attached to."
    )
    hostnames: tuple[Host, ...] = Field(
        default=(), max_length=16, description="Hosts that lead here; those of the Gateway if empty."
    )
    path: Annotated[
        str,
        Field(
            min_length=1,
            max_length=256,
            description="Path of the UI. The route removes a path other than / from requests and tells Spark "
            "of it in the header X-Forwarded-Context. It can change while the driver runs.",
            json_schema_extra=cel(
                (
                    f"self.matches(r'^({ROUTE_PATH})$')",
                    "must be /, or a path such as /streams/clicks",
                ),
                (f"!self.matches(r'^{OF_SPARK}$')", _MISTAKEN),
            ),
        ),
    ] = "/"
    annotations: Annotations = Field(default_factory=dict, description="Annotations of the HTTPRoute.")

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "size(self.hostnames) > 0 || self.path != '/'",
                "an HTTPRoute with neither hostnames nor path would take all requests of the Gateway",
            )
        )
    )

    @property
    def prefix(self) -> str:
        return "" if self.path == "/" else self.path
