"""PodMonitor, alert rules and dashboard: off by default, and about metrics that there are."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from streamjob.controller.objects.driver_pod import driver_pod
from streamjob.controller.process import metrics
from streamjob.protocol.messages.commands import METRICS_PORT
from streamjob.runtime.process.servers.exposition import FAMILIES
from tests.controller.factories import config, job

from .test_chart import CHART, helm, of, pytestmark, render

__all__ = ["pytestmark"]
ALL = [f"monitoring.{part}.enabled=true" for part in ("podMonitor", "rules", "dashboard")]
KINDS = ("PodMonitor", "PrometheusRule", "ConfigMap")
SUFFIXES = ("", "_total", "_bucket", "_count", "_sum")


def names_that_exist() -> set[str]:
    jobs = metrics.Jobs()
    jobs.saw(job(), job().status)
    families = [*metrics.REGISTRY.collect(), *jobs.collect()]
    of_controllers = {
        f"{f.name}{suffix}" for f in families for suffix in SUFFIXES if not (f.type == "gauge" and suffix)
    }
    return of_controllers | FAMILIES.keys()


def used(text: str) -> set[str]:
    """Names of metrics in text with PromQL."""
    return set(re.findall(r"\bstreamjob_[a-z_]+", text))


def dashboard() -> Any:
    (config_map,) = of("ConfigMap", render(*ALL))
    return json.loads(config_map["data"]["streamjob.json"])


def test_off_by_default() -> None:
    assert not [o for kind in KINDS for o in of(kind, render())]


@pytest.mark.parametrize(("switch", "kind"), list(zip(ALL, KINDS, strict=True)))
def test_each_can_be_had_alone(switch: str, kind: str) -> None:
    part = switch.rpartition(".")[0]
    objects = render(switch, f"{part}.labels.release=prometheus")
    found = [o for k in KINDS for o in of(k, objects)]
    assert {o["kind"] for o in found} == {kind}
    assert all(o["metadata"]["labels"]["release"] == "prometheus" for o in found)
    assert all(o["metadata"]["namespace"] == "ops" for o in found)


def test_the_monitor_finds_the_port() -> None:
    objects = render(*ALL)
    monitor, _ = of("PodMonitor", objects)
    (deployment,) = of("Deployment", objects)
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert endpoint["port"] in {p["name"] for p in container["ports"]}
    assert endpoint["honorLabels"] is True, "a job's namespace is not the controller's"


@pytest.mark.parametrize(
    ("watched", "namespaces"),
    [
        ([], {"matchNames": ["ops"]}),
        (["watch.namespaces={a,b}"], {"matchNames": ["a", "b"]}),
        (["watch.allNamespaces=true"], {"any": True}),
    ],
)
def test_the_monitor_of_drivers_finds_their_port(watched: list[str], namespaces: dict[str, Any]) -> None:
    _, monitor = of("PodMonitor", render(*ALL, *watched))
    assert monitor["spec"]["namespaceSelector"] == namespaces
    pod = driver_pod(job(), config())
    assert monitor["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (container,) = pod["spec"]["containers"]
    assert {"name": endpoint["port"], "containerPort": METRICS_PORT} in container["ports"]


def test_rules_are_about_metrics_that_exist() -> None:
    (rules,) = of("PrometheusRule", render(*ALL))
    (group,) = rules["spec"]["groups"]
    text = (CHART / "rules" / "streamjob.yaml").read_text()
    assert rules["spec"] == yaml.safe_load(text.replace("LAG_SECONDS", "600"))
    for rule in group["rules"]:
        assert used(rule["expr"])
        assert used(rule["expr"]) <= names_that_exist(), rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert {"summary", "description"} <= rule["annotations"].keys()


def test_the_dashboard_is_about_metrics_that_exist() -> None:
    panels = dashboard()["panels"]
    for panel in panels:
        for target in panel["targets"]:
            assert used(target["expr"]) <= names_that_exist(), panel["title"]
    assert len({p["id"] for p in panels}) == len(panels)


def test_nothing_is_measured_that_nobody_looks_at() -> None:
    seen = used(json.dumps(dashboard())) | used((CHART / "rules" / "streamjob.yaml").read_text())
    families = {f.name for f in [*metrics.REGISTRY.collect(), *metrics.Jobs().collect()]} | FAMILIES.keys()
    assert not {name for name in families if not any(f"{name}{s}" in seen for s in SUFFIXES)}


def test_every_alert_is_in_the_manual() -> None:
    (rules,) = of("PrometheusRule", render(*ALL))
    manual = (CHART.parents[1] / "docs" / "operations.md").read_text()
    for rule in rules["spec"]["groups"][0]["rules"]:
        assert f"`{rule['alert']}`" in manual


def test_every_metric_is_in_the_manual() -> None:
    manual = (CHART.parents[1] / "docs" / "operations.md").read_text()
    for family in [*metrics.REGISTRY.collect(), *metrics.Jobs().collect()]:
        assert f"`{family.name}" in manual, family.name
    for name in FAMILIES:
        assert f"`{name}`" in manual, name


@pytest.mark.parametrize(
    "value",
    ["monitoring.podMonitor.interval=often", "monitoring.rules.enable=true", "monitoring.rules.lagSeconds=0"],
)
def test_wrong_values_are_refused(value: str) -> None:
    assert "schema" in helm(value).stderr
