"""Access to Spark's UI, as both operators' applications have it."""

from __future__ import annotations

from typing import Any

from ...api.ui.access import PORT, ServiceType
from ...api.ui.routes import INGRESS_PATH, OF_SPARK, ROUTE_PATH, TAILS, ParentRef
from .. import values
from ..draft import Draft
from ..source import Path

OTHER_PORTS = (
    "spec.ui is for Spark's UI only: for another port of the driver, make a Service of your own with the "
    "labels streamjob.dev/job and streamjob.dev/component: driver"
)
PORT_NAME = "the port of the Service is named http"
HOST = "the host of Spark's UI, or a path: the old operator made them from its own option ingress-url-format"
TYPES = tuple(kind.value for kind in ServiceType)
ELSE = "spec.ui has nothing else of a Service, an Ingress or an HTTPRoute"


def of_kubeflow(draft: Draft, at: Path) -> None:
    """`sparkUIOptions`: a Service, and an Ingress if the operator has an option for its address."""
    source = draft.source
    if not source.get(at):
        return
    draft.put("ui", {})
    draft.keep((*at, "servicePort"), "ui.service.port", source.get((*at, "servicePort")))
    _type(draft, (*at, "serviceType"))
    source.dropped((*at, "servicePortName"), PORT_NAME)
    for field, to in (("serviceAnnotations", "annotations"), ("serviceLabels", "labels")):
        _strings(draft, (*at, field), f"ui.service.{to}")
    _strings(draft, (*at, "ingressAnnotations"), "ui.ingress.annotations")
    _tls(draft, (*at, "ingressTLS"))
    hosts = [host for tls in source.get((*at, "ingressTLS"), []) for host in tls.get("hosts") or ()]
    if hosts:
        draft.put("ui.ingress.host", hosts[0])
    elif draft.has("ui.ingress"):
        source.decide("spec.ui.ingress.host", HOST)


def of_apache(draft: Draft, services: Path, routes: Path) -> None:
    """`driverServiceIngressList` and `driverHttpRouteList`: of each the first that is for Spark's UI."""
    source = draft.source
    ui_port = source.get(("spec", "sparkConf"), {}).get("spark.ui.port", PORT)
    for at in (services, routes):
        of_ui = [child for child in source.children(at) if _is_for_ui(draft, child, values.string(ui_port))]
        if of_ui:
            first = of_ui[0]
            draft.spec.setdefault("ui", {})
            _service(draft, first)
            (_ingress if at is services else _route)(draft, first)
            source.dropped(first, ELSE)
        source.dropped(at, OTHER_PORTS)


def _is_for_ui(draft: Draft, entry: Path, ui_port: str) -> bool:
    ports = draft.source.get((*entry, "serviceSpec", "ports"), [])
    return bool(ports) and values.string(ports[0].get("targetPort") or ports[0].get("port")) == ui_port


def _service(draft: Draft, entry: Path) -> None:
    source = draft.source
    port: Path = (*entry, "serviceSpec", "ports", 0)
    draft.keep((*port, "port"), "ui.service.port", source.get((*port, "port")))
    source.unneeded((*port, "targetPort"), "the Service leads to spark.ui.port")
    source.dropped((*port, "name"), PORT_NAME)
    source.unneeded((*entry, "serviceMetadata", "name"), "its name is NAME-ui")
    source.unneeded((*entry, "serviceSpec", "selector"), "the Service selects the driver")
    _type(draft, (*entry, "serviceSpec", "type"))
    for field in ("annotations", "labels"):
        _strings(draft, (*entry, "serviceMetadata", field), f"ui.service.{field}")


def _ingress(draft: Draft, entry: Path) -> None:
    source, spec = draft.source, (*entry, "ingressSpec")
    if not source.get(spec):
        return
    rule: Path = (*spec, "rules", 0)
    path: Path = (*rule, "http", "paths", 0)
    draft.put("ui.ingress", {})
    source.unneeded((*entry, "ingressMetadata", "name"), "its name is NAME-ui")
    _strings(draft, (*entry, "ingressMetadata", "annotations"), "ui.ingress.annotations")
    class_name: Path = (*spec, "ingressClassName")
    draft.keep(class_name, "ui.ingress.ingressClassName", source.get(class_name))
    draft.keep((*rule, "host"), "ui.ingress.host", source.get((*rule, "host")))
    _path(draft, (*path, "path"), "ui.ingress.path", INGRESS_PATH)
    source.unneeded((*path, "pathType"), "it follows from the path")
    source.unneeded((*path, "backend"), "it leads to the Service")
    _tls(draft, (*spec, "tls"))
    if not draft.has("ui.ingress.host") and draft.spec["ui"]["ingress"].get("path", "/") in ("/", "/*"):
        source.decide("spec.ui.ingress.host", "the host of Spark's UI, or a path")


def _route(draft: Draft, entry: Path) -> None:
    source, spec = draft.source, (*entry, "httpRouteSpec")
    if not source.get(spec):
        return
    source.unneeded((*entry, "httpRouteMetadata", "name"), "its name is NAME-ui")
    _strings(draft, (*entry, "httpRouteMetadata", "annotations"), "ui.httpRoute.annotations")
    draft.keep((*spec, "hostnames"), "ui.httpRoute.hostnames", source.get((*spec, "hostnames")))
    _path(draft, (*spec, "rules", 0, "matches", 0, "path", "value"), "ui.httpRoute.path", ROUTE_PATH)
    refs = []
    for child in source.children((*spec, "parentRefs")):
        ref: dict[str, Any] = source.get(child)
        own = {str(f.alias or name) for name, f in ParentRef.model_fields.items()}
        if ref.get("kind", "Gateway") == "Gateway" and ref.get("name"):
            refs.append({key: value for key, value in ref.items() if key in own})
            for key in own:
                source.kept((*child, key), "spec.ui.httpRoute.parentRefs")
            source.unneeded(child, "a parent is a Gateway")
        else:
            source.dropped(child, "a parent of spec.ui.httpRoute is a Gateway")
    draft.put("ui.httpRoute.parentRefs", refs)
    if not refs:
        source.decide("spec.ui.httpRoute.parentRefs", "the Gateway that the route is attached to")
    if not source.get((*spec, "hostnames")) and "path" not in draft.spec["ui"]["httpRoute"]:
        source.decide("spec.ui.httpRoute.hostnames", "the host of Spark's UI, or a path")


def _type(draft: Draft, path: Path) -> None:
    if draft.source.get(path) in TYPES:
        draft.keep(path, "ui.service.type", draft.source.get(path))
    else:
        draft.source.dropped(path, f"the Service is one of {', '.join(TYPES)}")


def _strings(draft: Draft, path: Path, to: str) -> None:
    """Annotations or labels."""
    if found := draft.source.get(path):
        draft.keep(path, to, {key: values.string(value) for key, value in found.items()})


def _tls(draft: Draft, path: Path) -> None:
    if found := draft.source.get(path):
        own = [{key: tls[key] for key in ("hosts", "secretName") if tls.get(key)} for tls in found]
        draft.keep(path, "ui.ingress.tls", own)


def _path(draft: Draft, path: Path, to: str, pattern: str) -> None:
    given = draft.source.get(path)
    if given is None:
        return
    if values.matches(pattern, given) and not values.matches(OF_SPARK, given):
        draft.keep(path, to, given)
    else:
        allowed = f", which {TAILS[0]} or {TAILS[1]} may follow" if pattern is INGRESS_PATH else ""
        draft.source.dropped(path, f"a path is /, or one such as /streams/orders{allowed}")
