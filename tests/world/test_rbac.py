"""The chart's Roles, right by right: with all of them nothing is refused, without any one of them something
is.

On the real server, tests/controller/api_server/test_permissions.py tests the rest: kopf's own requests and
the wording.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from tests import gate
from tests.chart.test_chart import HELM, render

from .apiserver import Obj
from .permissions import Request, Right, Rights, rights_of
from .plan import Step
from .scenarios import SCENARIOS
from .special import SPECIAL
from .user import JOB, NAMESPACE
from .world import World

pytestmark = pytest.mark.skipif(HELM is None, reason="no helm (make test builds one)")
# Two controllers: they share a Lease. What is stopped and resumed has met with almost all there is to do.
# The Event of the third change of the executors is the first one's, once more.
CHANGES = [Step(do, 9.0, "Running") for do in ("two executors", "one executor", "two executors")]
BUSY = replace(
    SCENARIOS["resume"],
    skews=(0.0, 0.0),
    shape=replace(SCENARIOS["resume"].shape, ui=True, executors=1),
    steps=(*SCENARIOS["resume"].steps, *CHANGES, Step("no UI", 3.0, "Running")),
)
EXPOSED = ("ui.services=true", "ui.ingresses=true", "ui.httpRoutes=true")
QUIET = [name for name in SPECIAL if not name.startswith("revoked")]
WATCH = {"named": (NAMESPACE,), "all": ()}


@cache
def chart(watch: str) -> Rights:
    """What the controller has in the namespace of the world's jobs, which is its own."""
    everywhere = ["watch.allNamespaces=true"] if watch == "all" else []
    objects = render(*everywhere, *EXPOSED, release="streamjob", namespace=NAMESPACE)
    (deployment,) = [o for o in objects if o["kind"] == "Deployment"]
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    return rights_of(account, NAMESPACE, objects)


@pytest.mark.parametrize("one_in", [16, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("watch", [pytest.param("named", marks=pytest.mark.slow), "all"])
def test_with_all_of_them_nothing_is_refused(watch: str, one_in: int) -> None:
    others = [*SCENARIOS.values(), *(SPECIAL[name] for name in QUIET)]
    for plan in [BUSY, *gate.one_in(one_in, others)]:
        outcome = World(plan, rights=chart(watch), namespaces=WATCH[watch]).run()
        assert outcome.violation is None, outcome


@pytest.mark.parametrize("watch", WATCH)
def test_without_any_one_of_them_something_is(watch: str) -> None:
    """So none of them is one too many."""
    rights = chart(watch)
    assert len(rights.all) >= 15
    unneeded = []
    for right in sorted(rights.all):
        world = World(BUSY, rights=rights.without(right), namespaces=WATCH[watch])
        world.run()
        if not any(right.covers(request) for request in world.server.forbidden):
            unneeded.append(str(right))
    assert unneeded == []


def test_nothing_outside_of_the_namespaces_that_are_served() -> None:
    rights = chart("named")
    assert {right.namespace for right in rights.all} == {NAMESPACE}
    assert rights.refusal(Request("get", "", "secrets", "elsewhere", "orders-control")) is not None
    assert rights.refusal(Request("list", "streamjob.dev", "streamjobs", None, None)) is not None


def test_a_right_to_one_name_is_none_to_create() -> None:
    """As the real authorizer has it: a new object has no name yet."""
    only = Right("coordination.k8s.io", "leases", "create", ("streamjob",))
    lease = Request("create", "coordination.k8s.io", "leases", NAMESPACE, None)
    assert not only.covers(lease)
    assert replace(only, names=()).covers(lease)


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("before", 'cannot list resource "pods" in API group "" in the namespace "shop"'),
        ("pods", 'cannot list resource "pods" in API group "" in the namespace "shop"'),
        ("index", 'cannot get resource "configmaps" in API group "" in the namespace "shop"'),
    ],
)
def test_o12_a_right_that_is_taken_away_is_told_and_its_return_is_enough(what: str, sentence: str) -> None:
    said = stalled(World(SPECIAL[f"revoked-{what}"]))
    assert {c["reason"] for c in said} == {"Forbidden"}
    assert sentence in said[0]["message"]
    assert "Give the controller the permission" in said[0]["message"]


def test_a_refusal_for_a_moment_is_told_nobody() -> None:
    world = World(SPECIAL["revoked-for-a-moment"])
    assert stalled(world) == []
    assert world.server.forbidden, "nothing was refused"


def stalled(world: World) -> list[Obj]:
    """What keeps the job from continuing, as its status says it on the way."""
    said: list[Obj] = []
    look = world._look

    def watch() -> None:
        conditions = (world.server.objects.get(JOB, {}).get("status") or {}).get("conditions", ())
        said.extend(c for c in conditions if c["type"] == "Stalled" and c["status"] == "True")
        look()

    world._look = watch  # type: ignore[method-assign]
    assert world.run().violation is None
    return said
