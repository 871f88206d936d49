"""The script of `helm test`, against servers that answer as the controller does."""

from __future__ import annotations

import json
import runpy
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from dev import ports

from .test_chart import CHART

SCRIPT = CHART / "tests" / "health.py"


@contextmanager
def replica(address: str, port: int, *, healthy: bool = True, leads: bool = False) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/healthz"
            self.send_response(200 if healthy else 503)
            self.end_headers()
            self.wfile.write(json.dumps({"secondsSinceLastReconcile": 1.0, "leads": leads}).encode())

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer((address, port), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def check(monkeypatch: pytest.MonkeyPatch, *replicas: dict[str, bool], wanted: int = 2) -> None:
    """Run the script. The name of the Service leads to 127.0.0.1, 127.0.0.2 and so on."""
    port = ports.free()
    addresses = [f"127.0.0.{n}" for n in range(1, len(replicas) + 1)]
    found = socket.getaddrinfo

    def lookup(host: Any, *args: Any, **kwargs: Any) -> Any:
        names = addresses if host == "streamjob-test.ops.svc" else [host]
        return [entry for name in names for entry in found(name, *args, **kwargs)]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    monkeypatch.setattr(sys, "argv", ["-c", "streamjob-test.ops.svc", str(port), str(wanted), "0"])
    with ExitStack() as stack:
        for address, what in zip(addresses, replicas, strict=True):
            stack.enter_context(replica(address, port, **what))
        runpy.run_path(str(SCRIPT))


def test_two_healthy_replicas_of_which_one_leads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check(monkeypatch, {"leads": True}, {})
    assert capsys.readouterr().out.startswith("2 replicas are healthy, one of them leads")


@pytest.mark.parametrize(
    "replicas",
    [
        pytest.param([{"leads": True}], id="one is missing"),
        pytest.param([{}, {}], id="nobody leads"),
        pytest.param([{"leads": True}, {"leads": True}], id="two lead"),
        pytest.param([{"leads": True}, {"healthy": False}], id="one makes no progress"),
    ],
)
def test_anything_else_fails(monkeypatch: pytest.MonkeyPatch, replicas: list[dict[str, bool]]) -> None:
    with pytest.raises(SystemExit, match="not 2 healthy replicas with one leader within 0 s"):
        check(monkeypatch, *replicas)
