"""The Service, the Ingress and the HTTPRoute of Spark's UI, as Kubernetes gets them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streamjob.api import Specification
from streamjob.api.ui.routes import INGRESS_PATH, OF_SPARK, ROUTE_PATH, Ingress
from streamjob.controller.objects import names, ui
from streamjob.controller.objects.spark_conf import spark_conf
from streamjob.controller.objects.ui import UiKind

from ..factories import UID, job

ROUTE = {"parentRefs": [{"name": "web", "namespace": "infra"}], "hostnames": ["spark.example.com"]}


def made(wanted: Any, runs: Specification | None = None, **spec: Any) -> dict[UiKind, Any]:
    return ui.objects(job(ui=wanted, **spec), runs)


def test_a_job_that_asks_for_nothing_has_nothing() -> None:
    assert made(None) == {}


def test_the_service_leads_to_the_driver_and_goes_with_the_job() -> None:
    found = made({})
    assert list(found) == [UiKind.SERVICE]
    service = found[UiKind.SERVICE]
    assert service["metadata"]["name"] == "orders-ui"
    assert service["metadata"]["ownerReferences"][0]["uid"] == UID
    assert service["spec"] == {
        "type": "ClusterIP",
        "selector": {names.LABEL_UID: UID, names.LABEL_COMPONENT: names.DRIVER},
        "ports": [
            {"name": "http", "port": 4040, "targetPort": 4040, "protocol": "TCP", "appProtocol": "http"}
        ],
    }


def test_the_port_is_that_of_the_driver_that_runs() -> None:
    """Not that of a spec that an upgrade has still to bring to it."""
    runs = Specification.of(job(sparkConf={"spark.ui.port": "4050"}).spec)
    found = made({"service": {"port": 80}}, runs, sparkConf={"spark.ui.port": "4060"})
    assert found[UiKind.SERVICE]["spec"]["ports"][0]["targetPort"] == 4050
    assert found[UiKind.SERVICE]["spec"]["ports"][0]["port"] == 80
    later = made({}, None, sparkConf={"spark.ui.port": "4060"})
    assert later[UiKind.SERVICE]["spec"]["ports"][0]["targetPort"] == 4060


def test_no_label_of_a_user_takes_the_place_of_ours() -> None:
    labels = {"team": "data", names.LABEL_UID: "another", ui.LABEL_APPLIED: "x"}
    service = made({"service": {"labels": labels, "annotations": {"note": "1"}}})[UiKind.SERVICE]
    assert service["metadata"]["labels"]["team"] == "data"
    assert service["metadata"]["labels"][names.LABEL_UID] == UID
    assert service["metadata"]["labels"][ui.LABEL_APPLIED] == ui.digest(service) != "x"
    assert service["metadata"]["annotations"] == {"note": "1"}


def test_an_ingress_in_kubernetes_own_terms() -> None:
    wanted = {
        "host": "spark.example.com",
        "path": "/streams/orders(/|$)(.*)",
        "ingressClassName": "nginx",
        "annotations": {"nginx.ingress.kubernetes.io/rewrite-target": "/$2"},
        "tls": [{"hosts": ["spark.example.com"], "secretName": "spark-tls"}],
    }
    ingress = made({"ingress": wanted})[UiKind.INGRESS]
    assert ingress["metadata"]["annotations"] == wanted["annotations"]
    backend = {"service": {"name": "orders-ui", "port": {"name": "http"}}}
    path = {"path": wanted["path"], "pathType": "ImplementationSpecific", "backend": backend}
    assert ingress["spec"] == {
        "rules": [{"host": "spark.example.com", "http": {"paths": [path]}}],
        "ingressClassName": "nginx",
        "tls": [{"hosts": ["spark.example.com"], "secretName": "spark-tls"}],
    }
    assert ui.address(ingress) == "Ingress https://spark.example.com/streams/orders(/|$)(.*)"


@pytest.mark.parametrize(
    ("path", "kind", "prefix"),
    [
        ("/", "Prefix", ""),
        ("/*", "ImplementationSpecific", ""),
        ("/a/b", "Prefix", "/a/b"),
        ("/a/b/", "Prefix", "/a/b"),
        ("/a/b/*", "ImplementationSpecific", "/a/b"),
        ("/a/b(/|$)(.*)", "ImplementationSpecific", "/a/b"),
    ],
)
def test_the_prefix_of_an_ingress_is_the_drivers(path: str, kind: str, prefix: str) -> None:
    """A driver behind a prefix puts it in front of its links; no header of an Ingress could tell it."""
    wanted = job(ui={"ingress": {"host": "a.example.com", "path": path}})
    (rule,) = ui.objects(wanted, None)[UiKind.INGRESS]["spec"]["rules"]
    assert rule["http"]["paths"][0]["pathType"] == kind
    assert Ingress(path=path).prefix == prefix
    assert spark_conf(wanted, 1).get("spark.ui.proxyBase", "") == prefix
    assert Specification.of(wanted.spec).proxy_base == prefix
    assert (Specification.of(wanted.spec) == Specification.of(job().spec)) is (prefix == "")


def test_a_driver_that_is_rolled_back_has_the_prefix_that_it_had() -> None:
    """Otherwise it would not be made from what the rollback names, and be replaced again and again."""
    old, new = job(), job(ui={"ingress": {"path": "/new"}, "service": {"port": 80}})
    for wanted, before in ((old, new), (new, old)):
        back = wanted.made_from(Specification.of(before.spec))
        assert Specification.of(back.spec) == Specification.of(before.spec)
        assert spark_conf(back, 1) == spark_conf(before, 1)


def test_a_route_removes_its_prefix_and_tells_spark() -> None:
    """In a header, so that the driver need not be another one."""
    route = made({"httpRoute": {**ROUTE, "path": "/orders"}})[UiKind.HTTP_ROUTE]
    (rule,) = route["spec"].pop("rules")
    assert route["spec"] == ROUTE
    assert rule == {
        "matches": [{"path": {"type": "PathPrefix", "value": "/orders"}}],
        "backendRefs": [{"name": "orders-ui", "port": 4040}],
        "filters": [
            {
                "type": "RequestHeaderModifier",
                "requestHeaderModifier": {"set": [{"name": "X-Forwarded-Context", "value": "/orders"}]},
            },
            {
                "type": "URLRewrite",
                "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}},
            },
        ],
    }
    with_prefix = Specification.of(job(ui={"httpRoute": {**ROUTE, "path": "/orders"}}).spec)
    assert with_prefix == Specification.of(job().spec)
    assert "filters" not in made({"httpRoute": ROUTE})[UiKind.HTTP_ROUTE]["spec"]["rules"][0]


def test_what_was_applied_is_another_when_anything_is() -> None:
    first = ui.digest(made({})[UiKind.SERVICE])
    assert first == ui.digest(made({})[UiKind.SERVICE])
    assert first != ui.digest(made({"service": {"port": 80}})[UiKind.SERVICE])


def test_sparks_defaults_are_safe_and_the_users_own_win() -> None:
    """A link `(kill)` on a page that asks nobody for a password would fail the query."""
    for executors in (0, 1):
        conf = spark_conf(job(executor={"instances": executors}), 1)
        assert conf["spark.ui.killEnabled"] == "false"
        assert conf["spark.ui.proxyRedirectUri"] == "/"
        assert "spark.ui.proxyBase" not in conf
    own = {"spark.ui.killEnabled": "true", "spark.ui.proxyBase": "/mine"}
    conf = spark_conf(job(sparkConf=own, ui={"ingress": {"path": "/other"}}), 1)
    assert {key: conf[key] for key in own} == own


@pytest.mark.parametrize("path", ["", "a", "//", "/a//b", "/../a", "/a?b", "/a(.*)", "/a*", "/ä", "/a b"])
def test_no_path(path: str) -> None:
    assert not re.fullmatch(INGRESS_PATH, path)
    assert not re.fullmatch(ROUTE_PATH, path)


@pytest.mark.parametrize("path", ["/proxy", "/a/proxy/b", "/history(/|$)(.*)", "/a/history/"])
def test_a_path_that_sparks_pages_would_mistake(path: str) -> None:
    assert re.fullmatch(INGRESS_PATH, path)
    assert re.fullmatch(OF_SPARK, path)


@pytest.mark.parametrize("path", ["/proxies", "/my-proxy/a", "/histories"])
def test_a_path_that_they_would_not(path: str) -> None:
    assert re.fullmatch(ROUTE_PATH, path)
    assert not re.fullmatch(OF_SPARK, path)
