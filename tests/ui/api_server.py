"""An API server for kubectl, with the resources that a test puts into it. It validates nothing.

What kubectl asks for is answered as a real one answers: discovery, lists, watches, merge patches, reviews of
permissions. So the real kubectl runs, and the real page; only the cluster is not there.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Obj = dict[str, Any]
KINDS = {  # plural: (group, version, kind)
    "streamjobs": ("streamjob.dev", "v1alpha1", "StreamJob"),
    "configmaps": ("", "v1", "ConfigMap"),
    "events": ("", "v1", "Event"),
    "pods": ("", "v1", "Pod"),
}


class ApiServer(ThreadingHTTPServer):
    """Resources by kind, namespace and name, with versions; and what has been patched."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.changed = threading.Condition()
        self.objects: dict[tuple[str, str, str], Obj] = {}
        self.log: list[tuple[int, str, str, Obj]] = []  # version, kind, type of the change, object
        self.patches: list[Obj] = []
        self.logs: dict[str, str] = {}  # by pod
        self.allowed = True
        self.down = False
        self.lags = 0  # patches with a version that somebody else precedes

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def put(self, kind: str, *objects: Obj) -> None:
        """Create or replace objects."""
        with self.changed:
            for obj in objects:
                self._store(kind, obj)
            self.changed.notify_all()

    def _store(self, kind: str, obj: Obj) -> Obj:
        group, version, name = KINDS[kind]
        meta = obj["metadata"]
        key = (kind, meta.get("namespace", "default"), meta["name"])
        number = len(self.log) + 1
        meta = {**meta, "namespace": key[1], "resourceVersion": str(number)}
        api = f"{group}/{version}" if group else version
        stored = {**obj, "apiVersion": api, "kind": name, "metadata": meta}
        change = "MODIFIED" if key in self.objects else "ADDED"
        self.objects[key] = stored
        self.log.append((number, kind, change, stored))
        return stored

    def delete(self, kind: str, namespace: str, name: str) -> None:
        with self.changed:
            gone = self.objects.pop((kind, namespace, name))
            self.log.append((len(self.log) + 1, kind, "DELETED", gone))
            self.changed.notify_all()

    def news(self, seen: int) -> list[tuple[int, str, str, Obj]]:
        """The changes after version `seen`, as soon as there are any, or none within half a second."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.log) > seen, 0.5)
            return self.log[seen:]

    def patch(self, kind: str, namespace: str, name: str, change: Obj) -> Obj:
        with self.changed:
            self.patches.append(change)
            before = self.objects[kind, namespace, name]
            after = _merged(before, change)
            if after["spec"] != before["spec"]:
                after["metadata"] = {**after["metadata"], "generation": before["metadata"]["generation"] + 1}
            stored = self._store(kind, after)
            self.changed.notify_all()
            return stored


class Handler(BaseHTTPRequestHandler):
    server: ApiServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.server.down:
            return self._status(
                503, "ServiceUnavailable", "the server is currently unable to handle the request"
            )
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if (found := _discovery(url.path)) is not None:
            return self._answer(200, found)
        if url.path.endswith("/log"):
            return self._send(200, "text/plain", self.server.logs.get(url.path.split("/")[-2], "").encode())
        kind, namespace, name = _place(url.path)
        if kind not in KINDS:
            return self._status(404, "NotFound", "the server could not find the requested resource")
        if query.get("watch") in ("true", "1"):
            return self._watch(kind, namespace, query)
        with self.server.changed:
            version = len(self.server.log)
            if name:
                one = self.server.objects.get((kind, namespace or "default", name))
                found = one and dict(one)
            else:
                found = _list(kind, [o for (k, _, _), o in self.server.objects.items() if k == kind], version)
        if found is None:
            return self._status(404, "NotFound", f'{kind} "{name}" not found')
        if not name:
            found["items"] = [o for o in found["items"] if _selected(o, namespace, query)]
        return self._answer(200, found)

    def do_PATCH(self) -> None:
        kind, namespace, name = _place(urlsplit(self.path).path)
        change = self._body()
        if not self.server.allowed:
            text = f'{kind}.streamjob.dev "{name}" is forbidden: User "jane" cannot patch resource "{kind}"'
            return self._status(403, "Forbidden", text)
        version = (change.get("metadata") or {}).get("resourceVersion")
        there = self.server.objects[kind, namespace or "default", name or ""]
        if version is not None and self.server.lags:
            self.server.lags -= 1
            self.server.put(kind, there)
        there = self.server.objects[kind, namespace or "default", name or ""]
        if version not in (None, there["metadata"]["resourceVersion"]):
            text = f'Operation cannot be fulfilled on {kind} "{name}": the object has been modified'
            return self._status(409, "Conflict", text)
        self._answer(200, self.server.patch(kind, namespace or "default", name or "", change))

    def do_POST(self) -> None:
        """A review of permissions, or a new object."""
        body = self._body()
        kind, namespace, _ = _place(urlsplit(self.path).path)
        if kind in KINDS:
            body["metadata"].setdefault("namespace", namespace)
            self.server.put(kind, body)
            return self._answer(201, body)
        self._answer(201, body | {"status": {"allowed": self.server.allowed}})

    def do_DELETE(self) -> None:
        self._body()
        kind, namespace, name = _place(urlsplit(self.path).path)
        self.server.delete(kind, namespace or "default", name or "")
        self._answer(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})

    def log_message(self, format: str, *args: Any) -> None: ...

    def _watch(self, kind: str, namespace: str | None, query: dict[str, str]) -> None:
        seen = int(query.get("resourceVersion") or 0)
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            while not self.server.down:
                news = self.server.news(seen)
                seen += len(news)
                for _, changed, type_, obj in news:
                    if changed == kind and _selected(obj, namespace, query):
                        self.wfile.write(json.dumps({"type": type_, "object": obj}).encode() + b"\n")
                self.wfile.flush()
        except OSError:
            return

    def _body(self) -> Obj:
        found: Obj = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        return found

    def _status(self, code: int, reason: str, message: str) -> None:
        failed = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        self._answer(code, failed | {"reason": reason, "message": message, "code": code})

    def _answer(self, code: int, value: Obj) -> None:
        self._send(code, "application/json", json.dumps(value).encode())

    def _send(self, code: int, kind: str, data: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _place(path: str) -> tuple[str, str | None, str | None]:
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = None
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    return (rest[0] if rest else ""), namespace, rest[1] if len(rest) > 1 else None


def _selected(obj: Obj, namespace: str | None, query: dict[str, str]) -> bool:
    meta = obj["metadata"]
    if namespace and meta["namespace"] != namespace:
        return False
    for part in filter(None, query.get("labelSelector", "").split(",")):
        key, _, value = part.partition("=")
        if (meta.get("labels") or {}).get(key) != value:
            return False
    for part in filter(None, query.get("fieldSelector", "").split(",")):
        path, _, value = part.partition("=")
        found: Any = obj
        for key in path.split("."):
            found = found.get(key, {}) if isinstance(found, dict) else {}
        if found != value:
            return False
    return True


def _list(kind: str, items: list[Obj], version: int) -> Obj:
    group, api, name = KINDS[kind]
    where = f"{group}/{api}" if group else api
    return {
        "apiVersion": where,
        "kind": f"{name}List",
        "metadata": {"resourceVersion": str(version)},
        "items": items,
    }


def _merged(value: Any, change: Any) -> Any:
    """RFC 7386."""
    if not isinstance(change, dict):
        return change
    result = dict(value) if isinstance(value, dict) else {}
    for key, inner in change.items():
        if inner is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), inner)
    return result


def _discovery(path: str) -> Obj | None:
    groups = {"streamjob.dev": "v1alpha1", "authorization.k8s.io": "v1"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    found: list[Obj]
    if path == "/apis":
        found = [
            {
                "name": name,
                "versions": [{"groupVersion": f"{name}/{version}", "version": version}],
                "preferredVersion": {"groupVersion": f"{name}/{version}", "version": version},
            }
            for name, version in groups.items()
        ]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}
    if path == "/version":
        return {"major": "1", "minor": "35", "gitVersion": "v1.35.4"}
    for place, group in {"/api/v1": "", **{f"/apis/{g}/{v}": g for g, v in groups.items()}}.items():
        if path == place:
            verbs = ["get", "list", "watch", "patch", "create", "delete", "update"]
            found = [
                {
                    "name": plural,
                    "singularName": kind.lower(),
                    "namespaced": True,
                    "kind": kind,
                    "verbs": verbs,
                }
                for plural, (g, _, kind) in KINDS.items()
                if g == group
            ]
            if group == "authorization.k8s.io":
                kind = "SelfSubjectAccessReview"
                found = [
                    {
                        "name": f"{kind.lower()}s",
                        "singularName": "",
                        "namespaced": False,
                        "kind": kind,
                        "verbs": ["create"],
                    }
                ]
            return {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": place.split("/", 2)[2],
                "resources": found,
            }
    return None


@contextmanager
def api_server(folder: Path) -> Iterator[tuple[ApiServer, Path]]:
    """An API server, and a kubeconfig for it."""
    server = ApiServer()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [
            {"name": "test", "context": {"cluster": "test", "user": "jane", "namespace": "streams"}}
        ],
        "clusters": [{"name": "test", "cluster": {"server": server.url}}],
        "users": [{"name": "jane", "user": {"token": "none"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    try:
        yield server, path
    finally:
        server.down = True
        server.shutdown()
        server.server_close()
