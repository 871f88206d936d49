"""What leads to Spark's UI: the Service of the running driver, the Ingress and the HTTPRoute.

They live as long as the job asks for them, whatever becomes of its drivers: an address stays the same. The
Service has no pod behind it while no driver runs.
"""

from __future__ import annotations

import hashlib
import json
from enum import Enum

from ...api import Specification, StreamJob, UpgradeMode
from ...api.ui.access import PORT
from ...api.ui.routes import HTTPRoute, Ingress, IngressTLS
from . import Obj, names
from .owned import owner

COMPONENT = "ui"
ALL = f"{names.LABEL_COMPONENT}={COMPONENT}"
# A hash of what was applied. A label, because the controller reads no annotations of other people's objects.
LABEL_APPLIED = f"{names.LABEL_JOB.partition('/')[0]}/applied"
PORT_NAME = "http"
# Spark takes the path in front of its pages from this header, unless spark.ui.proxyBase says it.
CONTEXT_HEADER = "X-Forwarded-Context"


class UiKind(str, Enum):
    """In the order in which they are made."""

    SERVICE = "Service"
    INGRESS = "Ingress"
    HTTP_ROUTE = "HTTPRoute"


API_VERSIONS = {
    UiKind.SERVICE: "v1",
    UiKind.INGRESS: "networking.k8s.io/v1",
    UiKind.HTTP_ROUTE: "gateway.networking.k8s.io/v1",
}


def name(job: str) -> str:
    return f"{job}-ui"


def objects(job: StreamJob, runs: Specification | None) -> dict[UiKind, Obj]:
    """Build what the spec asks for, by kind.

    :param runs: what the running driver was made from; None if none runs.
    """
    ui = job.spec.ui
    if ui is None:
        return {}
    found = {UiKind.SERVICE: _service(job, _port(runs or Specification.of(job.spec)))}
    if ui.ingress is not None:
        found[UiKind.INGRESS] = _ingress(job, ui.ingress)
    if ui.http_route is not None:
        found[UiKind.HTTP_ROUTE] = _http_route(job, ui.http_route, ui.service.port)
    for obj in found.values():
        obj["metadata"]["labels"][LABEL_APPLIED] = _digest(obj)
    return found


def digest(obj: Obj) -> str:
    """Identify what was applied, by an object or by its metadata; empty for objects of others."""
    return str((obj["metadata"].get("labels") or {}).get(LABEL_APPLIED, ""))


def address(obj: Obj) -> str:
    """Describe for people where an object leads: `Ingress https://clicks.example.com/`."""
    kind, spec = UiKind(obj["kind"]), obj["spec"]
    match kind:
        case UiKind.SERVICE:
            meta = obj["metadata"]
            return f"{kind.value} {meta['name']}.{meta['namespace']}:{spec['ports'][0]['port']}"
        case UiKind.INGRESS:
            (rule,) = spec["rules"]
            path = rule["http"]["paths"][0]["path"]
            scheme = "https" if spec.get("tls") else "http"
            return f"{kind.value} {scheme}://{rule.get('host', '*')}{path}"
        case UiKind.HTTP_ROUTE:
            path = spec["rules"][0]["matches"][0]["path"]["value"]
            hosts = ", ".join(f"{host}{path}" for host in spec.get("hostnames") or ("*",))
            return f"{kind.value} {hosts}"


def _port(specification: Specification) -> int:
    text = specification.spark_conf.get("spark.ui.port", "")
    return int(text) if text.isascii() and text.isdigit() and int(text) else PORT


def _service(job: StreamJob, target: int) -> Obj:
    assert job.spec.ui is not None
    wanted = job.spec.ui.service
    port = {"name": PORT_NAME, "port": wanted.port, "targetPort": target, "protocol": "TCP"}
    return _object(job, UiKind.SERVICE, wanted.annotations, wanted.labels) | {
        "spec": {
            "type": wanted.type.value,
            "selector": _driver_that_leads(job),
            "ports": [{**port, "appProtocol": "http"}],
        },
    }


def _driver_that_leads(job: StreamJob) -> dict[str, str]:
    """Of the drivers of a job at most one runs, unless another one is prepared beside it."""
    found = {names.LABEL_UID: job.metadata.uid, names.LABEL_COMPONENT: names.DRIVER}
    if job.spec.upgrade.mode is UpgradeMode.HANDOVER or job.spec.driver.standby:
        found[names.LABEL_EPOCH] = str(job.status.epoch)
    return found


def _ingress(job: StreamJob, wanted: Ingress) -> Obj:
    assert job.spec.ui is not None
    backend = {"service": {"name": name(job.metadata.name), "port": {"name": PORT_NAME}}}
    literal = wanted.path in ("/", wanted.prefix, f"{wanted.prefix}/")
    path = {
        "path": wanted.path,
        "pathType": "Prefix" if literal else "ImplementationSpecific",
        "backend": backend,
    }
    rule = {**({"host": wanted.host} if wanted.host else {}), "http": {"paths": [path]}}
    spec: Obj = {"rules": [rule]}
    if wanted.ingress_class_name is not None:
        spec["ingressClassName"] = wanted.ingress_class_name
    if wanted.tls:
        spec["tls"] = [_tls(tls) for tls in wanted.tls]
    return _object(job, UiKind.INGRESS, wanted.annotations) | {"spec": spec}


def _tls(tls: IngressTLS) -> Obj:
    found: Obj = {"hosts": list(tls.hosts)} if tls.hosts else {}
    return found | ({"secretName": tls.secret_name} if tls.secret_name else {})


def _http_route(job: StreamJob, wanted: HTTPRoute, port: int) -> Obj:
    rule: Obj = {
        "matches": [{"path": {"type": "PathPrefix", "value": wanted.path}}],
        "backendRefs": [{"name": name(job.metadata.name), "port": port}],
    }
    if wanted.prefix:
        header = {"name": CONTEXT_HEADER, "value": wanted.prefix}
        rewrite = {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}
        rule["filters"] = [
            {"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [header]}},
            {"type": "URLRewrite", "urlRewrite": rewrite},
        ]
    spec: Obj = {"parentRefs": [ref.plain() for ref in wanted.parent_refs], "rules": [rule]}
    if wanted.hostnames:
        spec["hostnames"] = list(wanted.hostnames)
    return _object(job, UiKind.HTTP_ROUTE, wanted.annotations) | {"spec": spec}


def _object(
    job: StreamJob, kind: UiKind, annotations: dict[str, str], labels: dict[str, str] | None = None
) -> Obj:
    ours = {**names.common_labels(job, COMPONENT), **names.labels(job), names.LABEL_COMPONENT: COMPONENT}
    meta: Obj = {
        "name": name(job.metadata.name),
        "namespace": job.metadata.namespace,
        "labels": {**(labels or {}), **ours},
        "ownerReferences": [owner(job)],
    }
    if annotations:
        meta["annotations"] = dict(annotations)
    return {"apiVersion": API_VERSIONS[kind], "kind": kind.value, "metadata": meta}


def _digest(obj: Obj) -> str:
    return hashlib.sha256(json.dumps(obj, sort_keys=True).encode()).hexdigest()[:16]
