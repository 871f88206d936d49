"""The job as its script and its controller see it: queries run, the script waits, terminations are requested.

The job is the script: it ends when the script and all queries that it started have ended. The end of a query
is the end of one run, and another run may follow.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ... import job
from ...protocol import events as ev
from ...protocol.coordinator import TerminationConflict
from ...protocol.errors import StreamJobError
from ...protocol.messages import DriverConfig, Mode, Problem, SavepointRequest, TerminationRequest
from ..query.task import Stage
from ..spark.stream_writer import running_batch_function
from ..startup import missing_stages, naming
from ..startup.declared_shards import DeclaredStages
from . import threads
from .event_loop import Loop
from .job_stopped import BatchEndedByStop, JobStopped
from .managed_query import ManagedJvmQuery, in_callback
from .query_start import Starter
from .requests import Requests
from .sessions import Sessions
from .status_board import StatusBoard
from .waits import Waits

log = logging.getLogger("streamjob")

# Seconds. A script that never waits for a query without a timeout does not show that it has started all its
# queries. It counts as having done so when it has started no new query for this long. A request that came
# early is carried out then, or this long after it came (after the first query, if that starts later).
PATIENCE = 30.0
# Seconds. The same, when the job is asked to end and all stages of its checkpoint have started. Also the time
# that a drain waits for the script to start a failed query again.
HURRY = 5.0


class Driver:
    """All stages of the job. Thread-safe."""

    def __init__(self, config: DriverConfig, board: StatusBoard) -> None:
        self.config = config
        self.board = board
        self._loop = Loop(config, board)
        self._coordinator = self._loop.coordinator
        self.stages = self._loop.stages
        self.declared = DeclaredStages(config, self._expect)
        self.terminated = self._loop.terminated
        self.durable = self._loop.work.durable
        self.sessions = Sessions()
        self.waits = Waits(self._loop.changed)
        self._starter = Starter(self, self._loop)
        self._loop.on_over = self.waits.over
        self._loop.on_sample = self._sampled
        self.on_begin: Callable[[], None] = lambda: None  # called once, before the first query begins
        job.watch_edges(self._edge_declared)
        self._requests = Requests(config, self._loop.dispatcher)
        self._early_since: float | None = None  # on the clock of time.monotonic()
        self._script_ended = False
        self._dead_since: float | None = None
        self.only_script_left_since: float | None = None  # on the clock of time.monotonic()
        self.requested_at: float | None = None  # on the clock of time.monotonic()
        # Ends the script's main thread where it is, after a stop that another thread of the script waited for.
        self.end_main_thread: Callable[[], None] = lambda: None

    # --- commands: from the control endpoint and from SIGTERM -------------------------------------------------

    def terminate(self, request: TerminationRequest) -> None:
        """Begin a termination. Returns at once; the status shows the progress.

        :raises TerminationConflict: another termination is in progress.
        """
        with self._loop.lock:
            self._requests.terminate(request)
            self._note_request()

    def _note_request(self) -> None:
        if self._coordinator.request is not None:
            self.requested_at = self.requested_at or time.monotonic()

    def savepoint(self, request: SavepointRequest) -> None:
        """Begin an on-demand savepoint. Returns at once; the status shows the progress.

        :raises TerminationConflict: the job is ending, with a savepoint of its own.
        """
        with self._loop.lock:
            self._requests.savepoint(request)

    def delete(self, savepoints: tuple[str, ...]) -> None:
        """Begin to delete expired savepoints. Returns at once; the status lists the deleted ones.

        Does nothing before the first query has started.
        """
        if self.stages:
            threads.start(self._loop.work.delete, "delete-savepoints", savepoints)

    def tell_records(self, reached: int) -> None:
        """Report the known checkpoints in the status, because the index is lost. Returns at once.

        :param reached: number of the newest checkpoint that the controller's status names.
        """
        threads.start(self._loop.work.tell_records, "known-records", reached)

    def complete(self, checkpoint: int) -> None:
        """notifyCheckpointComplete: the checkpoint is committed to the index."""
        self._loop.take(ev.CheckpointCompleted(checkpoint))

    def complete_announced(self) -> None:
        """Complete the announced checkpoint without the index, because there is no time to wait for it.

        The report in the pod's termination message stands in for the index.
        """
        record = self.board.status.completed
        if record is not None:
            self.complete(record.checkpoint)

    def evict(self) -> None:
        """Handle SIGTERM: stop with savepoint, unless the job is already ending."""
        self.board.update(evicted=True)
        request = TerminationRequest(
            f"eviction-{self.config.epoch}", self.config.epoch, Mode.STOP, self.config.eviction_savepoint
        )
        try:
            self.terminate(request)
        except TerminationConflict as e:
            log.info("SIGTERM: %s", e.message)

    # --- what the script does: start --------------------------------------------------------------------------

    def start_query(
        self,
        writer: DataStreamWriter,
        original: Callable[..., StreamingQuery],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> StreamingQuery:
        """Start the writer's query as a run of a stage of this job.

        :raises StreamJobError: the query is refused, or the state to start from cannot be restored.
        :raises SystemExit: the job has been stopped, or it drains and has finished the stage.
        """
        if self.stops and in_callback():
            raise BatchEndedByStop
        if self.stops and self.terminated.is_set():
            raise JobStopped(0)
        stage = self._starter.start(writer, original, args, kwargs)
        return StreamingQuery(ManagedJvmQuery(stage.jsq, stage, self))

    @property
    def has_begun(self) -> bool:
        """Whether a query has started, or is about to."""
        return bool(self.stages) or self._starter.busy

    def script_is_called_back(self) -> None:
        """Note that Spark calls functions of the script, which could start queries."""
        self._starter.calls_back = True

    def begins(self) -> None:
        """A query has been admitted. From now on this epoch may change the checkpoint directories."""
        with self._loop.lock:
            self.on_begin()
            self.on_begin = lambda: None

    def warn(self, *problems: Problem) -> None:
        """Add warnings for the user to the status. Those that it already has are not repeated."""
        self.board.warn(*[p for p in problems if p not in self.board.status.warnings])

    def _expect(self, uid: str, parallelism: int) -> None:
        """Announce a declared sharded stage to the coordinator.

        :raises DuplicateStage: the name is taken.
        """
        with self._loop.lock:
            naming.refuse_shards(uid, parallelism, self.stages)
            self._loop.take(ev.StageExpected(uid, parallelism))

    def _edge_declared(self, writer: str, reader: str) -> None:
        """Tell the coordinator about an edge to a running stage. Others get their edges when they start.

        :raises StreamJobError: the edge is refused.
        """
        own = self._starter.edge_declared(writer, reader)
        if own is not None:
            self._loop.take(ev.EdgeDeclared(reader, writer, own_sources=own))
            log.info("stage %s reads what stage %s writes, as declared", reader, writer)

    # --- what the script does: stop and wait ------------------------------------------------------------------

    def runs(self) -> list[Stage]:
        """The last run of each task."""
        return list(self.stages.values())  # at once: other threads start queries

    def script_stops(self, *stages: Stage) -> None:
        """The script ends queries: each ends as in a stop, unless the job's termination ends it otherwise.

        Returns when every run is over, as Spark's own stop() does. In a callback of the JVM it returns at
        once.
        """
        for stage in stages:
            with self._loop.lock:
                if self.stages.get(stage.task) is stage and not stage.over.is_set():
                    self._loop.take(ev.ScriptStopped(stage.task))
        if not in_callback():
            self.waits.until(lambda: all(s.over.is_set() for s in stages), None)
        elif (caller := running_batch_function()) is not None:
            # The caller's own query ends only after this batch.
            others = [s for s in stages if s.each_batch is not caller]
            self._await_in_batch(lambda: all(s.over.is_set() for s in others), None)

    def spark_stops(self, really: Callable[[], None]) -> None:
        """The script calls spark.stop(): its queries first end at their boundaries.

        Queries that may still have to be flushed need the session. Its end is then put off until the script
        is over or makes another session.

        :param really: pyspark's own stop().
        """
        self.script_stops(*[s for s in self.runs() if not s.over.is_set()])
        if in_callback() or self.sessions.ending:
            really()
        elif self._coordinator.may_flush:
            log.info("the Spark session ends when the script has: its queries may have to be flushed")
            self.sessions.put_off(really)
        else:
            self.sessions.end(really)

    def new_session(self) -> None:
        """The script is about to create or get a session: end the session whose end was put off.

        Queries that were to be flushed in that session are not flushed. They wait for another run or another
        epoch.
        """
        if self.sessions.put_off_is_pending and not in_callback():
            self._loop.take(ev.SessionEnded())
            self.sessions.end_put_off()

    def await_run(self, stage: Stage, milliseconds: int | None) -> bool:
        """Wait for a run.

        :param milliseconds: timeout, None to wait without one.
        :returns: whether the run is over.
        :raises StreamJobError: as `_script_waits`, if there is no timeout.
        """
        if running_batch_function() is not None:
            return self._await_in_batch(
                lambda: stage.over.is_set() and not stage.stopped_by_request, milliseconds
            )
        if milliseconds is None:
            self._script_waits([stage], not stage.exhausts)
        return self.waits.until(stage.over.is_set, milliseconds)

    def _await_in_batch(self, over: Callable[[], bool], milliseconds: int | None) -> bool:
        """Wait in a function of foreachBatch.

        A stop completes only after the batch, so the batch must not wait for what the stop completes.

        :raises BatchEndedByStop: a stop was requested first.
        """
        ended = self.waits.until(lambda: over() or self.stops, milliseconds)
        if ended and not over():
            raise BatchEndedByStop
        return ended

    def await_any(self, mine: Callable[[Stage], bool], milliseconds: int | None) -> Stage | None:
        """Wait for any run of a session, see `managed_query.ManagedJvmManager`.

        :param mine: selects the runs of the session.
        :param milliseconds: timeout, None to wait without one.
        :returns: a run that has ended since the last `reset_terminated`, None after the timeout.
        :raises StreamJobError: as `_script_waits`, if there is no timeout.
        """
        if milliseconds is None:
            active = [s for s in self.runs() if not s.over.is_set()]
            self._script_waits([s for s in active if mine(s)], not any(s.exhausts for s in active))
        self.waits.until(lambda: self.waits.terminated(mine) is not None, milliseconds)
        return self.waits.terminated(mine)

    def reset_terminated(self, mine: Callable[[Stage], bool]) -> None:
        self.waits.reset(mine)

    def leave_if_stopped(self, stage: Stage) -> None:
        """End the script if its job was stopped.

        A stop is not the end of the data. What the script does after its wait must not run as if it were: it
        may delete the input.

        :raises JobStopped: the job was stopped, and this run with it.
        """
        stopped = stage.stopped_by_request or BatchEndedByStop.caused(stage.failure)
        if stopped and self.stops and not in_callback():
            log.info("stage %s was stopped with the job: its script ends here", stage.task)
            if threading.current_thread() is not threading.main_thread():
                self.end_main_thread()  # first: it may wait for what this thread does on its way out
            raise JobStopped(0)

    def _script_waits(self, waited: list[Stage], for_good: bool) -> None:
        """The script waits without a timeout: from now on it counts as having started all its queries.

        :param waited: the runs of which the script awaits one.
        :param for_good: the script waits for queries that do not end by themselves.
        :raises QueryNotStarted: the script has declared something for a query that it has not started.
        :raises StateNotKept: a state was declared after its query had started.
        :raises ShardMissing: a declared shard has not started.
        :raises NonRestoredState: the checkpoint has state of a stage that nothing can start any more.
        """
        if not self.ending and self.failure is None:
            self._starter.refuse_unknown()
            if for_good:
                self._refuse_gone(waited)
        self._settle()

    def _refuse_gone(self, waited: list[Stage]) -> None:
        gone = self._starter.left()
        only_main = self.waits.only_main_thread() and not self._starter.calls_back
        if never := gone.live if only_main else self._starter.left_out(gone.live, waited):
            raise missing_stages.not_started(never, [s.name.name for s in self.runs()])
        if gone.stages:
            self.warn(missing_stages.warning(gone.stages))

    def _settle(self) -> None:
        with self._loop.lock:
            self._requests.settle()
            self._note_request()

    def _sampled(self) -> None:
        """Called about once a second: handles what no event reports."""
        patience = HURRY if self._requests.early and not self._coordinator.awaits_tasks else PATIENCE
        if self._requests.early and self._early_since is None and self.stages:
            self._early_since = time.monotonic()
        waited = time.monotonic() - self._early_since if self._early_since else 0.0
        if not self._requests.settled and (self._loop.since_last_start > patience or waited > PATIENCE):
            try:  # the script does not wait without a timeout, so there is no caller to raise it to
                self._starter.refuse_unknown()
            except StreamJobError as e:
                log.warning("%s", e)
            if gone := self._starter.left().stages:
                self.warn(missing_stages.warning(gone))
            self._settle()
        with self._loop.lock:
            ends_by_itself = any(s.exhausts for s in self.runs() if not s.over.is_set())
            if not ends_by_itself and not self._starter.calls_back and self.waits.script_is_blocked():
                self._loop.take(ev.ScriptBlocked())
        self._give_up_a_drain_of_the_dead()

    def _give_up_a_drain_of_the_dead(self) -> None:
        """Fail the job if a drain waits for a failed query that the script does not start again.

        A drain needs every query. When all others have ended, wait HURRY seconds, then leave it to the next
        epoch.
        """
        dead = bool(self._coordinator.failed) and self.drains and self.only_script_left
        if not dead:
            self._dead_since = None
        elif self._dead_since is None:
            self._dead_since = time.monotonic()
        elif time.monotonic() - self._dead_since > HURRY and self.failure is None:
            self._loop.fail_job(self._failure_of_runs())

    def _failure_of_runs(self) -> Exception:
        failures = (s.failure for s in self.runs() if s.failure is not None)
        return next(failures, RuntimeError("a query failed"))

    # --- the end ----------------------------------------------------------------------------------------------

    def await_queries(self) -> None:
        """The script has ended: wait for all its queries. If one fails that the job needs, the job fails."""
        self._settle()
        self._script_ended = True
        self._loop.take(ev.ScriptEnded())
        with self._loop.changed:
            self._loop.changed.wait_for(lambda: self.terminated.is_set() or self._is_dead())
        if not self.terminated.is_set() and self.failure is None:
            self._loop.fail_job(self._failure_of_runs())

    def _is_dead(self) -> bool:
        """Whether a failed query keeps the job from ending: the script has ended and cannot restart it.

        A stop does not need the failed query. A failed job is dead once all its runs are over.
        """
        if self.failure is not None:
            return all(s.over.is_set() for s in self.stages.values())
        return bool(self._coordinator.failed) and not self.stops

    def dead_query(self) -> Problem | None:
        """Why a query failed that the script has not started again, None if there is none."""
        with self._loop.lock:
            failed = self._loop.notes.failed
            return next((failed[task] for task in self._coordinator.failed if task in failed), None)

    def abandon(self, error: Exception) -> None:
        """Fail the job, because the script has failed. Its queries resume in the next epoch."""
        self._loop.fail_job(error)

    @property
    def only_script_left(self) -> bool:
        """Whether the job is asked to end, every query has ended, and the script has not."""
        with self._loop.lock:
            left = self._coordinator.request is not None and all(s.over.is_set() for s in self.runs())
            if not left:
                self.only_script_left_since = None
            elif self.only_script_left_since is None:
                self.only_script_left_since = time.monotonic()
            return left and not self._script_ended

    @property
    def ending(self) -> bool:
        """Whether a termination is requested, in progress or done."""
        with self._loop.lock:
            return self.asked_to_end or self._coordinator.terminating or self._coordinator.terminated

    @property
    def asked_to_end(self) -> bool:
        return self.request is not None

    @property
    def request(self) -> TerminationRequest | None:
        """The termination that was requested, in progress or not, None if there is none."""
        with self._loop.lock:  # `settle` hands it to the coordinator: at no moment is there none
            return self._requests.request

    @property
    def stops(self) -> bool:
        with self._loop.lock:
            return self._requests.stops

    @property
    def drains(self) -> bool:
        with self._loop.lock:
            return self._requests.drains

    @property
    def failure(self) -> Problem | None:
        """Why the job failed, None if it has not failed."""
        return self._loop.notes.failure
