"""What leads to Spark's UI, on a real API server: made, changed, repaired and removed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio import client

from streamjob.controller.objects import names
from streamjob.controller.objects.ui import UiKind
from streamjob.controller.reconciler import ui_objects

from ..real import NEEDS_A_CLUSTER, Cluster, Obj, a_world, controller, eventually

pytestmark = NEEDS_A_CLUSTER
ROUTES = ("gateway.networking.k8s.io", "v1")
ALL = tuple(f"--ui={kind.value}" for kind in UiKind)
HOST = "orders.example.com"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
GATEWAY_API: Obj = {  # as much of it as an API server needs
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "httproutes.gateway.networking.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
    },
    "spec": {
        "group": ROUTES[0],
        "scope": "Namespaced",
        "names": {"kind": "HTTPRoute", "plural": "httproutes", "singular": "httproute"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": ANYTHING}}
        ],
    },
}


@pytest.fixture
async def world() -> AsyncIterator[Cluster]:
    async with a_world(controlled=False) as world:
        yield world


async def condition(world: Cluster, wanted: Callable[[Obj | None], bool], what: str) -> Obj:
    """The condition UIAvailable, when it is as wanted."""

    async def found() -> Obj | None:
        job = await world.job()
        conditions = ((job or {}).get("status") or {}).get("conditions") or ()
        there = next((c for c in conditions if c["type"] == "UIAvailable"), None)
        return (there or {"status": "absent"}) if wanted(there) else None

    reached: Obj = await eventually(found, f"the condition UIAvailable: {what}")
    return reached


async def service(world: Cluster) -> Any:
    return await _or_none(world.core.read_namespaced_service("orders-ui", world.namespace))


async def ingress(world: Cluster) -> Any:
    networking = client.NetworkingV1Api(world.api)
    return await _or_none(networking.read_namespaced_ingress("orders-ui", world.namespace))


async def _or_none(call: Any) -> Any:
    try:
        return await call
    except client.ApiException as e:
        if e.status == 404:
            return None
        raise


async def test_they_are_made_changed_and_removed_while_the_driver_runs(world: Cluster) -> None:
    with controller(world.namespace, None, *ALL):
        await world.apply(ui={"ingress": {"host": HOST}, "service": {"annotations": {"note": "1"}}})
        await world.run_driver(1)
        told = await condition(world, lambda c: c is not None and c["status"] == "True", "True")
        assert told["message"] == (f"Service orders-ui.{world.namespace}:4040; Ingress http://{HOST}/")
        made, entry, pod = await service(world), await ingress(world), await world.pod(1)
        job = await world.job()
        assert job is not None
        for owned in (made, entry):
            (owner,) = owned.metadata.owner_references
            assert owner.uid == job["metadata"]["uid"]
        assert made.spec.selector.items() <= pod.metadata.labels.items()
        assert (made.spec.type, made.spec.ports[0].port, made.spec.ports[0].target_port) == (
            "ClusterIP",
            4040,
            4040,
        )
        (rule,) = entry.spec.rules
        assert (rule.host, rule.http.paths[0].path_type) == (HOST, "Prefix")

        # Somebody else's annotation stays; ours goes with its field.
        body = {"metadata": {"annotations": {"theirs": "1"}}}
        await world.core.patch_namespaced_service("orders-ui", world.namespace, body)
        await world.patch("Running", ui={"service": {"port": 80, "annotations": None}, "ingress": None})
        await condition(world, lambda c: c is not None and c["message"].endswith(":80"), "port 80")
        changed = await service(world)
        assert changed.spec.cluster_ip == made.spec.cluster_ip
        assert changed.metadata.annotations == {"theirs": "1"}
        assert await ingress(world) is None

        await world.patch("Running", ui=None)
        await condition(world, lambda c: c is None, "absent")
        assert await service(world) is None
        assert [p.metadata.labels[names.LABEL_EPOCH] for p in await world.pods()] == ["1"], "no restart"


@pytest.mark.slow
async def test_a_foreign_object_is_never_overwritten(world: Cluster) -> None:
    theirs = {
        "metadata": {"name": "orders-ui"},
        "spec": {"ports": [{"port": 9}], "selector": {"app": "theirs"}},
    }
    await world.core.create_namespaced_service(world.namespace, theirs)
    with controller(world.namespace, None, *ALL):
        await world.apply(ui={})
        await world.run_driver(1)
        told = await condition(world, lambda c: c is not None and c["status"] == "False", "False")
        assert told["reason"] == "NameTaken"
        assert "Service orders-ui exists and belongs to something else" in told["message"]
        await world.phase("Running")
        assert (await service(world)).spec.selector == {"app": "theirs"}
        await world.core.delete_namespaced_service("orders-ui", world.namespace)
        await condition(world, lambda c: c is not None and c["status"] == "True", "True")


async def test_without_the_gateway_api_the_job_runs_and_its_route_comes_with_it(
    world: Cluster, tmp_path: Path
) -> None:
    extensions, log = client.ApiextensionsV1Api(world.api), tmp_path / "log"
    if await _or_none(extensions.read_custom_resource_definition(GATEWAY_API["metadata"]["name"])):
        pytest.skip("this cluster has the Gateway API")
    with controller(world.namespace, log, *ALL) as ours:
        await world.apply(ui={"httpRoute": {"parentRefs": [{"name": "web"}], "path": "/orders"}})
        await world.run_driver(1)
        told = await condition(world, lambda c: c is not None and c["status"] == "False", "False")
        assert told["reason"] == "GatewayAPIMissing"
        assert await service(world) is not None
        await world.phase("Running")
        await extensions.create_custom_resource_definition(GATEWAY_API)
        try:
            told = await condition(world, lambda c: c is not None and c["status"] == "True", "True")
            assert told["message"].endswith("HTTPRoute */orders")
            where = (*ROUTES, world.namespace, "httproutes", "orders-ui")
            route = await world.objects.get_namespaced_custom_object(*where)
            assert route["spec"]["rules"][0]["backendRefs"] == [{"name": "orders-ui", "port": 4040}]
            await world.patch("Running", ui={"httpRoute": None})
            await condition(
                world, lambda c: c is not None and "Route" not in c["message"], "without the route"
            )
            assert await _or_none(world.objects.get_namespaced_custom_object(*where)) is None
        finally:
            await extensions.delete_custom_resource_definition(GATEWAY_API["metadata"]["name"])
        assert ours.poll() is None
    assert "Traceback" not in log.read_text()


@pytest.mark.slow
async def test_what_this_controller_may_not_make_is_told(world: Cluster) -> None:
    with controller(world.namespace, None, "--ui=Service"):
        await world.apply(ui={"ingress": {"host": HOST}})
        await world.run_driver(1)
        told = await condition(world, lambda c: c is not None and c["status"] == "False", "False")
        assert told["reason"] == "UIKindNotAllowed"
        await eventually(lambda: service(world), "the Service, which it may make")
        assert await ingress(world) is None


@pytest.mark.slow
async def test_another_leader_removes_what_was_taken_out_of_the_spec_meanwhile(world: Cluster) -> None:
    """And a job at rest costs no request for its UI."""
    with controller(world.namespace, None, *ALL):
        await world.apply(ui={"ingress": {"host": HOST}})
        await world.run_driver(1)
        await condition(world, lambda c: c is not None and c["status"] == "True", "True")
    await world.patch("Running", ui={"ingress": None})
    with controller(world.namespace, None, *ALL) as second:
        await condition(
            world, lambda c: c is not None and "Ingress" not in c["message"], "without the Ingress"
        )
        assert await ingress(world) is None
        before = await requests(second)
        assert before["list", "services"] == 1
        await world.patch("Running", savepoint={"retained": {"count": 3}})
        await eventually(lambda: _observed(world), "the new generation")
        assert await requests(second) == before


async def requests(of: Any) -> dict[tuple[str, str], float]:
    """The requests for objects of the UI."""
    found = {
        (s.labels["verb"], s.labels["resource"]): s.value
        for s in await of.samples()
        if s.name == "streamjob_api_requests_total"
    }
    return {key: value for key, value in found.items() if key[1] in ("services", "ingresses", "httproutes")}


async def _observed(world: Cluster) -> bool:
    job = await world.job()
    assert job is not None
    return bool(job["status"]["observedGeneration"] == job["metadata"]["generation"])


@pytest.mark.slow
async def test_what_somebody_deletes_or_edits_comes_back(world: Cluster) -> None:
    assert ui_objects.CHECK_EVERY <= 120
    script = (
        "import sys; from streamjob.controller import __main__ as it; "
        "from streamjob.controller.reconciler import ui_objects; "
        "ui_objects.CHECK_EVERY = 1.0; sys.exit(it.main(sys.argv[1:]))"
    )
    with controller(world.namespace, None, *ALL, start=("-c", script)):
        await world.apply(ui={"ingress": {"host": HOST}})
        await world.run_driver(1)
        await condition(world, lambda c: c is not None and c["status"] == "True", "True")
        await world.core.delete_namespaced_service("orders-ui", world.namespace)
        networking = client.NetworkingV1Api(world.api)
        body = {
            "spec": {
                "ingressClassName": "another",
                "rules": None,
                "defaultBackend": {"service": {"name": "x", "port": {"number": 1}}},
            }
        }
        await networking.patch_namespaced_ingress("orders-ui", world.namespace, body)

        async def repaired() -> bool:
            there, entry = await asyncio.gather(service(world), ingress(world))
            return there is not None and bool(entry.spec.rules) and entry.spec.rules[0].host == HOST

        await eventually(repaired, "both as they were")
