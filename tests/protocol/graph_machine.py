"""Random graphs, data, failures, crashes and orders of notifications, against the watcher (V2 to V4, V6, V8, the edges), the
world (V1: every item once; V5: what is restored is a consistent cut) and, in the end, liveness: every job can be drained.
"""

from __future__ import annotations

from random import Random
from types import ModuleType
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamjob.protocol import effects as fx
from streamjob.protocol.checkpoints import Checkpointing
from streamjob.protocol.ending import UpstreamTooLate
from streamjob.protocol.graph import parse_task_id
from streamjob.protocol.recovery import AlreadyDrained, Plan
from tests.protocol.driver import DRAIN, STOP
from tests.protocol.watcher import Watcher
from tests.protocol.world import Shape, World

STAGES = "ABCDEFGH"
rarely = st.integers(0, 9).map(lambda n: n == 7)
very_rarely = st.integers(0, 19).map(lambda n: n == 7)
seeds = st.integers(0, 2**16)
NOT_TWICE = ("task_started", "checkpoint_due")


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, Shape]:
    """Up to eight stages of up to four tasks, each reading from up to three of those before it."""
    made: dict[str, Shape] = {}
    for uid in STAGES[: draw(st.integers(1, 8))]:
        upstream = draw(st.lists(st.sampled_from(list(made)), max_size=3, unique=True)) if made else []
        made[uid] = Shape(draw(st.sampled_from([1, 1, 1, 2, 2, 3, 4])), tuple(upstream), not draw(rarely))
    return made


class Job(RuleBasedStateMachine):
    module: ModuleType

    @initialize(
        declared=shapes(),
        seed=seeds,
        concurrent=st.integers(1, 3),
        timeout=st.sampled_from([None, 60.0]),
        pause=st.sampled_from([0.0, 5.0]),
    )
    def begin(
        self, declared: dict[str, Shape], seed: int, concurrent: int, timeout: float | None, pause: float
    ) -> None:
        self.random = Random(seed)
        self.world = World(declared)
        self.over = False  # drained: there is nothing left to attempt
        self.settings = Checkpointing(concurrent, timeout, pause)
        self.attempt(None)

    def attempt(self, plan: Plan | None, request: Any = None, tasks: Any = None) -> None:
        """A new driver: all that the one before had in memory is gone."""
        expected = plan.expected if plan else ()
        self.c = self.module.Coordinator(max(self.world.index, default=0) + 1, self.settings, expected)
        self.watcher = Watcher(expected)
        self.restored = {t.task: t for t in plan.finished} if plan else {}
        self.watcher.flags = set(self.restored)
        self.lanes: dict[str, list[Any]] = {}
        self.mail: list[tuple[Any, ...]] = []
        self.timers: list[fx.StartTimer] = []
        self.failed = False
        self.savepoints = 0
        self.asked = request  # by an attempt before this one: the driver takes it up when all has started
        self.to_start = list(self.world.tasks if tasks is None else tasks)
        self.random.shuffle(self.to_start)
        while plan is None and self.to_start:
            self.start_next()

    # --- events in, effects out -------------------------------------------------------------------------------

    def tell(self, event: str, *args: Any, **options: Any) -> None:
        wanted = getattr(self.c, event)(*args, **options)
        self.watcher.watch(event, args, wanted, **options)
        if event not in NOT_TWICE:
            before = self.states()
            assert getattr(self.c, event)(*args, **options) == [], f"V8: {event}{args} again"
            assert self.states() == before
        for effect in wanted:
            if isinstance(effect, fx.StartTimer):
                self.timers.append(effect)
            else:
                self.lanes.setdefault(getattr(effect, "task", ""), []).append(effect)

    def states(self) -> Any:
        return repr(self.c.tasks), self.c.terminated, self.c.next_checkpoint, self.c.final_checkpoint

    def carry_out(self, lane: str, unwritable: bool = False) -> None:
        effect = self.lanes[lane].pop(0)
        if not self.lanes[lane]:
            del self.lanes[lane]
        if isinstance(effect, fx.RetryLater):
            self.mail.append(("retry",))
        elif isinstance(effect, fx.StoreCheckpoint) and unwritable:
            self.mail.append(("checkpoint_failed", effect.number))
        elif answer := self.world.carry_out(effect):
            self.mail.append(answer)

    # --- the script -------------------------------------------------------------------------------------------

    @precondition(lambda self: self.to_start)
    @rule()
    def start_next(self) -> None:
        task = self.to_start.pop()
        shape = self.world.shapes[parse_task_id(task)[0]]
        if task in self.restored:
            record = self.restored[task].record
            assert record is not None
            self.tell("task_restored_finished", task, shape.upstream, record.batch)
        else:
            self.tell("task_started", task, shape.upstream, commits=shape.commits)
        if not self.to_start:
            self.tell("all_started")
            if self.asked is not None and not self.c.request and not self.c.canceled:
                self.tell("termination_requested", self.asked)

    @rule(seed=seeds, everything=rarely)
    def input_ends(self, seed: int, everything: bool) -> None:
        tasks = list(self.c.tasks)
        for task in tasks if everything else Random(seed).sample(tasks, min(1, len(tasks))):
            self.tell("input_ended", task)

    @rule(seed=seeds, now=rarely)
    def script_stops(self, seed: int, now: bool) -> None:
        if now and self.c.tasks:
            self.tell("script_stopped", Random(seed).choice(list(self.c.tasks)))

    @rule(seed=seeds)
    def starts_again(self, seed: int) -> None:
        over = [
            t
            for t, s in self.c.tasks.items()
            if s.can_start_again
            and s.ended
            and not self.lanes.get(t)
            and not any(t in m for m in self.mail)
            and not self.c.canceled
        ]
        if not over or self.c.request:
            return
        task = Random(seed).choice(over)
        shape = self.world.shapes[parse_task_id(task)[0]]
        try:
            self.tell("task_started", task, shape.upstream, commits=shape.commits)
        except UpstreamTooLate:
            return
        self.world.actors[task].running = True

    # --- the driver's threads, the storage, the index ---------------------------------------------------------

    @rule(seed=seeds, count=st.integers(10, 80), unwritable=rarely)
    def time_passes(self, seed: int, count: int, unwritable: bool) -> None:
        self.time_passes_in(Random(seed), count, unwritable)

    def time_passes_in(self, random: Random, count: int, unwritable: bool) -> None:
        """Data flows, effects are carried out, answers come, in any order."""
        for _ in range(count):
            what = random.random()
            if what < 0.4 and self.lanes:
                self.carry_out(random.choice(list(self.lanes)), unwritable)
            elif what < 0.8 and self.mail:
                self.tell(*self.mail.pop(random.randrange(len(self.mail))))
            else:
                self.work(random)

    def work(self, random: Random) -> None:
        running = [
            t for t, s in self.c.tasks.items() if s.state.value == "Running" and self.world.actors[t].running
        ]
        if running:
            self.world.work(random.choice(running), random.randint(1, 3))

    @rule(count=st.integers(1, 10))
    def all_goes_well(self, count: int) -> None:
        for _ in range(count):
            for lane in list(self.lanes):
                self.carry_out(lane)
            while self.mail:
                self.tell(*self.mail.pop(0))

    @precondition(lambda self: any(m[0] == "checkpoint_completed" for m in self.mail))
    @rule()
    def a_notification_is_lost(self) -> None:
        self.mail.remove(next(m for m in self.mail if m[0] == "checkpoint_completed"))

    @rule(number=st.integers(0, 9))
    def the_index_repeats_itself(self, number: int) -> None:
        if number in self.world.index:
            self.tell("checkpoint_completed", number)

    @precondition(lambda self: self.timers)
    @rule(seed=seeds)
    def timer(self, seed: int) -> None:
        timer = self.timers.pop(Random(seed).randrange(len(self.timers)))
        self.tell("timer_fired", timer.timer, timer.number)

    # --- what people and clocks want --------------------------------------------------------------------------

    @rule(seed=seeds)
    def due(self, seed: int) -> None:
        """And then, often, it is given the time that it needs."""
        self.tell("checkpoint_due")
        if seed % 2:
            self.time_passes_in(Random(seed), 60, False)

    @rule(now=rarely)
    def savepoint(self, now: bool) -> None:
        if now and not self.c.request and not self.c.terminated and not self.c.canceled:
            self.savepoints += 1
            self.tell("savepoint_requested", f"s{self.savepoints}", "file:/savepoints/s")

    @precondition(lambda self: not self.to_start)  # as the driver: see `asked`
    @rule(request=st.sampled_from([STOP, DRAIN]), now=rarely)
    def terminate(self, request: Any, now: bool) -> None:
        if now and not self.c.request and not self.c.canceled:
            self.tell("termination_requested", request)

    @rule(now=very_rarely)
    def cancel(self, now: bool) -> None:
        if now:
            self.tell("cancel_requested")

    # --- failures ---------------------------------------------------------------------------------------------

    @rule(seed=seeds, now=very_rarely)
    def fail(self, seed: int, now: bool) -> None:
        if now and self.c.tasks:
            self.kill(Random(seed).choice(list(self.c.tasks)))

    def kill(self, task: str) -> None:
        if self.c.tasks[task].state.value not in ("Running", "WaitingForFinalCheckpoint"):
            return
        self.tell("task_failed", task)
        self.failed = True
        self.lanes.pop(task, None)
        self.mail = [m for m in self.mail if task not in m]
        self.world.actors[task].running = False

    @rule(now=rarely, same_request=st.booleans())
    def crash(self, now: bool, same_request: bool) -> None:
        if now:
            request = self.c.request if same_request and not self.c.terminated else None
            self.next_attempt(request)

    def next_attempt(self, request: Any = None) -> bool:
        """False if there is nothing left to attempt."""
        try:
            plan = self.world.crash()
        except AlreadyDrained:
            self.world.check_sinks()
            self.attempt(None, tasks=())
            self.over = True
            return False
        self.attempt(plan, request)
        return True

    # --- always -----------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_committed_twice(self) -> None:
        for task, actor in getattr(self, "world", World({})).actors.items():
            assert len(set(actor.committed)) == len(actor.committed), f"V1: {task} twice"

    def teardown(self) -> None:
        """Liveness: whatever has happened, the job comes to its end; and then the output is right."""
        if not hasattr(self, "c") or self.over:
            return
        # Canceled when the index had it and the sinks had not committed: the next attempt does that, and nothing else.
        if self.drained() and not self.c.canceled:
            self.world.check_sinks()
            return
        if not self.failed and not self.c.canceled:
            self.come_to_the_end()
            if self.drained():
                self.world.check_sinks()
                return
        if self.next_attempt():
            self.come_to_the_end()
            assert self.drained(), "a drain leaves nothing to resume"
            self.world.check_sinks()

    def drained(self) -> bool:
        newest = max(self.world.index, default=0)
        return newest > 0 and self.world.index[newest][0].drained and self.c.terminated

    def come_to_the_end(self) -> None:
        while self.to_start:
            self.start_next()
        if not self.c.request:
            self.tell("termination_requested", DRAIN)
        for _ in range(200):
            while self.lanes or self.mail:
                for lane in list(self.lanes):
                    self.carry_out(lane)
                while self.mail:
                    self.tell(*self.mail.pop(0))
            if self.c.terminated:
                break
            for number in list(self.world.index):
                self.tell("checkpoint_completed", number)
            self.tell("retry")
        assert self.c.terminated, {n: (t.state.value, t.step) for n, t in self.c.tasks.items()}
        assert not self.c.terminating


def machine(coordinator: ModuleType, examples: int, steps: int, *, derandomize: bool = False) -> Any:
    """A test case class for the engine in this module."""
    built: Any = type("GraphJob", (Job,), {"module": coordinator})
    built.TestCase.settings = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        # With CI set, Hypothesis draws the same examples each time: a gate has to be repeatable. Elsewhere it goes on searching.
        derandomize=derandomize or settings().derandomize,
        database=None,
        phases=(Phase.generate,) if derandomize else tuple(Phase),
        suppress_health_check=list(HealthCheck),
        print_blob=not derandomize,
    )
    return built
