"""A driver in its pod: the production coordinator, codec and status, around queries, files and a clock that are models.

It follows runtime/{driver,loop,work,pod,process}.py step by step; each step takes a while, and may be its last one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from streamjob.protocol import codec
from streamjob.protocol import effects as fx
from streamjob.protocol import events as ev
from streamjob.protocol.checkpoints import Checkpointing
from streamjob.protocol.lifecycle import TaskState
from streamjob.protocol.messages import (
    DriverConfig,
    DriverPhase,
    DriverStatus,
    KnownRecords,
    Mode,
    Problem,
    SavepointRequest,
    SavepointStatus,
    TerminationRequest,
    report,
)
from streamjob.runtime.driver.event_loop import OF_SINK, expected
from streamjob.runtime.driver.status import Notes, phase, stage_statuses, termination_status
from streamjob.runtime.process.pod import INDEX_WAIT
from streamjob.runtime.savepoints.recover_records import known

from .plan import Mishap, Scripted
from .query import BATCH, Query
from .script import Script
from .work import Work

if TYPE_CHECKING:
    from .world import World

HANG = 400.0


class Driver:
    """From the start of the container to its end. `over` is called with exit code and termination message."""

    def __init__(
        self, world: World, config: DriverConfig, token: str, over: Callable[[int, str], None]
    ) -> None:
        config = world.storage.with_record(config)
        self.world, self.config, self.token = world, config, token
        self.status = DriverStatus(1, config.job.uid, config.epoch, DriverPhase.STARTING)
        self.alive, self.hanging_until = True, 0.0
        self.term = 0  # the latest of a controller that was heard of
        self.waiters: list[Callable[[], None]] = []
        every = config.checkpointing
        self.coordinator = world.product.coordinator.Coordinator(
            config.next_checkpoint,
            Checkpointing(every.max_concurrent, every.timeout, every.min_pause),
            expected(config),
        )
        self.queries: dict[str, Query] = {}
        self.notes = Notes()
        self._over = over
        self._message = ""
        self._rng = Random(f"driver {world.plan.seed} {config.epoch}")
        self._work = Work(self)
        self._early = config.termination and replace(config.termination, epoch=config.epoch)
        if self._early:
            self.coordinator.handle(ev.TerminationAnnounced())
        self._early_savepoint: SavepointRequest | None = None
        self._started = False
        self.script = Script(self)
        self._durable = self._terminated = False
        self._evict_by: float | None = None
        self._text: tuple[int, str] = (0, "")
        self.meet("Container", lambda: self.later(self.some(1.0, 4.0), self.script.begin))

    # --- time and chance --------------------------------------------------------------------------------------

    def some(self, low: float, high: float) -> float:
        return low + self._rng.random() * (high - low)

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        """Unless the process has ended by then; one that hangs does it when it wakes up."""

        def due() -> None:
            if not self.alive:
                return
            rest = self.hanging_until - self.world.loop.time()
            if rest > 0:
                self.world.later(rest, due)
            else:
                call()

        self.world.later(seconds, due)

    def meet(self, moment: str, go_on: Callable[[], None], task: str = "") -> None:
        """Do what comes now, unless the plan has a mishap for this moment."""
        mishap = self.world.mishap(moment)
        if mishap is None:
            return go_on()
        self.world.note(self.me, f"{mishap.value} at {moment}")
        if mishap is Mishap.KILLED_BEFORE:
            return self.kill()
        if mishap is Mishap.THROWS:
            return self.fail(task, moment)
        if mishap is Mishap.HANGS:
            self.hanging_until = self.world.loop.time() + HANG
            return self.later(0.0, go_on)
        go_on()
        if mishap is Mishap.KILLED_AFTER:
            self.kill()
        elif mishap is Mishap.NODE_LOST:
            self.world.kubelet.lose_node(self)
        elif mishap is Mishap.EVICTED:
            self.world.kubelet.evict(self)
        return None

    @property
    def me(self) -> str:
        return f"driver {self.config.epoch}"

    # --- what its script asks for -----------------------------------------------------------------------------

    def enter(self, query: Query) -> None:
        """A run begins, and takes the place of the last one of its stage."""
        self.queries[query.uid] = query
        self.notes.failed.pop(query.task, None)

    def all_started(self) -> None:
        self._started = True
        self.take(ev.AllStarted())
        early, self._early = self._early, None
        savepoint, self._early_savepoint = self._early_savepoint, None
        if early is not None:
            if savepoint is not None:
                problem = Problem("SavepointGivenUp", "the job is asked to end")
                self.update(savepoint=SavepointStatus(savepoint.request_id, problem=problem, over=True))
            self.take(ev.TerminationRequested(early))
        elif savepoint is not None:
            self.savepoint(savepoint)
        self.later(self.some(1.0, 30.0), lambda: self.meet("Running", lambda: None))
        if self.config.spark_conf.get("script") == "throws" and self.coordinator.request is None:
            self.later(self.some(2.0, 5.0), lambda: self.fail_job(next(iter(self.queries))))

    def checkpoint_due(self) -> None:
        if not self._terminated:
            self.take(ev.CheckpointDue())
            self.later(self.config.checkpointing.interval, self.checkpoint_due)

    @property
    def request(self) -> TerminationRequest | None:
        return self.coordinator.request or self._early

    @property
    def stops(self) -> bool:
        return self.request is not None and self.request.mode is Mode.STOP

    @property
    def drains(self) -> bool:
        return self.request is not None and self.request.mode is Mode.DRAIN

    def settle(self, query: Query) -> int | None:
        """The last batch that the query has committed by now."""
        if query.since is not None:
            done = int((self.world.loop.time() - query.since) / BATCH)
            query.since += done * BATCH
            bounded = self.world.plan.shape.bounded
            query.directory.batch += done
            if bounded is not None:
                query.directory.batch = min(query.directory.batch, bounded - 1)
        query.figures.batch = query.directory.batch if query.directory.batch >= 0 else None
        return query.figures.batch

    # --- commands ---------------------------------------------------------------------------------------------

    def terminate(self, request: TerminationRequest) -> Problem | None:
        """Why not, None if it is taken."""
        conflict = self.world.product.coordinator.TerminationConflict
        if self._early is not None and self._early.request_id != request.request_id:
            return Problem(conflict.reason, f"termination {self._early.request_id} comes first")
        if not self._started:
            self._early = request
            self.take(ev.TerminationAnnounced())
            return None
        try:
            self.take(ev.TerminationRequested(request))
        except conflict as e:
            return Problem(e.reason, e.message)
        return None

    def savepoint(self, request: SavepointRequest) -> Problem | None:
        """Why not, None if it is taken."""
        conflict = self.world.product.coordinator.TerminationConflict
        if self._early is not None:
            return Problem(conflict.reason, f"termination {self._early.request_id} comes first")
        if not self._started:
            self._early_savepoint = request
            self.update(savepoint=SavepointStatus(request.request_id))
            return None

        try:
            self.take(ev.SavepointRequested(request.request_id, request.savepoint, request.timeout))
        except conflict as e:
            return Problem(e.reason, e.message)
        return None

    def delete(self, savepoints: tuple[str, ...]) -> None:
        def delete(savepoint: str) -> None:
            self.world.oracle.deleted(self, savepoint)
            self.world.storage.savepoints.pop(savepoint, None)
            if savepoint not in self.status.deleted:
                self.update(deleted=(*self.status.deleted, savepoint))

        for savepoint in savepoints:
            self.later(self.some(0.1, 3.0), lambda s=savepoint: self.meet("Delete", lambda: delete(s)))

    def tell_records(self, reached: int) -> None:
        folder = (self.config.eviction_savepoint or "").rpartition("/")[0]
        there = [r for uri, r in self.world.storage.savepoints.items() if folder and uri.startswith(folder)]
        found = known(self.config, there, self.status.durable)
        told = KnownRecords(reached, tuple(found[n] for n in sorted(found)))
        self.later(self.some(0.1, 2.0), lambda: self.update(known=told))

    def complete(self, announced: int) -> None:
        self.take(ev.CheckpointCompleted(self._work.numbers.get(announced, announced)))

    def sigterm(self, grace: float) -> None:
        """As runtime/process/pod.py does it."""
        if self._evict_by is not None:
            return
        self._evict_by = self.world.loop.time() + max(grace - 3, 1)
        self.later(0.0, self._evict)

    def _evict(self) -> None:
        self.update(evicted=True)
        request_id = f"eviction-{self.config.epoch}"
        self.terminate(
            TerminationRequest(request_id, self.config.epoch, Mode.STOP, self.config.eviction_savepoint)
        )
        if not self.queries:
            return self.leave(0, None)
        self._if_durable()
        return None

    def durable(self) -> None:
        """The final checkpoint is written, whether the index has it or not."""
        self._durable = True
        self._if_durable()

    def _if_durable(self) -> None:
        if self._evict_by is None or not self._durable or self.world.loop.time() >= self._evict_by:
            return
        self._message = report(self.status)
        wait = min(INDEX_WAIT, self._evict_by - self.world.loop.time())
        self.later(wait, lambda: self.status.completed and self.complete(self.status.completed.checkpoint))

    # --- the coordinator ------------------------------------------------------------------------------------

    def take(self, event: ev.Event) -> None:
        effects = self.coordinator.handle(event)
        if isinstance(event, ev.SavepointRequested):
            known = self.status.savepoint
            if known is None or known.request_id != event.request_id:
                self.update(savepoint=SavepointStatus(event.request_id))
        self._publish()
        for effect in effects:
            if isinstance(effect, fx.Terminated):
                self._terminated = True
                self._publish()
                # What a script does after its end was asked for decides the exit code, and nothing else.
                code = self._rng.choice((0, 0, 3)) if self.coordinator.request else 0
                leave = lambda code=code: self.leave(code, None)  # noqa: E731
                self.later(self.some(0.1, 1.0), lambda leave=leave: self.meet("Leave", leave))
            elif isinstance(effect, fx.StartTimer):
                fired = lambda e=effect: self.take(ev.TimerFired(e.timer, e.number))  # noqa: E731
                self.later(effect.seconds, fired)
            else:
                self._work.put(effect)
        self.script.look()

    def published(self) -> None:
        """An effect has been carried out that no event answers."""
        self._publish()
        self.script.look()

    # --- what it says, and its end ----------------------------------------------------------------------------

    def _publish(self) -> None:
        c = self.coordinator
        dead = [p for task, p in self.notes.failed.items() if task in c.failed]
        self.update(
            phase=phase(c),
            stages=stage_statuses(c, self.queries),  # type: ignore[arg-type]
            termination=termination_status(c, self.notes, self.config.epoch),
            problem=self.notes.failure,
            degraded=dead[0] if dead and self.notes.failure is None else None,
        )

    def update(self, **changes: Any) -> None:
        changed = replace(self.status, **changes)
        if changed != self.status:
            self.status = replace(changed, version=self.status.version + 1)
            waiters, self.waiters = self.waiters, []
            for waiter in waiters:
                waiter()

    @property
    def text(self) -> str:
        if self._text[0] != self.status.version:
            self._text = (self.status.version, codec.dumps(self.status))
        return self._text[1]

    def fail(self, task: str, moment: str) -> None:
        """A query dies, and with it those that it is connected with. Whether the job does is for its script to say. What an end
        that is in the index has left to a sink is the next driver's."""
        self._work.thrown(task)
        if moment == "Close":
            return self.take(ev.Closed(task))
        if moment in [e.__name__ for e in OF_SINK] and not self.coordinator.tasks[task].can_fail:
            return self.fail_job(task)
        live = [q for q in self.queries.values() if q.since is not None]
        if self.script.kind not in (Scripted.RETRY, Scripted.CARELESS) or not (task in self.queries or live):
            return self.fail_job(task)
        uid = task or live[0].uid
        for other in self.queries.values():
            can_fail = self.coordinator.tasks[other.task].can_fail and not self.script.is_over(other)
            if other.uid in self.coordinator.connected(uid) and can_fail:
                self.settle(other)
                other.since = None
                boom = Problem("QueryFailed", f"{uid}: boom", "See the driver's log", retryable=True)
                self.notes.failed[other.task] = boom
                self.take(ev.TaskFailed(other.task))
        return None

    def fail_job(self, task: str) -> None:
        """The script fails, and the job with all its stages."""
        self.notes.failure = Problem("QueryFailed", f"{task}: boom", "See the driver's log", retryable=True)
        for query in self.queries.values():
            self.settle(query)
            query.since = None
            self.coordinator.handle(ev.TaskFailed(query.task))
        self._publish()
        # The script may handle the exception and leave with 0.
        code = self._rng.choice((0, 1, 3))
        self.later(self.some(0.1, 1.0), lambda: self.leave(code, self.notes.failure))

    def leave(self, code: int, problem: Problem | None) -> None:
        if problem is not None and self._terminated and self.coordinator.request is not None:
            problem = None
            self.update(problem=None)
        self.update(exit_code=code, exit_reason="the script came to its end")
        truth, asked = self.world.oracle.truth(self.config.job.uid), self.coordinator.request is not None
        truth.script_failed = not asked and (code != 0 or problem is not None)
        closed = all(t.state is TaskState.CLOSED for t in self.coordinator.tasks.values())
        if (
            closed
            and self.coordinator.tasks
            and not asked
            and not truth.script_failed
            and truth.last is not None
        ):
            truth.ended_well = truth.last[1]
        if problem is not None:
            self.update(phase=DriverPhase.FAILED, problem=problem, degraded=None)
        self._end(code, report(self.status))

    def kill(self) -> None:
        """SIGKILL: what it has written for the kubelet stays."""
        if self.alive:
            self._end(137, self._message)

    def _end(self, code: int, message: str) -> None:
        for query in self.queries.values():
            self.settle(query)
            query.since = None
        self.alive = False
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter()
        self._over(code, message)
