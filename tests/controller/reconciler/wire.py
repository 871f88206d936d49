"""The wire between a controller and the API server: it holds one request back, cuts the controller off, and
delivers late.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import web
from kubernetes.aio.client import Configuration

Matches = Callable[[str, str], bool]
HOP_BY_HOP = {"host", "connection", "transfer-encoding", "content-length", "content-encoding", "keep-alive"}


class Wire:
    """A reverse proxy without TLS on this side. `holds`: method and path of the request to hold back."""

    def __init__(self, server: Configuration) -> None:
        self._base = server.host
        self._tls = ssl.create_default_context(cafile=server.ssl_ca_cert)
        self._tls.load_cert_chain(server.cert_file, server.key_file)
        self.holds: Matches = lambda method, path: False
        self.held = asyncio.Event()
        self._delivered: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._deliver = asyncio.Event()
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def open(self, kubeconfig: Path) -> AsyncIterator[Wire]:
        """Writes a kubeconfig that leads through it."""
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # A held request is delivered whatever becomes of the one who sent it.
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=False)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        _, port = runner.addresses[0][:2]
        kubeconfig.write_text(json.dumps(_kubeconfig(f"http://127.0.0.1:{port}")))
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=0), auto_decompress=False
        ) as self._session:
            try:
                yield self
            finally:
                self._deliver.set()
                await runner.cleanup()

    async def deliver(self) -> int:
        """Let the held request arrive now. Returns the API server's answer to it."""
        self._deliver.set()
        return await asyncio.wait_for(asyncio.shield(self._delivered), 300)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if self.held.is_set():
            await self._deliver.wait()
            raise web.HTTPServiceUnavailable
        if self.holds(request.method, request.path):
            self.held.set()
            await self._deliver.wait()
            assert self._session is not None
            async with self._session.request(
                request.method, self._base + request.path_qs, data=body or None, headers=_headers(request)
            ) as answer:
                self._delivered.set_result(answer.status)
            raise web.HTTPServiceUnavailable
        return await self._forward(request, body)

    async def _forward(self, request: web.Request, body: bytes) -> web.StreamResponse:
        assert self._session is not None
        async with self._session.request(
            request.method,
            self._base + request.path_qs,
            data=body or None,
            headers=_headers(request),
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            response = web.StreamResponse(status=answer.status)
            response.content_type = answer.content_type
            await response.prepare(request)
            async for chunk in answer.content.iter_any():  # a watch has no end
                if self.held.is_set():
                    break
                await response.write(chunk)
            return response


def _headers(request: web.Request) -> dict[str, str]:
    return {k: v for k, v in request.headers.items() if k.lower() not in HOP_BY_HOP | {"accept-encoding"}}


def _kubeconfig(server: str) -> object:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "wire",
        "clusters": [{"name": "wire", "cluster": {"server": server}}],
        "users": [{"name": "wire", "user": {}}],
        "contexts": [{"name": "wire", "context": {"cluster": "wire", "user": "wire"}}],
    }
