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
from streamjob.protocol.records import OperatorKind, OperatorRecord
from streamjob.protocol.recovery import AlreadyDrained, Start, stage_plan
from streamjob.runtime.loop import expected
from streamjob.runtime.pod import INDEX_WAIT
from streamjob.runtime.reporting import Notes, phase, stage_statuses, termination_status

from .plan import Mishap
from .query import BATCH, Figures, Query
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
            self.coordinator.termination_announced()
        self._early_savepoint: SavepointRequest | None = None
        self._started = self._script_over = False
        self._durable = self._terminated = False
        self._evict_by: float | None = None
        self._text: tuple[int, str] = (0, "")
        self.meet("Container", lambda: self.later(self.some(1.0, 4.0), self._script))

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
            return self.fail(task)
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

    # --- its script -------------------------------------------------------------------------------------------

    def _script(self) -> None:
        root, latest = self.config.checkpoints, self.config.restore.latest
        shape = self.world.plan.shape
        known = {s.uid: s for s in latest.stages} if latest else {}
        if latest is not None and latest.drained and self.config.restore.exact and not latest.uncommitted:
            problem = Problem(AlreadyDrained.reason, "nothing is left to resume", "Make a new StreamJob")
            return self._leave(1, problem)
        if self.config.spark_conf.get("script") == "broken":
            return self._leave(1, Problem("ScriptFailed", "boom", "Mend the script", retryable=True))
        upstream: tuple[str, ...] = ()
        for uid in shape.stages:
            plan = stage_plan(uid, 1, known.get(uid)).tasks[0]
            directory = self.world.storage.directory(root, uid)
            sink = self.world.storage.sink(root, uid) if shape.transactional else None
            operators = (OperatorRecord(f"{uid}/source-0", OperatorKind.SOURCE, "model", False),)
            query = Query(uid, directory, sink, Figures(operators))
            if sink is not None:
                sink.recover(plan.record.transactions if plan.record else ())
            self.queries[uid] = query
            up, upstream = upstream, (uid,)
            if plan.start is Start.FINISHED:
                query.finished = True
                batch = directory.batch if directory.batch >= 0 else None
                self.take(
                    lambda q=query, u=up, b=batch: self.coordinator.task_restored_finished(q.task, u, b)
                )
                continue
            self.take(
                lambda q=query, u=up, s=sink: self.coordinator.task_started(q.task, u, commits=s is not None)
            )
            self.world.oracle.query_started(self, query)
            if directory.drained or self._early is not None:
                if directory.drained:
                    self.take(lambda q=query: self.coordinator.input_ended(q.task))
                continue
            query.since = self.world.loop.time()
            if shape.bounded is not None and not up:
                left = max(shape.bounded - 1 - directory.batch, 0) * BATCH
                self.later(left, lambda q=query: self._input_ended(q))
        self.meet("Started", lambda: self.later(self.some(0.1, 2.0), self._all_started))
        if self.config.checkpointing.interval:
            self.later(self.config.checkpointing.interval, self._checkpoint_due)
        return None

    def _all_started(self) -> None:
        self._started = True
        self.take(self.coordinator.all_started)
        self.take(self.coordinator.script_ended)  # it falls off its end: its queries are the job
        early, self._early = self._early, None
        savepoint, self._early_savepoint = self._early_savepoint, None
        if early is not None:
            if savepoint is not None:
                problem = Problem("SavepointGivenUp", "the job is asked to end")
                self.update(savepoint=SavepointStatus(savepoint.request_id, problem=problem, over=True))
            self.take(lambda: self.coordinator.termination_requested(early))
        elif savepoint is not None:
            self.savepoint(savepoint)
        self.later(self.some(1.0, 30.0), lambda: self.meet("Running", lambda: None))
        if self.config.spark_conf.get("script") == "throws" and self.coordinator.request is None:
            self.later(self.some(2.0, 5.0), lambda: self.fail(next(iter(self.queries))))

    def _input_ended(self, query: Query) -> None:
        if query.since is not None:
            self.settle(query)
            query.since = None
            self.take(lambda: self.coordinator.input_ended(query.task))

    def _checkpoint_due(self) -> None:
        if not self._terminated:
            self.take(self.coordinator.checkpoint_due)
            self.later(self.config.checkpointing.interval, self._checkpoint_due)

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
            self.take(self.coordinator.termination_announced)
            return None
        try:
            self.take(lambda: self.coordinator.termination_requested(request))
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

        def begin() -> list[Any]:
            effects: list[Any] = self.coordinator.savepoint_requested(
                request.request_id, request.savepoint, request.timeout
            )
            if self.status.savepoint is None or self.status.savepoint.request_id != request.request_id:
                self.update(savepoint=SavepointStatus(request.request_id))
            return effects

        try:
            self.take(begin)
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
        found = {
            r.checkpoint: r
            for uri, r in self.world.storage.savepoints.items()
            if self.config.eviction_savepoint
            and uri.startswith(self.config.eviction_savepoint.rpartition("/")[0])
        }
        if self.config.restore.latest is not None:
            found[self.config.restore.latest.checkpoint] = self.config.restore.latest
        found |= {r.checkpoint: r for r in self.status.durable}
        known = KnownRecords(reached, tuple(found[n] for n in sorted(found)))
        self.later(self.some(0.1, 2.0), lambda: self.update(known=known))

    def complete(self, announced: int) -> None:
        self.take(lambda: self.coordinator.checkpoint_completed(self._work.numbers.get(announced, announced)))

    def sigterm(self, grace: float) -> None:
        """As runtime/pod.py does it."""
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
            return self._leave(0, None)
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

    def take(self, event: Callable[[], list[Any]]) -> None:
        effects = event()
        self._publish()
        for effect in effects:
            if isinstance(effect, fx.Terminated):
                self._terminated = True
                self._publish()
                # What a script does after its end was asked for decides the exit code, and nothing else.
                code = self._rng.choice((0, 0, 3)) if self.coordinator.request else 0
                leave = lambda code=code: self._leave(code, None)  # noqa: E731
                self.later(self.some(0.1, 1.0), lambda leave=leave: self.meet("Leave", leave))
            elif isinstance(effect, fx.StartTimer):
                fired = lambda e=effect: self.take(lambda: self.coordinator.timer_fired(e.timer, e.number))  # noqa: E731
                self.later(effect.seconds, fired)
            else:
                self._work.put(effect)
        self._script_goes_on()

    def _script_goes_on(self) -> None:
        """It waits for its queries, and ends when they are over."""
        draining = self.coordinator.request is not None and self.coordinator.request.mode is Mode.DRAIN
        tasks = self.coordinator.tasks.values()
        over = all(t.state is TaskState.CLOSED or (draining and t.ended and not t.commits) for t in tasks)
        if self._started and not self._script_over and over and self.notes.failure is None:
            self._script_over = True
            self.later(self.some(0.05, 0.5), lambda: self.take(self.coordinator.script_ended))

    # --- what it says, and its end ----------------------------------------------------------------------------

    def _publish(self) -> None:
        c = self.coordinator
        self.update(
            phase=phase(c),
            stages=stage_statuses(c, self.queries),  # type: ignore[arg-type]
            termination=termination_status(c, self.notes, self.config.epoch),
            problem=self.notes.failure,
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

    def fail(self, task: str) -> None:
        """A query dies: the job fails with all its stages."""
        self.notes.failure = Problem("QueryFailed", f"{task}: boom", "See the driver's log", retryable=True)
        for query in self.queries.values():
            self.settle(query)
            query.since = None
            self.coordinator.task_failed(query.task)
        self._publish()
        # The script may handle the exception and leave with 0.
        code = self._rng.choice((0, 1, 3))
        self.later(self.some(0.1, 1.0), lambda: self._leave(code, self.notes.failure))

    def _leave(self, code: int, problem: Problem | None) -> None:
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
            self.update(phase=DriverPhase.FAILED, problem=problem)
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
