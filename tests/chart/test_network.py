"""Who may reach whom, by the rules of NetworkPolicy, and which pods may be evicted at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from streamjob.controller.objects.driver_pod import driver_pod
from streamjob.controller.objects.executor_template import executor_template
from streamjob.controller.objects.spark_conf import spark_conf
from streamjob.controller.rules.driver_config import driver_config
from streamjob.protocol.messages.commands import CONTROL_PORT, METRICS_PORT
from tests.controller.factories import job

from .test_chart import helm, of, pytestmark, render

__all__ = ["pytestmark"]
ANYBODY = {"app": "something"}
METRICS, SPARK_UI = 8080, 4040


@dataclass(frozen=True)
class Pod:
    namespace: str
    labels: dict[str, str]


def pods(objects: list[Any], namespace: str = "ops") -> tuple[Pod, Pod, Pod]:
    """Controller, driver and executor, with the labels that they get."""
    (deployment,) = of("Deployment", objects)
    controller = Pod("ops", deployment["spec"]["template"]["metadata"]["labels"])
    orders = job(executor={"instances": 1})
    made = driver_pod(orders, driver_config(orders, None, 1, 0, None))
    executor = executor_template(orders, 1)
    return (
        controller,
        Pod(namespace, made["metadata"]["labels"]),
        Pod(namespace, executor["metadata"]["labels"]),
    )


def reaches(objects: list[Any], source: Pod, target: Pod, port: int, *, end_port: bool = True) -> bool:
    """As a network plugin decides it.

    `end_port`: whether it knows ranges; one that does not takes their first port.
    """
    policies = [
        p["spec"]
        for p in of("NetworkPolicy", objects)
        if p["metadata"]["namespace"] == target.namespace
        and chosen(p["spec"]["podSelector"], target.labels)
        and "Ingress" in p["spec"]["policyTypes"]
    ]
    rules = [rule for policy in policies for rule in policy["ingress"]]
    return not policies or any(
        allows(rule.get("from"), source, target) and includes(rule.get("ports"), port, end_port)
        for rule in rules
    )


def allows(peers: list[Any] | None, source: Pod, target: Pod) -> bool:
    return not peers or any(is_peer(peer, source, target) for peer in peers)


def is_peer(peer: Any, source: Pod, target: Pod) -> bool:
    if "namespaceSelector" in peer:
        where = {"kubernetes.io/metadata.name": source.namespace}
        here = chosen(peer["namespaceSelector"], where)
    else:
        here = source.namespace == target.namespace
    return here and chosen(peer.get("podSelector", {}), source.labels)


def chosen(selector: Any, labels: dict[str, str]) -> bool:
    assert set(selector) <= {"matchLabels"}
    return bool(selector.get("matchLabels", {}).items() <= labels.items())


def includes(ports: list[Any] | None, port: int, end_port: bool) -> bool:
    return not ports or any(
        p["port"] <= port <= (p.get("endPort", p["port"]) if end_port else p["port"]) for p in ports
    )


@pytest.mark.parametrize("where", ["ops", "shop"])
def test_the_control_port_is_the_controllers_alone(where: str) -> None:
    objects = render(f"watch.namespaces={{{where}}}")
    controller, driver, executor = pods(objects, where)
    others = [
        driver,
        executor,
        Pod(where, ANYBODY),
        Pod("elsewhere", ANYBODY),
        Pod("elsewhere", controller.labels),
    ]
    assert reaches(objects, controller, driver, CONTROL_PORT)
    assert not [pod for pod in others if reaches(objects, pod, driver, CONTROL_PORT)]


@pytest.mark.parametrize("end_port", [True, False])
def test_executors_reach_their_driver_where_the_controller_makes_it_listen(end_port: bool) -> None:
    """Also with a network plugin that does not know `endPort`."""
    conf = spark_conf(job(executor={"instances": 1}), 1)
    for values in ([], ["networkPolicy.driverFrom[0].podSelector.matchLabels.app=prometheus"]):
        objects = render(*values)
        _, driver, executor = pods(objects)
        for port in (conf["spark.driver.port"], conf["spark.driver.blockManager.port"]):
            assert reaches(objects, executor, driver, int(port), end_port=end_port)
        assert reaches(objects, driver, executor, 40000)
        assert reaches(objects, executor, executor, 40000)


def test_all_else_is_as_open_as_it_was() -> None:
    objects = render()
    controller, driver, _ = pods(objects)
    stranger = Pod("elsewhere", ANYBODY)
    for port in (1, SPARK_UI, CONTROL_PORT - 1, CONTROL_PORT + 1, 65535):
        assert reaches(objects, stranger, driver, port)
    assert reaches(objects, stranger, controller, METRICS)
    assert reaches(objects, stranger, Pod("ops", ANYBODY), CONTROL_PORT), "other pods are none of ours"


def test_the_rest_can_be_closed_too() -> None:
    only = "[0].podSelector.matchLabels.app=prometheus"
    objects = render(f"networkPolicy.driverFrom{only}", f"networkPolicy.metricsFrom{only}")
    controller, driver, _ = pods(objects)
    prometheus, stranger = Pod("ops", {"app": "prometheus"}), Pod("ops", ANYBODY)
    for target, port in ((driver, SPARK_UI), (driver, METRICS_PORT), (controller, METRICS)):
        assert reaches(objects, prometheus, target, port)
        assert not reaches(objects, stranger, target, port)
    assert not reaches(objects, prometheus, driver, CONTROL_PORT)


def test_the_controllers_port_is_the_one_that_it_listens_on() -> None:
    (deployment,) = of("Deployment", render())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert [p["containerPort"] for p in container["ports"]] == [METRICS]


def test_policies_can_be_left_out() -> None:
    assert not of("NetworkPolicy", render("networkPolicy.enabled=false"))


def test_one_replica_stays_while_nodes_are_drained() -> None:
    objects = render()
    (budget,) = of("PodDisruptionBudget", objects)
    controller, driver, executor = pods(objects)
    assert budget["spec"]["minAvailable"] == 1
    assert chosen(budget["spec"]["selector"], controller.labels)
    assert not chosen(budget["spec"]["selector"], driver.labels)
    assert not chosen(budget["spec"]["selector"], executor.labels)


@pytest.mark.parametrize("value", ["replicas=1", "podDisruptionBudget.enabled=false"])
def test_a_budget_for_one_replica_would_only_block_its_node(value: str) -> None:
    assert not of("PodDisruptionBudget", render(value))


@pytest.mark.parametrize(
    "value",
    ["networkPolicy.enabled=sometimes", "networkPolicy.driverFrom[0].pods=x", "podDisruptionBudget.max=1"],
)
def test_wrong_values_are_refused(value: str) -> None:
    assert "schema" in helm(value).stderr
