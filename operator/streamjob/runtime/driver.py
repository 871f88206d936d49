"""The job as its script and its controller see it: queries start and are waited for, terminations are asked for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from .. import job
from ..protocol.coordinator import TerminationConflict
from ..protocol.effects import Effect
from ..protocol.errors import StreamJobError
from ..protocol.lifecycle import TaskState
from ..protocol.messages import DriverConfig, Mode, Problem, SavepointRequest, TerminationRequest
from ..sinks.transactional import TransactionalSink
from . import edges, signals, start
from .board import StatusBoard
from .declared import DeclaredStages
from .inputend import InputEnd
from .loop import Loop
from .query import EndedJvmQuery, ManagedQuery, in_callback
from .settings import starting
from .stage import Engine, Stage, TaskName
from .transactions import Transactions, owner_of
from .unknown import refuse_unknown
from .written import Written, written

log = logging.getLogger("streamjob")

# Seconds without a new query, of a script that never waits for one: what has not started by then is no part of the job any more.
PATIENCE = 30.0
WARNINGS = 20  # of the newest; each is in the log
HURRY = 5.0  # when the job is asked to end, and nothing that its checkpoint has is missing


class Driver:
    """All stages of the job. Thread-safe."""

    def __init__(self, config: DriverConfig, board: StatusBoard) -> None:
        self.config = config
        self.board = board
        self._loop = Loop(config, board)
        self._coordinator = self._loop.coordinator
        self._engine: Engine | None = None
        self.stages = self._loop.stages
        self.declared = DeclaredStages(config, self._expect)
        self.terminated = self._loop.terminated
        self.durable = self._loop.work.durable
        self._loop.on_settled = self._settled
        job.watch_edges(self._edge_declared)
        # A termination that an earlier epoch was carrying out, or that comes while the script still starts its queries. It is
        # taken up when all have started: not before is it known which of them reads from which, and one that was drained too
        # early would never read what its upstream has left.
        self._early = config.termination and replace(config.termination, epoch=config.epoch)
        self._early_savepoint: SavepointRequest | None = None
        self._have_all_started = False
        self._loop.patience = lambda: (
            HURRY if self._early and not self._coordinator.awaits_tasks else PATIENCE
        )

    # --- commands: from the control endpoint and from SIGTERM -------------------------------------------------

    def terminate(self, request: TerminationRequest) -> None:
        """Begin to end the job; at once, the rest is in the status. :raises TerminationConflict: another is under way."""
        with self._loop.lock:
            if self._early is not None and self._early.request_id != request.request_id:
                raise TerminationConflict(
                    f"termination {self._early.request_id} comes first", remedy="Wait for it"
                )
            if not self._have_all_started:
                self._early = request
                return
        self._terminate(request)

    def _terminate(self, request: TerminationRequest) -> None:
        log.info("%s requested: %s", request.mode.value.lower(), request.request_id)
        self._loop.take(lambda: self._coordinator.termination_requested(request))

    def savepoint(self, request: SavepointRequest) -> None:
        """Begin a savepoint beside the run; at once, the rest is in the status.

        :raises TerminationConflict: the job is ending, with a savepoint of its own.
        """
        with self._loop.lock:
            if self._early is not None:
                raise TerminationConflict(
                    f"termination {self._early.request_id} comes first", remedy="Use the savepoint of it"
                )
            if not self._have_all_started:
                # Without those that have yet to start it would not be a savepoint of the job.
                self._early_savepoint = request
                self._loop.work.asked.begin(request.request_id)
                return
            self._loop.take(lambda: self._savepoint(request))

    def _savepoint(self, request: SavepointRequest) -> list[Effect]:
        effects = self._coordinator.savepoint_requested(
            request.request_id, request.savepoint, request.timeout
        )
        log.info("savepoint requested: %s", request.request_id)
        self._loop.work.asked.begin(request.request_id)
        return effects

    def delete(self, savepoints: tuple[str, ...]) -> None:
        """Delete savepoints that are not kept any longer; at once, the rest is in the status."""
        if self.stages:
            threading.Thread(
                target=self._loop.work.delete, args=(savepoints,), name="delete-savepoints", daemon=True
            ).start()

    def tell_records(self, reached: int) -> None:
        """The index is lost: put into the status which checkpoints are known."""
        threading.Thread(
            target=self._loop.work.tell_records, args=(reached,), name="known-records", daemon=True
        ).start()

    def complete(self, checkpoint: int) -> None:
        """notifyCheckpointComplete: the index has it."""
        self._loop.take(lambda: self._coordinator.checkpoint_completed(checkpoint))

    def complete_announced(self) -> None:
        """The report in the pod's termination message stands in for the index: there is no time to wait for it."""
        record = self.board.status.completed
        if record is not None:
            self.complete(record.checkpoint)

    def evict(self) -> None:
        """SIGTERM: a stop with savepoint, unless the job is ending already."""
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
    ) -> ManagedQuery:
        """Start the writer's query as a stage of this job.

        :raises StreamJobError: it cannot be one, or the state that it should start from cannot be had.
        """
        began = time.monotonic()
        engine = self._prepare(writer)
        said = written(writer, original, args, kwargs)
        name = start.stage_name(said.name, self.stages, self.declared)
        uid, task = name.uid, name.task
        restart = start.restarter(writer, original, args, kwargs)
        found = edges.Ends(
            edges.sources_of(writer, engine.files.qualify), edges.sink_of(said, engine.files.qualify)
        )
        upstream, readers = self._neighbours(uid, found)
        with self._loop.lock:
            for reader in readers:
                self._coordinator.reads(reader.task, uid)
            self._coordinator.refuse_start(task, upstream)
        _, sharded = self.declared.find(said.name) or (None, None)
        entry = start.enter(
            engine,
            self.config,
            name,
            sharded,
            writer,
            said,
            found.sink,
            upstream=upstream,
            reads=not self._asked_to_end,
        )
        self.board.update(warnings=(*self.board.status.warnings, *entry.told)[-WARNINGS:])
        transactions = self._transactions(name, said)
        stage = Stage(
            name,
            engine,
            entry.directory,
            restart,
            InputEnd(said.name, entry.directory),
            ends=found,
            finished=entry.finished,
            all_finished=entry.finished if sharded is None else not sharded.plan.started,
            state=sharded.state(name.index) if sharded else None,
            transactions=transactions,
            keeper=entry.keeper,
            noted_ends=entry.ends,
        )
        sources = self._started(upstream)
        start.refuse_unfinished_before_finished(stage, sources, readers)
        start.refuse_transactional_upstream(stage, sources, readers)
        if transactions is not None:
            start.inherit(engine.files, self.config, name, sharded, transactions.sink)
            transactions.recover(entry.directory.latest_commit(), entry.transactions)
        if entry.finished or entry.drained or self._asked_to_end:
            # No new data may be read: it has ended, its last batch ran in an earlier epoch, or the end is asked for.
            jsq: Any = EndedJvmQuery(entry.directory.query_id() or "", name.name)
        else:
            with starting:
                stage.query = original(writer, *args, **kwargs)
            jsq = stage.query._jsq
        self._enter(stage, upstream, drained=entry.drained)
        how = "has finished" if entry.finished else f"started in {time.monotonic() - began:.3f} s"
        log.info("stage %s %s, from %s", task, how, entry.description)
        for other in upstream:
            log.info("stage %s reads what stage %s writes", task, other)
        if stage.query is not None:
            threading.Thread(
                target=self._loop.watch, args=(stage,), name=f"watch-{task}", daemon=True
            ).start()
        return ManagedQuery(jsq, stage, self)

    def _expect(self, uid: str, parallelism: int) -> None:
        """:raises DuplicateStage: the name is taken."""
        with self._loop.lock:
            start.refuse_shards(uid, parallelism, self.stages)
            self._loop.take(lambda: self._coordinator.expect(uid, parallelism))

    def _prepare(self, writer: DataStreamWriter) -> Engine:
        if self._engine is None:
            self._engine = start.open_engine(writer)
            signals.ignore_in_jvm(self._engine.jvm)
            self._loop.begin()
        self._loop.started()
        return self._engine

    def _transactions(self, name: TaskName, said: Written) -> Transactions | None:
        """Of a query that writes to a transactional sink: from here on the runtime says when it commits."""
        sink = said.each_batch.given if said.each_batch else None
        if said.each_batch is None or not isinstance(sink, TransactionalSink):
            return None
        start.refuse_shared(sink, name, self.stages.values())
        said.each_batch.function = sink.write_batch
        if not self.config.checkpointing.interval:
            log.warning(
                "stage %s: its sink commits at checkpoints and spec.checkpoint.interval is 0: its rows become visible "
                "only when it ends",
                name.task,
            )
        return Transactions(sink, owner_of(self.config.job, name.task))

    def _neighbours(self, uid: str, found: edges.Ends) -> tuple[list[str], list[Stage]]:
        """Upstream also what is declared and has not started."""
        others = [(s.uid, s.ends) for s in self.stages.values() if s.uid != uid]
        upstream, readers = edges.neighbours(uid, found, others, job.edges())
        return upstream, self._started(readers)

    def _started(self, uids: list[str]) -> list[Stage]:
        return [s for s in self.stages.values() if s.uid in uids]

    def _edge_declared(self, writer: str, reader: str) -> None:
        """One that has not started hears of it when it does."""
        if found := self._started([reader]):
            start.refuse_transactional_upstream(found[0], self._started([writer]), [])
            self._loop.take(lambda: self._coordinator.edge_declared(reader, writer))
            log.info("stage %s reads what stage %s writes, as declared", reader, writer)

    def _enter(self, stage: Stage, upstream: list[str], *, drained: bool) -> None:
        task, c = stage.task, self._coordinator
        with self._loop.lock:
            self.stages[task] = stage
            if stage.finished:
                batch = stage.directory.latest_commit()
                self._loop.take(lambda: c.task_restored_finished(task, upstream, batch))
                return
            commits = stage.transactions is not None
            union = stage.keeper.union if stage.keeper else ()
            self._loop.take(lambda: c.task_started(task, upstream, commits=commits, union=union))
            if drained:
                self._loop.take(lambda: c.input_ended(task))

    # --- what the script does: stop and wait ------------------------------------------------------------------

    def script_stops(self, *stages: Stage) -> None:
        """The script ends queries; they end as in a stop. Returns when Spark's own stop() would: each stands at its boundary.

        If they are the last ones, it also waits for their final checkpoint, for after it the script may end.
        """
        for stage in stages:
            self._loop.take(lambda task=stage.task: self._coordinator.script_stopped(task))  # type: ignore[misc]
        if in_callback():
            return
        with self._loop.changed:
            self._loop.changed.wait_for(lambda: all(self._released(s) for s in stages))
        for stage in stages:
            stage.released = True

    def before_spark_stops(self) -> None:
        """Hold spark.stop() until the job is over."""
        if self.stages:
            self.script_stops(*[s for s in list(self.stages.values()) if not s.over.is_set()])
            if not in_callback():
                self.await_end()

    def active(self) -> list[StreamingQuery]:
        """As `StreamingQueryManager.active`."""
        running = [s for s in self.stages.values() if s.query is not None and not s.over.is_set()]
        return [ManagedQuery(s.query._jsq, s, self) for s in running if s.query is not None]

    def await_any(self, timeout: float | None) -> bool | None:
        """As `StreamingQueryManager.awaitAnyTermination`: the first stage that is over ends the wait."""
        self.script_waits(timeout)
        with self._loop.changed:
            ended = self._loop.changed.wait_for(
                lambda: any(s.over.is_set() for s in self.stages.values()), timeout
            )
        for stage in self.stages.values():
            if stage.over.is_set() and stage.failure is not None:
                raise stage.failure
        return ended if timeout is not None else None

    def script_waits(self, timeout: float | None) -> None:
        """The script waits for a query, without end: it will not start another one before.

        :raises QueryNotStarted, StateNotKept, ShardMissing: it has declared something for a query that is not there.
        """
        if timeout is None:
            if not self.ending and self.failure is None:
                self._refuse_unknown()
            self._all_started()

    def _all_started(self) -> None:
        with self._loop.lock:
            self._have_all_started = True
            self._loop.take(self._coordinator.all_started)
            early, self._early = self._early, None
            savepoint, self._early_savepoint = self._early_savepoint, None
            if early is not None:
                self._terminate(early)
            if savepoint is not None:
                try:
                    self.savepoint(savepoint)
                except TerminationConflict as e:
                    self._loop.work.asked.give_up(savepoint.request_id, e.message)

    def _refuse_unknown(self) -> None:
        start.refuse_missing(self.declared, self.stages)
        started = list(self.stages.values())
        refuse_unknown({s.uid: None for s in started}, [s.name.name for s in started])

    def _settled(self) -> None:
        """Of a script that never waits without end, there is nobody to raise it to."""
        try:
            self._refuse_unknown()
        except StreamJobError as e:
            log.warning("%s", e)
        self._all_started()

    def await_end(self) -> None:
        """Wait until every stage is over and the final checkpoint has completed, or the job has failed."""
        self.script_waits(None)
        with self._loop.changed:
            self._loop.changed.wait_for(
                lambda: (
                    self.terminated.is_set()
                    or (self.failure is not None and all(s.over.is_set() for s in self.stages.values()))
                )
            )

    @property
    def ending(self) -> bool:
        """A termination is asked for, under way or done."""
        with self._loop.lock:
            return self._asked_to_end or self._coordinator.terminating or self._coordinator.terminated

    @property
    def _asked_to_end(self) -> bool:
        return self._early is not None or self._coordinator.request is not None

    @property
    def failure(self) -> Problem | None:
        """Why the job failed, None if no query did."""
        return self._loop.notes.failure

    def _released(self, stage: Stage) -> bool:
        if stage.over.is_set():
            return True
        running = any(t.state is TaskState.RUNNING for t in self._coordinator.tasks.values())
        return self._coordinator.tasks[stage.task].state is not TaskState.RUNNING and running
