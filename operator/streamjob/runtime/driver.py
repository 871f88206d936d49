"""The shell around the coordinator: events from the script, the queries and the controller go in, effects are carried out.

One lock guards the coordinator, which never waits; everything that may wait (a batch, a copy) happens outside the lock, in
a thread for each task, and comes back as an event.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ..protocol.coordinator import Coordinator, TerminationConflict
from ..protocol.effects import Effect, Terminated
from ..protocol.messages import DriverConfig, Mode, Problem, TerminationRequest
from . import signals, start
from .board import StatusBoard
from .query import EndedJvmQuery, ManagedQuery, in_callback
from .reporting import Notes, closed, phase, stage_statuses, termination_status
from .stage import Engine, Stage
from .work import Work
from .written import written

log = logging.getLogger("streamjob")

SAMPLE_SECONDS = 1.0


class Driver:
    """All stages of the job and the coordinator that rules them. Thread-safe."""

    def __init__(self, config: DriverConfig, board: StatusBoard) -> None:
        self.config = config
        self.board = board
        self.stages: dict[str, Stage] = {}
        self.notes = Notes()
        self.terminated = threading.Event()
        self._lock = threading.RLock()
        self._over = threading.Condition(self._lock)
        self._coordinator = Coordinator(next_checkpoint=config.next_checkpoint)
        self._work = Work(config, self._coordinator, self.stages, self.notes, board, self._publish)
        self.durable = self._work.durable
        self._engine: Engine | None = None
        if config.termination is not None:
            # An earlier epoch died while it carried this out: go on with the same request.
            self.terminate(replace(config.termination, epoch=config.epoch))

    # --- commands: from the control endpoint and from SIGTERM -------------------------------------------------

    def terminate(self, request: TerminationRequest) -> None:
        """Begin to end the job; at once, the rest is in the status. :raises TerminationConflict: another is under way."""
        log.info("%s requested: %s", request.mode.value.lower(), request.request_id)
        self._take(lambda: self._coordinator.termination_requested(request))

    def complete(self, checkpoint: int) -> None:
        """notifyCheckpointComplete: the index has it."""
        self._take(lambda: self._coordinator.checkpoint_completed(self._work.number_of(checkpoint)))

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

    # --- what the script does ---------------------------------------------------------------------------------

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
        if self._engine is None:
            self._engine = start.open_engine(writer)
            signals.ignore_in_jvm(self._engine.jvm)
            threading.Thread(target=self._sample, name="streamjob-sample", daemon=True).start()
        began = time.monotonic()
        said = written(writer, original, args, kwargs)
        uid = start.stage_name(said.name, self.stages)
        entry = start.enter(self._engine, self.config, uid, writer, said)
        stage = Stage(uid, self._engine, entry.directory, start.once(writer, original, args, kwargs))
        jsq: Any
        if entry.drained:
            # Its last batch ran in an earlier epoch (or only has to be committed): no new data may be read.
            jsq = EndedJvmQuery(entry.directory.query_id() or "", uid)
        else:
            stage.query = original(writer, *args, **kwargs)
            jsq = stage.query._jsq
        log.info("stage %s started in %.3f s, from %s", uid, time.monotonic() - began, entry.description)
        with self._lock:
            self.stages[uid] = stage
            self._take(lambda: self._coordinator.task_started(uid))
            if entry.drained:
                self._take(lambda: self._coordinator.input_ended(uid))
        if not entry.drained:
            threading.Thread(target=self._watch, args=(stage,), name=f"watch-{uid}", daemon=True).start()
        return ManagedQuery(jsq, stage, self)

    def script_stops(self, stage: Stage) -> None:
        """The script called stop() on the query; it ends as in a stop, a final checkpoint included."""
        self._take(lambda: self._coordinator.script_stopped(stage.uid))

    def before_spark_stops(self) -> None:
        """Hold spark.stop() until every stage is over."""
        for stage in list(self.stages.values()):
            if not stage.over.is_set():
                self.script_stops(stage)
                if not in_callback():
                    stage.over.wait()

    def active(self) -> list[StreamingQuery]:
        """As `StreamingQueryManager.active`."""
        running = [s for s in self.stages.values() if s.query is not None and not s.over.is_set()]
        return [ManagedQuery(s.query._jsq, s, self) for s in running if s.query is not None]

    def await_any(self, timeout: float | None) -> bool | None:
        """As `StreamingQueryManager.awaitAnyTermination`: the first stage that is over ends the wait."""
        with self._over:
            ended = self._over.wait_for(lambda: any(s.over.is_set() for s in self.stages.values()), timeout)
        for stage in self.stages.values():
            if stage.over.is_set() and stage.failure is not None:
                raise stage.failure
        return ended if timeout is not None else None

    def await_all(self) -> None:
        """Wait until every stage that has started is over."""
        for stage in list(self.stages.values()):
            stage.over.wait()

    @property
    def ending(self) -> bool:
        """A termination is under way or done."""
        with self._lock:
            return self._coordinator.terminating or self._coordinator.terminated

    @property
    def failure(self) -> Problem | None:
        """Why the job failed, None if no query did."""
        return self.notes.failure

    # --- the loop ---------------------------------------------------------------------------------------------

    def _take(self, event: Callable[[], list[Effect]]) -> None:
        """Give the coordinator an event and carry out what it wants, each task's effects in order, tasks side by side."""
        with self._lock:
            effects = event()
            self._publish()
        lanes: dict[str, list[Effect]] = {}
        for effect in effects:
            if isinstance(effect, Terminated):
                self.terminated.set()
            else:
                lanes.setdefault(getattr(effect, "task", ""), []).append(effect)
        for name, lane in lanes.items():
            threading.Thread(
                target=self._run, args=(lane,), name=f"work-{name or 'job'}", daemon=True
            ).start()

    def _run(self, lane: list[Effect]) -> None:
        for effect in lane:
            try:
                event = self._work.carry_out(effect)
            except Exception as e:  # whatever it is, somebody waits for this lane: say it and let go
                log.exception("%s failed", effect)
                self._fail(self.stages.get(getattr(effect, "task", "")), e)
                return
            self.notes.progress = ""  # the words of a step that is behind
            self._take(event)

    def _watch(self, stage: Stage) -> None:
        """Wait for the query to end by itself: out of input, stopped past us, or failed."""
        assert stage.query is not None
        try:
            stage.query.awaitTermination()
        except StreamingQueryException as e:
            self._fail(stage, e)
        except Exception as e:  # the JVM is gone
            self._fail(stage, e)
        else:
            self._take(lambda: self._coordinator.input_ended(stage.uid))

    def _fail(self, stage: Stage | None, error: Exception) -> None:
        with self._lock:
            self.notes.fail(error, stage.uid if stage else "the job")
            for one in [stage] if stage else list(self.stages.values()):
                self._coordinator.task_failed(one.uid)
                one.failure = one.failure or error
                one.over.set()
            self._publish()

    def _publish(self) -> None:
        with self._lock:
            for uid, stage in self.stages.items():
                if closed(self._coordinator, uid):
                    stage.over.set()
            self._over.notify_all()
            self.board.update(
                phase=phase(self._coordinator),
                stages=stage_statuses(self._coordinator, self.stages),
                termination=termination_status(self._coordinator, self.notes, self.config.epoch),
                problem=self.notes.failure,
            )

    def _sample(self) -> None:
        """Renew the figures of a running job, for people."""
        while not self.terminated.wait(SAMPLE_SECONDS):
            for stage in list(self.stages.values()):
                try:
                    stage.sample()
                except Exception as e:  # figures never end a job
                    log.warning("no figures of stage %s: %r", stage.uid, e)
            with self._lock:
                self.board.refresh(stages=stage_statuses(self._coordinator, self.stages))
