"""The fake API server is held against the real one: the same random requests, through the production `Kube`,
get the same answers and leave the same objects.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from kubernetes.aio import client, config

from streamjob.controller.api_server.errors import KubeError
from streamjob.controller.api_server.kube import Kube

from .apiserver import ApiServer
from .network import Answer
from .permissions import Request as Asked
from .permissions import Right, Rights

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not os.environ.get("KUBECONFIG"), reason="KUBECONFIG names no cluster (make cluster)"),
    pytest.mark.skipif(bool(os.environ.get("CLUSTER")), reason="uses the kubeconfig's current context"),
]
NAMES = ("a", "b")
NODE = f"none-{uuid.uuid4().hex[:8]}"
FINALIZER = "streamjob.dev/termination"
STATES = ("Running", "Stopped", "Drained", "Cancelled")
JOBS = "/apis/streamjob.dev/v1alpha1/namespaces/{}/streamjobs/"
MERGE = "application/merge-patch+json"
Obj = dict[str, Any]


class Direct:
    """The fake, without a network in between."""

    def __init__(self, rights: Rights | None = None) -> None:
        now = lambda: datetime.now(timezone.utc)  # noqa: E731
        self.server = ApiServer(now, lambda change: None, random.Random(1), rights)

    async def param_serialize(self, method: str, path: str, **_: Any) -> tuple[Any, ...]:
        return method, path, {}

    async def call_api(self, method: str, url: str, headers: Any, body: Any, **_: Any) -> Answer:
        code, text = self.server.handle("test", method, url, body)
        return Answer(code, text.encode())

    async def close(self) -> None:
        pass


class Side:
    """One of the two servers.

    It remembers what it has seen of each object, so that a request can name an old version.
    """

    def __init__(self, kube: Kube, namespace: str) -> None:
        self.kube, self.namespace = kube, namespace
        self.seen: dict[tuple[str, str], list[Obj]] = {}

    async def get(self, kind: str, name: str) -> Obj | None:
        return await self.kube._or_none(self.kube._call("GET", self.path(kind, name)))

    def path(self, kind: str, name: str) -> str:
        if kind == "streamjobs":
            return JOBS.format(self.namespace) + name
        return f"/api/v1/namespaces/{self.namespace}/{kind}/{name}"

    async def patch(self, kind: str, name: str, body: Obj, sub: str = "") -> None:
        await self.kube._call("PATCH", self.path(kind, name) + sub, body, content=MERGE)

    def known(self, kind: str, name: str, age: int) -> Obj:
        """What it was `age` looks ago; something that never was, if it has not been seen."""
        seen = self.seen.get((kind, name)) or [
            {"metadata": {"uid": str(uuid.UUID(int=1)), "resourceVersion": "1"}}
        ]
        return seen[max(len(seen) - 1 - age, 0)]

    async def look(self, kind: str, name: str) -> Obj:
        """The parts of the object that the controller goes by, and whether it is another
        version than before.
        """
        obj = await self.get(kind, name)
        if obj is None:
            return {"there": False}
        meta, status = obj["metadata"], obj.get("status") or {}
        before = self.known(kind, name, 0)["metadata"]
        self.seen.setdefault((kind, name), []).append(obj)
        return {
            "same uid": meta["uid"] == before["uid"],
            "same version": meta["resourceVersion"] == before["resourceVersion"],
            "generation": meta.get("generation") if kind == "streamjobs" else None,
            "finalizers": meta.get("finalizers", []),
            "deleting": "deletionTimestamp" in meta,
            "grace": meta.get("deletionGracePeriodSeconds"),
            "labels": meta.get("labels"),
            "state": obj.get("spec", {}).get("state"),
            "phase": status.get("phase"),
            "epoch": status.get("epoch"),
            "data": obj.get("data"),
        }


Request = Callable[[Side], Awaitable[Any]]


def job(name: str, state: str) -> Obj:
    spec = {"state": state, "image": "x:1", "application": {"file": "/a.py"}}
    spec["storage"] = {"checkpoints": "file:///c", "savepoints": "file:///s"}
    meta = {"name": name, "finalizers": [FINALIZER]}
    return {"apiVersion": "streamjob.dev/v1alpha1", "kind": "StreamJob", "metadata": meta, "spec": spec}


def pod(name: str, node: bool) -> Obj:
    """Nobody else may write it, or its version is another one at any moment: no scheduler (it would note that
    no node fits), no kubelet. A node that is not there is one of this run alone: the pod collector notices
    after 40 s that it is missing.
    """
    spec: Obj = {"containers": [{"name": "driver", "image": "x:1"}], "terminationGracePeriodSeconds": 20}
    spec |= {"nodeName": NODE} if node else {"schedulerName": "nobody"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"of": "test"}},
        "spec": spec,
    }


def draw(rng: random.Random) -> tuple[str, str, str, Request]:
    """A request: of what kind, to which object, in words, and how to make it."""
    kind, name = (
        rng.choice(("streamjobs", "streamjobs", "pods", "pods", "configmaps", "secrets")),
        rng.choice(NAMES),
    )
    age = rng.choice((0, 0, 0, 1))
    n = rng.randrange(3)
    version = lambda s: s.known(kind, name, age)["metadata"]["resourceVersion"]  # noqa: E731
    uid = lambda s: s.known(kind, name, 0)["metadata"]["uid"]  # noqa: E731
    grace = rng.choice((None, None, 0, 1, 5, 60))
    choices: list[tuple[str, Request]] = [
        ("get", lambda s: s.get(kind, name)),
        (f"delete, grace {grace}", lambda s: s.kube._call("DELETE", s.path(kind, name), _options(grace))),
    ]
    if kind == "streamjobs":
        state, path = rng.choice(STATES), rng.choice(("state", "state", "image"))
        finalizers = rng.choice(([FINALIZER], [], []))
        choices += [
            (
                f"create {state}",
                lambda s: s.kube._call("POST", s.path(kind, "").rstrip("/"), job(name, state)),
            ),
            (
                f"status, version {age} ago",
                lambda s: s.kube.put_status(s.namespace, name, version(s), {"phase": state, "epoch": n}),
            ),
            (
                f"finalizers {finalizers}, version {age} ago",
                lambda s: s.kube.put_finalizers(s.namespace, name, version(s), finalizers),
            ),
            (f"spec.{path} {state}", lambda s: s.patch(kind, name, {"spec": {path: state}})),
            ("strip", lambda s: s.patch(kind, name, {"metadata": {"finalizers": None}})),
        ]
    elif kind == "pods":
        phase, precise = rng.choice(("Running", "Succeeded", "Failed")), rng.random() < 0.5
        choices += [
            (f"create, node {n > 0}", lambda s: s.kube.create_pod(s.namespace, pod(name, n > 0))),
            (f"phase {phase}", lambda s: s.patch(kind, name, {"status": {"phase": phase}}, "/status")),
            (
                f"delete, grace {grace}, version {age if precise else None} ago",
                lambda s: s.kube.delete_pod(
                    s.namespace, name, uid(s), version(s) if precise else None, grace
                ),
            ),
            (
                "delete another",
                lambda s: s.kube.delete_pod(s.namespace, name, str(uuid.UUID(int=2)), None, None),
            ),
        ]
    elif kind == "configmaps":
        body: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"index.json": str(n)}}
        held = lambda s: {**body, "metadata": {"name": name, "resourceVersion": version(s)}}  # noqa: E731
        choices += [
            ("create", lambda s: s.kube.create_config_map(s.namespace, {**body, "metadata": {"name": name}})),
            (f"put, version {age} ago", lambda s: s.kube.put_config_map(s.namespace, held(s))),
        ] * 2
    else:
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name},
            "stringData": {"token": str(n)},
        }
        choices += [("create", lambda s: s.kube.create_secret(s.namespace, secret))]
    words, request = rng.choice(choices)
    return kind, name, words, request


def _options(grace: int | None) -> Obj:
    options = {"apiVersion": "v1", "kind": "DeleteOptions"}
    return options if grace is None else {**options, "gracePeriodSeconds": grace}


async def outcome(side: Side, request: Request) -> str:
    try:
        await request(side)
    except KubeError as e:
        return f"{type(e).__name__} {e.code}"
    return "ok"


@pytest.fixture
async def sides() -> AsyncIterator[tuple[Side, Side]]:
    real, fake = Kube(), Kube()
    await real.open()
    fake._api = Direct()
    await config.load_kube_config()
    namespace = f"apiserver-{uuid.uuid4().hex[:8]}"
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        await core.create_namespace({"metadata": {"name": namespace}})
        yield Side(real, namespace), Side(fake, namespace)
        for name in NAMES:
            await outcome(
                Side(real, namespace),
                lambda s, n=name: s.patch("streamjobs", n, {"metadata": {"finalizers": []}}),
            )
        await core.delete_namespace(namespace)
    await real.close()


async def test_the_same_requests_get_the_same_answers(sides: tuple[Side, Side]) -> None:
    seed = 1 if os.environ.get("CI") else random.randrange(1 << 30)
    rng = random.Random(seed)
    done: list[str] = []
    end = time.monotonic() + 30
    while len(done) < 50 or (len(done) < 400 and time.monotonic() < end):
        kind, name, words, request = draw(rng)
        done.append(f"{kind}/{name}: {words}")
        said = [await outcome(side, request) for side in sides]
        done[-1] += f" → {said[0]}"
        context = f"seed {seed}\n" + "\n".join(done)
        assert said[0] == said[1], f"the fake says {said[1]} to the last of\n{context}"
        real, fake = [await side.look(kind, name) for side in sides]
        assert real == fake, f"after the last of\n{context}"


async def test_what_an_owner_leaves_is_collected(sides: tuple[Side, Side]) -> None:
    """The world's kubelet relies on it: with the owner gone its objects go, also those made when it was gone
    already.
    """
    real, _ = sides
    path = real.path("streamjobs", "")
    made = await real.kube._call("POST", path.rstrip("/"), job("a", "Running"))
    owner = {
        "apiVersion": made["apiVersion"],
        "kind": made["kind"],
        "name": "a",
        "uid": made["metadata"]["uid"],
    }
    body = lambda n: {"metadata": {"name": n, "ownerReferences": [owner]}}  # noqa: E731
    await real.kube.create_config_map(real.namespace, body("before"))
    await real.patch("streamjobs", "a", {"metadata": {"finalizers": []}})
    await real.kube._call("DELETE", real.path("streamjobs", "a"), _options(None))
    await real.kube.create_config_map(real.namespace, body("after"))
    for _ in range(3000):
        if [await real.get("configmaps", n) for n in ("before", "after")] == [None, None]:
            return
        await asyncio.sleep(0.1)
    pytest.fail("they are still there")


NOBODY = "system:serviceaccount:nowhere:nobody"


async def test_a_refusal_is_in_the_same_words(sides: tuple[Side, Side]) -> None:
    """Whoever may do nothing asks for everything that `Kube` can ask for."""
    namespace = sides[0].namespace
    said: list[list[str]] = []
    for here in ((namespace,), ()):
        real, fake = Kube(here), Kube(here)
        await real.open()
        assert real._api is not None
        real._api.set_default_header("Impersonate-User", NOBODY)
        fake._api = Direct(Rights(NOBODY))
        said += [[await refusal(kube, call) for kube in (real, fake)] for call in everything(namespace)]
        await real.close()
    assert [r for r, _ in said] == [f for _, f in said]
    assert all("is forbidden" in r for r, _ in said)


def everything(namespace: str) -> list[Callable[[Kube], Awaitable[Any]]]:
    """Each method of `Kube` that calls."""
    named: Obj = {"metadata": {"name": "a"}}
    return [
        lambda k: k.get_job(namespace, "a"),
        lambda k: k.list_jobs(),
        lambda k: k.list_restored(namespace),
        lambda k: k.put_status(namespace, "a", "1", {}),
        lambda k: k.put_finalizers(namespace, "a", "1", []),
        lambda k: k.get_pod(namespace, "a"),
        lambda k: k.list_pods(namespace, "a=b"),
        lambda k: k.list_all_pods("a=b"),
        lambda k: k.create_pod(namespace, pod("a", False)),
        lambda k: k.delete_pod(namespace, "a", "1", None, None),
        lambda k: k.get_config_map(namespace, "a"),
        lambda k: k.create_config_map(namespace, named),
        lambda k: k.put_config_map(namespace, named),
        lambda k: k.get_secret(namespace, "a"),
        lambda k: k.create_secret(namespace, named),
        lambda k: k.create_event(namespace, named),
        lambda k: k.patch_event(namespace, "a", {}),
        lambda k: k.get_lease(namespace, "a"),
        lambda k: k.create_lease(namespace, named),
        lambda k: k.put_lease(namespace, named),
    ]


async def refusal(kube: Kube, call: Callable[[Kube], Awaitable[Any]]) -> str:
    try:
        await call(kube)
    except KubeError as e:
        return f"{type(e).__name__} {e.code} {e.message}"
    return "done"


RIGHTS = [
    Right("", "pods", "list"),
    Right("", "pods", "create", ("a",)),  # covers nothing: what is made has no name yet
    Right("", "configmaps", "get", ("a",)),
    Right("streamjob.dev", "streamjobs/status", "update"),
]


async def test_the_same_rights_cover_the_same_requests(sides: tuple[Side, Side]) -> None:
    """The model of an authorizer (permissions.py), and the real one."""
    namespace = sides[0].namespace
    rules = [
        {"apiGroups": [r.group], "resources": [r.resource], "verbs": [r.verb], "resourceNames": list(r.names)}
        for r in RIGHTS
    ]
    binding = {
        "metadata": {"name": "some"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "some"},
        "subjects": [{"kind": "ServiceAccount", "name": "nobody", "namespace": "nowhere"}],
    }
    model = Rights(NOBODY, frozenset(replace(r, namespace=namespace) for r in RIGHTS))
    asked = [
        Asked(verb, right.group, right.resource, where, name)
        for right in RIGHTS
        for verb in ("get", "list", "create", "update")
        for where in (namespace, "elsewhere", None)
        for name in (("a", "b") if verb in ("get", "update") else (None,))
    ]
    async with client.ApiClient() as api:
        rbac, reviews = client.RbacAuthorizationV1Api(api), client.AuthorizationV1Api(api)
        await rbac.create_namespaced_role(namespace, {"metadata": {"name": "some"}, "rules": rules})
        await rbac.create_namespaced_role_binding(namespace, binding)

        async def allowed(request: Asked) -> bool:
            resource, _, sub = request.resource.partition("/")
            attributes = {"verb": request.verb, "group": request.group, "resource": resource}
            optional = {"subresource": sub, "namespace": request.namespace, "name": request.name}
            attributes |= {k: v for k, v in optional.items() if v}
            body = {"spec": {"user": NOBODY, "resourceAttributes": attributes}}
            return bool((await reviews.create_subject_access_review(body)).status.allowed)

        for _ in range(3000):  # until the authorizer has heard of the binding
            if await allowed(Asked("list", "", "pods", namespace, None)):
                break
            await asyncio.sleep(0.1)
        real = {request: await allowed(request) for request in asked}
    assert real == {request: model.refusal(request) is None for request in asked}
    assert sum(real.values()) == 4
