"""Carries out the coordinator's effects: one method each, which returns the event that reports the result."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ... import job
from ...job import Moment
from ...jvm.errors import one_line
from ...protocol.engine import effects as fx
from ...protocol.engine import events as ev
from ...protocol.engine.coordinator import Coordinator
from ...protocol.engine.effects import Effect
from ...protocol.engine.events import Event
from ...protocol.errors import StreamJobError
from ...protocol.messages.driver_config import DriverConfig
from ..query.catch_up import OWN_SECONDS, CaughtUp, unknown_end
from ..query.run import Run
from ..query.runs import Runs
from ..savepoints.expired import delete_retired
from ..savepoints.recover_records import known_records
from ..spark.max_watermark.batch import beyond_the_end, endless, kept_for_the_clock
from ..startup.carried_stages import CarriedStages
from ..startup.restore_point import RestorePoints
from .checkpoints import RETRY_SECONDS, Checkpoints
from .live_savepoints import LiveSavepoints
from .status import Notes, problem_of
from .status_board import StatusBoard

log = logging.getLogger("streamjob")


class HookFailed(StreamJobError):
    """A hook of the script, called at the end of a query, raised an exception."""

    reason = "HookFailed"
    retryable = True


class EffectRunner:
    """Carries out effects. May wait, so it never holds the driver's lock.

    The effects of one task run in one thread, in order. Those of the job run in other threads, several at a
    time.
    """

    def __init__(
        self,
        config: DriverConfig,
        coordinator: Coordinator,
        runs: Runs[Run],
        notes: Notes,
        board: StatusBoard,
        publish: Callable[[], None],
        lock: AbstractContextManager[object],
        live_savepoints: LiveSavepoints,
    ) -> None:
        self._config = config
        self._coordinator = coordinator
        self._runs = runs
        self._notes = notes
        self._board = board
        self._publish = publish
        self._lock = lock
        self._marked: set[str] = set()
        self.restore_points = RestorePoints(config)
        self.carried = CarriedStages(self.restore_points)
        self.checkpoints = Checkpoints(
            config, coordinator, runs, notes, board, self.carried, self._say, lock, live_savepoints
        )
        self._of_run: dict[type[Any], Callable[[Any, Run], Event | None]] = {
            fx.StopAtBoundary: self._stop,
            fx.CatchUp: self._catch_up,
            fx.FireMaxWatermark: self._fire,
            fx.Finish: self._finish,
            fx.Close: self._close,
            fx.Cancel: self._cancel,
        }
        self._of_job: dict[type[Any], Callable[[Any], Event | None]] = {
            fx.Snapshot: self.checkpoints.snapshot,
            fx.StoreCheckpoint: self.checkpoints.store,
            fx.RetryLater: self.checkpoints.wait,
            fx.AnnounceCheckpoint: self.checkpoints.announce,
            fx.AbortCheckpoint: self.checkpoints.abort,
            fx.NotifyComplete: self._commit,
            fx.AbortTransactions: self._abort_transactions,
        }

    def carry_out(self, effect: Effect, run: Run | None) -> Event | None:
        """Carry out one effect.

        :param run: the run of the effect's task, None for an effect of the job.
        :returns: the event that reports the result, None if nothing waits for one.
        :raises StreamJobError: the effect failed. The task resumes from what is durable.
        """
        if type(effect) in self._of_run:
            assert run is not None
            return self._of_run[type(effect)](effect, run)
        return self._of_job[type(effect)](effect)

    # --- the end of a task ----------------------------------------------------------------------------------

    def _stop(self, effect: fx.StopAtBoundary, run: Run) -> Event:
        drains = self._is_drained(effect.task)
        come = run.rest_at_boundary if drains else run.stop_at_boundary
        batch = come(self._say(effect.task))
        if not drains and (flushed := run.complete_flush(self._say(effect.task))) is not None:
            batch = flushed
        return ev.BoundaryReached(effect.task, batch)

    def _catch_up(self, effect: fx.CatchUp, run: Run) -> Event:
        task, upstream = effect.task, ", ".join(effect.upstream)
        if upstream and self._is_drained(task):
            run.event_time.hold(task)  # an earlier driver may have flushed what is upstream
        batch, caught_up = run.catch_up(self._say(task), math.inf if upstream else OWN_SECONDS)
        rest = caught_up is CaughtUp.UNKNOWN
        if rest:
            problem = unknown_end(task, upstream)
            log.warning("%s. %s", problem.message, problem.remedy)
            self._board.warn(problem)
        if caught_up is CaughtUp.ALL:
            log.info("stage %s: has processed all of %s, batch %s", task, upstream or "its input", batch)
        return ev.BoundaryReached(task, batch, rest=rest)

    def _fire(self, effect: fx.FireMaxWatermark, run: Run) -> Event:
        task = effect.task
        self._say(task)(f"stage {task}: firing all event-time timers")
        self._mark_upstream(run)
        self.hold_readers(run)
        result = run.fire_max_watermark()
        with self._lock:
            held = bool(self._coordinator.upstream(run.uid))
        if held:
            run.event_time.release(task)  # the script may start a query from the same frame
        if result is None:
            batch = self._coordinator.tasks[task].batch
            log.info("stage %s: its state holds nothing that waits for event time", task)
        else:
            batch = result.batch
            self._notes.drained(result)
            if result.timers_left:
                self._board.warn(endless(task, result))
            if (kept := kept_for_the_clock(task, result)) is not None:
                self._board.warn(kept)
            if run.mode == "append" and (beyond := beyond_the_end(task, result)) is not None:
                self._board.warn(beyond)
            log.info("stage %s: max watermark fired, %d batches up to %d", task, result.batches, batch)
        return ev.MaxWatermarkFired(task, batch)

    def _is_drained(self, task: str) -> bool:
        """Whether the task ends in order to be flushed."""
        scenario = self._coordinator.tasks[task].scenario
        return scenario is not None and scenario.is_drain

    def hold_readers(self, run: Run) -> None:
        """Before the run is flushed, and when an earlier driver has done so: whoever reads what it emits and
        ends behind it, reads that with a watermark that stands still, in however many batches. So none of it
        is late, as in Flink, where the largest watermark comes behind all data.
        """
        with self._lock:
            readers = self._coordinator.ending_readers(run.task)
        for reader in [self._runs[task] for task in readers if task in self._runs]:
            reader.event_time.hold(reader.task)

    def _mark_upstream(self, run: Run) -> None:
        """Before the run is flushed: everything upstream of it is drained (see `finished_before`).

        A run without state is not flushed. The next epoch continues it, and what is upstream of it.
        """
        with self._lock:
            upstream = self._coordinator.finished_before(run.task)
        # The restored checkpoint flags those that have not been started.
        started = [self._runs[t] for t in upstream if t in self._runs and t not in self._marked]
        new = [other for other in started if not other.finished]
        if not (new and run.can_be_flushed):
            return
        for other in new:
            other.directory.mark_drained()
            self._marked.add(other.task)  # shards share their upstream

    def _finish(self, effect: fx.Finish, run: Run) -> Event:
        self._call(run, Moment.END_OF_DATA)
        self._call(run, Moment.FINISH)
        return ev.Finished(effect.task)

    def _close(self, effect: fx.Close, run: Run) -> Event:
        self._call(run, Moment.CLOSE)
        if self._coordinator.stops:
            run.upload_snapshots()  # before `Closed`: after it, a prepared driver may write where this would
        return ev.Closed(effect.task)

    def _call(self, run: Run, moment: Moment) -> None:
        """Call the script's hooks.

        :raises HookFailed: a hook raised, so its work may not be done.
        """
        name, task = run.name, run.task
        try:
            # Each task of a stage calls the hooks of the stage, then those of its own shard.
            if called := sum(job.call(n, moment) for n in dict.fromkeys((name.uid, name.name))):
                log.info("stage %s: %s, %d called", task, moment.value, called)
        except Exception as e:
            log.exception("stage %s: %s", task, moment.value)
            raise HookFailed(
                f"a hook {moment.value} of stage {task} raised {type(e).__name__}: {one_line(e)}",
                remedy="See <log>; "
                + ("it is not called again" if moment is Moment.CLOSE else "the next attempt calls it again"),
            ) from e

    def _cancel(self, _: fx.Cancel, run: Run) -> None:
        run.interrupt()

    # --- transactions ---------------------------------------------------------------------------------------

    def _commit(self, effect: fx.NotifyComplete) -> None:
        if (transactions := self._runs[effect.task].transactions) is not None:
            self._persist(lambda: transactions.commit(effect.number))

    def _abort_transactions(self, effect: fx.AbortTransactions) -> None:
        if (transactions := self._runs[effect.task].transactions) is not None:
            self._persist(lambda: transactions.abort_after(effect.after))

    def _persist(self, step: Callable[[], None]) -> None:
        """Commit or abort transactions, with retries.

        The checkpoint has completed, so this must succeed in the end: here, or when the next run or epoch
        recovers.

        :raises StreamJobError: it is not retryable, or the last attempt failed.
        """
        for wait in RETRY_SECONDS:
            try:
                step()
            except StreamJobError as e:
                if not e.retryable:
                    raise
                log.warning("%s; the next attempt follows in %.0f s", e, wait)
                self._notes.stuck = problem_of(e)
                self._publish()
                time.sleep(wait)
            else:
                self._notes.stuck = None
                return
        step()

    # --- savepoints of earlier checkpoints ------------------------------------------------------------------

    def delete(self, savepoints: tuple[str, ...]) -> None:
        """Delete expired savepoints and list the deleted ones in the status.

        Failures are only logged: the controller asks the next driver to delete the rest.
        """
        for savepoint in savepoints:
            try:
                delete_retired(self.checkpoints.files, self._config.job, savepoint)
            except StreamJobError as e:
                log.warning("%s", e)
                continue
            self._board.change(
                lambda status, savepoint=savepoint: {  # type: ignore[misc]
                    "deleted": (*(s for s in status.deleted if s != savepoint), savepoint)[-100:]
                }
            )

    def tell_records(self, reached: int) -> None:
        try:
            own = self._board.status.durable
            self._board.update(
                known=known_records(self.checkpoints.files, self.restore_points.config, reached, own)
            )
        except (StreamJobError, StopIteration) as e:
            log.warning("the known checkpoints cannot be reported: %s", e)

    def _say(self, task: str) -> Callable[[str], None]:
        def say(progress: str) -> None:
            self._notes.progress[task] = progress
            self._publish()

        return say
