"""Every call to the Kubernetes API, and nothing else.

One method is one kind of call; a list takes one call per page and namespace. The chart's Roles list exactly
these calls, and those of kopf.

Objects are plain dictionaries: generated models cost memory and time, and would be converted back at once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
from kubernetes.aio import client, config

from ..api import GROUP, KIND, PLURAL, VERSION
from ..protocol.errors import StreamJobError
from . import metrics

Obj = dict[str, Any]
TIMEOUT = 15.0
# Objects per answer of a list: parsing thousands at once would block everything else.
PAGE = 200
PAUSE_MAX = 60.0  # seconds; the longest that a server's Retry-After keeps us waiting
IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


class KubeError(StreamJobError):
    """The API server refused the call or did not answer.

    :param code: the HTTP status, or 0 if the server did not answer: the call may have been applied all the
        same.
    :param retry_after: the pause in seconds that the server has asked for, if any.
    """

    reason = "KubernetesError"
    retryable = True

    def __init__(
        self, code: int, message: str, *, retry_after: float | None = None, remedy: str = ""
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.code = code
        self.retry_after = retry_after


class NotFound(KubeError):
    reason = "NotFound"


class Conflict(KubeError):
    """The object has changed since it was observed: observe again."""

    reason = "Conflict"


class AlreadyExists(KubeError):
    reason = "AlreadyExists"


class Forbidden(KubeError):
    """Permissions, quota, pod security or admission; the message says which."""

    reason = "Forbidden"


class NamespaceTerminating(Forbidden):
    """The namespace is being deleted for good: nothing can be created in it any more."""

    reason = "NamespaceTerminating"


class Refused(KubeError):
    """The API server rejects the object as invalid."""

    reason = "Invalid"


class Kube:
    """A connection to the API server.

    :param namespaces: the namespaces that are served; empty: all.
    """

    def __init__(self, namespaces: Sequence[str] = ()) -> None:
        self.namespaces = tuple(namespaces)
        self._api: client.ApiClient | None = None
        self._not_before = 0.0  # in the event loop's time

    async def open(self) -> None:
        settings = client.Configuration()
        if await asyncio.to_thread(IN_CLUSTER.exists):
            config.load_incluster_config(client_configuration=settings)
        else:
            await config.load_kube_config(client_configuration=settings)
        settings.connection_pool_maxsize = 64
        settings.client_session_kwargs = {"trust_env": False}
        self._api = client.ApiClient(settings)

    async def close(self) -> None:
        if self._api is not None:
            await self._api.close()

    # --- StreamJobs: get, list, patch; status: update ------------------------------------------------------------

    async def get_job(self, namespace: str, name: str) -> Obj | None:
        return await self._or_none(self._call("GET", _job(namespace, name)))

    async def list_jobs(self) -> list[Obj]:
        """List the jobs of the served namespaces; metadata only, enough to find what no event reported."""
        return await self._list_metadata(f"/apis/{GROUP}/{VERSION}", PLURAL)

    async def list_restored(self, namespace: str) -> frozenset[str]:
        """The savepoints that the StreamJobs of a namespace name in restoreFrom."""
        where = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}"
        sources = await self._pages(where, lambda job: job["spec"].get("restoreFrom") or {})
        return frozenset(s["savepoint"] for s in sources if s.get("savepoint"))

    async def put_status(self, namespace: str, name: str, version: str, status: Obj) -> str:
        """Replace the status.

        :param version: the resourceVersion that the object must still have.
        :returns: the new resourceVersion.
        :raises Conflict: the object is no longer at `version`.
        """
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "metadata": {"name": name, "namespace": namespace, "resourceVersion": version},
            "status": status,
        }
        answer = await self._call("PUT", f"{_job(namespace, name)}/status", body)
        return str(answer["metadata"]["resourceVersion"])

    async def put_finalizers(self, namespace: str, name: str, version: str, finalizers: list[str]) -> None:
        """Replace the finalizers.

        :raises Conflict: the object is no longer at `version`.
        """
        body = {"metadata": {"resourceVersion": version, "finalizers": finalizers}}
        await self._call("PATCH", _job(namespace, name), body, content="application/merge-patch+json")

    # --- pods: get, list, create, delete ------------------------------------------------------------------------

    async def get_pod(self, namespace: str, name: str) -> Obj | None:
        """Answers at once, where `list_pods` takes up to a tenth of a second: see `observe.glance`."""
        return await self._or_none(self._call("GET", _core(namespace, "pods", name)))

    async def list_pods(self, namespace: str, selector: str) -> list[Obj]:
        found = await self._call("GET", f"{_core(namespace, 'pods')}?labelSelector={quote(selector)}")
        return list(found["items"])

    async def list_all_pods(self, selector: str) -> list[Obj]:
        """List the pods of all served namespaces; metadata only."""
        return await self._list_metadata("/api/v1", f"pods?labelSelector={quote(selector)}")

    async def create_pod(self, namespace: str, pod: Obj) -> None:
        """Create the pod. Strictly: a field that Kubernetes does not know would be dropped in silence otherwise, and
        parts of a pod are the user's own.

        :raises AlreadyExists:
        :raises Refused: the pod has an unknown or invalid field.
        """
        await self._call("POST", f"{_core(namespace, 'pods')}?fieldValidation=Strict", pod)

    async def delete_pod(
        self, namespace: str, name: str, uid: str, version: str | None, grace: int | None
    ) -> None:
        """Delete this pod and no other of that name; with `version`, only if it has not changed since.

        :param grace: the grace period in seconds; None: the pod's own.
        :raises Conflict: another pod has the name, or the pod is no longer at `version`.
        :raises NotFound:
        """
        preconditions = {"uid": uid} | ({"resourceVersion": version} if version else {})
        body: Obj = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        await self._call("DELETE", _core(namespace, "pods", name), body)

    # --- ConfigMaps: get, create, update ------------------------------------------------------------------------

    async def get_config_map(self, namespace: str, name: str) -> Obj | None:
        return await self._or_none(self._call("GET", _core(namespace, "configmaps", name)))

    async def create_config_map(self, namespace: str, body: Obj) -> None:
        """:raises AlreadyExists:"""
        await self._call("POST", _core(namespace, "configmaps"), body)

    async def is_ending(self, namespace: str) -> bool:
        """Whether the namespace is being deleted.

        The API server says so to a dry-run creation of a ConfigMap. Reading the Namespace would take one more
        permission.
        """
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "streamjob-"}}
        try:
            await self._call("POST", f"{_core(namespace, 'configmaps')}?dryRun=All", body)
        except NamespaceTerminating:
            return True
        return False

    async def put_config_map(self, namespace: str, body: Obj) -> None:
        """Replace the ConfigMap.

        :raises Conflict: it is no longer at the resourceVersion in `body`.
        """
        await self._call("PUT", _core(namespace, "configmaps", body["metadata"]["name"]), body)

    # --- Secrets: get, create -----------------------------------------------------------------------------------

    async def get_secret(self, namespace: str, name: str) -> Obj | None:
        return await self._or_none(self._call("GET", _core(namespace, "secrets", name)))

    async def create_secret(self, namespace: str, body: Obj) -> None:
        """:raises AlreadyExists:"""
        await self._call("POST", _core(namespace, "secrets"), body)

    # --- Events: create, patch ----------------------------------------------------------------------------------

    async def create_event(self, namespace: str, body: Obj) -> None:
        await self._call("POST", _event(namespace), body)

    async def patch_event(self, namespace: str, name: str, body: Obj) -> None:
        """:raises NotFound:"""
        await self._call("PATCH", _event(namespace, name), body, content="application/merge-patch+json")

    # --- the Lease: get, create, update -------------------------------------------------------------------------

    async def get_lease(self, namespace: str, name: str) -> Obj | None:
        return await self._or_none(self._call("GET", _lease(namespace, name)))

    async def create_lease(self, namespace: str, body: Obj) -> Obj:
        """:raises AlreadyExists:"""
        return await self._call("POST", _lease(namespace), body)

    async def put_lease(self, namespace: str, body: Obj) -> Obj:
        """Replace the Lease.

        :raises Conflict: it is no longer at the resourceVersion in `body`.
        :raises NotFound:
        """
        return await self._call("PUT", _lease(namespace, body["metadata"]["name"]), body)

    # --- the call -----------------------------------------------------------------------------------------------

    async def _list_metadata(self, group: str, what: str) -> list[Obj]:
        """List objects, and keep only the metadata that is used.

        Thousands of complete objects would be the process's peak of memory.
        """
        kind = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        places = [f"/namespaces/{n}" for n in self.namespaces] or [""]
        lists = [await self._pages(f"{group}{where}/{what}", _slim, kind) for where in places]
        return [item for items in lists for item in items]

    async def _pages(
        self, what: str, keep: Callable[[Obj], Obj], kind: str = "application/json"
    ) -> list[Obj]:
        """Read all pages of a list, and return `keep(item)` of each item."""
        items: list[Obj] = []
        first = f"{what}{'&' if '?' in what else '?'}limit={PAGE}"
        path = first
        while path:
            found = await self._call("GET", path, accept=kind)
            items += map(keep, found["items"] or ())  # `items` is null when there are none
            more = found["metadata"].get("continue")
            path = f"{first}&continue={quote(more)}" if more else ""
        return items

    async def _or_none(self, call: Any) -> Obj | None:
        try:
            found: Obj = await call
        except NotFound:
            return None
        return found

    async def _call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: str = "application/json",
        accept: str = "application/json",
    ) -> Obj:
        self._spare_it(path)
        try:
            answer = await self._send(method, path, body, content, accept)
        except KubeError as e:
            if e.retry_after is not None:
                self._not_before = asyncio.get_running_loop().time() + e.retry_after
            metrics.API_REQUESTS.labels(*what(method, path), e.code).inc()
            raise
        metrics.API_REQUESTS.labels(*what(method, path), 200).inc()
        return answer

    def _spare_it(self, path: str) -> None:
        """Refuse the call during a pause that an overloaded API server has asked for.

        This holds whatever enqueued the job. Only calls about the Lease pass, because leadership cannot wait.

        :raises KubeError: the pause is not over.
        """
        rest = self._not_before - asyncio.get_running_loop().time()
        if rest > 0 and "/leases" not in path:
            raise KubeError(429, f"the API server has asked for a pause of {rest:.1f} s", retry_after=rest)

    async def _send(self, method: str, path: str, body: Any, content: str, accept: str) -> Obj:
        assert self._api is not None, "open() first"
        parts = await self._api.param_serialize(
            method,
            path,
            query_params=[],
            header_params={"Accept": accept, "Content-Type": content},
            auth_settings=["BearerToken"],
        )
        url, headers = parts[1], parts[2]
        try:
            response = await self._api.call_api(
                method, url, headers, body, _request_timeout=aiohttp.ClientTimeout(total=TIMEOUT)
            )
            data = await response.read()
        except client.ApiException as e:
            raise _error(e.status, e.body, e.headers or {}) from None
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as e:
            raise KubeError(0, f"the API server does not answer: {type(e).__name__} {e}".rstrip()) from None
        if response.status >= 300:
            raise _error(response.status, data, response.headers)
        parsed: Obj = json.loads(data)
        return parsed


def _slim(item: Obj) -> Obj:
    meta = item["metadata"]
    return {"metadata": {k: meta[k] for k in ("namespace", "name", "resourceVersion", "labels") if k in meta}}


def _error(code: int, data: bytes | str | None, headers: Any) -> KubeError:
    """Turn an answer of the API server into the error that it means, with the server's own message."""
    try:
        status = json.loads(data or "{}")
        reason, message = status.get("reason", ""), status.get("message", "")
        causes = [cause.get("reason") for cause in (status.get("details") or {}).get("causes") or ()]
    except ValueError:
        reason, message, causes = "", str(data)[:200], []
    message = message or f"the API server answered {code}"
    if code == 404:
        return NotFound(code, message)
    if code == 409:
        return (AlreadyExists if reason == "AlreadyExists" else Conflict)(code, message)
    if code == 403 and NamespaceTerminating.reason in causes:
        return NamespaceTerminating(code, message)
    if code == 403:
        return Forbidden(
            code, message, remedy="Give the controller the right, or mend the policy or quota named here"
        )
    if code in (400, 422):
        return Refused(code, message, remedy="Mend the field of the spec that the message names")
    after = headers.get("Retry-After")
    wait = min(float(after), PAUSE_MAX) if after and after.isdigit() else None
    return KubeError(code, message, retry_after=wait)


@lru_cache(maxsize=1024)
def what(method: str, path: str) -> tuple[str, str]:
    """Return verb and resource of a call, as a Role names them: ("update", "streamjobs/status")."""
    parts = path.partition("?")[0].strip("/").split("/")
    after = parts.index("namespaces") + 2 if "namespaces" in parts else 2 if parts[0] == "api" else 3
    plural, *rest = parts[after:]
    verbs = {"GET": "get" if rest else "list", "POST": "create", "PUT": "update", "PATCH": "patch"}
    return verbs.get(method, method.lower()), "/".join([plural, *rest[1:]])


def _job(namespace: str, name: str) -> str:
    return f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}/{name}"


def _lease(namespace: str, name: str | None = None) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases" + (f"/{name}" if name else "")


def _event(namespace: str, name: str | None = None) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events" + (f"/{name}" if name else "")


def _core(namespace: str, plural: str, name: str | None = None) -> str:
    return f"/api/v1/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")
