"""A random job: stages with data in them, a script that starts, stops and restarts them, people who ask for
things, failures, crashes, and answers in any order, against the watcher (V2 to V4, V6, V8, the edges), the
world (V1: every item once; what is restored is a consistent cut) and liveness: nobody waits in vain, and
every job can be stopped and drained.

What is done is one of `ACTIONS`, and all that is left open a `Random` decides: a seed is a whole life
(`many_jobs.py`), and a test that wants to choose for itself can (`graph_machine.py`). More than 600 lines:
the actions are of one object, whose state all of them share.
"""

from __future__ import annotations

from random import Random
from types import ModuleType
from typing import Any

from streamjob.protocol.engine import effects as fx
from streamjob.protocol.engine.checkpoints.checkpoint import Checkpointing
from streamjob.protocol.errors import StreamJobError
from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.graph import parse_task_id, task_id
from streamjob.protocol.restore.recovery import recorded_edges, spent, unfinished_tasks
from tests.protocol.engine.job_model import Shape, World
from tests.protocol.engine.minimal_driver import DRAIN, STOP, event_of
from tests.protocol.engine.watcher import Watcher

STAGES = "ABCDEFGH"
NOT_TWICE = ("task_started", "checkpoint_due")
TOO_LATE = ("UpstreamStartedTooLate", "EdgeTooLate")

ENDED = ("WaitingForFinalCheckpoint", "Finished", "Closed")


def shapes(random: Random) -> dict[str, Shape]:
    """Up to eight stages of up to four tasks, each reading from up to three of those before it."""
    made: dict[str, Shape] = {}
    for uid in STAGES[: random.randint(1, random.choice((3, 5, 8)))]:
        upstream = random.sample(list(made), min(len(made), random.randint(0, 3)))
        late = [u for u in upstream if random.random() < 0.15]
        shown = tuple(u for u in upstream if u not in late)
        made[uid] = Shape(
            random.choice([1, 1, 1, 2, 2, 3, 4]),
            shown,
            tuple(late),
            commits=random.random() < 0.8,
            own=not upstream or random.random() < 0.2,
            available=random.random() < 0.4,
            bounded=random.random() < 0.4,
        )
    return made


class RandomJob:
    """:param twice: how often an event is told twice, which must change nothing (V8)."""

    def __init__(self, module: ModuleType, random: Random, *, twice: float = 1.0) -> None:
        self.module = module
        self.random = random
        self.twice = twice
        self.world = World(shapes(random))
        self.settings = Checkpointing(
            random.randint(1, 3), random.choice([None, 60.0]), random.choice([0.0, 5.0])
        )
        self.events = 0
        self.over = False  # drained: there is nothing left to attempt
        self.refused: set[str] = set()  # stages that started too late: the script goes without
        self.told: list[tuple[Any, ...]] = []
        self.script = list(self.world.tasks)  # in the order in which it starts them, in each epoch
        random.shuffle(self.script)
        self.attempt(None)

    def attempt(self, record: CheckpointRecord | None, request: Any = None) -> None:
        """A new driver: all that the one before had in memory is gone."""
        self.restored_record = record
        if record is not None and self.random.random() < 0.2:
            self.world.lose_an_edge(self.random)
        expected, edges = unfinished_tasks(record), recorded_edges(record)
        first = max(self.world.index, default=0) + 1
        self.c = self.module.Coordinator(
            first, self.settings, expected, fresh=True, edges=edges
        )  # what is over is not resumed
        self.world.recorded_upstream = self.c.upstream
        self.world.recorded = {(w, r) for w, r in edges if self.world.shapes[r].reads(w)}
        self.world.drains = lambda: self.c.request is DRAIN
        self.watcher = Watcher(expected, edges)
        self.restored = {
            task_id(s.uid, t.index, len(s.tasks)): t.batch
            for s in (record.stages if record else ())
            for t in s.tasks
            if t.finished
        }
        self.watcher.flags = set(self.restored)
        self.lanes: dict[str, list[Any]] = {}
        self.mail: list[tuple[Any, ...]] = []
        self.told = []
        self.timers: list[fx.StartTimer] = []
        self.savepoints = 0
        self.script_runs = True
        self.awaited: str | None = None  # the script waits for the end of this task, and for nothing else
        self.undeclared = {(u, late) for u, s in self.world.shapes.items() for late in s.late}
        self.to_start = [t for t in self.script[::-1] if parse_task_id(t)[0] not in self.refused]
        self.announced: Any = None  # a request that is taken up later
        if request is not None:
            self.request(request)

    # --- events in, effects out -----------------------------------------------------------------------------

    def tell(self, event: str, *args: Any, **options: Any) -> None:
        self.events += 1
        wanted = self.c.handle(event_of(event, *args, **options))
        self.watcher.watch(event, args, wanted, **options)
        # A run that is flushed at once is asked for its boundary again.
        asked_again = any(isinstance(e, fx.StopAtBoundary | fx.CatchUp) and e.task in args for e in wanted)
        if event not in NOT_TWICE and not asked_again and self.random.random() < self.twice:
            before = self.states()
            assert self.c.handle(event_of(event, *args, **options)) == [], f"V8: {event}{args} again"
            assert self.states() == before
        for effect in wanted:
            if isinstance(effect, fx.AbortCheckpoint):
                self.world.dead.add(effect.number)  # what is on its way for it counts no more
            if isinstance(effect, fx.StartTimer):
                self.timers.append(effect)
            else:
                # As the dispatcher: a task's in order, those of the job from one event in order, all else at
                # any time. A cancel does not wait for what its task still has to do.
                of_task = "" if isinstance(effect, fx.Cancel) else getattr(effect, "task", "")
                self.lanes.setdefault(of_task or f"job-{self.events}", []).append(effect)

    def states(self) -> Any:
        return repr(self.c.tasks), self.c.terminated, self.c.next_checkpoint, self.c.final_checkpoint

    def carry_out(self, lane: str, *, unwritable: bool = False) -> None:
        effect = self.lanes[lane].pop(0)
        cut_short = any(isinstance(e, fx.StopAtBoundary) for e in self.lanes[lane])
        if not self.lanes[lane]:
            del self.lanes[lane]
        if isinstance(effect, fx.FireMaxWatermark):
            self.check_that_nothing_is_left(effect.task)
        final = isinstance(effect, fx.StoreCheckpoint) and effect.scenario is not None
        if final and not self.c.is_pending(effect.number):
            return  # a final one that was aborted is not written
        if isinstance(effect, fx.RetryLater):
            self.mail.append(("retry_due",))
        elif isinstance(effect, fx.StoreCheckpoint) and unwritable:
            self.mail.append(("checkpoint_failed", effect.number))
        elif answer := self.world.carry_out(effect, cut_short=cut_short):
            self.mail.append(answer)

    def check_that_nothing_is_left(self, task: str) -> None:
        """A run that ended by itself is flushed when it has read all of its own sources.

        A drain ends a run of `availableNow` where it is, also one that waits for the script. What its sources
        hold by then is not the job's any more, as of any other query.
        """
        actor, run = self.world.actors[task], self.watcher.runs[task]
        own = self.world.shapes[parse_task_id(task)[0]].own and not actor.flushed
        if own and run.by_itself:
            assert not actor.left, f"{task} is flushed with something left"

    def deliver(self, which: int) -> None:
        event = self.mail.pop(which)
        self.tell(event[0], *event[1:-1], **event[-1]) if isinstance(event[-1], dict) else self.tell(*event)
        if event[0] in ("boundary_reached", "max_watermark_fired", "finished", "snapshot_taken"):
            self.told.append(event)

    # --- the script -----------------------------------------------------------------------------------------

    @property
    def script_acts(self) -> bool:
        """It continues: it has not ended, and what it waits for is over."""
        if self.awaited is not None and self.is_over(self.awaited):
            self.awaited = None
        return self.script_runs and self.awaited is None and not self.c.canceled

    def is_over(self, task: str) -> bool:
        """As `Dispatcher.is_over`."""
        it = self.c.tasks[task]
        return it.state.value in ("Closed", "Failed") or (it.ended and not it.commits and not self.c.stops)

    def start_one(self) -> None:
        if self.to_start and self.script_acts:
            self.start(self.to_start.pop())

    def start(self, task: str) -> None:
        """For the first time in this epoch, or again."""
        uid, _ = parse_task_id(task)
        shape, actor = self.world.shapes[uid], self.world.actors[task]
        # As the runtime finds edges: from what has started, in both directions.
        upstream = tuple(u for u in shape.upstream if self.started(u))
        readers = [
            r
            for r, s in self.world.shapes.items()
            if uid in (*s.upstream, *self.world.edges.get(r, ())) and self.started(r)
        ]
        if shape.parallelism > 1 and not self.started(uid):
            self.declare_shards(uid)
        for reader in readers:
            self.reads(reader, uid)
        if task in self.restored:
            self.connect(uid, upstream)
            self.world.epoch.add(task)
            self.tell("task_restored_finished", task, upstream, self.restored[task])
            return
        drained, new = actor.flushed, not (actor.log or actor.ran or task in self.c.tasks)
        options: dict[str, Any] = {"commits": shape.commits, "emits": not new}
        if upstream:
            options["own_sources"] = self.own_sources(uid, (uid,))
        self.note_flushed_readers(uid, readers)
        late = self.too_late(lambda: self.c.refuse_start(task, upstream, drained=drained))
        refused = self.too_late(lambda: self.tell("task_started", task, upstream, drained=drained, **options))
        assert late == refused, "what is refused is refused before"
        if refused:
            self.refused.add(uid)
            return
        self.connect(uid, upstream)
        reads = self.asked is None and not drained and self.c.tasks[task].state.value == "Running"
        self.world.start(task, self.random, reads=reads)

    def note_flushed_readers(self, uid: str, readers: list[str]) -> None:
        """The driver warns of a stage that starts in a drain behind one that has been flushed.

        That is possible only of a stage that no checkpoint has: what is recorded is waited for.
        """
        if self.c.request is not DRAIN or self.started(uid):
            return
        flushed = [r for r in readers for t in self.started(r) if self.watcher.runs[t].why == "drain"]
        before = [r for r in readers for t in self.started(r) if self.watcher.runs[t].drained_before]
        record = self.restored_record
        recorded = record is not None and any(s.uid == uid for s in record.stages)
        assert not recorded or not set(flushed) - set(before) - {
            parse_task_id(t)[0] for t in self.restored
        }, f"{uid} was flushed past"
        self.world.excused |= {(r, uid) for r in flushed}

    def reads(self, reader: str, uid: str) -> None:
        """A stage that has started is found to read from one that is about to."""
        own = self.own_sources(reader, (uid,))
        for task in self.started(reader):
            self.c.reads(task, uid, own_sources=own)
        self.connect(reader, (uid,))
        self.watcher.reads(reader, uid, own_sources=own)

    def own_sources(self, uid: str, about: tuple[str, ...] = ()) -> bool:
        """Whether it reads what nothing writes that has started or is about to."""
        shape = self.world.shapes[uid]
        return shape.own or any(not self.started(u) and u not in about for u in shape.upstream)

    def connect(self, uid: str, upstream: tuple[str, ...]) -> None:
        edges = self.world.edges.setdefault(uid, [])
        edges += [u for u in upstream if u not in edges]

    def too_late(self, call: Any) -> bool:
        try:
            call()
        except StreamJobError as e:
            if e.reason not in TOO_LATE:
                raise
            return True
        return False

    def declare_edge(self) -> None:
        ready = [(u, up) for u, up in sorted(self.undeclared) if self.started(u)]
        if ready and self.script_acts:
            uid, upstream = self.random.choice(ready)
            self.undeclared.remove((uid, upstream))
            own = self.own_sources(uid, (upstream,))
            if not self.too_late(lambda: self.tell("edge_declared", uid, upstream, own_sources=own)):
                self.connect(uid, (upstream,))

    def started(self, uid: str) -> list[str]:
        return [t for t in self.world.names[uid] if t in self.c.tasks]

    def script_stops(self) -> None:
        running = self.in_state("Running")
        if running and self.script_acts:
            task = self.random.choice(running)
            if self.random.random() < 0.3 and not self.world.shapes[parse_task_id(task)[0]].available:
                self.tell("run_ended", task, exhausted=False)  # some other door
            else:
                self.tell("script_stopped", task)

    def starts_again(self) -> None:
        over = [t for t, s in self.c.tasks.items() if s.can_start_again or s.state.value == "Failed"]
        over = [t for t in over if parse_task_id(t)[0] not in self.refused]
        if over and self.script_acts and self.random.random() < (0.2 if self.asked else 1):
            self.start_again(self.random.choice(over))

    def start_again(self, task: str) -> None:
        """The driver knows which run an answer is from; what a sink had pre-committed it settles first."""
        own = ("run_ended", "boundary_reached", "input_ended")
        self.mail = [m for m in self.mail if not (m[0] in own and m[1] == task)]
        if not self.c.tasks[task].operators_finished:
            actor = self.world.actors[task]
            newest = max((n for n in self.world.index), default=0)
            known = [n for n in actor.pending if n <= newest and n in self.world.index]
            if not self.c.awaits_commit(task):
                done = self.world.index[newest][1][task].transactions if newest else ()
                actor.recover(sorted({*known, *done} & {*actor.pending, *actor.committed}))
        self.start(task)

    def script_waits(self) -> None:
        """Without end, for a query that does not end by itself.

        Of a stage of which it has declared shards it has started all.
        """
        endless = [
            t for t in self.in_state("Running") if not self.world.shapes[parse_task_id(t)[0]].available
        ]
        if endless and self.script_acts and not any(map(self.partly_started, self.world.names)):
            if self.asked or self.random.random() < 0.5:
                self.take_up()
            else:
                self.awaited = self.random.choice(endless)
                self.tell("script_blocked")

    def script_ends(self) -> None:
        """One that ends before it has done all that it does has failed, and the driver
        with it: see `crash`.
        """
        if self.script_acts and not self.to_start and not self.undeclared and self.random.random() < 0.3:
            self.end_script()

    def end_script(self) -> None:
        self.take_up()
        self.script_runs, self.awaited = False, None
        self.tell("script_ended", left=self.left)

    def input_ends(self) -> None:
        shapes = self.world.shapes
        bounded = [t for t in self.in_state("Running") if shapes[parse_task_id(t)[0]].bounded]
        bounded = [t for t in bounded if shapes[parse_task_id(t)[0]].own]
        if bounded:
            self.end_input(self.random.choice(bounded))

    def end_input(self, task: str) -> None:
        actor = self.world.actors[task]
        rest = self.random.random() < 0.4
        actor.left = self.random.randint(0, 3) if rest and actor.running else 0
        self.tell("input_ended", task, rest=rest)

    def shards_declared(self) -> None:
        uid = self.random.choice(list(self.world.names))
        if not self.started(uid) and self.script_acts and self.world.shapes[uid].parallelism > 1:
            self.declare_shards(uid)

    def declare_shards(self, uid: str) -> None:
        self.tell("stage_expected", uid, self.world.shapes[uid].parallelism)

    def partly_started(self, uid: str) -> bool:
        return 0 < len(self.started(uid)) < len(self.world.names[uid])

    def in_state(self, *states: str) -> list[str]:
        return [t for t, s in self.c.tasks.items() if s.state.value in states]

    # --- the driver's threads, the storage, the index -------------------------------------------------------

    def time_passes(self) -> None:
        """Data flows, effects are carried out, answers come, in any order."""
        random, unwritable = self.random, self.random.random() < 0.1
        for _ in range(random.randint(10, 60)):
            what = random.random()
            if what < 0.4 and self.lanes:
                self.carry_out(random.choice(list(self.lanes)), unwritable=unwritable)
            elif what < 0.8 and self.mail:
                self.deliver(random.randrange(len(self.mail)))
            else:
                self.work()

    def work(self) -> None:
        running = [t for t in self.in_state("Running") if self.world.actors[t].running]
        if running:
            task = self.random.choice(running)
            if self.world.work(task, self.random.randint(1, 3)):
                rest = self.world.leave_some(task, self.random)
                self.mail.append(("run_ended", task, {"exhausted": True, "rest": rest}))

    def all_goes_well(self) -> None:
        for _ in range(self.random.randint(1, 10)):
            self.round()

    def round(self) -> None:
        for lane in list(self.lanes):
            self.carry_out(lane)
        while self.mail:
            self.deliver(0)

    def settle(self) -> None:
        """Everything is carried out and answered, and nothing is lost any more: then nobody waits in vain."""
        self.start_all_shards()
        self.take_up()
        for _ in range(300):
            self.start_all_shards()
            while self.lanes or self.mail:
                self.round()
            before = self.states()
            if self.awaited is not None and not self.script_acts and not self.c.canceled:
                self.tell("script_blocked")
            for number in sorted(self.world.index):
                self.tell("checkpoint_completed", number)
            self.tell("retry_due")
            if not (self.lanes or self.mail) and self.states() == before:
                break
        else:
            raise AssertionError("it continues for ever")
        self.watcher.nobody_waits_in_vain(self.c.terminated)
        self.awaited_in_vain()

    def start_all_shards(self) -> None:
        """The script has declared how many there are, and starts them in one go: it waits for none before."""
        for task in [t for t in self.to_start if self.partly_started(parse_task_id(t)[0])]:
            if self.script_acts:
                self.to_start.remove(task)
                self.start(task)

    def awaited_in_vain(self) -> None:
        """The script waits for a reader of what has exhausted its input, and of nothing else."""
        if self.awaited is None or self.c.request is not None or self.c.canceled:
            return
        run = self.watcher.runs[self.awaited]
        if run.runs and run.why is None and not (run.own and not run.own_over):
            assert self.watcher.runs_on_above(run.stage), f"the script waits for {self.awaited} in vain"

    def a_notification_is_lost(self) -> None:
        lost = [m for m in self.mail if m[0] == "checkpoint_completed"]
        if lost:
            self.mail.remove(lost[0])

    def the_index_repeats_itself(self) -> None:
        number = self.random.randint(0, 9)
        if number in self.world.index:
            self.tell("checkpoint_completed", number)

    def an_answer_is_repeated(self) -> None:
        if self.told:
            event = self.random.choice(self.told)
            if event[0] == "snapshot_taken" or self.c.tasks[event[1]].state.value in ENDED:
                self.tell(*event)

    def nobody_has_asked(self) -> None:
        """Answers that no effect has asked for."""
        for task in self.in_state("Running"):
            if not self.lanes.get(task) and self.watcher.runs[task].why is None:
                event = self.random.choice(["boundary_reached", "max_watermark_fired", "finished", "closed"])
                if event == "boundary_reached" or event == "max_watermark_fired":
                    assert self.c.handle(event_of(event, task, 3)) == []
                else:
                    assert self.c.handle(event_of(event, task)) == []

    def timer(self) -> None:
        if self.timers:
            timer = self.timers.pop(self.random.randrange(len(self.timers)))
            self.tell("timer_fired", timer.timer, timer.number)

    # --- what people and clocks want ------------------------------------------------------------------------

    def due(self) -> None:
        self.tell("checkpoint_due")

    def savepoint(self) -> None:
        ending = self.asked or self.c.terminated or self.c.canceled
        if not ending and self.random.random() < 0.1:
            self.savepoints += 1
            self.tell("savepoint_requested", f"s{self.savepoints}", "file:/savepoints/s")

    def terminate(self) -> None:
        if not self.asked and not self.c.canceled and self.random.random() < 0.15:
            self.request(self.random.choice([STOP, DRAIN]))

    @property
    def asked(self) -> Any:
        return self.c.request or self.announced

    def request(self, request: Any) -> None:
        """It may come before the script has started its queries: then it is announced, and taken up when that
        is done.
        """
        if self.script_acts and self.to_start and self.random.random() < 0.5:
            self.announced = request
            self.tell("termination_announced")
        else:
            self.tell("termination_requested", request)

    @property
    def left(self) -> tuple[str, ...]:
        """What the runtime finds of the restored checkpoint that has not started."""
        record = self.restored_record
        nothing = spent(record.stages) if record else set()
        return tuple(
            s.uid
            for s in (record.stages if record else ())
            if not s.finished
            and s.uid not in nothing
            and not self.started(s.uid)
            and s.uid not in self.refused
        )

    def take_up(self) -> None:
        self.tell("all_started", left=self.left)
        request, self.announced = self.announced, None
        if request is not None and not self.c.canceled:
            self.tell("termination_requested", request)

    def cancel(self) -> None:
        if self.random.random() < 0.05:
            self.tell("cancel_requested")

    # --- failures -------------------------------------------------------------------------------------------

    def fail(self) -> None:
        live = self.in_state("Running", "WaitingForFinalCheckpoint")
        if live and self.random.random() < 0.3:
            task = self.random.choice(live)
            self.tell("task_failed", task)
            self.lanes.pop(task, None)  # what was to follow does not
            self.mail = [m for m in self.mail if task not in m]
            actor = self.world.actors[task]
            actor.running, actor.stopped = False, True

    def crash(self) -> None:
        if self.random.random() < 0.1:
            self.next_attempt(self.asked if self.random.random() < 0.7 and not self.c.terminated else None)

    def next_attempt(self, request: Any = None) -> None:
        if self.finished_for_good():
            return
        self.world.crash(elsewhere=self.random.random() < 0.3 and self.world.restorable_elsewhere)
        self.attempt(self.world.newest, request)

    def finished_for_good(self) -> bool:
        """A completed checkpoint says that the job was drained."""
        newest = self.world.newest
        if newest is not None and newest.scenario is not None and newest.scenario.is_drain:
            self.over = True
        return self.over

    # --- always, and in the end -----------------------------------------------------------------------------

    def act(self, action: str) -> None:
        if not self.over:
            getattr(self, action)()
            self.nothing_is_committed_twice()

    def nothing_is_committed_twice(self) -> None:
        for task, actor in self.world.actors.items():
            assert len(set(actor.shown)) == len(actor.shown), f"V1: {task} twice"

    def end(self) -> None:
        """Liveness: whatever has happened, the job comes to its end; and then the output is right."""
        if not self.over and not self.c.canceled:
            self.settle()
            if self.random.random() < 0.7:
                self.wind_up()
        if not self.over and not (self.c.terminated and self.drained()):
            self.next_attempt()
            if not self.over:
                self.wind_up(last=True)
                assert self.drained(), "a drain leaves nothing to resume"
        if self.drained() and self.c.terminated:
            self.world.check_sinks(self.refused)

    def wind_up(self, *, last: bool = False) -> None:
        """The script does what it still has to, and ends; the job is stopped, drained, or left to end by
        itself.
        """
        request = DRAIN if last else self.random.choice([STOP, DRAIN, None])
        late = self.random.random() < 0.5
        if not late and request is not None and not self.asked:
            self.request(request)
        for _ in range(3):
            while self.script_acts and self.to_start and self.asked is not STOP:
                self.start_one()
                if self.random.random() < 0.3:
                    self.settle()
            for task in self.in_state("Failed") if self.script_acts else ():
                if last or self.random.random() < 0.7:
                    self.start_again(task)
            self.settle()
        if late and request is not None and not self.asked:
            self.tell("termination_requested", request)
            self.settle()
        if self.script_runs and not self.c.canceled and (self.asked is STOP or not self.to_start):
            self.end_script()
        self.settle()
        if last:
            assert self.c.terminated, {n: (t.state.value, t.step) for n, t in self.c.tasks.items()}
        assert not (self.c.terminated and self.c.terminating)

    def drained(self) -> bool:
        newest = self.world.newest
        if newest is None or (newest.scenario is not None and newest.scenario.is_drain):
            return newest is not None
        return all(s.finished for s in newest.stages if s.uid not in self.refused)


ACTIONS = {
    "start_one": 12,
    "declare_edge": 2,
    "script_stops": 2,
    "starts_again": 4,
    "script_waits": 2,
    "script_ends": 1,
    "input_ends": 3,
    "shards_declared": 1,
    "time_passes": 12,
    "all_goes_well": 4,
    "settle": 2,
    "a_notification_is_lost": 2,
    "the_index_repeats_itself": 1,
    "an_answer_is_repeated": 1,
    "nobody_has_asked": 1,
    "timer": 2,
    "due": 4,
    "savepoint": 1,
    "terminate": 1,
    "cancel": 1,
    "fail": 2,
    "crash": 1,
}


def live(module: ModuleType, seed: int, steps: int = 40, *, twice: float = 0.05) -> None:
    """One plan, from the first start to the end.

    :raises AssertionError: something is wrong.
    """
    random = Random(seed)
    job = RandomJob(module, random, twice=twice)
    names, weights = list(ACTIONS), list(ACTIONS.values())
    for action in random.choices(names, weights, k=random.randint(1, steps)):
        job.act(action)
    job.end()
