"""The job as its controller sees it: what is requested of it, and how it ends.

The job is the script: it ends when the script and all queries that it started have ended. The end of a query
is the end of one run, and another run may follow.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from ... import job
from ...jvm import liveness, signals
from ...jvm import process as jvm_process
from ...protocol.engine import events as ev
from ...protocol.engine.coordinator import TerminationConflict
from ...protocol.messages.commands import Mode, SavepointRequest, TerminationRequest
from ...protocol.messages.driver_config import DriverConfig, Gate
from ...protocol.messages.driver_status import Problem
from ..spark.engine import Engine
from ..spark.executors.numbers import Executors
from ..spark.executors.pool import pool_of
from ..startup import naming
from ..startup.missing_stages import not_drained
from ..startup.sharding.declared_shards import DeclaredStages
from . import threads
from .event_loop import Loop
from .jvm_watch import JvmWatch
from .requests import Requests
from .script.before_first_query import Patience, why_needed
from .script.dead_queries import DeadQueries
from .script.sessions import keeps_windows, not_flushed, stopped_by_script
from .script.waits import Waits
from .script_api import ScriptApi
from .start.gate_keeper import GateKeeper
from .start.starter import Starter
from .start.unstarted import Unstarted
from .status_board import StatusBoard

log = logging.getLogger("streamjob")


class Driver:
    """All stages of the job. Thread-safe."""

    def __init__(self, config: DriverConfig, board: StatusBoard, script: type[ScriptApi] = ScriptApi) -> None:
        self.config = config
        self.board = board
        self._loop = Loop(config, board)
        self._coordinator = self._loop.coordinator
        self.runs = self._loop.runs
        self.declared = DeclaredStages(self._loop.work.restore_points, self._expect)
        self.terminated = self._loop.terminated
        self.durable = self._loop.work.checkpoints.durable
        with self._loop.lock:  # a termination of an earlier epoch is an event
            self.requests = Requests(config, self._loop.dispatcher, self._loop.lock)
        self._waits = Waits(self._loop.changed)
        self._executors = Executors(config.spark_conf, board, pool_of, self.warn, board.withdraw)
        self._gate = GateKeeper(self._loop, closed=config.prepared)
        self._starter = Starter(self, self._loop, self._gate, self.requests)
        self._unstarted = Unstarted(
            self.runs,
            self.declared,
            self._starter.missing,
            self._starter.engines,
            self._waits.only_main_thread,
            self.warn,
            board.withdraw,
        )
        self.script = script(self, self._loop, self.requests, self._starter, self._unstarted, self._waits)
        self._loop.on_over = self._waits.over
        self._loop.on_sample = self._sampled
        self._loop.explained = self._executors.explained
        self._watches_jvm = False
        self.jvm_died_at: float | None = None  # on the clock of time.monotonic()
        self.on_engine: Callable[[Engine], None] = lambda _: None  # may refuse it
        self.on_begin: Callable[[], None] = lambda: None  # called once, before the first query begins
        job.watch_edges(self._edge_declared)
        self._patience = Patience()
        self._has_admitted = False
        self._dead = DeadQueries(self._loop)
        self._script_ended = False
        self.requested_at: float | None = None  # on the clock of time.monotonic()
        # Ends the script's main thread where it is, after a stop that another thread of the script waited
        # for.
        self.end_main_thread: Callable[[], None] = lambda: None

    # --- commands: from the control endpoint and from SIGTERM -----------------------------------------------

    def open(self, gate: Gate) -> None:
        """Let the queries of a prepared driver start, from what the gate names. A repetition does nothing.

        :raises GateConflict: as `GateKeeper.admits`.
        """
        with self._loop.lock:
            if not self._gate.admits(gate.token):
                return
            self.config = replace(
                self.config,
                restore=gate.restore,
                next_checkpoint=gate.next_checkpoint,
                termination=gate.termination,
            )
            self._loop.restore(self.config)
            self.requests.carry_over(self.config)
            self._gate.open(gate.token)

    def terminate(self, request: TerminationRequest) -> None:
        """Begin a termination. Returns at once; the status shows the progress.

        :raises TerminationConflict: another termination is in progress.
        """
        with self._loop.lock:
            self.requests.terminate(request)
            self._note_request()

    def _note_request(self) -> None:
        if self.requests.request is not None:
            self.requested_at = self.requested_at or time.monotonic()

    def savepoint(self, request: SavepointRequest) -> None:
        """Begin an on-demand savepoint. Returns at once; the status shows the progress.

        :raises TerminationConflict: the job is ending, with a savepoint of its own.
        """
        with self._loop.lock:
            self.requests.savepoint(request)

    def change_executors(self, least: int, most: int) -> None:
        """Let the job have another number of executors. Returns at once; the status shows the progress."""
        self._executors.change(least, most)

    def delete(self, savepoints: tuple[str, ...]) -> None:
        """Begin to delete expired savepoints. Returns at once; the status lists the deleted ones.

        Does nothing before the first query has started.
        """
        if self.runs:
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

    # --- what the start of a query tells --------------------------------------------------------------------

    @property
    def has_begun(self) -> bool:
        """Whether a query has started, or is about to."""
        return self.has_tasks or self._starter.busy

    @property
    def has_tasks(self) -> bool:
        """As `Coordinator.has_tasks`."""
        return self._coordinator.has_tasks

    def first_engine(self, engine: Engine) -> None:
        """The script's first session starts a query."""
        self.on_engine(engine)

    def watch_jvm(self) -> None:
        """The script has a SparkContext. If the JVM dies, fail the job: no query can run in this process any
        more. While it does not answer, warn. Returns at once. A repetition does nothing.
        """
        if not self._watches_jvm:
            self._watches_jvm = True
            signals.ignore_sigterm()
            threads.start(self._await_death_of_jvm, "streamjob-jvm")
            JvmWatch(liveness.ping(), jvm_process.pid(), self.board).start()

    def _await_death_of_jvm(self) -> None:
        """Runs in a thread of its own."""
        died = jvm_process.await_death()
        if died is not None:
            log.error("%s", died)
            self.jvm_died_at = time.monotonic()
            self._loop.fail_job(died)

    def on_admitted(self) -> None:
        """A query has been admitted. From now on this epoch may change the checkpoint directories."""
        with self._loop.lock:
            self._has_admitted = True
            self.on_begin()
            self.on_begin = lambda: None

    def warn(self, *problems: Problem) -> None:
        """Add warnings for the user to the status. Those that it already has are not repeated."""
        self.board.warn(*[p for p in problems if p not in self.board.status.warnings])

    def _expect(self, uid: str, parallelism: int) -> None:
        """Announce a declared sharded stage to the coordinator.

        :raises DuplicateStage: the name is taken.
        """
        self._gate.wait()  # which splits are left follows from what the job continues from
        with self._loop.lock:
            naming.refuse_shards(uid, parallelism, self.runs)
            self._loop.take(ev.StageExpected(uid, parallelism))

    def _edge_declared(self, writer: str, reader: str) -> None:
        """Tell the coordinator about an edge to a running stage. Others get their edges when they start.

        :raises StreamJobError: the edge is refused.
        """
        own = self._starter.connections.edge_declared(writer, reader)
        if own is not None:
            self._loop.take(ev.EdgeDeclared(reader, writer, own_sources=own))
            log.info("stage %s reads what stage %s writes, as declared", reader, writer)

    # --- when the script has started all its queries --------------------------------------------------------

    def all_queries_started(self) -> None:
        """The script has started all its queries: carry out the requests that came early.

        Stages of the restored checkpoint that have something left still count: a wait shows only that the
        script has got to there.
        """
        self._all_queries_started(self._unstarted.left())  # reads the storage: not under the lock

    def _all_queries_started(self, left: tuple[str, ...]) -> None:
        with self._loop.lock:
            self.requests.all_queries_started(left)
            self._note_request()

    def look_at_requests(self) -> None:
        """Abort what has waited for too long. Call it often: no query may have started yet."""
        with self._loop.lock:
            self.requests.look(time.monotonic())

    def _sampled(self) -> None:
        """Called about once a second: handles what no event reports."""
        self._executors.look()
        over = self.requests.patience_is_over(
            time.monotonic(),
            self._loop.since_last_start,
            has_started=bool(self.runs),
            awaits_tasks=self._coordinator.awaits_tasks,
        )
        if over:
            self._unstarted.warn()
            self.all_queries_started()
        self._unstarted.look_again()
        with self._loop.lock:
            ends_by_itself = any(run.exhausts for run in self.runs.active())
            if not ends_by_itself and not self._unstarted.calls_back and self._waits.script_is_blocked():
                self._loop.take(ev.ScriptBlocked())
        self._dead.fail_waiting_drain(
            awaited=bool(self._coordinator.failed) and self.requests.drains and self.only_script_left
        )

    # --- the end, before the first query --------------------------------------------------------------------

    def why_needs_query(self) -> str | None:
        """As `why_needed`, of a job without a query. If it needs none and is not stopped, it is over."""
        with self._loop.lock:
            request = self.requests.request
            if self._gate.closed:
                return "it waits at its gate"
            needed = why_needed(self.config.restore, request.mode if request is not None else None)
            if needed is None and not self.requests.stops:
                self._loop.notes.nothing_left = True
                self._loop.publish()
            return needed

    def outlasts_patience(self, now: float) -> bool:
        """Whether the job was asked to end long ago and its script still has started no query. Call it often.

        :param now: seconds, on any clock that does not go back.
        """
        with self._loop.lock:
            waits = not (self.has_begun or self._gate.closed)
            return self._patience.is_over(self.requests.request if waits else None, now)

    @property
    def unchanged_since(self) -> int | None:
        """As `DriverStatus.unchanged_since`."""
        with self._loop.lock:
            restore = self.config.restore
            if self._has_admitted or self._gate.closed or not restore.exact:
                return None
            return restore.latest.checkpoint if restore.latest is not None else 0

    # --- the end --------------------------------------------------------------------------------------------

    def await_queries(self) -> None:
        """The script has ended: wait for all its queries. If one fails that the job needs, the job fails.

        A drain fails before it flushes anything that waits for a stage that the script has not started.
        """
        left = self._unstarted.left()
        self._script_ended = True
        if left and self.requests.drains:
            self._loop.fail_job(not_drained(left))
            return
        self._all_queries_started(left)
        if not (self.requests.stops or self.config.round):
            self.warn(*(not_flushed(run) for run in self.runs.all() if keeps_windows(run)))
        if self.requests.drains:
            stopped = [run for run in self.runs.all() if self._coordinator.stays_stopped(run.task)]
            self.warn(*(stopped_by_script(run) for run in stopped))
        self._loop.take(ev.ScriptEnded(left))
        with self._loop.changed:
            self._loop.changed.wait_for(
                lambda: self.terminated.is_set() or self._dead.end_the_job(self.requests.stops)
            )
        if not self.terminated.is_set() and self.failure is None:
            self._loop.fail_job(self._dead.failure())

    def dead_query(self) -> Problem | None:
        """Why a query failed that the script has not started again, None if there is none."""
        return self._dead.problem()

    def abandon(self, error: Exception) -> None:
        """Fail the job, because the script has failed. Its queries resume in the next epoch."""
        self._loop.fail_job(error)

    @property
    def only_script_left(self) -> bool:
        """Whether the job is asked to end, every query has ended, and the script has not."""
        with self._loop.lock:
            left = self._coordinator.request is not None and not self.runs.active()
            return left and not self._script_ended

    def ends_queries(self) -> bool:
        """Whether the job ends its queries, or has ended them: as requested, or because its script has ended.

        It is asked by whoever must not wait, so it takes no lock.
        """
        return self._coordinator.terminating or self._coordinator.terminated

    @property
    def ending(self) -> bool:
        """Whether a termination is requested, in progress or done."""
        with self._loop.lock:
            return self.requests.asked_to_end or self._coordinator.terminating or self._coordinator.terminated

    @property
    def failure(self) -> Problem | None:
        """Why the job failed, None if it has not failed."""
        return self._loop.notes.failure
