"""One run of a task: the query that the script started, its checkpoint directory, and the ways to end it."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from ...jvm import process as jvm_process
from ...jvm.errors import one_line
from ...protocol.formats import splits
from ...protocol.formats.records import OperatorKind, OperatorRecord, TaskRecord
from ...protocol.graph import TaskName
from ...storage.hadoop import HadoopFiles
from ..spark.boundary import QueryFailed, run_to_end, stop_at_boundary
from ..spark.checkpoint_dir import CheckpointDir
from ..spark.engine import Engine
from ..spark.executors.cost import Cost, tasks_of
from ..spark.foreach_batch.function import BatchFunction
from ..spark.max_watermark.batch import (
    DrainResult,
    fire_timers,
    run_max_watermark_batch,
    state_rows,
)
from ..spark.max_watermark.event_time import EventTime
from ..spark.max_watermark.resting_query import RestingQuery, come_to_rest
from ..spark.progress import described
from ..spark.sources.end_of_input import read_by, traits_of
from ..spark.sources.plan_sources import Source
from ..spark.sources.source_log import left_at
from ..spark.state.snapshots import upload_snapshots
from ..spark.tables.find import FindTable
from .bounded_input import InputEnd
from .catch_up import CaughtUp, read_all
from .definition import Definition
from .driver_state import StateManager
from .edges import Endpoints
from .endpoints import RecordedEndpoints, note
from .figures import Figures, Lags, figures_of
from .transactions import Transactions

log = logging.getLogger("streamjob")

# For a query that reads what is there: with timers of processing time, batches without input would follow for
# ever.
ONLY_WITH_INPUT = ("spark.sql.streaming.noDataMicroBatches.enabled", "false")
JVM_ENDS = 1.0  # seconds to wait for the end of a JVM that may have died

StartAgain = Callable[..., StreamingQuery]  # see `session_conf.restarter`


@dataclass(eq=False)
class Run:
    """A run of one task: the only task of a stage, or one of those declared with `job.shards`.

    If the script starts the query again, another run in the same directory takes its place.

    :param start_again: starts the writer again as the script did, with another trigger or its own.
    :param input_end: the end of its input, as the script declares it.
    :param ends: where it reads and writes.
    :param definition: what the query is, if it has no checkpointLocation.
    :param unnamed: the same, if it has no name either.
    :param mode: output mode, in lower case.
    :param plan: the analyzed logical plan of its frame.
    :param exhausts: the query ends by itself, because its trigger only reads the input that exists.
    :param volatile: no other run can continue its source or its sink.
    :param finished: the restored checkpoint marks the task as finished, so it is not started.
    :param all_finished: so are all other tasks of the stage.
    :param drained: see `TaskStarted`.
    :param emits: see `TaskStarted`.
    :param behind_pending: a batch was planned and not committed when it started.
    :param sharded: it is one of several tasks that the script has declared.
    :param state: its shares at the start, as `ShardedStage.state` returns them. Those under `splits` shrink
        as the task reads.
    :param transactions: those of its sink, None if the sink is durable at each batch.
    :param state_manager: manages the state of its foreachBatch function, None if there is none.
    :param recorded_endpoints: what it reads and writes, noted in its directory with the first checkpoint.
    :param manager: the JVM's StreamingQueryManager of its session.
    :param find_table: see `tables.find.table_written`.
    :param sources: of its plan, None if they are unknown.
    """

    name: TaskName
    engine: Engine
    directory: CheckpointDir
    start_again: StartAgain
    input_end: InputEnd
    _: KW_ONLY
    ends: Endpoints = field(default_factory=Endpoints)
    definition: Definition | None = None
    unnamed: Definition | None = None
    each_batch: BatchFunction | None = None
    mode: str = "append"
    exhausts: bool = False
    volatile: bool = False
    finished: bool = False
    all_finished: bool = False
    drained: bool = False
    emits: bool = True
    behind_pending: bool = False
    sharded: bool = False
    state: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    transactions: Transactions | None = None
    state_manager: StateManager | None = None
    recorded_endpoints: RecordedEndpoints | None = None
    manager: Any = None
    find_table: FindTable = lambda: None
    sources: Sequence[Source] | None = None
    plan: Callable[[], Any] = lambda: None

    def __post_init__(self) -> None:
        self.uid, self.task = self.name.uid, self.name.task
        self.beside: tuple[str, ...] | None = None  # see StageRecord
        self.takes_over: Run | None = None  # the run before, which was being ended when this one started
        self.query: StreamingQuery | None = None  # None: may read no new data, see `Starter._reads_nothing`
        self.jsq: Any = None  # the JVM's query behind the script's query object
        self._started_again: StreamingQuery | None = None  # the last query that `restart` has started
        self._caught_up: StreamingQuery | None = None  # ran after it, see `catch_up`
        self._resting: RestingQuery | None = None  # see `rest_at_boundary`
        self._cut_short = threading.Event()
        self.failure: Exception | None = None
        self.failed_by_itself = False  # not because a connected query failed
        self.interrupted = threading.Event()  # see `BatchFunction`; set before its query is stopped
        if self.each_batch is not None:
            self.each_batch.interrupted = self.interrupted
        self.over = threading.Event()  # the event that the script waits for, see `Dispatcher.is_over`
        self.stopped_by_request = False
        self.lost_session = False  # the script has made another one since, so it is not flushed
        self._are_noted = False
        self._noting = threading.Lock()  # two checkpoints may record the run at the same time
        self.figures = Figures()
        self._lags = Lags(self.directory, self.sources, self.engine.jvm)
        self._cost = Cost()
        self._cores = 0
        self._tasks: int | None = None

    @property
    def files(self) -> HadoopFiles:
        return self.engine.files

    @cached_property
    def event_time(self) -> EventTime:
        return EventTime(self.plan(), self.engine.jvm)

    @property
    def can_be_flushed(self) -> bool:
        """Whether its state may hold what comes out at the end of event time, and another run can fire it."""
        return not self.volatile and self.directory.has_state() and self.event_time.fires(self.mode)

    @property
    def is_active(self) -> bool:
        """Whether no other run may follow yet."""
        return not self.over.is_set()

    def wrote(self, ends: Endpoints) -> None:
        """Its foreachBatch function writes to further places. The next checkpoint notes them."""
        self.ends = ends
        with self._noting:
            if self.recorded_endpoints is not None:
                self.recorded_endpoints = self.recorded_endpoints.with_writes(ends.wrote)
                self._are_noted = False

    @property
    def brokers(self) -> list[str]:
        """What it reads from and writes to in Kafka: topics and servers."""
        noted = self.recorded_endpoints
        places = (*noted.sources, *([noted.sink] if noted.sink else [])) if noted is not None else ()
        return [str(place) for place in places if place.brokers]

    def of_manager(self, manager: Any) -> bool:
        """Whether the run was started in the session of this StreamingQueryManager."""
        return self.manager is not None and bool(self.manager == manager)

    def continues(self, other: Run) -> bool:
        """Whether it is the run, or took over its end: what is left of that is left for this one."""
        return self is other or (self.takes_over is not None and self.takes_over.continues(other))

    def cause_of(self, error: Exception) -> Exception:
        """What made the run fail. Also notes whether its own query failed.

        :param error: how it was noticed.
        """
        if self.interrupted.is_set():
            return self.failure or error  # what its query says is only how the interruption arrived
        try:
            self.failed_by_itself = self.query is not None and self.query.exception() is not None
        except Exception:  # whatever py4j raises if the JVM does not answer
            return jvm_process.death(JVM_ENDS) or error
        return next((k.failure for k in (self.each_batch, self.state_manager) if k and k.failure), error)

    def cut_short(self) -> None:
        """End `catch_up` early, now or when it comes: the next epoch processes the rest of the backlog."""
        self._cut_short.set()

    def stop_at_boundary(self, on_wait: Callable[[str], None]) -> int | None:
        """Let the running batch commit, and start no other.

        :param on_wait: called with what is being waited for.
        :returns: the last committed batch, None if there is none.
        :raises QueryFailed: the query failed by itself.
        """
        if self.query is None:
            return self._finish_pending()
        boundary = stop_at_boundary(
            self.query,
            self.files,
            self.engine.internals,
            on_wait=on_wait,
            finish_pending=None if self.volatile else self._once,
        )
        log.info("stage %s: at the boundary %s", self.task, boundary)
        return boundary.batch

    def rest_at_boundary(self, on_wait: Callable[[str], None]) -> int | None:
        """Come to the boundary for a drain: the query may rest there, to be drained in place.

        The parameter, the result and the errors are those of `stop_at_boundary`.
        """
        if self.query is not None and self.can_be_flushed:
            self._resting = come_to_rest(self.query, self.directory, self.engine.internals, on_wait=on_wait)
        if self._resting is None:
            return self.stop_at_boundary(on_wait)
        log.info("stage %s: rests at the boundary", self.task)
        return self.directory.boundary()

    def has_read_all(self) -> bool:
        """Whether its query, which has ended by itself, must have read all that there was at its start."""
        assert self.query is not None
        proven = self._proves(self.query, pending=self.behind_pending)
        return bool(proven) and all(proven)

    def catch_up(
        self, on_wait: Callable[[str], None], seconds: float = math.inf
    ) -> tuple[int | None, CaughtUp]:
        """Process all input that the sources hold, and stop at the boundary after it.

        :param on_wait: called with what is being waited for.
        :param seconds: see `read_all`.
        :returns: the last committed batch, None if there is none, and whether anything is left.
        :raises QueryFailed: a batch failed.
        """
        batch = self.stop_at_boundary(on_wait)
        if self.volatile or self.directory.is_drained():
            return batch, CaughtUp.ALL  # an earlier driver drained it, after it had caught up
        what = f"stage {self.task}: processing what is left of its input"
        on_wait(what)
        self.directory.drop_half_written()
        caught_up = read_all(
            partial(self.restart, ONLY_WITH_INPUT),
            self.directory,
            proves=self._proves,
            cut_short=self._cut_short.is_set,
            on_run=lambda number: on_wait(f"{what}, run {number}"),
            seconds=seconds,
        )
        self._caught_up = self._started_again
        if caught_up is CaughtUp.CUT_SHORT and self._caught_up is not None:
            internals, once = self.engine.internals, self._once
            stop_at_boundary(self._caught_up, self.files, internals, finish_pending=once)
        return self.directory.boundary(), caught_up

    def interrupt(self) -> None:
        """Stop the query now and leave its running batch uncommitted.

        Used for a cancel, and when the job or a connected query has failed: connected queries resume together
        from their last committed batches. Spark stops the batch by errors that a foreachBatch function may
        catch. A batch whose function has returned before, or whose sink has it all, may still be committed.
        """
        self.interrupted.set()
        try:
            for query in (self.query, self._started_again):
                if query is not None:
                    query.stop()
            if self._resting is not None:
                self._resting.stop_sources()
        except (Py4JError, PySparkException, OSError) as e:  # OSError: the JVM has died
            log.info("stage %s: while it was interrupted: %s", self.task, one_line(e))

    def complete_flush(self, on_wait: Callable[[str], None]) -> int | None:
        """For a stop: run the max-watermark batch that an earlier driver planned, if it is not committed.

        Nobody can take it back, and with it pending the query is at no boundary.

        :param on_wait: called with what is being waited for.
        :returns: the batch; None if no earlier driver has begun to flush the query.
        :raises QueryFailed: the batch failed; the next attempt runs it again.
        """
        batch = self.directory.latest_offset() if self.query is None and not self.volatile else None
        if batch is None or not self.directory.drain_batches():
            return None
        on_wait(f"stage {self.task}: completing the flush that an earlier driver began")
        run_max_watermark_batch(self._once, self.directory, batch, self.engine.internals)
        return batch

    def await_interrupted(self) -> None:
        """If it was interrupted, wait until its last batch is committed or not.

        The next run begins from what is committed.
        """
        if not self.interrupted.is_set():
            return
        for query in (self.query, self._started_again):
            with suppress(Py4JError, PySparkException):  # how it ended does not matter
                if query is not None:
                    query.awaitTermination()

    def restart(self, *settings: tuple[str, str], **trigger: Any) -> StreamingQuery:
        """Start the writer again, see `session_conf.restarter`. An interruption stops that query, too.

        :raises QueryFailed: the run was interrupted before.
        """
        if self.interrupted.is_set():
            raise QueryFailed(f"query {self.name.name!r} was interrupted, and is not run any further")
        self._started_again = query = self.start_again(*settings, **trigger)
        if self.interrupted.is_set():
            query.stop()
        return query

    def upload_snapshots(self) -> None:
        """Let the next epoch load its state in less time. For a query that was stopped; never fails."""
        if self.query is not None and not self.volatile:
            upload_snapshots(self.query, self.directory, self.engine.internals)

    def fire_max_watermark(self) -> DrainResult | None:
        """Fire every event-time timer. May be called again after a crash.

        :returns: None if nothing can fire, or the run is volatile: no other run can continue its socket or
            its memory sink.
        :raises QueryFailed: a batch failed; the next attempt runs it again.
        """
        if self.volatile or not (self.can_be_flushed or self.directory.drain_batches()):
            return None
        if self._resting is not None and (result := self._resting.fire()) is not None:
            return result
        before = state_rows(self.directory, (self._caught_up, self.query))
        return fire_timers(self._once, self.directory, self.engine.internals, before)

    def record(
        self, checkpoint: int, finished: bool, noted: int | None, *, exhausted: bool, running: bool
    ) -> TaskRecord:
        """The task's part of a checkpoint.

        The first call after a batch has committed also notes the task's endpoints in its directory.

        :param finished: whether its operators' `finish()` ran.
        :param noted: the batch up to which its transactional sink was pre-committed. The run may have
            committed another one since, also if it was interrupted. Ignored for other sinks.
        :param exhausted: its run has ended because it had consumed all its input.
        :param running: record the last committed batch. Otherwise the task must be at a boundary, unless its
            run failed.
        :raises NotAtBoundary: it is not at a boundary.
        """
        running = running or self.failure is not None
        transactions: tuple[str, ...] = ()
        batch = self.directory.latest_commit() if running else self.directory.boundary()
        if self.transactions is not None:
            transactions = self.transactions.up_to(checkpoint)
            batch = noted
        state = {**self.state, **(self.state_manager.as_of(batch) if self.state_manager else {})}
        if splits.OPERATOR in state:
            state[splits.OPERATOR] = left_at(self.directory, state[splits.OPERATOR], batch)
        with self._noting:
            if self.recorded_endpoints is not None and batch is not None and not self._are_noted:
                note(self.directory, self.recorded_endpoints)
                self._are_noted = True
        return TaskRecord(
            self.name.index,
            self.directory.uri,
            batch,
            finished,
            state=state,
            transactions=transactions,
            exhausted=exhausted,
        )

    def operators(self, finished: bool) -> tuple[OperatorRecord, ...]:
        found = [OperatorRecord(o.uid, o.kind, o.name, finished) for o in self.directory.operators()]
        if splits.OPERATOR in self.state:
            found.append(OperatorRecord(splits.OPERATOR, OperatorKind.LIST, splits.OPERATOR, finished))
        return (*found, *(self.state_manager.operators(finished) if self.state_manager else ()))

    def sample(self, cores: int = 0) -> None:
        """Update the figures. Costs one call into the JVM, and more only until the operators are known.

        :param cores: those of all executors; 0 if everything runs in the driver.
        """
        self._cores = cores
        if self.query is None:
            if not self.figures.operators:
                self.figures = Figures(
                    self.directory.latest_commit(), operators=self.operators(self.finished)
                )
            return
        progress = self.query.lastProgress
        if progress is None:
            return
        operators = self.figures.operators or described(progress, self.operators(finished=False))
        load = self._cost.see(progress, cores, self._tasks, time.monotonic()) if cores else None
        self.figures = figures_of(progress, operators, self._lags, load)

    def measure_lag(self) -> None:
        """Update the lag of its sources, and the tasks of its batches. Called by one thread; see
        `Lags.measure` for the cost.
        """
        internals = self.engine.internals
        query = self.query
        if query is None:
            return
        if self.over.is_set() or not query.isActive:
            self._lags.close()
            return
        self._lags.measure(lambda: internals.execution(query).sources)
        if self._cores:
            self._tasks = tasks_of(query, self.engine.jvm) or self._tasks

    def _proves(self, query: StreamingQuery, *, pending: bool = False) -> list[bool]:
        """Of which sources a query that has ended by itself must have read all; empty if that is unknown."""
        internals = self.engine.internals
        try:
            if query.exception() is not None or not self.directory.is_at_boundary():
                return []
            execution = internals.execution(query)
            sources = [traits_of(source, internals.jvm) for source in execution.sources]
            return read_by(execution.trigger, sources, pending=pending)
        except Exception as e:  # the session may have ended, the storage may not answer: it is not known
            log.debug("stage %s: whether it has read everything is not known: %s", self.task, one_line(e))
            return []

    def _once(self, *settings: tuple[str, str]) -> StreamingQuery:
        return self.restart(*settings, once=True)

    def _finish_pending(self) -> int | None:
        """For a query that is not started: run only the batch that an earlier driver left uncommitted."""
        if self.directory.is_drained():
            return self.directory.latest_commit()  # max-watermark batches are left to `fire_max_watermark`
        if not self.directory.is_at_boundary() and not self.volatile:
            run_to_end(self._once)
        return self.directory.boundary()
