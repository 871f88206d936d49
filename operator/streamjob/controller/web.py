"""The controller's HTTP server: /healthz for the probes, /metrics for Prometheus. No login, no secrets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from .process.metrics import REGISTRY
from .reconciler.reconciler import Reconciler

AGE_LIMIT = 90.0  # seconds without a sign of life until the probes fail: twice the longest resync interval


@asynccontextmanager
async def served(reconciler: Reconciler, address: str) -> AsyncIterator[None]:
    """Serve while the block runs.

    :param address: HOST:PORT.
    """

    async def health(_: web.Request) -> web.Response:
        """Report the age of the last reconcile, 503 above AGE_LIMIT: an answer alone proves no progress."""
        age = reconciler.age
        body = {"secondsSinceLastReconcile": round(age, 1), "leads": bool(reconciler.leader.term)}
        return web.json_response(body, status=200 if age <= AGE_LIMIT else 503)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})

    host, _, port = address.rpartition(":")
    app = web.Application()
    app.router.add_get("/healthz", health)
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, int(port)).start()
        yield
    finally:
        await runner.cleanup()
