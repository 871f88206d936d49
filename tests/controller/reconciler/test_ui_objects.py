"""What is remembered of the objects for Spark's UI, the calls for them, and what becomes of a failure."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from streamjob.api import StreamJob
from streamjob.controller.api_server.errors import (
    Conflict,
    Forbidden,
    KubeError,
    NamespaceTerminating,
    ObjectNotFound,
)
from streamjob.controller.objects import ui
from streamjob.controller.objects.ui import UiKind
from streamjob.controller.reconciler import ui_objects
from streamjob.controller.reconciler.ui_objects import UiObjects
from streamjob.controller.rules.observed import ObservedUi

from ..factories import job

Obj = dict[str, Any]
FULL = {"ingress": {"host": "a.example.com"}, "httpRoute": {"parentRefs": [{"name": "web"}], "path": "/a"}}


class Store:
    """In the place of `Kube`: the objects of a cluster, and the calls that were made.

    :param refusal: what each write is refused with.
    """

    def __init__(self, refusal: Exception | None = None, *, gateway: bool = True) -> None:
        self.there: dict[UiKind, Obj] = {}
        self.refusal, self.gateway, self.calls, self.version = refusal, gateway, list[str](), 0

    async def list_ui(self, kind: UiKind) -> list[Obj]:
        self.calls.append(f"list {kind.value}")
        self._exists(kind)
        return [self.there[kind]] if kind in self.there else []

    async def get_ui(self, kind: UiKind, namespace: str, name: str) -> Obj | None:
        self.calls.append(f"get {kind.value}")
        return self.there.get(kind)

    async def apply_ui(self, body: Obj, version: str | None) -> str:
        kind = UiKind(body["kind"])
        self.calls.append(f"apply {kind.value}")
        self._exists(kind)
        if self.refusal is not None:
            raise self.refusal
        there = self.there.get(kind)
        assert version == (there["metadata"]["resourceVersion"] if there is not None else None)
        return self.put(body)

    def put(self, body: Obj) -> str:
        self.version += 1
        meta = {**body["metadata"], "resourceVersion": str(self.version)}
        self.there[UiKind(body["kind"])] = {**body, "metadata": meta}
        return str(self.version)

    async def delete_ui(self, kind: UiKind, namespace: str, name: str, version: str) -> None:
        self.calls.append(f"delete {kind.value}")
        assert self.there.pop(kind)["metadata"]["resourceVersion"] == version

    def _exists(self, kind: UiKind) -> None:
        if kind is UiKind.HTTP_ROUTE and not self.gateway:
            raise ObjectNotFound(404, "the server could not find the requested resource")


async def begun(store: Store, wanted: StreamJob) -> UiObjects:
    """After the first list of a term."""
    objects = UiObjects(store)  # type: ignore[arg-type]
    objects.begin()
    assert objects.observed(wanted) is None
    assert await objects.check() == {("shop", "orders")}
    store.calls.clear()
    return objects


async def apply_all(objects: UiObjects, wanted: StreamJob) -> None:
    for body in ui.objects(wanted, None).values():
        await objects.apply(wanted, body)


def now(objects: UiObjects, wanted: StreamJob) -> ObservedUi:
    observed = objects.observed(wanted)
    assert observed is not None
    return observed


async def test_what_is_applied_is_remembered_without_a_call() -> None:
    store, wanted = Store(), job(ui=FULL)
    objects = await begun(store, wanted)
    assert now(objects, wanted).applied == {}
    await apply_all(objects, wanted)
    assert store.calls == [f"{call} {kind.value}" for kind in UiKind for call in ("get", "apply")]
    store.calls.clear()
    assert now(objects, wanted).applied == {
        kind: ui.digest(obj) for kind, obj in ui.objects(wanted, None).items()
    }
    assert store.calls == []


async def test_a_new_leader_finds_what_there_is() -> None:
    """So a field that was removed meanwhile takes its object along."""
    store, wanted = Store(), job(ui=FULL)
    await apply_all(await begun(store, wanted), wanted)
    objects = UiObjects(store)  # type: ignore[arg-type]
    assert await objects.check() == {("shop", "orders")}
    assert set(now(objects, job()).applied) == set(UiKind)
    for kind in UiKind:
        await objects.delete(job(), kind)
    assert store.there == {}
    assert now(objects, job()).applied == {}


async def test_a_job_that_is_observed_during_the_first_lists_is_looked_at_again() -> None:
    store, wanted = Store(), job(ui=FULL)
    objects = UiObjects(store)  # type: ignore[arg-type]
    lists = store.list_ui

    async def observes(kind: UiKind) -> list[Obj]:
        assert objects.observed(wanted) is None
        return await lists(kind)

    store.list_ui = observes  # type: ignore[method-assign]
    assert await objects.check() == {("shop", "orders")}


async def test_what_others_delete_or_change_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ui_objects, "CHECK_EVERY", 0.0)
    store, wanted = Store(), job(ui=FULL)
    objects = await begun(store, wanted)
    await apply_all(objects, wanted)
    assert await objects.check() == set()
    del store.there[UiKind.SERVICE]
    store.put(store.there[UiKind.INGRESS])
    assert await objects.check() == {("shop", "orders")}
    applied = now(objects, wanted).applied
    assert UiKind.SERVICE not in applied
    assert applied[UiKind.INGRESS] == ""
    assert applied[UiKind.HTTP_ROUTE] != ""
    await apply_all(objects, wanted)
    assert await objects.check() == set()


async def test_nothing_is_listed_before_its_time_nor_without_a_job_that_asks() -> None:
    store, wanted = Store(), job(ui=FULL)
    objects = await begun(store, wanted)
    await objects.check()
    assert store.calls == []
    nobody = UiObjects(Store())  # type: ignore[arg-type]
    assert await nobody.check() == set()
    nobody._next_check = 0.0
    store = nobody._kube = Store()  # type: ignore[assignment]
    assert await nobody.check() == set()
    assert store.calls == []


async def test_an_object_of_somebody_else_is_left_alone() -> None:
    store, wanted = Store(), job(ui=FULL)
    objects = await begun(store, wanted)
    foreign = {"kind": "Service", "metadata": {"name": "orders-ui", "labels": {"app": "mine"}}}
    store.put(foreign)
    await objects.apply(wanted, ui.objects(wanted, None)[UiKind.SERVICE])
    await objects.delete(wanted, UiKind.SERVICE)
    assert store.there[UiKind.SERVICE]["metadata"]["labels"] == {"app": "mine"}
    await objects.apply(wanted, ui.objects(wanted, None)[UiKind.SERVICE])
    failure = now(objects, wanted).failures[UiKind.SERVICE]
    assert failure.problem.reason == "NameTaken"
    assert "Service orders-ui exists and belongs to something else" in failure.problem.message


async def test_a_copy_that_somebody_has_made_is_not_taken_for_ours() -> None:
    store, wanted = Store(), job(ui={})
    objects = await begun(store, wanted)
    body = ui.objects(wanted, None)[UiKind.SERVICE]
    store.put({**body, "metadata": {**body["metadata"], "name": "a-copy"}})
    objects.begin()
    await objects.check()
    assert objects.observed(job()) == ObservedUi(frozenset(UiKind))


async def test_without_the_gateway_api_the_rest_is_there_and_the_user_is_told() -> None:
    store, wanted = Store(gateway=False), job(ui=FULL)
    objects = await begun(store, wanted)
    await apply_all(objects, wanted)
    observed = now(objects, wanted)
    assert set(observed.applied) == {UiKind.SERVICE, UiKind.INGRESS}
    assert observed.failures[UiKind.HTTP_ROUTE].problem.reason == "GatewayAPIMissing"


async def test_a_failure_is_tried_again_ever_later(monkeypatch: pytest.MonkeyPatch) -> None:
    store, wanted = Store(Forbidden(403, "not you", remedy="Ask")), job(ui={})
    objects = await begun(store, wanted)
    (body,) = ui.objects(wanted, None).values()
    waits = []
    for _ in range(9):
        await objects.apply(wanted, body)
        waits.append(round(now(objects, wanted).failures[UiKind.SERVICE].retry_in))
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    monkeypatch.setattr(ui_objects, "RETRY_MAX", 0.0)
    await objects.apply(wanted, body)
    assert now(objects, wanted).failures == {}, "it is due"
    store.refusal = None
    await objects.apply(wanted, body)
    assert UiKind.SERVICE in now(objects, wanted).applied


@pytest.mark.parametrize(
    "error",
    [Conflict(409, "later"), NamespaceTerminating(403, "ends"), KubeError(429, "a pause"), KubeError(0, "")],
)
async def test_what_no_person_has_to_fix_is_no_failure(error: KubeError) -> None:
    store, wanted = Store(error), job(ui={})
    objects = await begun(store, wanted)
    with pytest.raises(type(error)):
        await objects.apply(wanted, ui.objects(wanted, None)[UiKind.SERVICE])
    assert now(objects, wanted).failures == {}


async def test_a_deleted_job_is_forgotten() -> None:
    store, wanted = Store(), job(ui=FULL)
    objects = await begun(store, wanted)
    await asyncio.gather(apply_all(objects, wanted))
    objects.forget(wanted.metadata.uid)
    assert now(objects, job()).applied == {}
