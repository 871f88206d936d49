"""The answers to the probes and to Prometheus."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import aiohttp
import pytest

from dev import ports
from streamjob.controller.api_server.kube import Kube
from streamjob.controller.api_server.leader import Leader
from streamjob.controller.process import metrics
from streamjob.controller.reconciler.reconciler import Reconciler
from streamjob.controller.web import AGE_LIMIT, served


@pytest.fixture
async def reconciler() -> AsyncIterator[Reconciler]:
    """Of a standby that has just seen the Lease."""
    metrics.JOBS.clear()  # another test of this process may have led
    kube = Kube(["shop"])
    yield Reconciler(kube, Leader(kube, "shop", "streamjob", "a"))
    metrics.LEADER_TERM.set_function(lambda: 0)  # it reads a leader whose loop is about to be closed


@pytest.fixture
async def session(reconciler: Reconciler) -> AsyncIterator[aiohttp.ClientSession]:
    address = f"127.0.0.1:{ports.free()}"
    async with served(reconciler, address), aiohttp.ClientSession(f"http://{address}") as session:
        yield session


async def test_a_standby_is_healthy(session: aiohttp.ClientSession) -> None:
    async with session.get("/healthz") as answer:
        assert answer.status == 200
        assert (await answer.json())["leads"] is False


async def test_one_that_makes_no_progress_is_not(
    session: aiohttp.ClientSession, reconciler: Reconciler
) -> None:
    reconciler.leader.alive = time.monotonic() - AGE_LIMIT - 1
    async with session.get("/healthz") as answer:
        assert answer.status == 503
        assert (await answer.json())["secondsSinceLastReconcile"] > AGE_LIMIT


async def test_metrics_of_a_standby_name_no_job(session: aiohttp.ClientSession) -> None:
    async with session.get("/metrics") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        text = await answer.text()
    assert "streamjob_leader_term 0.0" in text
    assert "streamjob_job_phase{" not in text


async def test_nothing_else_is_there(session: aiohttp.ClientSession) -> None:
    for path in ("/", "/v1/status", "/debug"):
        async with session.get(path) as answer:
            assert answer.status == 404
