"""An Event that repeats itself is one object with a count."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from streamjob.controller.api_server.errors import KubeError, ObjectNotFound
from streamjob.controller.reconciler.recorder import KNOWN_MAX, SERIES, Recorder
from streamjob.controller.reports.messages import KubernetesEvent

from ..factories import NOW, job

FULL = KubernetesEvent(True, "StorageFull", "no room")


class Kube:
    def __init__(self, *, gone: bool = False) -> None:
        self.gone = gone
        self.objects: list[dict[str, Any]] = []
        self.patches: list[tuple[str, dict[str, Any]]] = []

    async def create_event(self, namespace: str, body: dict[str, Any]) -> None:
        self.objects.append(body)

    async def patch_event(self, namespace: str, name: str, body: dict[str, Any]) -> None:
        if self.gone:
            raise ObjectNotFound(404, "gone")
        self.patches.append((name, body))


async def post(kube: Kube, *events: tuple[KubernetesEvent, timedelta]) -> Recorder:
    recorder = Recorder(kube)  # type: ignore[arg-type]
    for event, after in events:
        await recorder.post(job(), event, NOW + after)
    return recorder


async def test_a_repetition_is_counted() -> None:
    kube = Kube()
    await post(kube, *((FULL, timedelta(minutes=n)) for n in range(3)))
    (made,) = kube.objects
    assert "series" not in made
    assert [name for name, _ in kube.patches] == [made["metadata"]["name"]] * 2
    assert [body["series"]["count"] for _, body in kube.patches] == [2, 3]
    assert kube.patches[-1][1]["series"]["lastObservedTime"] > made["eventTime"]


async def test_another_one_and_a_late_one_are_new() -> None:
    kube = Kube()
    other = KubernetesEvent(True, "StorageFull", "still no room")
    await post(kube, (FULL, timedelta()), (other, timedelta()), (FULL, SERIES))
    assert len({made["metadata"]["name"] for made in kube.objects}) == 3
    assert kube.patches == []


async def test_one_that_has_expired_is_made_again() -> None:
    kube = Kube(gone=True)
    await post(kube, (FULL, timedelta()), (FULL, timedelta(minutes=1)))
    assert len(kube.objects) == 2


async def test_a_refused_one_disturbs_nobody() -> None:
    class Refusing(Kube):
        async def create_event(self, namespace: str, body: dict[str, Any]) -> None:
            raise KubeError(500, "no")

    await post(Refusing(), (FULL, timedelta()))


async def test_only_so_many_are_remembered() -> None:
    kube = Kube()
    many = [(KubernetesEvent(False, "Running", str(n)), timedelta()) for n in range(KNOWN_MAX + 1)]
    recorder = await post(kube, *many)
    await recorder.post(job(), many[0][0], NOW)
    await recorder.post(job(), many[-1][0], NOW)
    assert len(kube.patches) == 1
