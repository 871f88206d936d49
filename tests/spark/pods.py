"""A Kubernetes for the pods of one Spark driver: the world's API server (tests/world) over HTTP, with RBAC.

Executors run at once, in name only.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, SimpleQueue
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.world.apiserver import ApiServer, Change, Obj
from tests.world.permissions import Request, Rights

ME = "kubelet"


@dataclass(frozen=True)
class Noted(Rights):
    """Rights that remember what they were asked about."""

    asked: list[Request] = field(default_factory=list)

    def refusal(self, request: Request) -> str | None:
        self.asked.append(request)
        return super().refusal(request)


class Pods:
    """:param rights: of whoever sends requests; `rights.asked` and `control_server.forbidden` say what came
    of them.
    """

    def __init__(self, rights: Noted) -> None:
        self.rights = rights
        self.server = ApiServer(lambda: datetime.now(timezone.utc), self._changed, Random(1), rights)
        self.news = threading.Condition(threading.RLock())
        self._watchers: list[SimpleQueue[Obj]] = []

    def executors(self) -> list[Obj]:
        return [p for p in self.server.of_kind("pods") if _labels(p).get("spark-role") == "executor"]

    def say(self, pod: Obj, phase: str, **status: Any) -> None:
        """What its kubelet reports."""
        meta = pod["metadata"]
        with self.news:
            body = {"status": {"phase": phase, "podIP": "127.0.0.1", **status}}
            self.server.patch(ME, ("pods", meta["namespace"], meta["name"]), body, "status")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Waits for a fact.

        :raises AssertionError: it does not come, or a request is refused meanwhile.
        """
        with self.news:
            came = self.news.wait_for(lambda: condition() or self.server.forbidden, timeout=300)
        assert not self.server.forbidden, self.server.forbidden
        assert came, f"no {what}; asked: {self.rights.asked}"

    @contextmanager
    def listening(self) -> Iterator[str]:
        """The server's URL."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"pods": self}))
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def _changed(self, change: Change) -> None:
        obj = change.new or change.old
        kind = "ADDED" if change.old is None else "MODIFIED" if change.new is not None else "DELETED"
        for watcher in self._watchers:
            watcher.put({"type": kind, "object": obj})
        if kind == "ADDED" and obj is not None and _labels(obj).get("spark-role") == "executor":
            self.say(obj, "Running", containerStatuses=[{"name": "x", "state": {"running": {}}}])

    @contextmanager
    def watching(self) -> Iterator[SimpleQueue[Obj]]:
        queue: SimpleQueue[Obj] = SimpleQueue()
        self._watchers.append(queue)
        try:
            yield queue
        finally:
            self._watchers.remove(queue)


class Handler(BaseHTTPRequestHandler):
    server: ThreadingHTTPServer
    pods: Pods
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = parse_qs(urlsplit(self.path).query)
        with self.pods.news:
            code, answer = self.pods.server.handle(
                "spark", self.command, self.path, json.loads(text) if text else None
            )
            self.pods.news.notify_all()
        if code == 200 and query.get("watch") == ["true"]:
            # As some proxies do it: no WebSocket, then a client asks for a plain stream.
            return self._send(200, "") if "Upgrade" in self.headers else self._watch(query)
        if code == 200 and "items" in json.loads(answer):
            answer = json.dumps(
                {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}
                | json.loads(answer)
            )
        self._send(code, answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def _send(self, code: int, text: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def _watch(self, query: dict[str, list[str]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        with self.pods.watching() as queue:
            try:
                while True:
                    try:
                        event = queue.get(timeout=1.0)
                    except Empty:
                        if self.server.socket.fileno() < 0:
                            return
                        continue
                    if any(self.pods.server.selected([event["object"]], query)):
                        line = json.dumps(event).encode() + b"\n"
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                        self.wfile.flush()
            except OSError:
                return  # nobody watches any more

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _labels(obj: Obj) -> Obj:
    return obj["metadata"].get("labels") or {}
