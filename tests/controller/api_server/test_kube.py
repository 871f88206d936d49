"""Calls to a real API server."""

from __future__ import annotations

import pytest

from dev.bench.scale import manifest
from streamjob.controller.api_server import kube

from ..real import JOBS, NEEDS_A_CLUSTER, a_world

pytestmark = NEEDS_A_CLUSTER


async def test_lists_come_page_by_page_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube, "PAGE", 2)
    made = [manifest(f"paged-{n}") for n in range(5)]
    async with a_world(controlled=False) as world:
        for body in made:
            await world.objects.create_namespaced_custom_object(*JOBS, world.namespace, "streamjobs", body)
        api = kube.Kube([world.namespace])
        await api.open()
        try:
            found = await api.list_jobs()
        finally:
            await api.close()
    assert [j["metadata"]["name"] for j in found] == [body["metadata"]["name"] for body in made]
