"""Starts a query: finds its stage, the batch it begins from and its edges to other stages, or refuses it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ... import job
from ...protocol import events as ev
from ...protocol.messages import DriverConfig, Problem
from ...sinks.transactional import TransactionalSink
from ..jvm import signals
from ..query import edges
from ..query.bounded_input import InputEnd
from ..query.edges import Ends
from ..query.likeness import Likeness
from ..query.task import Engine, Stage, TaskName
from ..query.transactions import Transactions, owner_of
from ..spark.handles import java_query, query_manager
from ..spark.session_conf import started
from ..spark.stream_writer import Written, running_batch_function, written
from ..startup import admission, missing_stages, naming
from ..startup.admission import Entry
from ..startup.check_declarations import refuse_unknown
from ..startup.declared_shards import DeclaredStages
from ..startup.missing_stages import Missing
from ..startup.restore_point import restored, stage_of
from . import threads
from .event_loop import Loop
from .managed_query import EndedJvmQuery

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


class Starter:
    """Starts queries. Thread-safe.

    A script may start queries from several threads, and from callbacks of a query that is just starting.
    """

    def __init__(self, job: Job, loop: Loop) -> None:
        self._job = job
        self._config = job.config
        self._loop = loop
        self._coordinator = loop.coordinator
        self._stages = loop.stages
        self._engines: dict[Any, Engine] = {}  # by the JVM's StreamingQueryManager, one for each session
        self._lock = threading.RLock()
        self._names: set[str] = set()  # tasks that are about to start
        self.calls_back = False  # Spark calls functions of the script, which could start a query

    @property
    def busy(self) -> bool:
        return bool(self._names)

    def start(
        self,
        writer: DataStreamWriter,
        original: Callable[..., StreamingQuery],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Stage:
        """Start the writer's query as a run of a stage.

        If no new data may be read, no Spark query is started: `Stage.query` is None.

        :raises StreamJobError: see `Driver.start_query`.
        :raises SystemExit: the job drains and has finished the stage.
        """
        began = time.monotonic()
        engine = self._engine(writer)
        said = written(writer, original, args, kwargs)
        found = edges.ends_of(writer, said, engine.files.qualify)
        likeness = Likeness.of(writer, said) if said.name is None else None
        with self._named(said, found, engine, likeness) as name:
            stage, entry, upstream = self._prepare(writer, original, args, kwargs, engine, said, found, name)
            self._job.begins()
            before_finished = not entry.finished and self._coordinator.has_finished(stage.task)
            stage.likeness = likeness
            if not self._reads_nothing(stage, entry, said):
                with started:
                    stage.query = original(writer, *args, **kwargs)
            if stage.inside_batch and stage.query is not None and self._job.drains:
                stage.query.awaitTermination()  # before the drain knows it, and ends it at the next boundary
            stage.jsq = java_query(stage.query) if stage.query else _ended(stage)
            self._enter(stage, upstream, drained=entry.drained)
        if before_finished:
            self._job.warn(_finished_for_good(stage))
        how = (
            "has finished"
            if entry.finished or before_finished
            else f"started in {time.monotonic() - began:.3f} s"
        )
        log.info("stage %s %s, from %s", stage.task, how, entry.description)
        for other in upstream:
            log.info("stage %s reads what stage %s writes", stage.task, other)
        if stage.query is not None:
            threads.start(self._loop.watch, f"watch-{stage.task}", stage)
        return stage

    def _prepare(
        self,
        writer: DataStreamWriter,
        original: Callable[..., StreamingQuery],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        engine: Engine,
        said: Written,
        found: Ends,
        name: TaskName,
    ) -> tuple[Stage, Entry, list[str]]:
        """Prepare the run. Everything that can be refused is refused here, before Spark writes an offset.

        :returns: the run, what `admission.enter` found, and the uids of the stages that it reads from.
        :raises StreamJobError: the query is refused.
        :raises SystemExit: the job drains and has finished the stage.
        """
        uid, task = name.uid, name.task
        before = self._stages.get(task)
        if before is None:
            self._loop.started()
        if self._job.drains and self._coordinator.has_finished(task) and before is not None:
            raise SystemExit(0)  # otherwise a script that starts its query in a loop would never end
        self._await_commit(task)
        restart = admission.restarter(writer, original, args, kwargs)
        upstream, readers = self._neighbours(uid, found)
        with self._loop.lock:
            self._coordinator.refuse_start(task, upstream, drained=True)  # only checks for cycles
            for reader in readers:
                own = self._own_sources(reader.uid, reader.ends, [(uid, found)])
                self._coordinator.reads(reader.task, uid, own_sources=own)
        _, sharded = self._job.declared.find(said.name) or (None, None)
        with self._loop.work.carried.lock:
            entry = admission.enter(
                engine,
                self._config,
                name,
                sharded,
                writer,
                said,
                found.sink,
                upstream=upstream,
                reads=self._may_read(said),
                before=before,
                missing=[] if before else [m for m in self.missing(engine) if m != uid],
            )
        with self._loop.lock:
            self._coordinator.refuse_start(task, upstream, drained=entry.drained or entry.finished)
        self._job.warn(*entry.told)
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
            manager=query_manager(writer),
            exhausts=said.exhausts,
        )
        stage.each_batch = said.each_batch
        stage.inside_batch = _inside_batch(said)
        stage.unnamed, stage.sharded, stage.volatile = (
            said.name is None,
            sharded is not None,
            entry.volatile,
        )
        sources = self._started(upstream)
        admission.refuse_unfinished_before_finished(stage, sources, readers)
        admission.refuse_transactional_upstream(stage, sources, readers)
        if transactions is not None:
            admission.inherit(engine.files, self._config, name, sharded, transactions.sink)
            recorded = self._loop.work.recorded.get(task, ()) if before else entry.transactions
            transactions.recover(entry.directory.latest_commit(), recorded)
        self.calls_back = self.calls_back or (said.each_batch is not None and transactions is None)
        return stage, entry, upstream

    def _may_read(self, said: Written) -> bool:
        """Whether a query may read new data: no termination is requested.

        In a drain a batch may still run another query to the end of its input: that is part of the batch, which
        would be committed without it.
        """
        return not self._job.asked_to_end or (_inside_batch(said) and not self._job.stops)

    def _reads_nothing(self, stage: Stage, entry: Entry, said: Written) -> bool:
        """Whether no new data may be read: the stage has finished or was drained, or the job is to end."""
        finished = self._coordinator.has_finished(stage.task)
        return entry.finished or entry.drained or finished or not self._may_read(said)

    def _enter(self, stage: Stage, upstream: list[str], *, drained: bool) -> None:
        with self._loop.lock:
            stage.beside = self._beside(stage)
            if stage.finished:
                batch = stage.directory.latest_commit()
                self._loop.enter(stage, ev.TaskRestoredFinished(stage.task, tuple(upstream), batch))
                return
            own = self._own_sources(stage.uid, stage.ends)
            self._loop.enter(
                stage,
                ev.TaskStarted(
                    stage.task,
                    tuple(upstream),
                    commits=stage.transactions is not None,
                    own_sources=own,
                    drained=drained,
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

    # --- which stage it is ------------------------------------------------------------------------------------

    def _engine(self, writer: DataStreamWriter) -> Engine:
        with self._lock:
            manager = query_manager(writer)
            for known, engine in self._engines.items():
                if known == manager:
                    return engine
            engine = admission.open_engine(writer)
            if not self._engines:
                signals.ignore_sigterm(engine.jvm)
                self._loop.begin()
            self._engines[manager] = engine
            return engine

    @contextmanager
    def _named(
        self, said: Written, found: Ends, engine: Engine, likeness: Likeness | None
    ) -> Iterator[TaskName]:
        location = engine.files.qualify(said.location) if said.location else None
        with self._lock:
            name = naming.task_name(
                said,
                location,
                found,
                dict(self._stages),
                self._job.declared,
                self._places(engine),
                engine,
                likeness,
            )
            if name.task in self._names:
                raise naming.DuplicateStage(
                    f"Cannot start query with name {name.name} as a query with that name is already starting",
                    remedy="Give each query a queryName of its own",
                )
            self._names.add(name.task)
        try:
            yield name
        finally:
            with self._lock:
                self._names.discard(name.task)

    def _places(self, engine: Engine) -> dict[str, str]:
        """The checkpoint locations of the restored stages, by uid."""
        latest = self._config.restore.latest
        if latest is None:
            return {uid: engine.files.qualify(at) for uid, at in self._config.restore.checkpoints.items()}
        return {s.uid: s.tasks[0].location for s in latest.stages if s.tasks}

    def _any_engine(self) -> Engine | None:
        """The engine of some session, None if there is none yet."""
        with self._lock:
            return next(iter(self._engines.values()), None)

    def missing(self, engine: Engine) -> list[str]:
        """Uids of the restored, unfinished stages that the script has not started yet."""
        started = {stage.uid for stage in list(self._stages.values())}
        latest = self._config.restore.latest
        finished = {s.uid for s in latest.stages if s.finished} if latest else set()
        known = self._loop.work.carried.uids(engine.files)
        return [u for u in known if u not in started and u not in finished]

    def left(self) -> Missing:
        """The missing stages that have something left. Empty if the job may leave it behind.

        :raises StreamJobError: as `missing_stages.sort_out`.
        """
        engine = self._any_engine()
        if engine is None or self._config.restore.allow_non_restored_state:
            return Missing()
        return missing_stages.sort_out(engine.files, self._config, self.missing(engine))

    def left_out(self, missing: Collection[str], waited: Collection[Stage]) -> list[str]:
        """The missing stages that the main thread will not start any more, see `missing_stages.left_out`.

        Empty in another thread.
        """
        if threading.current_thread() is not threading.main_thread() or not waited:
            return []
        record = restored(next(iter(waited)).files, self._config)
        gone = [s for uid in missing if (s := stage_of(record, uid)) is not None]
        return missing_stages.left_out(gone, waited, lambda uid: stage_of(record, uid))

    # --- what it is connected with ----------------------------------------------------------------------------

    def _neighbours(self, uid: str, found: Ends) -> tuple[list[str], list[Stage]]:
        """The stages that `uid` reads from, and the runs that read from it.

        Upstream includes stages of declared edges that have not started.
        """
        others = [(s.uid, s.ends) for s in list(self._stages.values()) if s.uid != uid]
        upstream, readers = edges.neighbours(uid, found, others, job.edges())
        return upstream, self._started(readers)

    def _own_sources(
        self,
        uid: str,
        found: Ends,
        about_to_start: Iterable[tuple[str, Ends]] = (),
        about_to_declare: Iterable[tuple[str, str]] = (),
    ) -> bool:
        """Whether the stage reads something that no other stage of the job writes.

        Each shard of another stage counts with a sink of its own.

        :param about_to_start: uid and ends of stages that are not yet among the runs.
        :param about_to_declare: edges that are not yet among the declared ones, as (writer, reader).
        """
        others = [(s.uid, s.ends) for s in list(self._stages.values()) if s.uid != uid]
        others += about_to_start
        pairs = [*job.edges(), *about_to_declare]
        shown = {other for other, ends in others if found.read(ends)}
        declared = {writer for writer, reader in pairs if reader == uid and writer not in shown}
        return found.has_own_sources([ends for _, ends in others], len(declared))

    def _started(self, uids: list[str]) -> list[Stage]:
        return [s for s in list(self._stages.values()) if s.uid in uids]

    def edge_declared(self, writer: str, reader: str) -> bool | None:
        """Check an edge that is about to be declared.

        :returns: whether the reader also reads something that no stage writes; None if it has not started.
        :raises TransactionalUpstream: the reader has started, and the writer has a transactional sink.
        """
        found = self._started([reader])
        if not found:
            return None
        admission.refuse_transactional_upstream(found[0], self._started([writer]), [])
        return self._own_sources(reader, found[0].ends, about_to_declare=[(writer, reader)])

    def refuse_unknown(self) -> None:
        """Check that every declaration belongs to a started query.

        :raises QueryNotStarted: a declaration names a query that the script has not started.
        :raises StateNotKept: a state was declared after its query had started.
        :raises ShardMissing: a declared shard has not started.
        """
        admission.refuse_missing(self._job.declared, dict(self._stages))
        started = list(self._stages.values())
        refuse_unknown({s.uid: None for s in started}, [s.name.name for s in started])

    # --- transactions -----------------------------------------------------------------------------------------

    def _transactions(self, name: TaskName, said: Written) -> Transactions | None:
        """The transactions of the query, None if its sink is not transactional.

        From here on, the runtime decides when the sink commits.

        :raises SinkShared: another query writes to the same sink object.
        """
        sink = said.each_batch.given if said.each_batch else None
        if said.each_batch is None or not isinstance(sink, TransactionalSink):
            return None
        admission.refuse_shared(sink, name, list(self._stages.values()))
        said.each_batch.function = sink.write_batch
        if not self._config.checkpointing.interval:
            text = (
                f"stage {name.task}: its sink commits at checkpoints and spec.checkpoint.interval is 0: its rows become visible "
                "only when it ends"
            )
            log.warning("%s", text)
            self._job.warn(Problem("NoCheckpoints", text, "Set spec.checkpoint.interval"))
        return Transactions(sink, owner_of(self._config.job, name.task))

    def _await_commit(self, task: str) -> None:
        """Wait until what the previous run pre-committed for durable checkpoints is committed.

        After COMMIT_WAIT seconds, the start continues without it.
        """
        with self._loop.changed:
            self._loop.changed.wait_for(lambda: not self._coordinator.awaits_commit(task), COMMIT_WAIT)


def _inside_batch(said: Written) -> bool:
    """Whether a batch of another query starts the query and runs it to the end of its input."""
    return said.exhausts and running_batch_function() is not None


def _finished_for_good(stage: Stage) -> Problem:
    text = (
        f"query {stage.name.name!r} has finished: its input had ended, and its windows are out. It is started again and reads "
        "nothing"
    )
    log.warning("%s", text)
    return Problem(
        "StageFinished", text, "Give the query that reads on a name and a checkpointLocation of its own"
    )


def _ended(stage: Stage) -> Any:
    return EndedJvmQuery(stage.directory.query_id() or "", stage.name.name)
