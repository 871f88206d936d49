"""The user's script in a driver: which queries it starts when, and what it does about those that have ended.

What of it reaches the dispatcher is what runtime/driver/{driver,query_start}.py say of such a script.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from streamjob.protocol.engine import events as ev
from streamjob.protocol.formats.records import OperatorKind, OperatorRecord
from streamjob.protocol.lifecycle import TaskState
from streamjob.protocol.messages.driver_status import Problem
from streamjob.protocol.restore.recovery import AlreadyDrained, Start, stage_plan
from streamjob.runtime.driver.requests import RESTART_GRACE
from streamjob.runtime.driver.script.before_first_query import Patience
from streamjob.runtime.query.figures import Figures

from .plan import Scripted
from .query import BATCH, Query

if TYPE_CHECKING:
    from .driver import Driver


class Script:
    """`begin` is its first line. `ended`: nothing of it runs any more."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.kind = driver.world.plan.shape.script
        self.waits = self.ended = False
        self._to_start = list(driver.world.plan.shape.stages)
        self._busy = False  # between two of its lines: it waits for nothing
        self._dead: set[Query] = set()  # failed runs that it has heard of
        self._patience = Patience()
        self._stubborn = driver.config.epoch % 3 == 0

    @property
    def _in_turn(self) -> bool:
        return self.kind in (Scripted.IN_TURN, Scripted.NOTES)

    # --- its lines ------------------------------------------------------------------------------------------

    def begin(self) -> None:
        driver = self.driver
        if driver.config.spark_conf.get("script") == "broken":
            return driver.leave(1, Problem("ScriptFailed", "boom", "Mend the script", retryable=True))
        return driver.wait_at_gate(self._first_query)

    def _first_query(self) -> None:
        driver = self.driver
        latest, again = driver.config.restore.latest, driver.config.restore.again
        if latest is not None and latest.over and not again and not latest.uncommitted:
            problem = Problem(AlreadyDrained.reason, "nothing is left to resume", "Make a new StreamJob")
            return driver.leave(1, problem)
        if self.kind is Scripted.POLLS:
            return self._poll(driver.some(0.0, 300.0) * driver.some(0.0, 1.0))
        return self._start_first()

    def _poll(self, left: float) -> None:
        """It starts nothing yet.

        :param left: seconds until something happens that makes it start its queries.
        """
        driver = self.driver
        if driver.failed:
            return None
        if left <= 0:
            return self._start_first()
        over = self._patience.is_over(driver.requests.request, driver.world.loop.time())
        if over and driver.why_needs_query() is None:
            return driver.leave(3 if self._stubborn else 0, None)  # what it makes of SystemExit
        return driver.later(1.0, lambda: self._poll(left - 1.0))

    def _start_first(self) -> None:
        driver = self.driver
        self._start_next()

        def go_on(error: Exception | None = None) -> None:
            """A query that fails by then does not keep the script from its next line."""
            if error is not None:
                driver.query_fails(error)
            driver.later(driver.some(0.1, 2.0), self._wait)

        driver.meet("Started", go_on, go_on)
        if driver.config.checkpointing.interval:
            driver.later(driver.config.checkpointing.interval, driver.checkpoint_due)

    def _start_next(self) -> None:
        """All of them; or one, if it takes them in turn, and those that have finished."""
        self.driver.began = self.driver.began or self.driver.world.loop.time()
        while self._to_start:
            runs = self.start(self._to_start.pop(0))
            if runs and self._in_turn:
                return

    def _wait(self) -> None:
        """It waits for its queries without end; or, if nothing follows in it, falls off its end, and they are
        the job.
        """
        if self.driver.failed:
            return
        self.waits = True
        self.driver.all_started()
        if self.kind is Scripted.TOGETHER:
            self._end()
        if self.kind is Scripted.REFRESH:
            self._refresh_later()
        self.look()

    def look(self) -> None:
        """Something has changed: it continues, if what it waits for is over."""
        if not self.waits or self.ended or self._busy or self.driver.failed:
            return
        driver, c = self.driver, self.driver.coordinator
        runs = [q for q in driver.queries.values() if not q.over.is_set()]
        failed = [q for q in driver.queries.values() if q.task in c.failed]
        if driver.requests.stops and not runs:
            return self._next_line(0.05, 0.5, self._end)  # SystemExit comes out of its wait
        if self.kind is Scripted.RETRY and failed and not driver.requests.stops:
            return self._next_line(0.1, 5.0, self._start_failed)
        if failed:
            # It sleeps, and looks for nothing. A drain needs what is dead: see
            # `Driver._fail_waiting_drain_of_the_dead`.
            if driver.requests.drains and not runs:
                self._next_line(
                    RESTART_GRACE,
                    RESTART_GRACE + 1.0,
                    lambda: driver.fail_job(failed[0].failure or Exception()),
                )
            return None
        if self._in_turn and self._to_start and not runs:
            return self._next_line(0.1, 3.0, self._start_next)
        if not runs and not self._to_start:
            # One that notes what is over has something else to do.
            return self._next_line(0.05, 30.0 if self.kind is Scripted.NOTES else 0.5, self._end)
        return None

    def _next_line(self, low: float, high: float, line: Callable[[], object]) -> None:
        def go_on() -> None:
            self._busy = False
            if not (self.ended or self.driver.failed):
                line()
                self.look()

        self._busy = True
        self.driver.later(self.driver.some(low, high), go_on)

    def _end(self) -> None:
        self.ended = True
        if self.driver.coordinator.has_tasks:
            return self.driver.take(ev.ScriptEnded())
        if self.driver.why_needs_query() is not None:
            return self.driver.leave(1, Problem("NoQueryStarted", "no query", "Start one"))
        return self.driver.leave(0, None)

    def _refresh_later(self) -> None:
        """`query.stop(); query = ….start()`, again and again, of its last query."""

        def refresh() -> None:
            query = list(self.driver.queries.values())[-1]
            if self.ended or self._busy or self.driver.requests.request is not None or query.over.is_set():
                return self._refresh_later()
            self._busy = True
            self.driver.take(ev.ScriptStopped(query.task))
            return self._until_over(query)

        self.driver.later(self.driver.some(5.0, 60.0), refresh)

    def _until_over(self, query: Query) -> None:
        if not query.over.is_set():
            return self.driver.later(0.2, lambda: self._until_over(query))
        if not (self.driver.requests.stops or self.driver.coordinator.terminated or self.driver.failed):
            self._start_again(query)
        self._busy = False
        self._refresh_later()
        return self.look()

    # --- runs -----------------------------------------------------------------------------------------------

    def _start_failed(self) -> None:
        for query in [q for q in self.driver.queries.values() if q.task in self.driver.coordinator.failed]:
            self._start_again(query)

    def _start_again(self, query: Query) -> None:
        task = self.driver.coordinator.tasks[query.task]
        again = task.can_start_again or task.state is TaskState.FAILED
        if self.driver.queries[query.uid] is query and again:
            self.start(query.uid)

    def start(self, uid: str) -> bool:
        """A run of the stage begins, the first or another one; whether there is something to wait for."""
        driver, world = self.driver, self.driver.world
        root, latest, shape = driver.config.checkpoints, driver.config.restore.latest, world.plan.shape
        known = {s.uid: s for s in latest.stages} if latest else {}
        plan = stage_plan(uid, 1, known.get(uid)).tasks[0]
        before = driver.queries.get(uid)
        directory = world.storage.directory(root, uid)
        sink = world.storage.sink(root, uid) if shape.transactional else None
        operators = (OperatorRecord(f"{uid}/source-0", OperatorKind.SOURCE, "model", False),)
        query = Query(uid, directory, sink, Figures(operators=operators))
        first = shape.stages.index(uid) == 0
        upstream = () if first or not shape.chained else (shape.stages[shape.stages.index(uid) - 1],)
        if sink is not None and before is None:
            sink.recover(plan.record.transactions if plan.record else ())
        if plan.start is Start.FINISHED and before is None:
            if self.kind is Scripted.NOTES and plan.record is not None and not plan.record.transactions:
                return False
            query.finished = True
            batch = directory.batch if directory.batch >= 0 else None
            driver.enter(query, ev.TaskRestoredFinished(query.task, upstream, batch))
            return False
        reads = not directory.drained and driver.requests.request is None
        started = ev.TaskStarted(query.task, upstream, commits=sink is not None, drained=directory.drained)
        driver.enter(query, started)
        world.oracle.query_started(driver, query)
        if not reads or driver.coordinator.tasks[query.task].step is not None:
            return True
        query.since = world.loop.time()
        if shape.bounded is not None and (self._in_turn or not upstream):
            # A round reads what has come since the last one.
            batches = shape.bounded if driver.config.round else max(shape.bounded - 1 - directory.batch, 0)
            left = batches * BATCH
            exhausted = self.kind is Scripted.IN_TURN
            driver.later(left, lambda: self._input_ends(query, exhausted=exhausted))
        return True

    def _input_ends(self, query: Query, *, exhausted: bool) -> None:
        """:param exhausted: by its trigger, availableNow: as far as its script knows it may start again."""
        if query.since is None:
            return
        self.driver.interrupt(query)
        if exhausted:
            self.driver.take_of(query, ev.RunEnded(query.task, exhausted=True))
        else:
            self.driver.take_of(query, ev.InputEnded(query.task))
