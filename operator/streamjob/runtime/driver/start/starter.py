"""Starts a query: finds its stage, has it admitted, starts it in Spark, and enters it in the job."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
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
from ...query.run import Run
from ...spark.engine import Engine
from ...spark.handles import analyzed_plan, java_query, query_manager
from ...spark.session_conf import restarter, started
from ...spark.sources.plan_sources import sources_of
from ...spark.stream_writer import written
from ...startup.admission import admit
from ...startup.missing_stages import MissingStages
from ...startup.query_start import QueryStart
from ...startup.sharding.declared_shards import DeclaredStages
from ...startup.warm_up import prepare
from .. import threads
from ..event_loop import Loop
from ..requests import Requests
from ..script.managed_query import IdleJvmQuery, in_callback
from .claims import Claims
from .connections import Connections
from .engines import Engines
from .gate_keeper import GateKeeper
from .observed_writes import ObservedWrites
from .task_names import TaskNames

log = logging.getLogger("streamjob")

COMMIT_WAIT = 600.0  # seconds that a run waits until the transactions of the previous run are committed


class Job(Protocol):
    """What a start needs of the job. `driver.Driver` implements it."""

    config: DriverConfig
    declared: DeclaredStages

    def warn(self, *problems: Problem) -> None: ...

    def on_admitted(self) -> None: ...

    def first_engine(self, engine: Engine) -> None: ...


class Starter:
    """Starts queries. Thread-safe. Implements `query_start.RunningJob`.

    A script may start queries from several threads, and from callbacks of a query that is just starting.
    """

    def __init__(self, job: Job, loop: Loop, gate: GateKeeper, requests: Requests) -> None:
        self._job = job
        self._gate = gate
        self._requests = requests
        self._loop = loop
        self._coordinator = loop.coordinator
        self.runs = loop.runs
        self.points = loop.work.restore_points
        self.carried = loop.work.carried
        self.engines = Engines(job.first_engine)
        self.connections = Connections(self.runs)
        self._claims = Claims(self.runs)
        self._observed_writes = ObservedWrites(loop, self.connections, job.warn)
        self.missing = MissingStages(self.points, self.runs)
        self._names = TaskNames(self.runs, job.declared, self.points)
        self._telling = threading.Lock()
        self._has_told = False
        # Of a check: judges a query in the place of its start.
        self.judge: Callable[[QueryStart], Run] | None = None

    @property
    def busy(self) -> bool:
        return self._names.busy

    def start(
        self,
        writer: DataStreamWriter,
        original: Callable[..., StreamingQuery],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Run:
        """Start the writer's query as a run of a stage.

        If no new data may be read, no Spark query is started: `Run.query` is None.

        :raises StreamJobError: see `ScriptApi.start_query`.
        :raises SystemExit: the job drains and has finished the stage.
        """
        engine = self.engines.of(writer)
        said = written(writer, original, args, kwargs)
        shown = edges.ends_of(writer, said, engine.files.canonical)
        definition = Definition.of(writer, said, shown)
        unnamed = definition if said.name is None else None
        fits = self._gate.wait(lambda: prepare(writer, said, engine, self.config))
        began = time.monotonic()
        self._tell_recorded(engine)
        if self.judge is None:
            self._loop.begin()
        with (
            self._names.named(said, unnamed, engine) as name,
            self._claims.claimed(claim(engine.files, name, writer, said, shown.sink)),
        ):
            if (drained := self._drained(name)) is not None:
                return drained
            before = self.runs.get(name.task)
            self._await_previous_run(name.task, before)
            restart = restarter(writer, original, args, kwargs)
            upstream, readers = self.connections.neighbours(name.uid, shown)
            self._connect(name, upstream, readers, shown)
            _, sharded = self._job.declared.find(said.name) or (None, None)
            start = QueryStart(
                name,
                writer,
                said,
                engine,
                self,
                restart,
                sources=sources_of(writer),
                shown=shown,
                definition=definition,
                before=before,
                sharded=sharded,
                upstream=tuple(upstream),
                readers=tuple(readers),
                fits=fits,
            )
            if self.judge is not None:
                return self.judge(start)
            admit(start)
            self._job.warn(*start.warnings)
            self._job.on_admitted()
            self._job.declared.prepare(said.name)
            before_finished = not start.finished and self._coordinator.has_finished(name.task)
            if said.name is not None and before is not None and not _same(definition, before.definition):
                self._job.warn(redefined(said.name))
            run = run_of(start)
            self._observed_writes.watch(run)
            with start.own_sink.taken() if start.own_sink else nullcontext():
                if not (run.finished or run.drained or before_finished or self.asked_to_end):
                    self._hold_behind_a_flush(run, start.upstream)
                    with started:
                        run.query = original(writer, *args, **kwargs)
            run.jsq = java_query(run.query) if run.query else _idle(run)
            with self._loop.lock:
                self._enter(run, start.upstream)
                self._observed_writes.entered(run, start.upstream)
            if run.finished or run.drained:
                self._loop.work.hold_readers(run)
        if before_finished:
            self._job.warn(_finished_for_good(run))
        done = run.finished or before_finished
        _say(start, "has finished" if done else f"started in {time.monotonic() - began:.3f} s")
        if run.query is not None:
            threads.start(self._loop.watch, f"watch-{run.task}", run)
        return run

    def _tell_recorded(self, engine: Engine) -> None:
        """Before the first query starts: the savepoint that the job starts from has stages and edges, too."""
        if self.points.savepoint is None:
            return
        with self._telling:
            if not self._has_told:
                record = self.points.checkpoint(engine.files)
                if record is not None:
                    self._loop.restore_savepoint(record)
                self._has_told = True

    def _drained(self, name: TaskName) -> Run | None:
        """The last run of the stage, if the job drains and has finished it. None: the stage may start.

        :raises SystemExit: otherwise a script that starts its query in a loop would never end. Not in a
            callback of the JVM: it would end py4j's thread, and the JVM would wait for its answer for ever.
        """
        before = self.runs.get(name.task)
        if before is None or not self._requests.drains or not self._coordinator.has_finished(name.task):
            return None
        if not in_callback():
            raise SystemExit(0)
        return before

    def _await_previous_run(self, task: str, before: Run | None) -> None:
        """Wait until what the previous run pre-committed for durable checkpoints is committed, and its last
        batch is committed or not.

        After COMMIT_WAIT seconds, the start continues without the commit.
        """
        if before is None:
            self._loop.started()
        with self._loop.changed:
            self._loop.changed.wait_for(lambda: not self._coordinator.awaits_commit(task), COMMIT_WAIT)
        if before is not None:
            before.await_interrupted()

    def _connect(
        self, name: TaskName, upstream: list[str], readers: list[Run], shown: edges.Endpoints
    ) -> None:
        """Tell the stages that read from the new one that they do.

        :raises GraphCycle: a stage would read from itself.
        """
        with self._loop.lock:
            self._coordinator.refuse_start(name.task, upstream, drained=True)  # only checks for cycles
            for reader in readers:
                own = self.connections.has_own_sources(reader.uid, reader.ends, [(name.uid, shown)])
                self._coordinator.reads(reader.task, name.uid, own_sources=own)

    def _enter(self, run: Run, upstream: tuple[str, ...]) -> None:
        run.beside = self._beside(run)
        if run.finished:
            batch = run.directory.latest_commit()
            self._loop.enter(run, ev.TaskRestoredFinished(run.task, upstream, batch))
            return
        own = self.connections.has_own_sources(run.uid, run.ends)
        self._loop.enter(
            run,
            ev.TaskStarted(
                run.task,
                upstream,
                commits=run.transactions is not None,
                own_sources=own,
                drained=run.drained,
                emits=run.emits,
            ),
        )

    def _hold_behind_a_flush(self, run: Run, upstream: tuple[str, ...]) -> None:
        """The run ends with its upstream, which an earlier driver has flushed: see `hold_readers`."""
        if self._requests.drains or not self.connections.has_own_sources(run.uid, run.ends):
            with self._loop.lock:
                flushed = self._coordinator.has_flushed(upstream)
            if flushed:
                run.event_time.hold(run.task)

    def _beside(self, run: Run) -> tuple[str, ...] | None:
        """`StageRecord.beside` of the stage: the stages that ran when its first run in this epoch started.

        None if another thread than the main one started that run.
        """
        if others := self.runs.of(run.uid):
            return others[0].beside
        if threading.current_thread() is not threading.main_thread():
            return None
        return tuple(sorted({other.uid for other in self.runs.active()}))

    # --- what the rules of an admission ask -----------------------------------------------------------------

    @property
    def config(self) -> DriverConfig:
        return self._job.config

    @property
    def asked_to_end(self) -> bool:
        return self._requests.asked_to_end

    @property
    def drains(self) -> bool:
        return self._requests.drains

    def refuse_start(self, task: str, upstream: Collection[str], *, drained: bool) -> None:
        with self._loop.lock:
            self._coordinator.refuse_start(task, upstream, drained=drained)

    def flushed_reader(self, task: str) -> str | None:
        with self._loop.lock:
            return self._coordinator.flushed_reader(task)

    def recorded_transactions(self, task: str) -> Collection[str]:
        return self._loop.work.checkpoints.recorded.get(task, ())


def _say(start: QueryStart, how: str) -> None:
    log.info("stage %s %s, from %s", start.task, how, start.beginning)
    for other in start.upstream:
        log.info("stage %s reads what stage %s writes", start.task, other)


def run_of(start: QueryStart) -> Run:
    """The run of a query that has been admitted."""
    said, writer, directory = start.written, start.writer, start.directory
    return Run(
        start.name,
        start.engine,
        directory,
        start.restart,
        InputEnd(said.name, directory),
        ends=start.ends,
        definition=start.definition,
        unnamed=start.definition if said.name is None else None,
        each_batch=said.each_batch,
        mode=(said.mode or "append").lower(),
        exhausts=said.exhausts,
        volatile=start.volatile,
        finished=start.finished,
        all_finished=start.all_finished,
        drained=start.drained,
        emits=not start.new and directory.holds_back,  # also without a reader: one may start later
        behind_pending=said.exhausts and not directory.is_at_boundary(),
        sharded=start.sharded is not None,
        state=start.sharded.state(start.name.index) if start.sharded else {},
        transactions=start.transactions,
        state_manager=start.state_manager,
        recorded_endpoints=start.compared.now,
        manager=query_manager(writer),
        find_table=start.find_table,
        sources=start.sources,
        plan=lambda: analyzed_plan(writer),
    )


def _same(now: Definition | None, before: Definition | None) -> bool:
    return now is None or before is None or now.same_as(before)


def _finished_for_good(run: Run) -> Problem:
    text = (
        f"query {run.name.name!r} has finished: its input had ended, and its windows are out. It is "
        "started again and reads nothing"
    )
    log.warning("%s", text)
    return Problem(
        "StageFinished", text, "Give the query that reads on a name and a checkpointLocation of its own"
    )


def _idle(run: Run) -> Any:
    return IdleJvmQuery(run.directory.query_id() or "", run.name.name)
