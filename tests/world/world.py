"""A world runs a plan: it puts the parts together, and holds what happens to the oracle until the plan is over."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from random import Random
from types import ModuleType
from typing import Any

from streamjob.controller import kube, leader, metrics, names, reconciler
from streamjob.protocol import coordinator

from .apiserver import ApiServer, Change, Obj
from .driver import Driver
from .kubelet import Kubelet
from .loop import VirtualLoop
from .network import Api, Session, for_ever, travel
from .oracle import Oracle, Violation
from .plan import Fault, Mishap, Plan, random_plan
from .rights import Rights
from .storage import Storage
from .user import JOB, NAME, NAMESPACE, User

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
PATIENCE = 120.0  # seconds for which the user waits for a phase
REACH = 4500.0  # seconds within which the job is what its spec asks for; a clock may be an hour behind
LOOK = 5.0
KEEP = 60.0  # seconds for which it has to stay so
RELIST = 300.0  # as triggers.configure
WATCHED = {
    "streamjobs": "/apis/streamjob.dev/v1alpha1{}/streamjobs",
    "pods": "/api/v1{}/pods",
}  # as triggers.register
LATENCY = (0.0, 0.0, 0.002, 0.01, 0.05)
EFFECTS_LIMIT = 3000
AT_REST = ("Stopped", "Drained", "Finished", "Cancelled", "Failed")
RESTART = (0.5, 3.0, 12.0)


@dataclass(frozen=True)
class Product:
    """The production modules that are run: the real ones, or copies with a seeded bug."""

    reconciler: ModuleType = reconciler
    kube: ModuleType = kube
    leader: ModuleType = leader
    coordinator: ModuleType = coordinator


@dataclass
class Outcome:
    """What came of a plan. `effects`: what each was, by its ordinal."""

    plan: Plan
    violation: Violation | None
    trace: list[tuple[float, str, str]]
    effects: list[str]
    made: Counter[str]
    seconds: float

    @property
    def replay(self) -> str:
        """The command that shows it again, step by step."""
        command = "PYTHONPATH=operator .venv/bin/python -m tests.world"
        if self.plan == random_plan(self.plan.seed):
            return f"{command} --seed {self.plan.seed} --verbose"
        faults = "".join(f' --fault "{n}:{kind.value}"' for n, kind in self.plan.faults)
        return f"{command} --scenario {self.plan.name!r}{faults} --verbose"

    def __str__(self) -> str:
        lines = [f"{at:9.3f}  {who:14} {what}" for at, who, what in self.trace]
        return "\n".join(lines)


class World:
    """:param rights: the controller's: it is a violation to ask for more. None: it may do everything.
    :param namespaces: that it serves, none for all.
    """

    def __init__(
        self,
        plan: Plan | int,
        product: Product | None = None,
        *,
        rights: Rights | None = None,
        namespaces: tuple[str, ...] = (NAMESPACE,),
    ) -> None:
        self.plan = plan if isinstance(plan, Plan) else random_plan(plan)
        self.product = product or Product()
        self.loop = VirtualLoop()
        self.trace: list[tuple[float, str, str]] = []
        self.effects: list[str] = []
        self.storage = Storage()
        self.oracle = Oracle(self)
        self.server = ApiServer(self.now, self._changed, Random(f"uids {self.plan.seed}"), rights)
        self.rights, self.namespaces = rights, namespaces
        self.kubelet = Kubelet(self)
        self.user = User(self)
        self.controllers: list[Controller] = []
        self._network = Random(f"network {self.plan.seed}")
        self._faults = dict(self.plan.faults)
        self._mishaps = {(what, n): mishap for what, n, mishap in self.plan.mishaps}
        self._met: Counter[str] = Counter()
        self.starts = 0  # of controllers
        self._status_writes = 0
        self._violation: Violation | None = None
        self._written: asyncio.Future[None] | None = None
        self._over: asyncio.Future[None] | None = None

    # --- a run ------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """To its end, or to the first violation."""
        watcher = _Errors(self)
        log = logging.getLogger("streamjob.controller")
        level, propagate = log.level, log.propagate
        log.addHandler(watcher)
        log.setLevel(logging.ERROR)
        log.propagate = False
        self.loop.set_exception_handler(self._unhandled)
        try:
            self.loop.run_until_complete(self._until_over())
        except Violation as e:
            self._violation = e
        finally:
            self.loop.end()
            metrics.LEADER_TERM.set_function(lambda: 0)  # it asked a leader whose loop is closed
            log.removeHandler(watcher)
            log.setLevel(level)
            log.propagate = propagate
        return Outcome(
            self.plan, self._violation, self.trace, self.effects, self.oracle.made, self.loop.time()
        )

    async def _until_over(self) -> None:
        self._over = self.loop.create_future()
        story = self.loop.create_task(self._story())
        story.add_done_callback(self._told)
        await self._over

    def _told(self, story: asyncio.Task[None]) -> None:
        assert self._over is not None
        if not self._over.done() and not story.cancelled():
            error = story.exception()
            self._over.set_exception(error) if error else self._over.set_result(None)

    async def _story(self) -> None:
        self.controllers = [Controller(self, slot) for slot in range(len(self.plan.skews))]
        for step in self.plan.steps:
            if step.phase is not None:
                await self._until(lambda phase=step.phase: self._phase() == phase, PATIENCE)
            await asyncio.sleep(step.delay)
            self.user.do(step.do)
        await asyncio.sleep(max(self.plan.weather.until - self.loop.time(), 0.0))
        await self._reached()
        await self._kept()
        self._faults.clear()
        self._mishaps.clear()
        if JOB in self.server.objects:
            self.user.do("delete")
            await self._reached()

    async def _reached(self) -> None:
        """V9, V10, V11."""
        if not await self._until(lambda: self.oracle.missing(NAME) is None, REACH):
            raise Violation(f"V11: after {REACH:.0f} s without faults: {self.oracle.missing(NAME)}")

    async def _kept(self) -> None:
        self.note("world", f"reached: {self._phase()}")
        before, writes = self._phase(), self._status_writes
        await asyncio.sleep(KEEP)
        if (why := self.oracle.missing(NAME)) is not None:
            if self.plan.mishaps or self.plan.faults:
                return await self._reached()  # the last of its faults came late
            raise Violation(f"V11: it was reached, and not kept: {why}")
        after = self._phase()
        if before == after and after in AT_REST and self._status_writes > writes:
            raise Violation(
                f"V11: {self._status_writes - writes} status writes in {KEEP:.0f} s at rest ({after})"
            )
        return None

    async def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        end = self.loop.time() + seconds
        while not condition():
            if self.loop.time() >= end:
                return False
            # Looked at after each write; and from time to time, for not all of the truth is in the API server.
            self._written = self.loop.create_future()
            timer = self.loop.call_later(LOOK, self._look)
            await self._written
            timer.cancel()
        return True

    def _look(self) -> None:
        if self._written is not None and not self._written.done():
            self._written.set_result(None)

    def _phase(self) -> str | None:
        job = self.server.objects.get(JOB)
        return (job.get("status") or {}).get("phase") if job else None

    # --- what the parts ask for -------------------------------------------------------------------------------

    def now(self) -> datetime:
        return START + timedelta(seconds=self.loop.time())

    @property
    def skew(self) -> timedelta:
        """The furthest that any controller's clock is ahead."""
        return timedelta(seconds=max(0.0, *self.plan.skews))

    def later(self, seconds: float, call: Callable[[], Any]) -> None:
        self.loop.call_later(seconds, call)

    def after_a_crash(self) -> float:
        return self._network.choice(RESTART)

    def latency(self) -> float:
        return self._network.choice(LATENCY)

    def note(self, who: str, what: str) -> None:
        self.trace.append((self.loop.time(), who, what))

    def fail(self, violation: Violation) -> None:
        self.note("oracle", str(violation))
        if self._over is not None and not self._over.done():
            self._over.set_exception(violation)

    def ask(self, controller: Controller, method: str, path: str, body: Obj | None = None) -> tuple[int, str]:
        """A request of a controller's to the API server."""
        answer = self.server.handle(controller.name, method, path, body)
        if self.rights is not None and self.server.forbidden:
            self.fail(Violation(f"least privilege: refused {self.server.forbidden[0]}"))
        return answer

    def drivers(self) -> list[Driver]:
        """Those whose process lives."""
        return [c.driver for c in self.kubelet.containers.values() if c.driver.alive]

    def mishap(self, moment: str) -> Mishap | None:
        n = self._met[moment]
        self._met[moment] += 1
        return self._mishaps.pop((moment, n), None)

    def fault(self, controller: Controller, what: str, effect: bool) -> Fault | None:
        """What goes wrong with this call. Effects are counted; that is how a plan names them."""
        found: Fault | None = None
        if effect:
            found = self._faults.pop(len(self.effects), None)
            self.effects.append(what)
            if len(self.effects) > EFFECTS_LIMIT:
                self.fail(Violation(f"V11: more than {EFFECTS_LIMIT} effects; the last is {what}"))
        weather = self.plan.weather
        if found is None and self.loop.time() < weather.until and self._network.random() < weather.calls:
            found = self._network.choice(list(Fault))
        if found is not None:
            self.note(controller.name, f"{what}: {found.value}")
        return found

    async def strike(
        self, controller: Controller, fault: Fault, apply: Callable[[], Any], timeout: float
    ) -> None:
        """A fault after which there is no answer."""
        if fault in (Fault.CRASH_AFTER, Fault.APPLIED):
            apply()
        if fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            controller.crash()
            await for_ever()
        await asyncio.sleep(timeout)
        raise asyncio.TimeoutError

    # --- the watch --------------------------------------------------------------------------------------------

    def _changed(self, change: Change) -> None:
        if change.key[0] == "streamjobs" and change.new is not None and change.by.startswith("controller"):
            self._status_writes += 1
        self._look()
        self.oracle.changed(change)
        self.kubelet.changed(change)
        obj = change.new or change.old
        assert obj is not None
        if change.key[0] not in ("streamjobs", "pods"):
            return
        there = change.new is not None
        for controller in self.controllers:
            for delay in self._deliveries():
                if change.key[0] not in controller.blind:
                    self.later(delay, lambda c=controller: c.told(change.key[0], obj, there=there))

    def _deliveries(self) -> list[float]:
        """After how long the event comes: once, or in bad weather never, late, or twice."""
        weather = self.plan.weather
        if self.loop.time() >= weather.until or self._network.random() >= weather.events:
            return [self.latency()]
        return self._network.choice(([], [8.0], [self.latency(), 5.0]))

    def _unhandled(self, loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        # What a dead controller had under way is never finished, and swept up at some time.
        if error is not None and not isinstance(error, Violation):
            self.fail(Violation(f"an error that nobody handles: {context['message']} {error!r}"))


class Alone:
    """In the place of `controller.leader.Leader` where there is one controller at a time: it leads at once, in a term of its own.
    Renewals every other second would make up most of a plan."""

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

        class Connected(world.product.kube.Kube):  # type: ignore[name-defined, misc]
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
        """As kopf does it: what is there is listed at the start, and from time to time; in between there are events."""
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
            self.reconciler.wake(NAMESPACE, meta["name"], meta["resourceVersion"] if there else None)
        elif names.LABEL_JOB in meta.get("labels", {}):
            self.reconciler.wake(NAMESPACE, meta["labels"][names.LABEL_JOB])

    def crash(self) -> None:
        """Nothing that it has begun comes to anything any more: its calls never return."""
        self.dead = True
        world, slot = self.world, self.slot
        world.note(self.name, "crashes")

        def again() -> None:
            world.controllers[slot] = Controller(world, slot)

        world.later(world.after_a_crash(), again)


class _Errors(logging.Handler):
    """What the controller logs as an error is a bug of its own: whatever the world does, it has words for."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self.world = world

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage() + (f" {record.exc_info[1]!r}" if record.exc_info else "")
        self.world.fail(Violation(f"an error of the controller's own: {text}"))
