"""The coordinator's effects, carried out on models, in the place of runtime/driver/effects.py: one method
each, which returns the event that reports the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from streamjob.protocol.engine import effects as fx
from streamjob.protocol.engine import events as ev
from streamjob.protocol.engine.effects import Effect
from streamjob.protocol.engine.events import Event
from streamjob.protocol.formats.records import CheckpointRecord, StageRecord, TaskRecord
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.driver_status import Problem
from streamjob.protocol.times import timestamp
from streamjob.runtime.driver.dispatcher import QueuedEffect
from streamjob.runtime.driver.live_savepoints import LiveSavepoints, SavepointAborted
from streamjob.runtime.startup.carried_stages import ended_by

from .query import BATCH, Query

if TYPE_CHECKING:
    from .driver import Driver

# The longest that an effect takes.
DURATIONS: dict[type, float] = {
    fx.StopAtBoundary: BATCH,
    fx.CatchUp: 2 * BATCH,
    fx.FireMaxWatermark: 3.0,
    fx.StoreCheckpoint: 4.0,
    fx.RetryLater: 5.0,
}


def seconds(effect: Effect) -> float:
    """The longest that it takes."""
    return DURATIONS.get(type(effect), 0.1)


class EffectRunner:
    """`numbers`: the coordinator's number of each announced checkpoint.

    A savepoint that stands keeps its own here; savepoints/ write.py gives it the new one, and the index then
    has its request twice, which the oracle does not allow (V3).
    """

    def __init__(self, driver: Driver, live_savepoints: LiveSavepoints) -> None:
        self.driver = driver
        self._live_savepoints = live_savepoints
        self.numbers: dict[int, int] = {}
        self._newest = 0  # number of the newest announced checkpoint
        self._records: dict[int, CheckpointRecord] = {}
        self._targets: dict[int, str] = {}  # of live savepoints

    def carry_out(
        self,
        step: QueuedEffect[Query],
        answer: Callable[[Event | None], None],
        fail: Callable[[Exception], None],
    ) -> None:
        effect, run = step.effect, step.run
        match effect:
            case fx.StopAtBoundary() | fx.CatchUp():
                assert run is not None
                answer(self._stop(run))
            case fx.FireMaxWatermark():
                assert run is not None
                self._fire(run, answer, fail)
            case fx.Finish(task):
                answer(ev.Finished(task))
            case fx.Close(task):
                answer(ev.Closed(task))
            case fx.Snapshot():
                answer(self._snapshot(effect))
            case fx.StoreCheckpoint():
                answer(self._store(effect))
            case fx.RetryLater():
                answer(ev.RetryDue())
            case fx.AnnounceCheckpoint(number):
                answer(self._announce(number))
            case fx.AbortCheckpoint():
                answer(self._abort(effect))
            case fx.NotifyComplete(task, number):
                answer(self._commit(task, number))
            case _:
                answer(None)

    def _stop(self, run: Query) -> Event:
        batch = self.driver.settle(run)
        run.since = None
        return ev.BoundaryReached(run.task, batch)

    def _fire(
        self, run: Query, answer: Callable[[Event | None], None], fail: Callable[[Exception], None]
    ) -> None:
        directory = run.directory
        self.driver.world.oracle.fires(self.driver)
        if not directory.drained:
            directory.drained = True
            directory.batch += 1  # its offsets; the commit follows

        def commit() -> None:
            directory.flushed = True
            answer(ev.MaxWatermarkFired(run.task, directory.batch))

        self.driver.meet("Flushed", lambda: self.driver.later(0.2, commit), fail)

    def _snapshot(self, effect: fx.Snapshot) -> Event:
        query = self.driver.queries[effect.task]
        batch = self.driver.settle(query)
        self._pre_commit(query, effect.number)
        return ev.SnapshotTaken(effect.task, effect.number, batch)

    def _pre_commit(self, query: Query, number: int) -> None:
        batch = query.directory.committed
        if query.sink is not None and batch > query.sink.visible:
            query.sink.pre_commit(f"{number}-{self.driver.config.epoch}", number, batch)

    def _store(self, effect: fx.StoreCheckpoint) -> Event | None:
        driver, target = self.driver, effect.savepoint
        beside = target if effect.scenario is None else None
        if beside is not None:
            try:
                self._live_savepoints.refuse_unwanted(effect.number)
            except SavepointAborted:
                return None
        for task, number in effect.pre_commit.items():
            self._pre_commit(driver.queries[task], number)
        stages = self._stages(effect)
        record = CheckpointRecord(
            checkpoint=effect.number,
            epoch=driver.config.epoch,
            scenario=ended_by(effect.scenario, stages),
            request_id=effect.request_id,
            savepoint=target,
            completed_at=timestamp(driver.world.now()),
            stages=stages,
        )
        if target is not None and driver.world.storage.full:
            problem = Problem("StorageFull", f"cannot write {target}", "Make room")
            if beside is not None:
                self._live_savepoints.stuck(effect.request_id or "", problem)
            else:
                driver.notes.stuck = problem
            return ev.CheckpointFailed(effect.number)
        if beside is None:
            driver.notes.stuck = None
        else:
            self._targets[effect.number] = beside
        if beside is not None:
            driver.world.storage.savepoints[beside] = record
        elif target is not None:
            # That of an attempt before this one is kept, under this number (`savepoints.write`): by now,
            # another checkpoint may have its own.
            driver.world.storage.savepoints[target] = record
        self._records[effect.number] = record
        return ev.CheckpointDurable(effect.number)

    def _stages(self, effect: fx.StoreCheckpoint) -> tuple[StageRecord, ...]:
        """As `Checkpoints._stages_of`."""
        driver, latest = self.driver, self.driver.config.restore.latest
        started = tuple(self._stage_record(q, effect) for q in reversed(driver.queries.values()))
        carried = tuple(
            replace(
                self._as_of_now(s),
                carried_from=latest.checkpoint if s.carried_from is None else s.carried_from,
            )
            for s in (latest.stages if latest else ())
            if latest and s.uid not in driver.queries
        )
        assert effect.scenario is not Scenario.DRAIN or all(s.finished for s in carried)
        return started + carried

    def _as_of_now(self, stage: StageRecord) -> StageRecord:
        (task,) = stage.tasks
        directory = self.driver.world.storage.directory(self.driver.config.checkpoints, stage.uid)
        return stage if task.finished else replace(stage, tasks=(replace(task, batch=directory.committed),))

    def _stage_record(self, query: Query, effect: fx.StoreCheckpoint) -> StageRecord:
        done = query.task in effect.finished
        names = tuple(query.sink.pending) if query.sink else ()
        batch = self.driver.settle(query)
        task = TaskRecord(
            0, f"{self.driver.config.checkpoints}/{query.uid}/0", batch, done, transactions=names
        )
        operators = tuple(replace(o, finished=done) for o in query.figures.operators)
        upstream = self.driver.coordinator.upstream(query.uid)
        return StageRecord(query.uid, (task,), operators, upstream=upstream)

    def _announce(self, number: int) -> None:
        record = self._records.pop(number)
        self.numbers[record.checkpoint] = number
        if record.request_id is not None:
            self._live_savepoints.completed(record.request_id, record)
        if record.savepoint is not None and record.scenario is None:
            return
        if number > self._newest:
            self._newest = number
            self.driver.board.update(completed=record)
        if record.scenario is not None:
            self.driver.durable()

    def _abort(self, effect: fx.AbortCheckpoint) -> None:
        self._live_savepoints.drop(effect.number)
        if effect.request_id is not None and not effect.again:
            self._live_savepoints.abort(effect.request_id, effect.reason)
            self.driver.world.storage.savepoints.pop(self._targets.pop(effect.number, ""), None)

    def _commit(self, task: str, number: int) -> None:
        query = self.driver.queries[task]
        if query.sink is not None:
            query.sink.commit(number)
