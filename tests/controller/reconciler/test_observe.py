"""What is looked up about a job beside what always is."""

from __future__ import annotations

from typing import Any, cast

from streamjob.controller.api_server.kube import Kube
from streamjob.controller.reconciler.observe import with_missing

from ..factories import NOW, index, job, observed, pod

VOLUMES = [
    {"name": "app", "configMap": {"name": "rates"}},
    {"name": "key", "secret": {"secretName": "keys"}},
    {"name": "data", "persistentVolumeClaim": {"claimName": "streams"}},
    {"name": "tmp", "emptyDir": {}},
]
TEMPLATE = [
    {"name": "more", "configMap": {"name": "more"}},
    {"name": "o", "secret": {"secretName": "o", "optional": True}},
]


class Namespace:
    """An API server that has these objects, and counts the questions."""

    def __init__(self, *names: str) -> None:
        self.names, self.asked = names, list[tuple[str, str, str]]()

    async def has(self, namespace: str, what: str, name: str) -> bool:
        self.asked.append((namespace, what, name))
        return name in self.names


def waiting(**more: Any) -> Any:
    storage = {"checkpoints": "/data/cp", "savepoints": "/data/sp", "volumes": VOLUMES}
    driver = {"template": {"spec": {"volumes": TEMPLATE}}}
    return observed(
        job(status={"epoch": 1}, storage=storage, driver=driver), pods=[pod(**more)], index=index()
    )


async def test_what_volumes_name_is_looked_up_while_they_are_not_mounted() -> None:
    there = Namespace("rates")
    seen = await with_missing(cast(Kube, there), waiting(unmounted_since=NOW))
    assert seen.pod is not None
    assert seen.pod.missing == ("Secret keys", "ConfigMap more")
    assert {what for _, what, _ in there.asked} == {"configmaps", "secrets"}


async def test_nothing_is_looked_up_otherwise() -> None:
    there = Namespace()
    seen = await with_missing(cast(Kube, there), waiting())
    assert seen.pod is not None
    assert (seen.pod.missing, there.asked) == ((), [])
