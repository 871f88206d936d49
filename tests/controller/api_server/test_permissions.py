"""The chart's Roles on a real API server: the controller under its own account, with kopf's requests.

tests/world/test_rbac.py has each permission, and what the controller itself requests.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio import client

from streamjob.protocol.messages.commands import Mode
from tests.chart.test_chart import HELM, of, render

from ..real import NEEDS_A_CLUSTER, Cluster, a_world, controller, end, eventually

pytestmark = [*NEEDS_A_CLUSTER, pytest.mark.skipif(HELM is None, reason="no helm (make test builds one)")]
RELEASE = "streamjob"
WATCHED = [("streamjob.dev", "streamjobs"), ("", "pods")]
Obj = dict[str, Any]


@pytest.fixture
async def world() -> AsyncIterator[Cluster]:
    async with a_world(controlled=False) as world:
        yield world


async def install(world: Cluster, folder: Path, without: tuple[str, str, str] | None = None) -> Path:
    """Create account, Roles and bindings of the chart.

    :param without: group, resource and verb of a permission to leave out.
    :returns: a kubeconfig of the account.
    """
    objects, namespace = (
        render("ui.ingresses=true", release=RELEASE, namespace=world.namespace),
        world.namespace,
    )
    roles, rbac = of("Role", objects), client.RbacAuthorizationV1Api(world.api)
    for rule in [rule for role in roles for rule in role["rules"]]:
        if without and without[0] in rule["apiGroups"] and without[1] in rule["resources"]:
            rule["verbs"].remove(without[2])
    for account in of("ServiceAccount", objects):
        await world.core.create_namespaced_service_account(namespace, account)
    for role in roles:
        await rbac.create_namespaced_role(namespace, role)
    for binding in of("RoleBinding", objects):
        await rbac.create_namespaced_role_binding(namespace, binding)
    await eventually(lambda: in_force(world, objects), "the authorizer's hearing of the Roles")
    requested = {"spec": {"expirationSeconds": 3600}}
    issued = await world.core.create_namespaced_service_account_token(RELEASE, namespace, requested)
    path = folder / "kubeconfig"
    path.write_text(json.dumps(kubeconfig(world.api.configuration, issued.status.token)))
    return path


async def in_force(world: Cluster, objects: list[Obj]) -> bool:
    """Whether each account may do what its Roles begin with."""
    reviews = client.AuthorizationV1Api(world.api)
    rules = {role["metadata"]["name"]: role["rules"][0] for role in of("Role", objects)}
    for binding in of("RoleBinding", objects):
        (account,), rule = binding["subjects"], rules[binding["roleRef"]["name"]]
        requested = {
            "user": f"system:serviceaccount:{world.namespace}:{account['name']}",
            "resourceAttributes": {
                "namespace": world.namespace,
                "verb": rule["verbs"][0],
                "group": rule["apiGroups"][0],
                "resource": rule["resources"][0],
            },
        }
        if not (await reviews.create_subject_access_review({"spec": requested})).status.allowed:
            return False
    return True


def kubeconfig(server: client.Configuration, token: str) -> Obj:
    cluster = {"server": server.host, "certificate-authority": server.ssl_ca_cert}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": {"token": token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "current-context": "it",
    }


async def test_a_job_from_its_start_to_its_end_with_the_charts_permissions(
    world: Cluster, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    options = ("--verbose", "--ui=Service", "--ui=Ingress")
    with controller(world.namespace, log, *options, kubeconfig=await install(world, tmp_path)) as ours:
        await world.apply(ui={"ingress": {"host": "orders.example.com"}})
        driver, config = await world.run_driver(1)
        await world.phase("Running")
        await eventually(lambda: _exposed(world, True), "the objects for Spark's UI")
        await world.patch("Running", ui=None)
        await eventually(lambda: _exposed(world, False), "their end")
        await world.patch("Stopped")
        await end(world, driver, config, Mode.STOP)
        await world.phase("Stopped")
        await world.delete()
        await eventually(lambda: _no_job(world), "the end of the job")
        calls = [s for s in await ours.samples() if s.name == "streamjob_api_requests_total"]
    assert not [s for s in calls if s.labels["code"] in ("401", "403")]
    assert "forbidden" not in log.read_text().lower()


@pytest.mark.parametrize(("group", "resource"), WATCHED)
@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_kopf_needs_to_list_and_to_watch(
    world: Cluster, tmp_path: Path, group: str, resource: str, verb: str
) -> None:
    log = tmp_path / "log"
    kubeconfig = await install(world, tmp_path, (group, resource, verb))
    with controller(world.namespace, log, kubeconfig=kubeconfig):
        refused = f'cannot {verb} resource "{resource}"'

        async def logged() -> bool:
            lines = (await asyncio.to_thread(log.read_text)).splitlines()
            return any(refused in line and " kopf" in line for line in lines)

        await eventually(logged, f"{refused!r} in the log, from kopf")


async def _exposed(world: Cluster, wanted: bool) -> bool:
    job = await world.job()
    conditions = ((job or {}).get("status") or {}).get("conditions") or ()
    return any(c["type"] == "UIAvailable" and c["status"] == "True" for c in conditions) is wanted


async def _no_job(world: Cluster) -> bool:
    return await world.job() is None
