"""Paths of the Kubernetes API, and what a Role calls the request to such a path."""

from __future__ import annotations

from functools import lru_cache

from ...api import GROUP, PLURAL, VERSION
from ..objects.ui import API_VERSIONS, UiKind

UI_PLURALS = {UiKind.SERVICE: "services", UiKind.INGRESS: "ingresses", UiKind.HTTP_ROUTE: "httproutes"}


@lru_cache(maxsize=1024)
def verb_and_resource(method: str, path: str) -> tuple[str, str]:
    """Return verb and resource of a call, as a Role names them: ("update", "streamjobs/status")."""
    parts = path.partition("?")[0].strip("/").split("/")
    after = parts.index("namespaces") + 2 if "namespaces" in parts else 2 if parts[0] == "api" else 3
    plural, *rest = parts[after:]
    verbs = {"GET": "get" if rest else "list", "POST": "create", "PUT": "update", "PATCH": "patch"}
    return verbs.get(method, method.lower()), "/".join([plural, *rest[1:]])


def job(namespace: str, name: str) -> str:
    return f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}/{name}"


def definition(name: str) -> str:
    return f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"


def lease(namespace: str, name: str | None = None) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases" + (f"/{name}" if name else "")


def core(namespace: str, plural: str, name: str | None = None) -> str:
    return f"/api/v1/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")


def event(namespace: str, name: str | None = None) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events" + (f"/{name}" if name else "")


def of_ui(kind: UiKind, namespace: str, name: str) -> str:
    group, plural = ui_collection(kind)
    return f"{group}/namespaces/{namespace}/{plural}/{name}"


def ui_collection(kind: UiKind) -> tuple[str, str]:
    """The path of the group and version, and the plural, of what leads to Spark's UI."""
    version = API_VERSIONS[kind]
    return f"/apis/{version}" if "/" in version else f"/api/{version}", UI_PLURALS[kind]
