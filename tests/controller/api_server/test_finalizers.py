"""U6, without a cluster: a controller that ends while its own namespace is being deleted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamjob.controller.api_server import kube
from streamjob.controller.api_server.errors import Conflict, error_of
from streamjob.controller.api_server.finalizers import remove_last_finalizers
from streamjob.controller.objects import names

Obj = dict[str, Any]
OTHERS = "example.org/theirs"
# The answer of a real API server of version 1.35.
REFUSAL = {
    "kind": "Status",
    "status": "Failure",
    "message": 'configmaps "x" is forbidden: unable to create new content in namespace shop '
    "because it is being terminated",
    "reason": "Forbidden",
    "details": {
        "name": "x",
        "kind": "configmaps",
        "causes": [
            {
                "reason": "NamespaceTerminating",
                "message": "namespace shop is being terminated",
                "field": "metadata.namespace",
            }
        ],
    },
    "code": 403,
}


class Server(kube.Kube):
    """Two StreamJobs in `shop`, one elsewhere. `conflicts`: so many writes come too late."""

    def __init__(self, *, ending: bool, conflicts: int = 0) -> None:
        super().__init__(["shop", "elsewhere"])
        self.ending, self.conflicts = ending, conflicts
        self.calls: list[tuple[str, str]] = []
        self.finalizers = {
            ("shop", "orders"): [names.FINALIZER, OTHERS],
            ("shop", "payments"): [OTHERS],
            ("elsewhere", "orders"): [names.FINALIZER],
        }

    async def open(self) -> None:
        pass

    async def _send(self, method: str, path: str, body: Any, content: str, accept: str) -> Obj:
        self.calls.append((method, path))
        parts = path.partition("?")[0].split("/")
        namespace, name = parts[parts.index("namespaces") + 1], parts[-1]
        if method == "POST":
            assert path.endswith("/configmaps?dryRun=All")
            if self.ending:
                raise error_of(403, json.dumps(REFUSAL), {})
            return {}
        if name == "streamjobs":
            found = [self._job(*key) for key in self.finalizers if key[0] == namespace]
            return {"metadata": {}, "items": found}
        if method == "GET":
            return self._job(namespace, name)
        assert method == "PATCH"
        if self.conflicts:
            self.conflicts -= 1
            raise Conflict(409, "the object has been modified")
        self.finalizers[namespace, name] = body["metadata"]["finalizers"]
        return {}

    def _job(self, namespace: str, name: str) -> Obj:
        meta = {"namespace": namespace, "name": name, "resourceVersion": "1"}
        return {"metadata": meta | {"finalizers": self.finalizers[namespace, name]}}


@pytest.mark.parametrize("conflicts", [0, 3])
async def test_it_removes_the_finalizers_in_a_namespace_that_is_being_deleted(conflicts: int) -> None:
    server = Server(ending=True, conflicts=conflicts)
    await remove_last_finalizers(server, "shop")
    assert server.finalizers == {
        ("shop", "orders"): [OTHERS],
        ("shop", "payments"): [OTHERS],
        ("elsewhere", "orders"): [names.FINALIZER],
    }


async def test_otherwise_one_question_is_all_that_it_asks() -> None:
    """As when it is upgraded, or its node is drained."""
    server = Server(ending=False)
    await remove_last_finalizers(server, "shop")
    assert server.calls == [("POST", "/api/v1/namespaces/shop/configmaps?dryRun=All")]
