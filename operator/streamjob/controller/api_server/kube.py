"""Every call to the Kubernetes API, and nothing else.

One method is one kind of call; a list takes one call per page and namespace. The chart's Roles list exactly
these calls, and those of kopf.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
from kubernetes.aio import client, config

from ...api import GROUP, KIND, PLURAL, VERSION
from ..objects import Obj, ui
from ..objects.ui import UiKind
from ..process import metrics
from . import paths
from .errors import KubeError, NamespaceTerminating, ObjectNotFound, error_of

TIMEOUT = 15.0
# Objects per answer of a list: parsing thousands at once would block everything else.
PAGE = 200
APPLY = "application/apply-patch+yaml"  # JSON is YAML
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
KEPT = ("namespace", "name", "resourceVersion", "labels")  # of metadata
IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


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

    # --- StreamJobs: get, list, patch; status: update -------------------------------------------------------

    async def get_job(self, namespace: str, name: str) -> Obj | None:
        return await self._or_none(self._call("GET", paths.job(namespace, name)))

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
        answer = await self._call("PUT", f"{paths.job(namespace, name)}/status", body)
        return str(answer["metadata"]["resourceVersion"])

    async def put_finalizers(self, namespace: str, name: str, version: str, finalizers: list[str]) -> None:
        """Replace the finalizers.

        :raises Conflict: the object is no longer at `version`.
        """
        body = {"metadata": {"resourceVersion": version, "finalizers": finalizers}}
        await self._call("PATCH", paths.job(namespace, name), body, content="application/merge-patch+json")

    # --- pods: get, list, create, delete --------------------------------------------------------------------

    async def get_pod(self, namespace: str, name: str) -> Obj | None:
        """Answers at once, where `list_pods` takes up to a tenth of a second: see `reconciler.observe`."""
        return await self._or_none(self._call("GET", paths.core(namespace, "pods", name)))

    async def list_pods(self, namespace: str, selector: str, limit: int | None = None) -> list[Obj]:
        """:param limit: return so many at most; None: all."""
        query = f"labelSelector={quote(selector)}" + (f"&limit={limit}" if limit is not None else "")
        found = await self._call("GET", f"{paths.core(namespace, 'pods')}?{query}")
        return list(found["items"])

    async def list_all_pods(self, selector: str) -> list[Obj]:
        """List the pods of all served namespaces; metadata only."""
        return await self._list_metadata("/api/v1", f"pods?labelSelector={quote(selector)}")

    async def create_pod(self, namespace: str, pod: Obj) -> None:
        """Create the pod.

        Strictly: a field that Kubernetes does not know would be dropped in silence otherwise, and parts of a
        pod are the user's own.

        :raises AlreadyExists:
        :raises Refused: the pod has an unknown or invalid field.
        """
        await self._call("POST", f"{paths.core(namespace, 'pods')}?fieldValidation=Strict", pod)

    async def delete_pod(
        self, namespace: str, name: str, uid: str, version: str | None, grace: int | None
    ) -> None:
        """Delete this pod and no other of that name; with `version`, only if it has not changed since.

        :param grace: the grace period in seconds; None: the pod's own.
        :raises Conflict: another pod has the name, or the pod is no longer at `version`.
        :raises ObjectNotFound:
        """
        preconditions = {"uid": uid} | ({"resourceVersion": version} if version else {})
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        await self._delete(paths.core(namespace, "pods", name), preconditions, **options)

    # --- ConfigMaps: get, list, create, update, delete ------------------------------------------------------

    async def get_config_map(self, namespace: str, name: str) -> Obj | None:
        return await self._or_none(self._call("GET", paths.core(namespace, "configmaps", name)))

    async def list_config_maps(self, selector: str) -> list[Obj]:
        """List the ConfigMaps of all served namespaces; metadata only."""
        return await self._list_metadata("/api/v1", f"configmaps?labelSelector={quote(selector)}")

    async def delete_config_map(self, namespace: str, name: str, version: str) -> None:
        """Delete the ConfigMap if it has not changed since.

        :raises Conflict: it is no longer at `version`.
        :raises ObjectNotFound:
        """
        await self._delete(paths.core(namespace, "configmaps", name), {"resourceVersion": version})

    async def create_config_map(self, namespace: str, body: Obj) -> None:
        """:raises AlreadyExists:"""
        await self._call("POST", paths.core(namespace, "configmaps"), body)

    async def is_ending(self, namespace: str) -> bool:
        """Whether the namespace is being deleted.

        The API server says so to a dry-run creation of a ConfigMap. Reading the Namespace would take one more
        permission.
        """
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "streamjob-"}}
        try:
            await self._call("POST", f"{paths.core(namespace, 'configmaps')}?dryRun=All", body)
        except NamespaceTerminating:
            return True
        return False

    async def put_config_map(self, namespace: str, body: Obj) -> None:
        """Replace the ConfigMap.

        :raises Conflict: it is no longer at the resourceVersion in `body`.
        """
        await self._call("PUT", paths.core(namespace, "configmaps", body["metadata"]["name"]), body)

    # --- Secrets: get, create -------------------------------------------------------------------------------

    async def get_secret(self, namespace: str, name: str) -> Obj | None:
        return await self._or_none(self._call("GET", paths.core(namespace, "secrets", name)))

    async def create_secret(self, namespace: str, body: Obj) -> None:
        """:raises AlreadyExists:"""
        await self._call("POST", paths.core(namespace, "secrets"), body)

    # --- Services, Ingresses and HTTPRoutes for Spark's UI: get, list, create, patch, delete ----------------

    async def list_ui(self, kind: UiKind) -> list[Obj]:
        """List those of all served namespaces; metadata only."""
        group, plural = paths.ui_collection(kind)
        return await self._list_metadata(group, f"{plural}?labelSelector={quote(ui.ALL)}")

    async def get_ui(self, kind: UiKind, namespace: str, name: str) -> Obj | None:
        """Read the metadata of one."""
        return await self._or_none(self._call("GET", paths.of_ui(kind, namespace, name), accept=METADATA))

    async def apply_ui(self, body: Obj, version: str | None) -> str:
        """Create the object, or change the fields that are ours; those of other managers stay.

        :param version: the resourceVersion that it must still have; None if it should not exist.
        :returns: the new resourceVersion.
        :raises Conflict: it is no longer at `version`, or another manager has created it.
        """
        meta = body["metadata"]
        locked = {**meta, "resourceVersion": version} if version is not None else meta
        path = paths.of_ui(UiKind(body["kind"]), meta["namespace"], meta["name"])
        query = (
            f"fieldManager=streamjob&force={'false' if version is None else 'true'}&fieldValidation=Strict"
        )
        applied = await self._call("PATCH", f"{path}?{query}", {**body, "metadata": locked}, content=APPLY)
        return str(applied["metadata"]["resourceVersion"])

    async def delete_ui(self, kind: UiKind, namespace: str, name: str, version: str) -> None:
        """Delete one if it has not changed since.

        :raises Conflict: it is no longer at `version`.
        :raises ObjectNotFound:
        """
        await self._delete(paths.of_ui(kind, namespace, name), {"resourceVersion": version})

    # --- Events: create, patch ------------------------------------------------------------------------------

    async def create_event(self, namespace: str, body: Obj) -> None:
        await self._call("POST", paths.event(namespace), body)

    async def patch_event(self, namespace: str, name: str, body: Obj) -> None:
        """:raises ObjectNotFound:"""
        await self._call("PATCH", paths.event(namespace, name), body, content="application/merge-patch+json")

    # --- the Lease: get, create, update ---------------------------------------------------------------------

    async def get_lease(self, namespace: str, name: str) -> Obj | None:
        return await self._or_none(self._call("GET", paths.lease(namespace, name)))

    async def create_lease(self, namespace: str, body: Obj) -> Obj:
        """:raises AlreadyExists:"""
        return await self._call("POST", paths.lease(namespace), body)

    async def put_lease(self, namespace: str, body: Obj) -> Obj:
        """Replace the Lease.

        :raises Conflict: it is no longer at the resourceVersion in `body`.
        :raises ObjectNotFound:
        """
        return await self._call("PUT", paths.lease(namespace, body["metadata"]["name"]), body)

    # --- the call -------------------------------------------------------------------------------------------

    async def has(self, namespace: str, what: str, name: str) -> bool:
        """Whether an object of the core group exists. Reads its metadata only."""
        path = paths.core(namespace, what, name)
        return await self._or_none(self._call("GET", path, accept=METADATA)) is not None

    async def _list_metadata(self, group: str, what: str) -> list[Obj]:
        """List objects, and keep only the metadata that is used.

        Thousands of complete objects would be the process's peak of memory.
        """
        places = [f"/namespaces/{n}" for n in self.namespaces] or [""]
        lists = [await self._pages(f"{group}{where}/{what}", _slim, METADATA_LIST) for where in places]
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

    async def _delete(self, path: str, preconditions: Obj, **options: Any) -> None:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions, **options}
        await self._call("DELETE", path, body)

    async def _or_none(self, call: Any) -> Obj | None:
        try:
            found: Obj = await call
        except ObjectNotFound:
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
        self._respect_retry_after(path)
        try:
            answer = await self._send(method, path, body, content, accept)
        except KubeError as e:
            if e.retry_after is not None:
                self._not_before = asyncio.get_running_loop().time() + e.retry_after
            metrics.API_REQUESTS.labels(*paths.verb_and_resource(method, path), e.code).inc()
            raise
        metrics.API_REQUESTS.labels(*paths.verb_and_resource(method, path), 200).inc()
        return answer

    def _respect_retry_after(self, path: str) -> None:
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
            raise error_of(e.status, e.body, e.headers or {}) from None
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as e:
            raise KubeError(0, f"the API server does not answer: {type(e).__name__} {e}".rstrip()) from None
        if response.status >= 300:
            raise error_of(response.status, data, response.headers)
        parsed: Obj = json.loads(data)
        return parsed


def _slim(item: Obj) -> Obj:
    meta = item["metadata"]
    return {"metadata": {k: meta[k] for k in KEPT if k in meta}}
