"""When a ConfigMap of the runtime is created, kept and deleted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from streamjob.controller.api_server.errors import AlreadyExists
from streamjob.controller.objects import names, runtime_files
from streamjob.controller.reconciler import runtime_config_maps
from streamjob.controller.reconciler.runtime_config_maps import RuntimeConfigMaps, unneeded

OLD = "streamjob-runtime-0123456789ab"


class Store:
    """In the place of `Kube`: the ConfigMaps and the jobs of a cluster, and the calls that were made."""

    def __init__(self, *there: tuple[str, str], jobs: tuple[str, ...] = ()) -> None:
        self.there, self.jobs, self.calls = dict.fromkeys(there, "1"), jobs, list[str]()

    async def has(self, namespace: str, what: str, name: str) -> bool:
        self.calls.append("get")
        return (namespace, name) in self.there

    async def create_config_map(self, namespace: str, body: Any) -> None:
        self.calls.append("create")
        place = namespace, body["metadata"]["name"]
        if place in self.there:
            raise AlreadyExists(409, "it exists")
        self.there[place] = "1"

    async def list_config_maps(self, selector: str) -> list[Any]:
        self.calls.append("list")
        return [
            {"metadata": {"namespace": ns, "name": name, "resourceVersion": version}}
            for (ns, name), version in self.there.items()
        ]

    async def list_jobs(self) -> list[Any]:
        return in_namespaces(*self.jobs)

    async def delete_config_map(self, namespace: str, name: str, version: str) -> None:
        assert self.there.pop((namespace, name)) == version


def in_namespaces(*found: str) -> list[Any]:
    return [{"metadata": {"namespace": namespace}} for namespace in found]


def pod(namespace: str, runtime: str, epoch: int = 1) -> Any:
    """The driver's pod of this epoch, of the one job of the namespace."""
    labels = {names.LABEL_RUNTIME: runtime, names.LABEL_UID: namespace, names.LABEL_EPOCH: str(epoch)}
    return {"metadata": {"namespace": namespace, "labels": labels}}


def connected(store: Store) -> RuntimeConfigMaps:
    return RuntimeConfigMaps(store)  # type: ignore[arg-type]


async def test_it_is_created_once_and_then_only_looked_for() -> None:
    store = Store()
    runtimes = connected(store)
    await asyncio.gather(runtimes.ensure("shop"), runtimes.ensure("shop"))
    assert store.calls == ["get", "create", "get"]
    assert list(store.there) == [("shop", runtime_files.name())]


async def test_another_controller_may_be_faster() -> None:
    class Late(Store):
        async def has(self, namespace: str, what: str, name: str) -> bool:
            return False

    await connected(Late(("shop", runtime_files.name()))).ensure("shop")


async def test_a_namespace_whose_last_job_is_gone_has_none_soon() -> None:
    store = Store()
    runtimes = connected(store)
    await runtimes.ensure("shop")
    await runtimes.collect(in_namespaces("shop"), [])
    assert store.calls == ["get", "create"], "nothing to look for while it has jobs"
    await runtimes.collect([], [])
    assert store.there == {}


async def test_a_job_that_has_begun_meanwhile_keeps_it() -> None:
    store = Store()
    runtimes = connected(store)
    await runtimes.ensure("shop")
    store.jobs = ("shop",)
    await runtimes.collect([], [])
    assert list(store.there) == [("shop", runtime_files.name())]


async def test_what_others_left_is_found_later(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(("shop", OLD), ("other", OLD), jobs=("shop",))
    runtimes = connected(store)
    await runtimes.collect(in_namespaces("shop"), [])
    assert store.calls == []
    monkeypatch.setattr(runtime_config_maps, "FIRST_CHECK", 0.0)
    await connected(store).collect(in_namespaces("shop"), [pod("other", OLD)])
    assert list(store.there) == [("other", OLD)], "a driver's executors may still mount it"


async def test_the_pod_of_a_failed_driver_that_stays_for_its_log_needs_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runtime_config_maps, "FIRST_CHECK", 0.0)
    store = Store(("shop", OLD), ("shop", runtime_files.name()), jobs=("shop",))
    pods = [pod("shop", runtime_files.name(), 10), pod("shop", OLD, 9)]
    await connected(store).collect(in_namespaces("shop"), pods)
    assert list(store.there) == [("shop", runtime_files.name())]


async def test_one_that_somebody_has_deleted_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods that are about to mount it wait for it: a driver that has not started, and new executors."""
    monkeypatch.setattr(runtime_config_maps, "FIRST_CHECK", 0.0)
    store = Store(jobs=("shop", "old"))
    pods = [pod("shop", runtime_files.name()), pod("old", OLD), pod("gone", runtime_files.name())]
    await connected(store).collect(in_namespaces("shop", "old"), pods)
    assert list(store.there) == [("shop", runtime_files.name())], "that of another version cannot be made"


def test_only_what_is_mounted_or_will_be_is_needed() -> None:
    new = runtime_files.name()
    found = [{"namespace": ns, "name": name} for ns in ("a", "b") for name in (OLD, new)]
    left = unneeded(found, busy={"a"}, mounted={("b", OLD)})
    assert [(m["namespace"], m["name"]) for m in left] == [("a", OLD), ("b", new)]
