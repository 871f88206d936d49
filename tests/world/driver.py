"""A driver in its pod: the production dispatcher, codec and status, around queries, files and a clock that
are models.

Each of its steps takes a while, and may be its last one. Its end follows runtime/process/pod.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from streamjob.controller.objects import names
from streamjob.protocol.engine import events as ev
from streamjob.protocol.engine.coordinator import TerminationConflict
from streamjob.protocol.formats import codec
from streamjob.protocol.lifecycle import TaskState
from streamjob.protocol.messages.commands import Mode, SavepointRequest, TerminationRequest
from streamjob.protocol.messages.driver_config import DriverConfig, Gate
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus, KnownRecords, Problem
from streamjob.protocol.messages.figures import Load, QueryFigures
from streamjob.protocol.messages.final_report import report
from streamjob.protocol.restore.recovery import recorded_edges, spent, unfinished_tasks
from streamjob.runtime.driver.dispatcher import Dispatcher, EffectQueue
from streamjob.runtime.driver.requests import Requests
from streamjob.runtime.driver.script.before_first_query import why_needed
from streamjob.runtime.driver.start.gate_keeper import GateConflict, GateKeeper
from streamjob.runtime.driver.status import stage_statuses
from streamjob.runtime.driver.status_board import StatusBoard
from streamjob.runtime.process.pod import INDEX_WAIT
from streamjob.runtime.savepoints.recover_records import known
from streamjob.runtime.spark.executors.numbers import Executors
from streamjob.runtime.startup.restore_point import is_fresh

from .apiserver import Obj, Refusal
from .plan import Mishap, Scripted
from .query import BATCH, Query
from .script import Script
from .work import EffectRunner, seconds

if TYPE_CHECKING:
    from .world import World

HANG = 400.0
EXECUTORS = 2  # at most, however many the job wants


class Boom(Exception):
    """What an effect throws, or a query."""

    def __init__(self) -> None:
        super().__init__("boom")


class Board(StatusBoard):
    """Calls those who wait for the next version of the status."""

    def __init__(self, status: DriverStatus) -> None:
        super().__init__(status)
        self.waiters: list[Callable[[], None]] = []

    def update(self, **changes: Any) -> None:
        version = self.status.version
        super().update(**changes)
        if self.status.version != version:
            self.wake()

    def wake(self) -> None:
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter()


class Driver:
    """From the start of the container to its end. `over` is called with exit code and termination message.

    It is the `Shell` of its dispatcher. `failed`: the job has, and its script leaves.
    """

    def __init__(
        self, world: World, config: DriverConfig, token: str, over: Callable[[int, str], None], pod: Obj
    ) -> None:
        config = world.storage.with_record(config)
        self.world, self.config, self.token = world, config, token
        self._pod = pod
        self.board = Board(DriverStatus(1, config.job.uid, config.epoch, DriverPhase.STARTING))
        self.alive, self.hanging_until = True, 0.0
        self.may_write = not config.prepared  # it is behind its gate, or has none
        self._behind_gate: Callable[[], object] | None = None
        self._gate = GateKeeper(self, closed=config.prepared)  # type: ignore[arg-type]
        self._durable = self._terminated = self.failed = False
        self.term = 0  # the latest of a controller that was heard of
        self.script = Script(self)
        self.began: float | None = None  # when its first query was started
        self._over = over
        self._message = ""
        self._rng = Random(f"driver {world.plan.seed} {config.epoch}")
        self._dispatcher = Dispatcher[Query](config, self.board, self)
        self.coordinator, self.queries = self._dispatcher.coordinator, self._dispatcher.runs
        self.notes = self._dispatcher.notes
        self.requests = Requests(config, self._dispatcher, nullcontext())
        self._executors = Executors(config.spark_conf, self.board, *[lambda _: None] * 3)
        self._work = EffectRunner(self, self._dispatcher.live_savepoints)
        self._evict_by: float | None = None
        self._text: tuple[int, str] = (0, "")
        self.meet("Container", lambda: self.later(self.some(1.0, 4.0), self.script.begin))

    # --- time and chance ------------------------------------------------------------------------------------

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

    def meet(
        self, moment: str, go_on: Callable[[], None], fail: Callable[[Exception], None] | None = None
    ) -> None:
        """Do what comes now, unless the plan has a mishap for this moment."""
        mishap = self.world.mishap(moment)
        if mishap is None:
            return go_on()
        self.world.note(self.me, f"{mishap.value} at {moment}")
        if mishap is Mishap.KILLED_BEFORE:
            return self.kill()
        if mishap is Mishap.THROWS:
            return (fail or self.query_fails)(Boom())
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
    def closed(self) -> bool:
        """Every task has closed: nothing of it commits any more."""
        return self.coordinator.terminated

    @property
    def me(self) -> str:
        return f"driver {self.config.epoch}"

    # --- its gate -------------------------------------------------------------------------------------------

    def wait_at_gate(self, go_on: Callable[[], object]) -> None:
        """As `GateKeeper.wait`, without a thread that waits."""
        if self.may_write:
            go_on()
            return
        self._behind_gate = go_on
        self.notes.at_gate = True
        self.world.oracle.truth(self.config.job.uid).prepared.add(self.config.epoch)
        self.publish()
        self.meet("Gate", lambda: None)

    def open(self, gate: Gate) -> Problem | None:
        """As `driver.Driver.open`. Why not, None if it is taken."""
        try:
            if not self._gate.admits(gate.token):
                return None
        except GateConflict as e:
            return Problem(e.reason, e.message)
        restore, following = gate.restore, gate.next_checkpoint
        self.config = replace(self.config, restore=restore, next_checkpoint=following)
        self.world.oracle.gate_opens(self, self._pod)
        self.may_write = True
        expected, edges = unfinished_tasks(restore.latest), recorded_edges(restore.latest)
        self.take(ev.Restored(following, expected, is_fresh(self.config), edges))
        self._gate.open(gate.token)
        go_on, self._behind_gate = self._behind_gate, None
        if go_on is not None:
            self.meet("Opened", lambda: self.later(self.some(0.05, 0.5), go_on))
        return None

    def publish(self) -> None:
        self._dispatcher.publish()

    # --- what its script asks for ---------------------------------------------------------------------------

    def all_started(self) -> None:
        self.requests.all_queries_started(self.left)
        self._make_executors()
        self.later(self.some(1.0, 30.0), lambda: self.meet("Running", lambda: None))
        if self.config.spark_conf.get("script") == "throws" and self.coordinator.request is None:
            self.later(self.some(2.0, 5.0), lambda: self.fail_job(Boom()))

    @property
    def left(self) -> tuple[str, ...]:
        """As `Unstarted.left`: what the restored checkpoint has and the script has not started."""
        latest = self.config.restore.latest
        stages = latest.stages if latest and not self.config.restore.allow_non_restored_state else ()
        nothing, started = spent(stages), {query.uid for query in self.queries.values()}
        return tuple(s.uid for s in stages if not s.finished and s.uid not in nothing | started)

    def why_needs_query(self) -> str | None:
        """As `driver.Driver.why_needs_query`."""
        request = self.requests.request
        needed = why_needed(self.config.restore, request.mode if request is not None else None)
        if needed is None and not self.requests.stops:
            self.notes.nothing_left = True
            self.publish()
        return needed

    def checkpoint_due(self) -> None:
        if not self._terminated:
            self.take(ev.CheckpointDue())
            self.later(self.config.checkpointing.interval, self.checkpoint_due)

    def settle(self, query: Query) -> int | None:
        """The last batch that the query has committed by now."""
        if query.since is not None:
            done = int((self.world.loop.time() - query.since) / BATCH)
            query.since += done * BATCH
            bounded = self.world.plan.shape.bounded
            query.directory.batch += done
            if bounded is not None:
                query.directory.batch = min(query.directory.batch, bounded - 1)
        batch = query.directory.committed if query.directory.committed >= 0 else None
        query.figures = replace(query.figures, batch=batch, query=self._figures())
        return batch

    def sample(self) -> None:
        """Figures are reported without a new version, as by `event_loop.Loop`."""
        if self.world.plan.shape.autoscale and self.queries:
            for query in self.queries.values():
                self.settle(query)
            self.board.refresh(stages=stage_statuses(self.coordinator, self.queries))
            self._text = (-1, "")

    def _figures(self) -> QueryFigures:
        executors = self.status.executors
        return QueryFigures(load=Load(self.world.rows_per_second, 0.0, 100.0) if executors else None)

    # --- commands -------------------------------------------------------------------------------------------

    def terminate(self, request: TerminationRequest) -> Problem | None:
        """Why not, None if it is taken."""
        return _refusal(lambda: self.requests.terminate(request))

    def savepoint(self, request: SavepointRequest) -> Problem | None:
        """Why not, None if it is taken."""
        return _refusal(lambda: self.requests.savepoint(request))

    def change_executors(self, least: int, most: int) -> None:
        self._executors.change(least, most)

    def delete(self, savepoints: tuple[str, ...]) -> None:
        def delete(savepoint: str) -> None:
            self.world.oracle.deleted(self, savepoint)
            self.world.storage.savepoints.pop(savepoint, None)
            if savepoint not in self.status.deleted:
                self.board.update(deleted=(*self.status.deleted, savepoint))

        for savepoint in savepoints:
            self.later(self.some(0.1, 3.0), lambda s=savepoint: self.meet("Delete", lambda: delete(s)))

    def tell_records(self, reached: int) -> None:
        folder = (self.config.eviction_savepoint or "").rpartition("/")[0]
        there = [r for uri, r in self.world.storage.savepoints.items() if folder and uri.startswith(folder)]
        found = known(self.config, there, self.status.durable)
        told = KnownRecords(reached, tuple(found[n] for n in sorted(found)))
        self.later(self.some(0.1, 2.0), lambda: self.board.update(known=told))

    def complete(self, announced: int) -> None:
        self.take(ev.CheckpointCompleted(self._work.numbers.get(announced, announced)))

    def sigterm(self, grace: float) -> None:
        """As runtime/process/pod.py does it."""
        if self._evict_by is not None:
            return
        self._evict_by = self.world.loop.time() + max(grace - 3, 1)
        self.later(0.0, self._evict)

    def _evict(self) -> None:
        self.board.update(evicted=True)
        request_id = f"eviction-{self.config.epoch}"
        self.terminate(
            TerminationRequest(request_id, self.config.epoch, Mode.STOP, self.config.eviction_savepoint)
        )
        if not self.coordinator.has_tasks:
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

    # --- events and effects ---------------------------------------------------------------------------------

    def take(self, event: ev.Event) -> None:
        self._dispatcher.take(event)

    def take_of(self, query: Query, event: ev.Event) -> None:
        self._dispatcher.take_of(query, event)

    def enter(self, query: Query, event: ev.Event) -> None:
        self._dispatcher.enter(query, event)

    def work_on(self, queue: EffectQueue[Query]) -> None:
        step = self._dispatcher.next(queue) if self.alive else None
        if step is None:
            return

        def answer(event: ev.Event | None) -> None:
            self._dispatcher.done(queue, step, event)
            self.work_on(queue)

        def fail(error: Exception) -> None:
            self._dispatcher.failed(queue, step, error)
            self._script_hears()
            self.work_on(queue)

        def carry_out() -> None:
            if self._dispatcher.is_stale(step):
                answer(None)  # the query is dead
            else:
                self._work.carry_out(step, answer, fail)

        def begin() -> None:
            self.later(self.some(0.05, seconds(step.effect)), carry_out)

        self.meet(type(step.effect).__name__, begin, fail)

    def call_later(self, seconds: float, event: ev.Event) -> None:
        self.later(seconds, lambda: self.take(event))

    def interrupt(self, run: Query) -> None:
        self.settle(run)
        run.since = None

    def published(self, over: Sequence[Query]) -> None:
        failure = self.notes.failure
        if failure is not None and not self.failed:
            assert "boom" in failure.message, failure  # nothing else makes a job fail
            self.failed = True
            # The script may handle the exception and leave with 0.
            code = self._rng.choice((0, 1, 3))
            self.later(self.some(0.1, 1.0), lambda: self.leave(code, failure))
        self.script.look()

    def on_terminated(self) -> None:
        self._terminated = True
        # What a script does after its end was asked for decides the exit code, and nothing else.
        code = self._rng.choice((0, 0, 3)) if self.coordinator.request else 0
        self.later(self.some(0.1, 1.0), lambda: self.meet("Leave", lambda: self.leave(code, None)))

    # --- failures -------------------------------------------------------------------------------------------

    def query_fails(self, error: Exception) -> None:
        """A query dies by itself; where none runs, the script does."""
        live = [q for q in self.queries.values() if q.since is not None]
        if not live:
            return self.fail_job(error)
        self.interrupt(live[0])
        self._dispatcher.fail(live[0], error)
        return self._script_hears()

    def _script_hears(self) -> None:
        """Most scripts fail with their queries."""
        dead = [q.failure for q in self.queries.values() if q.task in self.coordinator.failed and q.failure]
        if dead and self.script.kind not in (Scripted.RETRY, Scripted.CARELESS):
            self.fail_job(dead[0])

    def fail_job(self, error: Exception) -> None:
        self._dispatcher.fail_job(error)

    # --- its status, and its end ----------------------------------------------------------------------------

    @property
    def status(self) -> DriverStatus:
        return self.board.status

    @property
    def waiters(self) -> list[Callable[[], None]]:
        return self.board.waiters

    @property
    def text(self) -> str:
        if self._text[0] != self.status.version:
            self._text = (self.status.version, codec.dumps(self.status))
        return self._text[1]

    def leave(self, code: int, problem: Problem | None) -> None:
        if problem is not None and self._terminated and self.coordinator.request is not None:
            problem = None
            self.board.update(problem=None)
        unchanged = self._unchanged_since
        self.board.update(exit_code=code, exit_reason="the script came to its end", unchanged_since=unchanged)
        truth, asked = self.world.oracle.truth(self.config.job.uid), self.coordinator.request is not None
        if self.may_write:
            failed = not asked and (code != 0 or problem is not None)
            truth.script_failed = self.config.epoch if failed else None
        closed = all(t.state is TaskState.CLOSED for t in self.coordinator.tasks.values())
        if (
            closed
            and self.coordinator.tasks
            and not asked
            and truth.script_failed is None
            and truth.last is not None
        ):
            truth.ended_well = truth.last[1]
        if problem is not None:
            self.board.update(phase=DriverPhase.FAILED, problem=problem, degraded=None)
        self._remove_executors()
        self._end(code, report(self.status))

    @property
    def _unchanged_since(self) -> int | None:
        """As `driver.Driver.unchanged_since`."""
        restore = self.config.restore
        if self.began is not None or not self.may_write or not restore.exact:
            return None
        return restore.latest.checkpoint if restore.latest else 0

    def _make_executors(self) -> None:
        """Spark makes them, and takes them away when the process ends in order. They wait for a node."""
        meta = self._pod["metadata"]
        owner = {"kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
        labels = {**meta["labels"], names.LABEL_COMPONENT: names.EXECUTOR}
        wanted = int(self.config.spark_conf.get("spark.executor.instances", "0"))
        for n in range(1, min(wanted, EXECUTORS) + 1):
            made = {"name": f"{meta['name']}-exec-{n}", "labels": labels, "ownerReferences": [owner]}
            with contextlib.suppress(Refusal):  # the namespace is being deleted
                self.world.server.create(self.me, "pods", meta["namespace"], {"metadata": made, "spec": {}})

    def _remove_executors(self) -> None:
        for key, executor in self.world.server.dependents(self._pod["metadata"]["uid"]):
            options = {"preconditions": {"uid": executor["metadata"]["uid"]}}
            self.world.server.delete(self.me, key, options)

    def kill(self) -> None:
        """SIGKILL: what it has written for the kubelet stays."""
        if self.alive:
            self._end(137, self._message)

    def _end(self, code: int, message: str) -> None:
        for query in self.queries.values():
            self.interrupt(query)
        self.alive = False
        self.board.wake()
        self._over(code, message)


def _refusal(request: Callable[[], None]) -> Problem | None:
    try:
        request()
    except TerminationConflict as e:
        return Problem(e.reason, e.message)
    return None
