"""A world runs a plan: it puts the parts together, and holds what happens to the oracle until the plan is
over.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any, NoReturn

from streamjob.controller.process import metrics

from .apiserver import ApiServer, Change, Obj, is_a_driver
from .controller_process import Controller, Product
from .driver import Driver
from .ground_truth import Violation
from .kubelet import Kubelet
from .loop import VirtualLoop
from .network import for_ever
from .oracle import Oracle
from .outcome import Outcome
from .permissions import Rights
from .plan import Fault, Mishap, Plan, random_plan
from .storage import Storage
from .user import JOB, NAME, NAMESPACE, OTHER, QUIET, User

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
PATIENCE = 120.0  # seconds for which the user waits for a phase
REACH = 4500.0  # seconds within which the job is what its spec asks for; a clock may be an hour behind
DUE = 120.0  # seconds that what is due takes: it must not wait until somebody gives it up
LOOK = 5.0
KEEP = 60.0  # seconds for which it has to stay so
LATENCY = (0.0, 0.0, 0.002, 0.01, 0.05)
EFFECTS_LIMIT = 3000
AT_REST = ("Stopped", "Drained", "Finished", "Cancelled", "Failed")
RESTART = (0.5, 3.0, 12.0)
NAMES = (NAME, OTHER)
DELETE = {NAME: "delete", OTHER: "other deleted"}


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
        self.loop: VirtualLoop = VirtualLoop()
        self.trace: list[tuple[float, str, str]] = []
        self.effects: list[str] = []
        self.storage: Storage = Storage()
        self.rows_per_second = QUIET
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
        self._status_writes: Counter[str] = Counter()  # by job
        self._moves = 0  # from phase to phase, of any job
        self._first, self._called = self.plan.first, set[str]()  # what has been called at least once
        self._violation: Violation | None = None
        self._written: asyncio.Future[None] | None = None
        self._over: asyncio.Future[None] | None = None

    # --- a run ----------------------------------------------------------------------------------------------

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
        self._first = None
        there = [name for name in NAMES if ("streamjobs", NAMESPACE, name) in self.server.objects]
        for name in there:
            self.user.do(DELETE[name])
        if there:
            await self._reached()

    async def _reached(self, within: float = REACH) -> None:
        """V9, V10, V11."""
        if not await self._until(lambda: self._missing() is None, within):
            raise Violation(f"V11: after {within:.0f} s without faults: {self._missing()}")

    def _missing(self) -> str | None:
        if self.server.ending:
            return "the namespace is being deleted"
        for name in NAMES:
            if (why := self.oracle.missing(name)) is not None:
                return f"{name}: {why}"
        return None

    async def _kept(self) -> None:
        self.note("world", f"reached: {self._phase()}")
        moves, writes = self._moves, self._status_writes[NAME]
        await asyncio.sleep(KEEP)
        if (why := self._missing()) is not None:
            plan = self.plan
            if not plan.calm:  # the last of its faults came late, or a controller is about to start
                return await self._reached()
            if plan.shape.rounds:
                return await self._reached()  # a round runs
            if plan.shape.schedule or plan.shape.bounded:
                return await self._reached(DUE)  # a savepoint is due, or the input ends
            raise Violation(f"V11: it was reached, and not kept: {why}")
        after = self._phase()
        if moves == self._moves and after in AT_REST and self._status_writes[NAME] > writes:
            writes = self._status_writes[NAME]  # the user's last step may have been noticed meanwhile
            await asyncio.sleep(KEEP)
            after = self._phase()
        more = self._status_writes[NAME] - writes
        if moves == self._moves and after in AT_REST and more:
            raise Violation(f"V11: {more} status writes in {KEEP:.0f} s at rest ({after})")
        return None

    async def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        end = self.loop.time() + seconds
        while not condition():
            if self.loop.time() >= end:
                return False
            # Looked at after each write; and from time to time, for not all of the truth is in the API
            # server.
            self._written = self.loop.create_future()
            timer = self.loop.call_later(LOOK, self._look)
            await self._written
            timer.cancel()
        return True

    def _look(self) -> None:
        if self._written is not None and not self._written.done():
            self._written.set_result(None)

    def _phase(self) -> str | None:
        return _phase_of(self.server.objects.get(JOB))

    # --- what the parts ask for -----------------------------------------------------------------------------

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
        return LATENCY[int(self._network.random() * len(LATENCY))]

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
        call = re.sub(r"/checkpoints/\d+", "/checkpoints/N", what)
        if found is None and call not in self._called:
            found = self._first
        self._called.add(call)
        weather = self.plan.weather
        if found is None and self.loop.time() < weather.until and self._network.random() < weather.calls:
            found = self._network.choice(list(Fault))
        if found is not None:
            self.note(controller.name, f"{what}: {found.value}")
        return found

    async def strike(
        self, controller: Controller, fault: Fault, apply: Callable[[], Any], timeout: float
    ) -> NoReturn:
        """A fault after which there is no answer."""
        if fault in (Fault.CRASH_AFTER, Fault.APPLIED):
            apply()
        if fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            controller.crash()
            await for_ever()
        await asyncio.sleep(timeout)
        raise asyncio.TimeoutError

    # --- the watch ------------------------------------------------------------------------------------------

    def _changed(self, change: Change) -> None:
        if change.key[0] == "leases":
            return  # every other second; who leads is seen from what is done
        if change.key[0] == "streamjobs" and change.new is not None and change.by.startswith("controller"):
            self._status_writes[change.key[2]] += 1
            self._moves += _phase_of(change.old) != _phase_of(change.new)
        self._look()
        self.oracle.changed(change)
        self.kubelet.changed(change)
        obj = change.new or change.old
        assert obj is not None
        if change.key[0] not in ("streamjobs", "pods") or (change.key[0] == "pods" and not is_a_driver(obj)):
            return  # nobody watches it
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
        # What a dead controller had in progress is never finished, and swept up at some time.
        if error is not None and not isinstance(error, Violation):
            self.fail(Violation(f"an error that nobody handles: {context['message']} {error!r}"))


def _phase_of(job: Obj | None) -> str | None:
    return (job.get("status") or {}).get("phase") if job else None


class _Errors(logging.Handler):
    """What the controller logs as an error is a bug of its own: whatever the world does, it has words for."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self.world = world

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage() + (f" {record.exc_info[1]!r}" if record.exc_info else "")
        self.world.fail(Violation(f"an error of the controller's own: {text}"))
