"""Starts a query: finds its stage, the batch it begins from and its edges to other stages, or refuses it."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Protocol

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ....protocol.engine import events as ev
from ....protocol.graph import TaskName
from ....protocol.messages.driver_config import DriverConfig
from ....protocol.messages.driver_status import Problem
from ...query import edges
from ...query.bounded_input import InputEnd
from ...query.definition import Definition, redefined
from ...query.places.claim import claim
from ...query.task import Stage
from ...spark.engine import Engine
from ...spark.handles import java_query, query_manager
from ...spark.session_conf import restarter, started
from ...spark.sources.plan_sources import sources_of
from ...spark.stream_writer import Written, written
from ...spark.tables.find import table_written
from ...startup import admission
from ...startup.checks import neighbours
from ...startup.missing_stages import MissingStages
from ...startup.sharding.declared_shards import DeclaredStages
from ...startup.sharding.inherited_transactions import inherit
from ...startup.warm_up import prepare
from .. import threads
from ..event_loop import Loop
from ..script.managed_query import IdleJvmQuery, in_callback
from .claims import Claims
from .connections import Connections
from .engines import Engines
from .gate_keeper import GateKeeper
from .observed_writes import ObservedWrites
from .task_names import TaskNames
from .transactional_sink import transactions_of

log = logging.getLogger("streamjob")

COMMIT_WAIT = 600.0  # seconds that a run waits until the transactions of the previous run are committed


class Job(Protocol):
    """What a start needs of the job. `driver.Driver` implements it."""

    config: DriverConfig
    declared: DeclaredStages

    @property
    def drains(self) -> bool: ...

    @property
    def stops(self) -> bool: ...

    @property
    def asked_to_end(self) -> bool: ...

    def warn(self, *problems: Problem) -> None: ...

    def begins(self) -> None: ...

    def first_engine(self, engine: Engine) -> None: ...


class Starter:
    """Starts queries. Thread-safe.

    A script may start queries from several threads, and from callbacks of a query that is just starting.
    """

    def __init__(self, job: Job, loop: Loop, gate: GateKeeper) -> None:
        self._job = job
        self._gate = gate
        self._config = job.config
        self._loop = loop
        self._coordinator = loop.coordinator
        self._stages = loop.stages
        self._points = loop.work.restore_points
        self.engines = Engines(job.first_engine)
        self.connections = Connections(loop.stages)
        self._claims = Claims(loop.stages)
        self._observed_writes = ObservedWrites(loop, self.connections, job.warn)
        self.missing = MissingStages(self._points, loop.stages)
        self._names = TaskNames(loop.stages, job.declared, self._points)
        self._telling = threading.Lock()
        self._has_told = False

    @property
    def busy(self) -> bool:
        return self._names.busy

    def start(
        self,
        writer: DataStreamWriter,
        original: Callable[..., StreamingQuery],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Stage:
        """Start the writer's query as a run of a stage.

        If no new data may be read, no Spark query is started: `Stage.query` is None.

        :raises StreamJobError: see `ScriptSide.start_query`.
        :raises SystemExit: the job drains and has finished the stage.
        """
        engine = self.engines.of(writer)
        said = written(writer, original, args, kwargs)
        found = edges.ends_of(writer, said, engine.files.canonical)
        definition = Definition.of(writer, said, found)
        unnamed = definition if said.name is None else None
        fits = self._gate.wait(lambda: prepare(writer, said, engine, self._config))
        began = time.monotonic()
        self._tell_recorded(engine)
        self._loop.begin()
        with (
            self._names.named(said, unnamed, engine) as name,
            self._claims.claimed(claim(engine.files, name, writer, said, found.sink)),
        ):
            if (drained := self._drained(name)) is not None:
                return drained
            before = self._stages.get(name.task)
            stage, entry, upstream = self._admit(
                writer, original, args, kwargs, engine, said, found, name, fits
            )
            self._job.begins()
            self._job.declared.prepare(said.name)
            before_finished = not entry.finished and self._coordinator.has_finished(stage.task)
            stage.unnamed, stage.definition = unnamed, definition
            if said.name is not None and before is not None and not _same(definition, before.definition):
                self._job.warn(redefined(said.name))
            self._observed_writes.watch(stage)
            stage.behind_pending = said.exhausts and not entry.directory.is_at_boundary()
            with entry.own_sink.taken() if entry.own_sink else nullcontext():
                if not self._reads_nothing(stage, entry):
                    with started:
                        stage.query = original(writer, *args, **kwargs)
            stage.jsq = java_query(stage.query) if stage.query else _idle(stage)
            with self._loop.lock:
                self._enter(stage, upstream)
                self._observed_writes.entered(stage, upstream)
        if before_finished:
            self._job.warn(_finished_for_good(stage))
        if entry.finished or before_finished:
            how = "has finished"
        else:
            how = f"started in {time.monotonic() - began:.3f} s"
        log.info("stage %s %s, from %s", stage.task, how, entry.description)
        for other in upstream:
            log.info("stage %s reads what stage %s writes", stage.task, other)
        if stage.query is not None:
            threads.start(self._loop.watch, f"watch-{stage.task}", stage)
        return stage

    def _tell_recorded(self, engine: Engine) -> None:
        """Before the first query starts: the savepoint that the job starts from has stages and edges, too."""
        if self._points.savepoint is None:
            return
        with self._telling:
            if not self._has_told:
                record = self._points.checkpoint(engine.files)
                if record is not None:
                    self._loop.restore_savepoint(record)
                self._has_told = True

    # --- admission ------------------------------------------------------------------------------------------

    def _drained(self, name: TaskName) -> Stage | None:
        """The last run of the stage, if the job drains and has finished it. None: the stage may start.

        :raises SystemExit: otherwise a script that starts its query in a loop would never end. Not in a
            callback of the JVM: it would end py4j's thread, and the JVM would wait for its answer for ever.
        """
        before = self._stages.get(name.task)
        if before is None or not self._job.drains or not self._coordinator.has_finished(name.task):
            return None
        if not in_callback():
            raise SystemExit(0)
        return before

    def _admit(
        self,
        writer: DataStreamWriter,
        original: Callable[..., StreamingQuery],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        engine: Engine,
        said: Written,
        found: edges.Ends,
        name: TaskName,
        fits: str | None,
    ) -> tuple[Stage, admission.Entry, list[str]]:
        """Admit the run. Everything that can be refused is refused here, before Spark writes an offset.

        :param fits: as in `admission.enter`.

        :returns: the run, what `admission.enter` found, and the uids of the stages that it reads from.
        :raises StreamJobError: the query is refused.
        """
        uid, task = name.uid, name.task
        before = self._stages.get(task)
        if before is None:
            self._loop.started()
        self._await_commit(task)
        if before is not None:
            before.await_interrupted()
        restart = restarter(writer, original, args, kwargs)
        upstream, readers = self.connections.neighbours(uid, found)
        with self._loop.lock:
            self._coordinator.refuse_start(task, upstream, drained=True)  # only checks for cycles
            for reader in readers:
                own = self.connections.has_own_sources(reader.uid, reader.ends, [(uid, found)])
                self._coordinator.reads(reader.task, uid, own_sources=own)
        _, sharded = self._job.declared.find(said.name) or (None, None)
        with self._loop.work.carried.lock:
            entry = admission.enter(
                engine,
                self._points,
                name,
                sharded,
                writer,
                said,
                found.sink,
                upstream=upstream,
                reads=not self._job.asked_to_end,
                before=before,
                fits=fits,
                missing=[] if before else [m for m in self.missing.uids(engine.files) if m != uid],
            )
        new = before is None and entry.directory.latest_offset() is None
        with self._loop.lock:
            self._coordinator.refuse_start(task, upstream, drained=entry.drained or entry.finished)
        self._job.warn(*entry.warnings)
        transactions = transactions_of(self._config, name, said, list(self._stages.values()), self._job.warn)
        stage = Stage(
            name,
            engine,
            entry.directory,
            restart,
            InputEnd(said.name, entry.directory),
            ends=found.with_writes(
                *(entry.ends.channels if entry.ends else ()), *(before.ends.wrote if before else ())
            ),
            finished=entry.finished,
            all_finished=entry.finished if sharded is None else not sharded.plan.started,
            state=sharded.state(name.index) if sharded else None,
            transactions=transactions,
            state_manager=entry.state_manager,
            noted_ends=entry.ends,
            manager=query_manager(writer),
            exhausts=said.exhausts,
            sources=lambda: sources_of(writer),
        )
        stage.each_batch = said.each_batch
        stage.appends = (said.mode or "append").lower() == "append"
        if said.each_batch is not None:
            said.each_batch.interrupted = stage.interrupted
        stage.find_table = functools.partial(table_written, writer, said, engine.files.qualify)
        stage.sharded, stage.volatile = sharded is not None, entry.volatile
        # Also without a reader: one may start later.
        stage.drained, stage.emits = entry.drained, not new and entry.directory.holds_back
        sources = self.connections.started(upstream)
        if not self._job.asked_to_end:  # a stage that reads nothing writes nothing that could be missed
            neighbours.refuse_unfinished_before_finished(stage, sources, readers)
            if before is None and not (stage.all_finished or stage.drained):
                self._refuse_before_past_readers(stage)
        else:
            self._warn_of_flushed_reader(stage, new=new, again=before is not None)
        neighbours.refuse_transactional_upstream(stage, sources, readers)
        if transactions is not None:
            inherit(self._config.job, name, sharded, transactions.sink)
            recorded = self._loop.work.checkpoints.recorded.get(task, ()) if before else entry.transactions
            transactions.recover(entry.directory.latest_commit(), recorded)
        return stage, entry, upstream

    def _refuse_before_past_readers(self, stage: Stage) -> None:
        started = {s.uid for s in list(self._stages.values())}
        past = self._points.past_readers(stage.files, started)
        record = self._points.checkpoint(stage.files) if past else None
        new = record is None or all(s.uid != stage.uid for s in record.stages)
        neighbours.refuse_before_past_readers(stage.uid, stage.ends, past, new=new)

    def _warn_of_flushed_reader(self, stage: Stage, *, new: bool, again: bool) -> None:
        """Warn of a stage that starts in a drain when a stage that reads from it has been flushed."""
        with self._loop.lock:
            reader = self._coordinator.flushed_reader(stage.task)
        if reader is not None and not again and self._job.drains:
            self._job.warn(neighbours.started_after_flush(stage.uid, reader, new=new))

    def _reads_nothing(self, stage: Stage, entry: admission.Entry) -> bool:
        """Whether no new data may be read: the stage has finished or was drained, or the job is to end."""
        finished = self._coordinator.has_finished(stage.task)
        return entry.finished or stage.drained or finished or self._job.asked_to_end

    def _enter(self, stage: Stage, upstream: list[str]) -> None:
        stage.beside = self._beside(stage)
        if stage.finished:
            batch = stage.directory.latest_commit()
            self._loop.enter(stage, ev.TaskRestoredFinished(stage.task, tuple(upstream), batch))
            return
        own = self.connections.has_own_sources(stage.uid, stage.ends)
        self._loop.enter(
            stage,
            ev.TaskStarted(
                stage.task,
                tuple(upstream),
                commits=stage.transactions is not None,
                own_sources=own,
                drained=stage.drained,
                emits=stage.emits,
            ),
        )

    def _beside(self, stage: Stage) -> tuple[str, ...] | None:
        """`StageRecord.beside` of the stage: the stages that ran when its first run in this epoch started.

        None if another thread than the main one started that run.
        """
        for other in list(self._stages.values()):
            if other.uid == stage.uid:
                return other.beside
        if threading.current_thread() is not threading.main_thread():
            return None
        return tuple(sorted({s.uid for s in list(self._stages.values()) if not s.over.is_set()}))

    # --- which stage it is ----------------------------------------------------------------------------------

    def edge_declared(self, writer: str, reader: str) -> bool | None:
        """As `Connections.edge_declared`."""
        return self.connections.edge_declared(writer, reader)

    # --- transactions ---------------------------------------------------------------------------------------

    def _await_commit(self, task: str) -> None:
        """Wait until what the previous run pre-committed for durable checkpoints is committed.

        After COMMIT_WAIT seconds, the start continues without it.
        """
        with self._loop.changed:
            self._loop.changed.wait_for(lambda: not self._coordinator.awaits_commit(task), COMMIT_WAIT)


def _same(now: Definition | None, before: Definition | None) -> bool:
    return now is None or before is None or now.same_as(before)


def _finished_for_good(stage: Stage) -> Problem:
    text = (
        f"query {stage.name.name!r} has finished: its input had ended, and its windows are out. It is "
        "started again and reads nothing"
    )
    log.warning("%s", text)
    return Problem(
        "StageFinished", text, "Give the query that reads on a name and a checkpointLocation of its own"
    )


def _idle(stage: Stage) -> Any:
    return IdleJvmQuery(stage.directory.query_id() or "", stage.name.name)
