"""One driver: it runs the script, carries out effects in lanes, and tells the engine what happens.

Which of the possible steps comes next is drawn at random. More than 600 lines: the steps are of one driver,
whose state all of them share.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from streamjob.protocol.engine import effects as fx
from streamjob.protocol.engine import events as ev
from streamjob.protocol.engine.checkpoints.checkpoint import Checkpointing
from streamjob.protocol.engine.coordinator import Coordinator
from streamjob.protocol.errors import StreamJobError
from streamjob.protocol.formats.records import (
    CheckpointRecord,
    OperatorKind,
    OperatorRecord,
    StageRecord,
    TaskRecord,
)
from streamjob.protocol.graph import parse_task_id
from streamjob.protocol.lifecycle import Scenario, TaskState
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.restore.recovery import recorded_edges, spent, unfinished_tasks

from .oracle import Oracle, TaskLife, Violation, demand
from .plan import Do, Kind, Scope
from .world import World

OF_RUN = (fx.StopAtBoundary, fx.CatchUp, fx.FireMaxWatermark, fx.Finish, fx.Close)
Say = Callable[[str], None]
Queued = tuple[Any, "Run | None", "TaskLife | None"]  # an effect, and the run that it is for


class Crash(Exception):
    """The driver has died."""


class ScriptFailed(Crash):
    """The script has raised, and the driver dies with it. The message says why."""


@dataclass(eq=False)
class Run:
    """
    :param reads: it takes new batches.
    :param until: for availableNow, the positions at which the run ends by itself: own, and upstream's.
    """

    task: str
    reads: bool
    until: tuple[int, dict[str, int]] | None = None
    told_end: bool = False
    over: bool = False
    failed: bool = False

    @property
    def exhausts(self) -> bool:
        return self.until is not None


@dataclass(frozen=True)
class Mood:
    """What happens to an epoch, besides the work itself.

    :param asks: how it is asked to end: Stop, Drain, Cancel, or not at all.
    :param calm: no crash, no failure, everything arrives and is asked for in time.
    """

    asks: str = ""
    crashes: float = 0.0
    fails: float = 0.0
    stores_fail: float = 0.0
    early: bool = False
    at_once: bool = False
    calm: bool = False


@dataclass(eq=False)
class Epoch:
    world: World
    number: int
    random: Random
    mood: Mood
    say: Say
    engine: Callable[..., Coordinator] = Coordinator
    lanes: dict[Any, deque[Queued]] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    started: dict[str, None] = field(default_factory=dict)
    timers: list[fx.StartTimer] = field(default_factory=list)
    records: dict[int, CheckpointRecord] = field(default_factory=dict)
    announced: list[int] = field(default_factory=list)
    indexed: list[int] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    recorded: dict[str, tuple[str, ...]] = field(default_factory=dict)
    settled: bool = False
    early: TerminationRequest | None = None
    asked: bool = False
    savepoints: int = 0
    at: int = 0
    inside: list[str] = field(default_factory=list)
    waited: bool = False
    declared: bool = False
    script_over: bool = False
    flushes: bool = False

    def __post_init__(self) -> None:
        world, record = self.world, self.world.index
        fresh = record is None or not record.over
        self.coordinator = self.engine(
            world.next_checkpoint,
            Checkpointing(world.plan.concurrent, 60.0, 1.0 if self.random.random() < 0.3 else 0.0),
            unfinished_tasks(record),
            fresh,
            recorded_edges(record),
        )
        self.oracle = Oracle(world)
        for stage in record.stages if record else ():
            for name, task in zip(world.plan.stages[stage.uid].tasks, stage.tasks, strict=True):
                if task.finished:
                    self.oracle.restored.add(name)
                self.recorded[name] = task.transactions
        self.oracle.flagged |= self.oracle.restored

    # --- the engine -----------------------------------------------------------------------------------------

    def take(self, event: ev.Event) -> list[fx.Effect]:
        self.say(f"  {event}")
        c, oracle = self.coordinator, self.oracle
        match event:
            case ev.MaxWatermarkFired(task):
                oracle.lives[task].fired = True
            case ev.Finished(task):
                life = oracle.lives[task]
                life.finished = True
                life.ended = life.ended if life.ended is not None else c.next_checkpoint
            case ev.BoundaryReached(task):
                state = c.tasks[task]
                if state.state is TaskState.RUNNING and oracle.lives[task].ended is None:
                    self._ends_at = c.next_checkpoint
            case ev.CheckpointCompleted(number):
                oracle.completed.add(number)
                record = self.records.get(number)
                oracle.final_completed |= record is not None and record.scenario is not None
                if record and oracle.request and record.request_id == oracle.request.request_id:
                    oracle.request_completed = True
            case ev.CheckpointDurable(number):
                if c.is_pending(number):
                    oracle.durable.add(number)
            case ev.InputEnded(task) | ev.RunEnded(task):
                oracle.input_over.add(task)
            case _:
                pass
        effects = c.handle(event)
        for effect in effects:
            self.say(f"      {effect}")
        self._note_boundary(event, effects)
        oracle.look(effects, type(event).__name__)
        self._queue(effects)
        return effects

    def _note_boundary(self, event: ev.Event, effects: list[fx.Effect]) -> None:
        """A plain stop ends the data at its boundary; a flush ends it with finish()."""
        if not isinstance(event, ev.BoundaryReached):
            return
        fires = any(isinstance(e, fx.FireMaxWatermark) for e in effects)
        life = self.oracle.lives[event.task]
        ended = self.coordinator.tasks[event.task].ended
        if not fires and ended and life.ended is None:
            life.ended = self._ends_at
            life.ended_itself = self.oracle.request is None or life.ended_itself
        if fires:
            life.ended, life.asked = None, False

    def _queue(self, effects: list[fx.Effect]) -> None:
        job: deque[Queued] = deque()
        for effect in effects:
            task = getattr(effect, "task", None)
            if isinstance(effect, fx.StartTimer):
                self.timers.append(effect)
            elif isinstance(effect, fx.Cancel):
                self.runs[effect.task].reads = False
            elif task is not None:
                if isinstance(effect, fx.StopAtBoundary | fx.CatchUp):
                    life = self.oracle.lives[task]
                    if life.ended is not None and not life.finished:
                        self.oracle.lives[task] = TaskLife(
                            durable_sink=life.durable_sink, drained_before=life.drained_before
                        )
                self.lanes.setdefault(task, deque()).append(
                    (effect, self.runs.get(task), self.oracle.lives.get(task))
                )
            elif not isinstance(effect, fx.Terminated):
                job.append((effect, None, None))
        if job:
            self.lanes[object()] = job

    # --- lanes ----------------------------------------------------------------------------------------------

    def carry_out(self, lane: Any) -> None:
        queue = self.lanes[lane]
        effect, run, life = queue[0]
        if isinstance(effect, OF_RUN):
            now = self.runs[effect.task]
            if now is not run or now.failed:
                queue.popleft()
                return
        done = self._carry_out(effect, queue)
        if done is not None:
            queue.popleft()
            if not queue:
                del self.lanes[lane]
            if isinstance(effect, fx.Close) and life is not None:
                life.closed = True
            for event in done:
                effects = self.take(event)
                own = any(isinstance(e, OF_RUN) and e.task == getattr(event, "task", "") for e in effects)
                if not own and self.random.random() < 0.1 and not isinstance(event, ev.RetryDue):
                    self.say("    again:")
                    again = self.take(event)
                    demand(not again, f"{event} has effects when it is repeated: {again}")

    def _carry_out(self, effect: Any, queue: deque[Queued]) -> list[ev.Event] | None:
        """
        :returns: what reports the result, None if it is not done yet.
        """
        world = self.world
        match effect:
            case fx.StopAtBoundary(task):
                self.runs[task].reads = False
                there = world.directories[task]
                scenario = self.coordinator.tasks[task].scenario
                if there.planned and scenario is Scenario.STOP:
                    world.flush(task)
                return [ev.BoundaryReached(task, there.latest)]
            case fx.CatchUp(task, upstream):
                return self._catch_up(task, upstream, queue)
            case fx.FireMaxWatermark(task):
                self.flushes = True
                there = world.directories[task]
                if there.spec.windows and there.batches and not there.drained:
                    for source in self.coordinator.finished_before(task):
                        world.mark(source)
                    there.planned = True
                    self.say(f"    {task} plans its last batch")
                    return None
                if there.planned:
                    self._written(task, world.flush(task))
                return [ev.MaxWatermarkFired(task, there.latest)]
            case fx.Finish(task):
                return [ev.Finished(task)]
            case fx.Close(task):
                return [ev.Closed(task)]
            case fx.Snapshot(task, number):
                batch = world.directories[task].latest
                if task in world.sinks:
                    world.sinks[task].pre_commit(number, batch)
                return [ev.SnapshotTaken(task, number, batch)]
            case fx.NotifyComplete(task, number):
                if task in world.sinks:
                    world.sinks[task].commit(number)
                return []
            case fx.AbortTransactions(task, after):
                if task in world.sinks:
                    world.sinks[task].abort_after(after)
                return []
            case fx.StoreCheckpoint():
                return self._store(effect)
            case fx.AnnounceCheckpoint(number):
                self.announced.append(number)
                return []
            case fx.RetryLater():
                return [ev.RetryDue()]
            case fx.AbortCheckpoint():
                return []
        raise Violation(f"what is {effect}?")

    def _catch_up(self, task: str, upstream: fx.Batches, queue: deque[Queued]) -> list[ev.Event]:
        world, run = self.world, self.runs[task]
        run.reads = False
        interrupted = any(isinstance(e, fx.StopAtBoundary) for e, *_ in list(queue)[1:])
        if not world.directories[task].drained:
            for source in upstream:
                at = world.directories[source].latest
                demand(upstream[source] == at, f"{task} catches up with {upstream} of {source}, now at {at}")
            if interrupted:
                self._batch(task, self.random)
            else:
                self._written(task, world.read_all(task))
        return [ev.BoundaryReached(task, world.directories[task].latest)]

    def _written(self, task: str, batch: Any) -> None:
        if batch is None:
            return
        self.say(f"    {task} commits batch {self.world.directories[task].latest}: {batch}")
        if not batch.rows:
            return
        uid = parse_task_id(task)[0]
        for reader in self.world.plan.readers(uid):
            for t in self.world.plan.stages[reader].tasks:
                over = t in self.oracle.restored or self.world.directories[t].drained
                mine = self.world.unread(t, task) if over else []
                if (uid, reader) in self.world.late:
                    continue
                demand(
                    not mine or uid in self.world.stopped,
                    f"{task} writes {mine} behind the end of {t} (row 4)",
                )

    # --- checkpoints ----------------------------------------------------------------------------------------

    def _store(self, effect: fx.StoreCheckpoint) -> list[ev.Event]:
        world, final = self.world, effect.scenario is not None
        number = effect.number
        if final and not self.coordinator.is_pending(number):
            return []
        if self.random.random() < self.mood.stores_fail:
            return [ev.CheckpointFailed(number)]
        batches = dict(effect.batches)
        for task, of in effect.pre_commit.items():
            batch = batches.get(task, world.directories[task].latest)
            batches.setdefault(task, batch)
            if task in world.sinks:
                world.sinks[task].pre_commit(of, batch)
        stages = []
        for uid in self.coordinator.downstream_first():
            spec = world.plan.stages[uid]
            if uid not in {parse_task_id(t)[0] for t in self.started}:
                continue
            tasks = []
            for index, name in enumerate(spec.tasks):
                there = world.directories[name]
                stands = final or name in effect.finished or name in world.sinks
                stands = stands or name in effect.exhausted
                batch = batches.get(name, there.latest) if stands else there.latest
                kept = world.sinks[name].prepared if name in world.sinks else {}
                tasks.append(
                    TaskRecord(
                        index,
                        name,
                        batch,
                        name in effect.finished,
                        transactions=tuple(str(n) for n in sorted(kept) if n <= number),
                        exhausted=name in effect.exhausted,
                    )
                )
            stages.append(self._stage(uid, tuple(tasks), self.coordinator.upstream(uid)))
        carried = self._carried({s.uid for s in stages})
        scenario = effect.scenario
        drains = scenario is not None and scenario.is_drain
        if drains and all(s.finished for s in stages):
            done = spent(carried)
            if all(s.finished or s.uid in done for s in carried):
                carried = [
                    replace(
                        s,
                        tasks=tuple(replace(t, finished=True) for t in s.tasks),
                        operators=tuple(replace(o, finished=True) for o in s.operators),
                    )
                    for s in carried
                ]
        left = [s.uid for s in carried if not s.finished or s.holds_transactions]
        demand(scenario is not Scenario.DRAIN or not left, f"the drain leaves {left} as they are (row 14)")
        if scenario is Scenario.END_OF_INPUT and (left or not all(s.finished for s in [*stages, *carried])):
            scenario = Scenario.STOP
        record = CheckpointRecord(
            number,
            self.number,
            scenario,
            effect.request_id,
            effect.savepoint,
            "2026-01-01T00:00:00Z",
            (*stages, *carried),
        )
        if self.coordinator.is_pending(number):
            self.oracle.records(record)
        self.records[number] = record
        return [ev.CheckpointDurable(number)]

    @staticmethod
    def _operators(windows: bool, finished: bool) -> tuple[OperatorRecord, ...]:
        kinds = [OperatorKind.SOURCE, *([OperatorKind.STATE] if windows else []), OperatorKind.SINK]
        return tuple(OperatorRecord(k.value, k, k.value, finished) for k in kinds)

    def _stage(self, uid: str, tasks: tuple[TaskRecord, ...], upstream: tuple[str, ...]) -> StageRecord:
        windows = self.world.plan.stages[uid].windows
        operators = self._operators(windows, all(t.finished for t in tasks))
        return StageRecord(uid, tasks, operators, None, upstream)

    def _carried(self, started: set[str]) -> list[StageRecord]:
        index = self.world.index
        carried = []
        for stage in index.stages if index else ():
            if stage.uid in started:
                continue
            names = self.world.plan.stages[stage.uid].tasks
            tasks = tuple(
                t if t.finished else replace(t, batch=self.world.directories[n].latest)
                for n, t in zip(names, stage.tasks, strict=True)
            )
            number = index.checkpoint if index and stage.carried_from is None else stage.carried_from
            carried.append(replace(stage, tasks=tasks, carried_from=number))
        return carried

    def commit_to_index(self, number: int) -> None:
        self.announced.remove(number)
        live = {n for n in self.announced if self.records[n].scenario is None and self.records[n].savepoint}
        for older in [n for n in self.announced if n < number and n not in live]:
            if self.records[number].savepoint is None and self.random.random() < 0.5:
                self.announced.remove(older)  # overtaken: its notification is lost
        self.indexed.append(number)
        record, world = self.records[number], self.world
        self.say(f"  the index has checkpoint {number}")
        if world.index is None or world.index.checkpoint < number:
            world.index = record
            for stage in record.stages:
                for name, task in zip(world.plan.stages[stage.uid].tasks, stage.tasks, strict=True):
                    self.recorded[name] = task.transactions

    def complete(self, number: int) -> None:
        self.indexed.remove(number)
        self.told.append(number)
        self.take(ev.CheckpointCompleted(number))

    # --- the script -----------------------------------------------------------------------------------------

    @property
    def uids(self) -> list[str]:
        return list(dict.fromkeys(parse_task_id(t)[0] for t in self.started))

    def left(self) -> tuple[str, ...]:
        record = self.world.index_at_start
        if record is None:
            return ()
        missing = [
            s.uid
            for s in record.stages
            if s.uid not in self.uids and not (s.finished and not s.holds_transactions)
        ]
        nothing = spent(record.stages)
        return tuple(u for u in missing if u not in nothing)

    def settle(self) -> None:
        self.settled = True
        self.take(ev.AllStarted(left=self.left()))
        early, self.early = self.early, None
        if early is not None:
            self.request(early)

    def script(self) -> bool:
        """One step of the script.

        :returns: whether it can go on.
        """
        plan = self.world.plan
        if plan.declares and not self.declared:
            self.declared = True
            for s in plan.stages.values():
                for u in s.upstream:
                    self.take(ev.EdgeDeclared(s.uid, u, s.own))
            return True
        do, uid = plan.script[self.at]
        if do is Do.START:
            self._start(uid)
            return True
        if do is Do.RETURN:
            self._returns()
            return True
        if do is Do.STOP and not self.waited:
            self.waited = True
            self.world.stops(uid)
            for task in plan.stages[uid].tasks:
                if task in self.runs and not self.runs[task].over:
                    self.runs[task].reads = False
                    self.oracle.lives[task].ended_itself = True
                    self.take(ev.ScriptStopped(task))
            return True
        if not self.waited:
            self.waited = True
            self.settle()
            return True
        tasks = list(self.started) if do is Do.WAIT_FOR_ALL else list(plan.stages[uid].tasks)
        runs = [self.runs[t] for t in tasks if t in self.runs]
        if any(r.failed and not self._starts_again(r.task) for r in runs):
            raise ScriptFailed("a query that it waits for has failed")
        if not all(r.over and not r.failed for r in runs):
            return False
        self.waited = False
        if do is Do.WAIT_FOR_ALL:
            self._returns()
        else:
            self.at += 1
        return True

    def _returns(self) -> None:
        self.script_over = True
        left = self.left()
        drains = self.oracle.request is not None and self.oracle.request.mode is Mode.DRAIN
        if left and drains:
            raise ScriptFailed(f"the drain leaves {left}")
        self.settle()
        self.take(ev.ScriptEnded(left))

    def _start(self, uid: str) -> None:
        spec = self.world.plan.stages[uid]
        if not self.inside and spec.parallelism > 1:
            self.take(ev.StageExpected(uid, spec.parallelism))
        task = spec.tasks[len(self.inside)]
        self.inside.append(task)
        try:
            self._enter(task)
        except StreamJobError as e:
            raise ScriptFailed(f"{task} is refused: {e.reason}: {e.message}") from e
        if len(self.inside) == spec.parallelism:
            self.inside.clear()
            self.at += 1

    def _enter(self, task: str) -> None:
        """Start a run, and tell the edges as far as queries that have started show them."""
        world, c = self.world, self.coordinator
        there, stages = world.directories[task], world.plan.stages
        spec, uid = there.spec, there.spec.uid
        again = task in self.started
        finished = task in self.oracle.restored
        known = set(stages) if world.plan.declares else set(self.uids)
        upstream = tuple(u for u in spec.upstream if u in known)
        readers = [r for r in world.plan.readers(uid) if r in self.uids]
        c.refuse_start(task, upstream, drained=True)
        for reader in readers:
            for t in stages[reader].tasks:
                if t in self.started:
                    own = stages[reader].own or not set(stages[reader].upstream) <= known | {uid}
                    c.reads(t, uid, own_sources=own)
        drained = there.drained
        c.refuse_start(task, upstream, drained=drained or finished)
        asked = self.oracle.request is not None or self.early is not None
        if not (asked or again or finished or drained):
            self._refuse_before_past_readers(uid)
        if task in world.sinks:
            recorded = {int(n) for n in self.recorded.get(task, ())}
            world.sinks[task].recover(recorded)
        self.started[task] = None
        if finished:
            if not again:
                self.oracle.joined.add(task)
                self.take(ev.TaskRestoredFinished(task, upstream, there.latest))
            return
        record = world.index_at_start
        if asked and (record is None or all(s.uid != uid for s in record.stages)):
            for reader in world.plan.readers(uid):
                shards = stages[reader].tasks
                if any(world.directories[t].drained or (t in c.tasks and c.tasks[t].step) for t in shards):
                    world.late.add((uid, reader))
        self.oracle.begins(task, durable_sink=not spec.commits, drained_before=drained)
        old = self.oracle.lives[task].finished
        run = Run(task, not (drained or asked or old))
        if spec.kind is Kind.AVAILABLE and run.reads:
            ends = {s: len(world.directories[s].rows) for s in world.sources(task)}
            run.until = (world.arrived.get(task, 0), ends)
        self.runs[task] = run
        if run.exhausts:
            self.oracle.input_over.discard(task)
        own = spec.own or not set(spec.upstream) <= known
        emits = there.planned or bool(there.at.held)
        if self.early is not None:
            self.take(ev.TerminationAnnounced())
        self.take(ev.TaskStarted(task, upstream, spec.commits, own_sources=own, drained=drained, emits=emits))

    def _refuse_before_past_readers(self, uid: str) -> None:
        """ "Adding a new operator before a fully finished one" is refused (row 10), and one that reads on."""
        record = self.world.index_at_start
        known = {s.uid: s for s in record.stages} if record else {}
        for reader in set(self.world.plan.readers(uid)) & set(known):
            tasks = self.world.plan.stages[reader].tasks
            drained = any(self.world.directories[t].drained for t in tasks)
            if known[reader].finished or drained:
                raise ScriptFailed(f"{uid} reads on before {reader}, which has finished")

    # --- queries --------------------------------------------------------------------------------------------

    def _batch(self, task: str, random: Random, *, all_: bool = False) -> bool:
        """A micro-batch of the query, of some of what there is."""
        world, run, there = self.world, self.runs[task], self.world.directories[task]
        at = there.at
        own_end, ends = run.until or (
            world.arrived.get(task, 0),
            {s: len(world.directories[s].rows) for s in world.sources(task)},
        )
        if parse_task_id(task)[0] in world.stopped and not run.reads:
            return False
        own = own_end if all_ else random.randint(at.own, own_end)
        known = set(world.sources(task))
        upstream = {
            s: n if all_ else random.randint(at.read.get(s, 0), n) for s, n in ends.items() if s in known
        }
        batch = world.read(task, own, upstream)
        self._written(task, batch)
        return batch is not None

    def _has_input(self, task: str) -> bool:
        run, at = self.runs[task], self.world.directories[task].at
        own_end, ends = run.until or (
            self.world.arrived.get(task, 0),
            {s: len(self.world.directories[s].rows) for s in self.world.sources(task)},
        )
        return own_end > at.own or any(n > at.read.get(s, 0) for s, n in ends.items())

    def _ends_itself(self, run: Run) -> bool:
        return run.reads and run.exhausts and not self._has_input(run.task)

    def _input_has_ended(self, run: Run) -> bool:
        there = self.world.directories[run.task]
        if not run.reads or there.spec.kind is not Kind.BOUNDED or run.told_end:
            return False
        known = self.world.plan.declares or set(there.spec.upstream) <= set(self.uids)
        return known and there.at.own == there.spec.rows

    def fail(self, task: str) -> None:
        """The query fails, and with it all that edges connect with it."""
        uids = self.coordinator.connected(parse_task_id(task)[0])
        for other, run in list(self.runs.items()):
            if parse_task_id(other)[0] not in uids or (run.over and other != task):
                continue
            if self.coordinator.tasks[other].can_fail:
                run.reads, run.failed = False, True
                self.oracle.lives[other].failed = True
                self.take(ev.TaskFailed(other))

    # --- requests -------------------------------------------------------------------------------------------

    def ask(self) -> None:
        self.asked = True
        if self.mood.asks == "Cancel":
            self.oracle.canceled = True
            self.take(ev.CancelRequested())
            return
        request = TerminationRequest(
            f"end-{self.number}", self.number, Mode(self.mood.asks), "file:/savepoint"
        )
        if self.settled:
            self.request(request)
        else:
            self.early = request
            self.take(ev.TerminationAnnounced())

    def request(self, request: TerminationRequest) -> None:
        oracle, c = self.oracle, self.coordinator
        restored = self.world.index_at_start
        ended = restored is not None and restored.over and not self.runs
        oracle.over_before_request = ended or oracle.final_completed
        oracle.request, oracle.completed_before = request, frozenset(oracle.completed)
        if request.mode is Mode.STOP:
            for task, life in oracle.lives.items():
                if not life.finished and not c.tasks[task].ended:
                    life.asked = not (c.tasks[task].step is not None and not c.tasks[task].catching_up)
        self.take(ev.TerminationRequested(request))
        demand(not self.take(ev.TerminationRequested(request)), "a repeated request has effects")

    # --- at random ------------------------------------------------------------------------------------------

    def play(self) -> str:
        """Run the epoch until it has terminated.

        :raises Crash: the driver died.
        """
        self.world.index_at_start = self.world.index
        mood, r = self.mood, self.random
        steps, noise = 0, 60
        if mood.at_once:
            self.ask()
        while not self.oracle.terminated:
            steps += 1
            demand(steps < 20_000, "the epoch goes on for ever")
            self.world.next_checkpoint = max(self.world.next_checkpoint, self.coordinator.next_checkpoint)
            self._mark_over()
            spared = self.world.plan.scope is Scope.GENTLE and self.flushes
            if r.random() < mood.crashes and not spared:
                raise Crash("it was killed")
            if (
                not spared
                and r.random() < mood.fails
                and (live := [t for t, x in self.runs.items() if not x.failed])
            ):
                self.fail(r.choice(live))
                continue
            due = mood.asks and not self.asked and (mood.early or self.settled)
            if due and r.random() < 0.05:
                self.ask()
                continue
            if noise and r.random() < 0.1:
                noise -= 1
                self._noise()
                continue
            options = self._options()
            if not options and mood.asks and not self.asked:
                self.ask()
                continue
            if not options and self._blocked() and self.take(ev.ScriptBlocked()):
                continue
            if not options:
                if any(run.failed for run in self.runs.values()):
                    raise ScriptFailed("a query has failed, and nothing starts it again")
                if not mood.asks and not self.script_over:
                    return "runs"
                if not mood.asks and self._lives_on():
                    return "runs"
                raise Violation(f"the job does not end: {self._states()}")
            r.choice(options)()
        for lane in [x for x in self.lanes if isinstance(x, str)]:
            while self.lanes.get(lane) and not self.oracle.canceled:
                self.carry_out(lane)
        return "terminated"

    def _states(self) -> str:
        tasks = self.coordinator.tasks.items()
        states = ", ".join(f"{n} {t.state.value}/{t.step.value if t.step else '-'}" for n, t in tasks)
        return f"{states}; script {'over' if self.script_over else self.world.plan.script[self.at]}"

    def _lives_on(self) -> bool:
        """Whether a query runs that nothing ends, or that reads from one."""
        c = self.coordinator
        tasks = [t for t, s in c.tasks.items() if s.state is TaskState.RUNNING and t in self.runs]
        specs = [self.world.directories[t].spec for t in tasks]
        return any(s.own and s.kind is Kind.LIVE for s in specs) or bool(self.world.stopped)

    def _blocked(self) -> bool:
        if self.script_over or not self.waited:
            return False
        return not any(run.exhausts and not run.over for run in self.runs.values())

    def _mark_over(self) -> None:
        c = self.coordinator
        for task, run in self.runs.items():
            t = c.tasks[task]
            done = t.state in (TaskState.CLOSED, TaskState.FAILED, TaskState.CANCELED)
            if not run.over and (done or (t.ended and not t.commits and not c.stops)):
                run.over = True

    def _noise(self) -> None:
        """What may happen at any time and changes nothing about the end."""
        r = self.random
        which = r.randrange(6)
        if which == 0 and self.runs:
            self.take(ev.CheckpointDue())
        elif which == 1 and self.timers:
            timer = self.timers.pop(r.randrange(len(self.timers)))
            if timer.timer is fx.Timer.MIN_PAUSE or r.random() < 0.3:
                self.take(ev.TimerFired(timer.timer, timer.number))
        elif which == 2 and self.told:
            again = self.take(ev.CheckpointCompleted(r.choice(self.told)))
            demand(not again, f"a repeated notification has effects: {again}")
        elif which == 3 and self._blocked():
            self.take(ev.ScriptBlocked())
        elif which == 4 and self.early is not None and self.started and r.random() < 0.3 and not self.inside:
            self.settle()  # the driver's patience is over
        elif which == 5 and self._can_ask_for_a_savepoint:
            self.savepoints += 1
            name = f"savepoint-{self.savepoints}"
            self.take(ev.SavepointRequested(name, f"file:/{name}", 600.0))

    @property
    def _can_ask_for_a_savepoint(self) -> bool:
        asked = self.oracle.request is not None or self.early is not None or self.oracle.canceled
        return self.settled and not asked and not self.coordinator.terminated and self.savepoints < 3

    def _options(self) -> list[Callable[[], object]]:
        world, r = self.world, self.random
        options: list[Callable[[], object]] = []
        options += [lambda lane=lane: self.carry_out(lane) for lane in list(self.lanes) if self.lanes[lane]]
        for lane in [x for x in self.lanes if not self.lanes[x]]:
            del self.lanes[lane]
        if not self.script_over and self._script_can_go_on():
            options.append(self.script)
        for task, n in world.arrived.items():
            if n < world.directories[task].spec.rows:
                options.append(lambda task=task: world.arrived.update({task: world.arrived[task] + 1}))
        for task, run in self.runs.items():
            if run.reads and self._has_input(task):
                options.append(lambda task=task: self._batch(task, r, all_=r.random() < 0.5))
            elif self._ends_itself(run):
                options.append(lambda run=run: self._run_ends(run))
            elif self._input_has_ended(run):
                options.append(lambda run=run: self._tell_end(run))
            if run.failed and self._starts_again(task) and not self.script_over and not self._busy(task):
                options.append(lambda task=task: self._restart(task))
        options += [lambda n=n: self.commit_to_index(n) for n in self.announced]
        options += [lambda n=n: self.complete(n) for n in self.indexed]
        if self.timers and (pauses := [t for t in self.timers if t.timer is fx.Timer.MIN_PAUSE]):
            options.append(
                lambda: (
                    self.timers.remove(pauses[0]),
                    self.take(ev.TimerFired(pauses[0].timer, pauses[0].number)),
                )
            )
        return options

    def _starts_again(self, task: str) -> bool:
        return self.world.plan.restarts and parse_task_id(task)[0] not in self.world.stopped

    def _busy(self, task: str) -> bool:
        return bool(self.lanes.get(task))

    def _script_can_go_on(self) -> bool:
        plan = self.world.plan
        if plan.declares and not self.declared:
            return True
        do, uid = plan.script[self.at]
        if do in (Do.START, Do.RETURN) or not self.waited:
            return True
        tasks = list(self.started) if do is Do.WAIT_FOR_ALL else list(plan.stages[uid].tasks)
        runs = [self.runs[t] for t in tasks if t in self.runs]
        dead = any(x.failed and not self._starts_again(x.task) for x in runs)
        return dead or all(x.over and not x.failed for x in runs)

    def _run_ends(self, run: Run) -> None:
        run.reads = False
        self.oracle.lives[run.task].ended_itself = True
        self.take(ev.RunEnded(run.task, exhausted=True))

    def _tell_end(self, run: Run) -> None:
        run.told_end = True
        self.take(ev.InputEnded(run.task))

    def _restart(self, task: str) -> None:
        try:
            self._enter(task)
        except StreamJobError as e:
            raise ScriptFailed(f"{task} is refused: {e.reason}: {e.message}") from e
