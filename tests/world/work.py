"""The coordinator's effects, carried out on models: one method each, which returns the event that says how it went.

As runtime/driver/effects.py does it: the effects of one task in order, tasks side by side; each takes a while, and may be
its last.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streamjob.api.types import timestamp
from streamjob.protocol import effects as fx
from streamjob.protocol import events as ev
from streamjob.protocol.events import Event
from streamjob.protocol.messages import Problem
from streamjob.protocol.records import CheckpointRecord, StageRecord, TaskRecord
from streamjob.runtime.driver.event_loop import OF_RUN

from .query import BATCH, Query

if TYPE_CHECKING:
    from .driver import Driver

# The longest that an effect takes.
DURATIONS = {
    fx.StopAtBoundary: BATCH,
    fx.CatchUp: 2 * BATCH,
    fx.FireMaxWatermark: 3.0,
    fx.StoreCheckpoint: 4.0,
    fx.RetryLater: 5.0,
}


class Work:
    """`numbers`: the coordinator's number of each announced checkpoint; see `runtime.driver.effects.Work.number_of`."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.numbers: dict[int, int] = {}
        self._lanes: dict[str, deque[tuple[Any, Query | None]]] = {}  # by task
        self._busy: set[str] = set()
        self._records: dict[int, CheckpointRecord] = {}
        self._targets: dict[int, str] = {}  # of savepoints beside the run

    def put(self, effect: Any) -> None:
        lane = getattr(effect, "task", "")
        self._lanes.setdefault(lane, deque()).append((effect, self.driver.queries.get(lane)))
        self._next(lane)

    def thrown(self, lane: str) -> None:
        """What was under way has failed, and what was to follow does not."""
        self._lanes.pop(lane, None)
        self._busy.discard(lane)

    def _next(self, lane: str) -> None:
        if lane in self._busy or not self._lanes.get(lane):
            return
        self._busy.add(lane)
        effect, run = self._lanes[lane].popleft()

        def is_stale() -> bool:
            """As `Loop._is_stale`."""
            return isinstance(effect, OF_RUN) and self.driver.queries.get(lane) is not run

        def done() -> None:
            event = None if is_stale() else getattr(self, f"_{type(effect).__name__.lower()}")(effect)
            if event is None and type(effect) is not fx.FireMaxWatermark:
                self.driver.published()
            answer(event)

        def answer(event: Event | None) -> None:
            self._busy.discard(lane)
            if self.driver.alive and event is not None and self.driver.notes.failure is None:
                self.driver.take(event)
            self._next(lane)

        def begin() -> None:
            self.driver.later(self.driver.some(0.05, DURATIONS.get(type(effect), 0.1)), done)

        self.driver.meet(type(effect).__name__, begin, lane)

    def _stopatboundary(self, effect: fx.StopAtBoundary) -> Event:
        query = self.driver.queries[effect.task]
        batch = self.driver.settle(query)
        query.since = None
        return ev.BoundaryReached(effect.task, batch)

    _catchup = _stopatboundary

    def _firemaxwatermark(self, effect: fx.FireMaxWatermark) -> Event | None:
        run = self.driver.queries[effect.task]
        directory = run.directory
        if not directory.drained:
            directory.drained = True
            directory.batch += 1  # its offsets; the commit follows

        def fired() -> None:
            if self.driver.queries[effect.task] is run:
                directory.flushed = True
                self.driver.take(ev.MaxWatermarkFired(effect.task, directory.batch))

        self.driver.meet("Flushed", lambda: self.driver.later(0.2, fired), effect.task)
        return None

    def _finish(self, effect: fx.Finish) -> Event:
        return ev.Finished(effect.task)

    def _close(self, effect: fx.Close) -> Event:
        return ev.Closed(effect.task)

    def _cancel(self, effect: fx.Cancel) -> None:
        pass

    def _snapshot(self, effect: fx.Snapshot) -> Event:
        query = self.driver.queries[effect.task]
        batch = self.driver.settle(query)
        self._pre_commit(query, effect.number)
        return ev.SnapshotTaken(effect.task, effect.number, batch)

    def _pre_commit(self, query: Query, number: int) -> None:
        if query.sink is not None and query.directory.batch > query.sink.visible:
            query.sink.pre_commit(f"{number}-{self.driver.config.epoch}", number, query.directory.batch)

    def _storecheckpoint(self, effect: fx.StoreCheckpoint) -> Event:
        for task, number in effect.pre_commit.items():
            self._pre_commit(self.driver.queries[task], number)
        record = CheckpointRecord(
            checkpoint=effect.number,
            epoch=self.driver.config.epoch,
            scenario=effect.scenario,
            request_id=effect.request_id,
            savepoint=effect.savepoint,
            completed_at=timestamp(self.driver.world.now()),
            stages=tuple(self._stage_record(q, effect) for q in reversed(self.driver.queries.values())),
        )
        self.driver.notes.stuck = None
        if effect.savepoint is not None and self.driver.world.storage.full:
            self.driver.notes.stuck = Problem("StorageFull", f"cannot write {effect.savepoint}", "Make room")
            return ev.CheckpointFailed(effect.number)
        if effect.savepoint is not None and effect.scenario is None:
            self.driver.world.storage.savepoints[effect.savepoint] = record
            self._targets[effect.number] = effect.savepoint
        elif effect.savepoint is not None:
            # An attempt before this one may have written the manifest: that savepoint is the one that counts.
            first = self.driver.world.storage.savepoints.setdefault(effect.savepoint, record)
            record = replace(first, epoch=self.driver.config.epoch, stages=record.stages)
        self._records[effect.number] = record
        return ev.CheckpointDurable(effect.number)

    def _stage_record(self, query: Query, effect: fx.StoreCheckpoint) -> StageRecord:
        done = query.task in effect.finished
        names = tuple(query.sink.pending) if query.sink else ()
        batch = self.driver.settle(query)
        task = TaskRecord(
            0, f"{self.driver.config.checkpoints}/{query.uid}/0", batch, done, transactions=names
        )
        operators = tuple(replace(o, finished=done) for o in query.figures.operators)
        return StageRecord(query.uid, (task,), operators)

    def _retrylater(self, effect: fx.RetryLater) -> Event:
        return ev.RetryDue()

    def _announcecheckpoint(self, effect: fx.AnnounceCheckpoint) -> None:
        record = self._records.pop(effect.number)
        self.numbers[record.checkpoint] = effect.number
        asked = self.driver.status.savepoint
        if asked is not None and asked.request_id == record.request_id:
            self.driver.update(savepoint=replace(asked, completed=record, problem=None, over=True))
        if record.savepoint is not None and record.scenario is None:
            return
        self.driver.update(completed=record)
        if record.scenario is not None:
            self.driver.durable()

    def _abortcheckpoint(self, effect: fx.AbortCheckpoint) -> None:
        asked, target = self.driver.status.savepoint, self._targets.pop(effect.number, None)
        if asked is not None and effect.request_id == asked.request_id:
            problem = Problem("SavepointGivenUp", effect.reason)
            self.driver.update(savepoint=replace(asked, problem=problem, over=True))
            self.driver.world.storage.savepoints.pop(target or "", None)

    def _notifycomplete(self, effect: fx.NotifyComplete) -> None:
        query = self.driver.queries[effect.task]
        if query.sink is not None:
            query.sink.commit(effect.number)

    def _aborttransactions(self, effect: fx.AbortTransactions) -> None:
        pass
