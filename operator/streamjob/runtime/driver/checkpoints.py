"""Takes checkpoints and writes savepoints: the effects of a checkpoint from its snapshots to its
announcement.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from ...protocol.engine import effects as fx
from ...protocol.engine import events as ev
from ...protocol.engine.coordinator import Coordinator
from ...protocol.engine.events import Event
from ...protocol.errors import StreamJobError
from ...protocol.formats.records import CheckpointRecord, StageRecord
from ...protocol.graph import task_id
from ...protocol.lifecycle import Scenario
from ...protocol.messages.driver_config import DriverConfig
from ...protocol.messages.driver_status import AbortedCheckpoint, Problem
from ...protocol.restore.recovery import NonRestoredState
from ...storage.clock import now
from ...storage.hadoop import HadoopFiles
from ..query.run import Run
from ..query.runs import Runs
from ..query.stage_record import stage_record
from ..query.table_versions import table_versions
from ..savepoints.catalog import delete_savepoint
from ..savepoints.incomplete import delete_half_written
from ..savepoints.write import write_savepoint
from ..spark.checkpoint_dir import CheckpointDir
from ..startup.carried_stages import CarriedStages, at_the_end, ended_by, left
from ..startup.missing_stages import not_drained
from .live_savepoints import LiveSavepoints
from .status import Notes, problem_of
from .status_board import StatusBoard

log = logging.getLogger("streamjob")

# Between attempts to write a checkpoint, where the last one repeats; and to commit or abort transactions,
# where it does not.
RETRY_SECONDS = (2.0, 5.0, 15.0, 30.0)


class CheckpointAborted(StreamJobError):
    """A final checkpoint is not wanted any more. Nobody is told: the one in its place reports."""

    reason = "CheckpointAborted"


class Checkpoints:
    """Carries out the effects of checkpoints for `EffectRunner`. Each method returns the resulting event.

    The effects of several checkpoints may be carried out at the same time.
    """

    def __init__(
        self,
        config: DriverConfig,
        coordinator: Coordinator,
        runs: Runs[Run],
        notes: Notes,
        board: StatusBoard,
        carried: CarriedStages,
        say: Callable[[str], Callable[[str], None]],
        lock: AbstractContextManager[object],
        live_savepoints: LiveSavepoints,
    ) -> None:
        self._config = config
        self._coordinator = coordinator
        self._runs = runs
        self._notes = notes
        self._board = board
        self._carried = carried
        self._say = say  # returns a function that puts the progress of a task, or of the job, in the status
        self._lock = lock  # of the coordinator: held for single reads of its graph only
        self._records: dict[int, CheckpointRecord] = {}
        self._causes: dict[int, str] = {}  # why a checkpoint could not be written, by number
        self.live_savepoints = live_savepoints
        self._targets: dict[int, str] = {}  # URIs of on-demand savepoints, by number
        self._begun: dict[int, float] = {}  # when a checkpoint began, on the clock of time.monotonic()
        self.recorded: dict[str, tuple[str, ...]] = {}  # transactions by task, in the newest durable record
        self._retries = 0  # retries in a row; a periodic checkpoint is not tried again
        # One final checkpoint is written at a time: the next one has the same savepoint.
        self._storing_final = threading.Lock()
        self._announcing = threading.Lock()
        self._newest = 0  # number of the newest announced checkpoint
        self.durable = threading.Event()  # the final checkpoint is written, in the index or not

    def snapshot(self, effect: fx.Snapshot) -> Event:
        """Take the task's snapshot. The query is not paused for it, see `_stages_of`."""
        self._begun.setdefault(effect.number, time.monotonic())
        run = self._runs[effect.task]
        batch = run.directory.latest_commit()
        if run.transactions is not None:
            run.transactions.pre_commit(effect.number, batch)
        return ev.SnapshotTaken(effect.task, effect.number, batch)

    def store(self, effect: fx.StoreCheckpoint) -> Event | None:
        if effect.scenario is None and effect.savepoint is not None:
            return self._store_beside(effect, effect.savepoint)
        if effect.scenario is None:
            return self._store(effect)
        with self._storing_final:
            return self._store(effect)

    def _store(self, effect: fx.StoreCheckpoint) -> Event | None:
        number = effect.number
        begun = self._begun.setdefault(number, time.monotonic())
        try:
            self._records[number] = self._write(self._pre_commit(effect))
        except CheckpointAborted as e:
            log.info("checkpoint %d: %s", number, e.message)
            return None
        except NonRestoredState:
            raise  # no further attempt can help
        except StreamJobError as e:  # any other error fails the queries, which tells the script
            # Nothing is lost. Report the problem and try again, unless it is a periodic checkpoint. In a
            # stop, the queries stand at their boundaries: giving up would throw away a job that only waits
            # for disk space.
            log.warning("checkpoint %d: %s", number, e)
            self._causes[number] = problem_of(e).message  # reported if a periodic one is aborted
            if effect.scenario is not None:
                self._notes.stuck = problem_of(e)
            return ev.CheckpointFailed(number)
        self._notes.stuck, self._retries = None, 0
        self._begun.pop(number, None)
        log.info("checkpoint %d: durable after %.3f s", number, time.monotonic() - begun)
        return ev.CheckpointDurable(number)

    def _store_beside(self, effect: fx.StoreCheckpoint, target: str) -> Event | None:
        """Write an on-demand savepoint. No failure of it fails the job."""
        number, request_id = effect.number, effect.request_id or ""
        begun = self._begun.setdefault(number, time.monotonic())
        self._targets[number] = target
        problem: Problem | None = None
        try:
            self.live_savepoints.enter(number)
            delete_half_written(self.files, self._config.job, target)
            self._records[number] = self._write(self._pre_commit(effect))
        except Exception as e:
            log.warning("savepoint %s: %s", request_id, e)
            problem = problem_of(e, "it could not be written")
        if self.live_savepoints.leave(number):
            if self.live_savepoints.is_over(request_id):  # else another attempt is about to use the same URI
                self._discard(number)
            return None
        if problem is not None:
            self.live_savepoints.stuck(request_id, problem)
            return ev.CheckpointFailed(number)
        self._retries = 0
        log.info("savepoint %s: durable after %.3f s", request_id, time.monotonic() - begun)
        return ev.CheckpointDurable(number)

    def _pre_commit(self, effect: fx.StoreCheckpoint) -> fx.StoreCheckpoint:
        """Pre-commit what the sinks of tasks hold that stand at their end, or have failed.

        :returns: the effect, with the batch up to which each of them is pre-committed. The record has that
            one: a run that was interrupted with a failed one may commit another batch at this moment.
        """
        batches = dict(effect.batches)
        for task, of in effect.pre_commit.items():
            run = self._runs[task]
            if run.transactions is not None:
                batch = batches[task] if task in batches else run.directory.latest_commit()
                done = run.transactions.pre_commit(of, batch)
                batches.setdefault(task, done)
        return replace(effect, batches=batches)

    def _abort_savepoint(self, number: int, request_id: str, reason: str) -> None:
        self.live_savepoints.abort(request_id, reason[:1000])
        if self.live_savepoints.drop(number):
            self._discard(number)

    def _discard(self, number: int) -> None:
        """Delete an aborted savepoint, which was never reported.

        If it cannot be deleted now, it is listed as incomplete and deleted with the next savepoint.
        """
        self._records.pop(number, None)
        target = self._targets.pop(number, None)
        if target is None:
            return
        try:
            delete_savepoint(self.files, target)
        except StreamJobError as e:
            log.warning("savepoint %s was aborted and is not deleted: %s", target, e)

    def wait(self, effect: fx.RetryLater) -> Event:
        wait = RETRY_SECONDS[min(self._retries, len(RETRY_SECONDS) - 1)]
        self._retries += 1
        log.info("the next attempt follows in %.0f s", wait)
        time.sleep(wait)
        return ev.RetryDue()

    def abort(self, effect: fx.AbortCheckpoint) -> None:
        self._begun.pop(effect.number, None)
        cause = self._causes.pop(effect.number, None)
        reason = f"{effect.reason}: {cause}" if cause else effect.reason
        if effect.again:
            log.info("checkpoint %d is repeated: %s", effect.number, reason)
            self.live_savepoints.drop(effect.number)
        else:
            log.warning("checkpoint %d is aborted: %s", effect.number, reason)
            if effect.request_id is not None:
                self._abort_savepoint(effect.number, effect.request_id, reason)
            else:
                self._board.update(aborted=AbortedCheckpoint(effect.number, reason[:1000], now()))

    def _write(self, effect: fx.StoreCheckpoint) -> CheckpointRecord:
        target = effect.savepoint
        self._refuse_unwanted(effect.number, live=effect.scenario is None)
        stages = self._stages_of(effect)
        on_demand = effect.scenario is None and target is not None
        is_over = self._coordinator.script_ended and bool(stages) and all(s.finished for s in stages)
        record = CheckpointRecord(
            checkpoint=effect.number,
            epoch=self._config.epoch,
            scenario=ended_by(effect.scenario, stages),
            after_end=on_demand and is_over,
            request_id=effect.request_id,
            savepoint=target,
            completed_at=now(),
            stages=stages,
        )
        if target is None:
            return record
        directories = {
            (stage.uid, task.index): CheckpointDir(self.files, task.location)
            for stage in record.stages
            for task in stage.tasks
        }
        ended = {(s.uid, s.name.index) for s in self._runs.all() if s.failure is None}
        live, number = effect.scenario is None, effect.number
        manifest = write_savepoint(
            self.files,
            self._config.job,
            record,
            directories,
            target,
            live=live,
            unsettled=directories.keys() - ended,
            check=lambda: self._refuse_unwanted(number, live=live),
            tables=lambda: table_versions(self._runs.all(), record),
            progress=(lambda text: self.live_savepoints.say(effect.request_id or "", text))
            if live
            else self._say(""),
        )
        log.info("savepoint %s: %d files, %d bytes", target, len(manifest.files), manifest.size)
        # An earlier attempt or an earlier epoch may have written the manifest for the same request and died.
        # That savepoint counts, but it is this epoch that commits it to the index.
        return replace(manifest.checkpoint, epoch=self._config.epoch, stages=record.stages)

    def _refuse_unwanted(self, number: int, *, live: bool) -> None:
        """Check that the checkpoint is still wanted. Called before each file of its savepoint.

        :param live: it is a periodic checkpoint or a live savepoint.
        :raises CheckpointAborted: it is a final one that was aborted, and another one takes its place.
        """
        if live:
            self.live_savepoints.refuse_unwanted(number)
            return
        with self._lock:
            if not self._coordinator.is_pending(number):
                raise CheckpointAborted("it is not written any further, because another one takes its place")

    def _stages_of(self, effect: fx.StoreCheckpoint) -> tuple[StageRecord, ...]:
        """The records of all stages, as one consistent snapshot, read downstream first.

        When the batch of a stage is read, the upstream batches that it was made from are already committed.
        So the snapshot contains nothing that results from data outside it. Upstream may be ahead: the data
        between two stages is durable (files, a topic) and is read after a restore. So no query has to be
        paused.
        """
        by_uid: dict[str, list[Run]] = {}
        with self._lock:  # a query that starts at this moment changes the graph
            order = {uid: self._coordinator.upstream(uid) for uid in self._coordinator.downstream_first()}
            for run in self._runs.values():
                by_uid.setdefault(run.uid, []).append(run)
        records = {
            uid: stage_record(by_uid[uid], upstream, effect)
            for uid, upstream in order.items()
            if uid in by_uid
        }
        started = tuple(records[uid] for uid in by_uid if uid in records)
        carried = self._carried.records(self.files, by_uid)
        drains = effect.scenario is not None and effect.scenario.is_drain
        if drains and all(s.finished for s in started):
            carried = at_the_end(carried)
        if effect.scenario is Scenario.DRAIN and (not_started := left(carried)):
            raise not_drained(not_started)
        return started + carried

    def announce(self, effect: fx.AnnounceCheckpoint) -> None:
        with self._announcing:  # several checkpoints may become durable at the same time
            self._announce_in_order(effect.number)

    def _announce_in_order(self, number: int) -> None:
        record = self._records.pop(number)
        if number > self._newest:
            self._newest = number
            for stage in record.stages:
                for task in stage.tasks:
                    self.recorded[task_id(stage.uid, task.index, len(stage.tasks))] = task.transactions
        if record.request_id is not None:
            self.live_savepoints.completed(record.request_id, record)
        if record.scenario is None and record.savepoint is not None:
            # It has its own field in the status: no later checkpoint replaces it before the index has it.
            return
        known = self._board.status.completed
        if known is None or known.checkpoint < number:
            self._board.update(completed=record)
        if record.scenario is not None:
            self._say("")("waiting for the checkpoint index")
            self.durable.set()  # after the update: whoever waits for it reports the board's status

    @property
    def files(self) -> HadoopFiles:
        """
        :raises StopIteration: no query has started.
        """
        return next(iter(self._runs.all())).files
