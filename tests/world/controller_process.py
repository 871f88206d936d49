"""A controller's process: the production modules, woken as kopf would wake them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from types import ModuleType
from typing import TYPE_CHECKING, Any

from streamjob.controller.api_server import kube, leader
from streamjob.controller.objects import names
from streamjob.controller.reconciler import reconciler

from .apiserver import Obj
from .network import Api, Session, for_ever, travel
from .user import NAMESPACE

if TYPE_CHECKING:
    from .world import World

RELIST = 300.0  # as triggers.configure
# As triggers.register.
WATCHED = {"streamjobs": "/apis/streamjob.dev/v1alpha1{}/streamjobs", "pods": "/api/v1{}/pods"}


@dataclass(frozen=True)
class Product:
    """The production modules that are run: the real ones, or copies with a seeded bug."""

    reconciler: ModuleType = reconciler
    kube: ModuleType = kube
    leader: ModuleType = leader


class Alone:
    """In the place of `controller.leader.Leader` where there is one controller at a time: it leads at once,
    in a term of its own. Renewals every other second would make up most of a plan.
    """

    def __init__(self, term: int) -> None:
        self.term = term
        self.alive = 0.0

    def check(self, term: int) -> None:
        assert term == self.term

    def outdated(self, term: int) -> None:
        raise AssertionError(f"term {term} has never begun")

    async def run(self, begin: Callable[[], None], end: Callable[[], Any]) -> None:
        begin()
        await for_ever()

    async def release(self) -> None:
        pass


class Controller:
    """One process of the production controller, from its start to its end; another one follows."""

    def __init__(self, world: World, slot: int) -> None:
        self.world, self.slot, self.name = world, slot, f"controller-{slot}"
        self.dead = False
        skew = timedelta(seconds=world.plan.skews[slot])

        class Connected(world.product.kube.Kube):  # type: ignore[name-defined]
            async def open(kube) -> None:
                kube._api = Api(self)

        world.starts += 1
        api = Connected(world.namespaces)
        self.blind: set[str] = set()  # to kinds that it may not watch
        identity = f"{self.name} {world.starts}"
        shared = len(world.plan.skews) > 1
        leads = (
            world.product.leader.Leader(api, NAMESPACE, "streamjob", identity)
            if shared
            else Alone(world.starts)
        )
        self.reconciler = world.product.reconciler.Reconciler(
            api, leads, now=lambda: world.now() + skew, session=lambda: Session(self)
        )
        world.note(self.name, "starts")
        world.loop.create_task(self._run())

    async def _run(self) -> None:
        """As kopf does it: what is there is listed at the start, and from time to time; in between there are
        events.
        """
        await self.reconciler.open()
        while not self.dead:
            await travel(self)
            for plural in WATCHED:
                if self._may("list", plural):
                    for obj in self.world.server.of_kind(plural):
                        self.told(plural, obj)
                (self.blind.discard if self._may("watch", plural) else self.blind.add)(plural)
            await asyncio.sleep(RELIST)

    def _may(self, verb: str, plural: str) -> bool:
        """Whether the server lets kopf, in each place that is served."""
        if self.world.server.rights is None:
            return True
        query = "?watch=true" if verb == "watch" else ""
        places = [f"/namespaces/{n}" for n in self.world.namespaces] or [""]
        paths = [WATCHED[plural].format(where) + query for where in places]
        return all(self.world.ask(self, "GET", path)[0] == 200 for path in paths)

    def told(self, plural: str, obj: Obj, *, there: bool = True) -> None:
        """As triggers.py does it."""
        meta = obj["metadata"]
        if self.dead or plural == self.world.plan.deaf:
            return
        if plural == "streamjobs":
            self.reconciler.enqueue(NAMESPACE, meta["name"], meta["resourceVersion"] if there else None)
        elif names.LABEL_JOB in meta.get("labels", {}):
            self.reconciler.enqueue(NAMESPACE, meta["labels"][names.LABEL_JOB])

    def crash(self) -> None:
        """Nothing that it has begun comes to anything any more: its calls never return."""
        self.dead = True
        world, slot = self.world, self.slot
        world.note(self.name, "crashes")

        def again() -> None:
            world.controllers[slot] = Controller(world, slot)

        world.later(world.after_a_crash(), again)
