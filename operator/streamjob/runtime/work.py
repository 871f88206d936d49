"""The coordinator's effects, carried out: one method each, which returns the event that says how it went."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone

from ..protocol import effects as fx
from ..protocol.coordinator import Coordinator
from ..protocol.effects import Effect
from ..protocol.errors import StreamJobError
from ..protocol.messages import DriverConfig
from ..protocol.records import CheckpointRecord
from .board import StatusBoard
from .reporting import Notes, problem_of
from .savepoint import write_savepoint
from .stage import Stage

log = logging.getLogger("streamjob")

Event = Callable[[], "list[Effect]"]

RETRY_SECONDS = (2.0, 5.0, 15.0, 30.0)  # between attempts to write the final checkpoint; the last one repeats


class Work:
    """Runs in a thread for each task. May wait; never holds the driver's lock."""

    def __init__(
        self,
        config: DriverConfig,
        coordinator: Coordinator,
        stages: dict[str, Stage],
        notes: Notes,
        board: StatusBoard,
        publish: Callable[[], None],
    ) -> None:
        self._config = config
        self._coordinator = coordinator
        self._stages = stages
        self._notes = notes
        self._board = board
        self._publish = publish
        self._records: dict[int, CheckpointRecord] = {}
        self._numbers: dict[int, int] = {}
        self.durable = threading.Event()  # the final checkpoint is written, whether the index has it or not

    def carry_out(self, effect: Effect) -> Event:
        """:raises StreamJobError: the task cannot end this way; its next epoch will go on from what is durable."""
        if isinstance(effect, fx.StopAtBoundary):
            return self._stop(effect.task)
        if isinstance(effect, fx.FireMaxWatermark):
            return self._fire(effect.task)
        if isinstance(effect, fx.StoreCheckpoint):
            return self._store(effect)
        if isinstance(effect, fx.RetryLater):
            return self._wait()
        if isinstance(effect, fx.AnnounceCheckpoint):
            return self._announce(effect.number)
        if isinstance(effect, fx.Finish):
            return lambda: self._coordinator.finished(effect.task)
        if isinstance(effect, fx.Close):
            return lambda: self._coordinator.closed(effect.task)
        return list  # NotifyComplete: every sink of this version is durable at each batch

    def number_of(self, announced: int) -> int:
        """The coordinator's number of a checkpoint that the index knows as `announced`.

        They differ where the manifest of an attempt was written and the answer lost: the savepoint kept its number, and the
        retry has the next one.
        """
        return self._numbers.get(announced, announced)

    def _stop(self, task: str) -> Event:
        batch = self._stages[task].stop_at_boundary(self._say)
        return lambda: self._coordinator.boundary_reached(task, batch)

    def _fire(self, task: str) -> Event:
        self._say(f"stage {task}: firing all event-time timers")
        result = self._stages[task].fire_max_watermark()
        if result is None:
            batch = self._coordinator.tasks[task].batch
            log.info("stage %s: holds no state, nothing to fire", task)
        else:
            batch = result.batch
            self._notes.flushed_rows = (self._notes.flushed_rows or 0) + (result.output_rows or 0)
            log.info("stage %s: max watermark fired in batch %s", task, batch)
        return lambda: self._coordinator.max_watermark_fired(task, batch)

    def _store(self, effect: fx.StoreCheckpoint) -> Event:
        number = effect.number
        try:
            self._records[number] = self._write(number, effect.finished)
        except StreamJobError as e:
            # Nothing is lost: the queries stand at their boundaries. Say what is wrong and try again, for a stop that
            # gave up would throw away a job that only waits for a disk.
            log.warning("checkpoint %d: %s", number, e)
            self._notes.failures += 1
            self._notes.stuck = problem_of(e)
            return lambda: self._coordinator.checkpoint_failed(number)
        self._notes.stuck = None
        return lambda: self._coordinator.checkpoint_durable(number)

    def _wait(self) -> Event:
        wait = RETRY_SECONDS[min(self._notes.failures, len(RETRY_SECONDS)) - 1]
        log.info("the next attempt follows in %.0f s", wait)
        time.sleep(wait)
        return self._coordinator.retry

    def _write(self, number: int, finished: frozenset[str]) -> CheckpointRecord:
        request = self._coordinator.request
        target = request.savepoint if request else None
        scenario = next(t.scenario for t in self._coordinator.tasks.values() if t.scenario is not None)
        record = CheckpointRecord(
            checkpoint=number,
            epoch=self._config.epoch,
            scenario=scenario,
            request_id=request.request_id if request else None,
            savepoint=target,
            completed_at=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            stages=tuple(stage.record(uid in finished) for uid, stage in self._stages.items()),
        )
        if target is None:
            return record
        directories = {(uid, 0): stage.directory for uid, stage in self._stages.items()}
        first = next(iter(self._stages.values()))
        manifest = write_savepoint(
            first.files, self._config.job, record, directories, target, progress=self._say
        )
        log.info("savepoint %s: %d files, %d bytes", target, len(manifest.files), manifest.size)
        # An attempt before this one, or an earlier epoch, may have written the manifest and died: that savepoint is the
        # one that counts. It is this epoch that brings it into the index.
        return replace(manifest.checkpoint, epoch=self._config.epoch)

    def _announce(self, number: int) -> Event:
        self._say("waiting for the checkpoint index")
        record = self._records[number]
        self._numbers[record.checkpoint] = number
        self._board.update(completed=record)
        self.durable.set()
        return list

    def _say(self, progress: str) -> None:
        self._notes.progress = progress
        self._publish()
