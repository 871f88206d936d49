"""The threads around the dispatcher: they take events to it, carry out effects, and wait.

One lock guards the dispatcher, which never waits. Everything that may wait (a batch, a copy) happens outside
the lock, in one thread per task and in threads of the job, and comes back as an event.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from ...jvm import process as jvm_process
from ...protocol.engine import events as ev
from ...protocol.engine.events import Event
from ...protocol.errors import StreamJobError
from ...protocol.formats.records import CheckpointRecord
from ...protocol.messages.driver_config import DriverConfig
from ...protocol.restore.recovery import recorded_edges, unfinished_tasks
from ...storage.hadoop import StorageError
from ..query.run import JVM_ENDS, Run
from ..startup.restore_point import is_fresh
from . import threads
from .dispatcher import Dispatcher, EffectQueue
from .effects import EffectRunner
from .status import stage_statuses
from .status_board import StatusBoard

log = logging.getLogger("streamjob")

SAMPLE_SECONDS = 1.0
LAG_SECONDS = 5.0
LAG_SHARE = 50  # measuring the lag takes at most one part of so many of the time


class Loop:
    """Thread-safe. It is the `Shell` of its dispatcher.

    `changed` is notified after each event. `terminated` is set with the coordinator's effect Terminated.
    `on_over` is called under the lock with each run that is over, `on_sample` about once a second.
    `explained` may put a better error in the place of the one that a run has failed with.
    """

    def __init__(self, config: DriverConfig, board: StatusBoard) -> None:
        self.config = config
        self.terminated = threading.Event()
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.dispatcher = dispatcher = Dispatcher[Run](config, board, self)
        self.coordinator, self.runs, self.notes = dispatcher.coordinator, dispatcher.runs, dispatcher.notes
        self.work = EffectRunner(
            config,
            self.coordinator,
            self.runs,
            self.notes,
            board,
            self.publish,
            self.lock,
            dispatcher.live_savepoints,
        )
        self.on_over: Callable[[Run], None] = lambda run: None
        self.on_sample: Callable[[], None] = lambda: None
        self.explained: Callable[[Exception], Exception] = lambda error: error
        self._workers: dict[str, SimpleQueue[EffectQueue[Run]]] = {}  # by task
        self._board = board
        self._last_start = time.monotonic()
        self._has_begun = False

    # --- events: each of these may be called from any thread ------------------------------------------------

    def take(self, event: Event) -> None:
        """Give the coordinator an event and have the resulting effects carried out."""
        with self.lock:
            self.dispatcher.take(event)

    def enter(self, run: Run, event: Event) -> None:
        """A run begins, see `Dispatcher.enter`."""
        with self.lock:
            self.dispatcher.enter(run, event)

    def fail(self, run: Run, error: Exception) -> None:
        """The run has failed, see `Dispatcher.fail`."""
        cause = self._cause(run, error)
        with self.lock:
            self.dispatcher.fail(run, cause)

    def _cause(self, run: Run | None, error: Exception) -> Exception:
        """What made the run, or the job, fail. It may wait for the JVM's end: not under the lock."""
        if run is None:
            return jvm_process.death(JVM_ENDS) or error
        return self.explained(run.cause_of(error))

    def fail_job(self, error: Exception) -> None:
        """Fail all runs, see `Dispatcher.fail_job`."""
        with self.lock:
            self.dispatcher.fail_job(error)

    def publish(self) -> None:
        """Mark the runs that are over, wake all waits, and update the status."""
        with self.lock:
            self.dispatcher.publish()

    def watch(self, run: Run) -> None:
        """Wait until the run's query ends by itself: out of input, stopped by somebody else, or failed."""
        assert run.query is not None
        try:
            run.query.awaitTermination()
        except Exception as e:  # the query's own error, or the JVM is gone
            if not run.interrupted.is_set():  # else whoever has interrupted it knows why
                self.fail(run, e)
        else:
            # Splits are assigned to a shard once: when it has read them, its input has ended.
            rest = run.exhausts and not run.has_read_all()
            if run.sharded and run.exhausts:
                self._take_of(run, ev.InputEnded(run.task, rest=rest))
            else:
                self._take_of(run, ev.RunEnded(run.task, exhausted=run.exhausts, rest=rest))

    def _take_of(self, run: Run, event: Event) -> None:
        with self.lock:
            self.dispatcher.take_of(run, event)

    def restore(self, config: DriverConfig) -> None:
        """What the job resumes from is known only now, see `GateKeeper`. Comes before the first query."""
        with self.lock:
            self.work.restore_points.restore(config)
            self._tell_restored(config.next_checkpoint, config.restore.latest, is_fresh(config))

    def restore_savepoint(self, record: CheckpointRecord) -> None:
        """What the job's first epoch starts from has been read. Comes before the first query."""
        with self.lock:
            self._tell_restored(self.coordinator.next_checkpoint, record, fresh=True)

    def _tell_restored(self, number: int, record: CheckpointRecord | None, fresh: bool) -> None:
        expected, edges = unfinished_tasks(record), recorded_edges(record)
        self.dispatcher.take(ev.Restored(number, expected, fresh, edges))

    # --- what the dispatcher asks for: called under the lock ------------------------------------------------

    def work_on(self, queue: EffectQueue[Run]) -> None:
        if not queue.task:
            threads.start(self._work, "work-job", queue)
            return
        if queue.task not in self._workers:
            self._workers[queue.task] = SimpleQueue()
            threads.start(self._of_task, f"work-{queue.task}", self._workers[queue.task])
        self._workers[queue.task].put(queue)

    def call_later(self, seconds: float, event: Event) -> None:
        threads.own(threading.Timer(seconds, self.take, [event])).start()

    def interrupt(self, run: Run) -> None:
        run.interrupted.set()  # here: the script must not find its batch committable when it starts it again
        threads.start(run.interrupt, f"interrupt-{run.task}")

    def published(self, over: Sequence[Run]) -> None:
        for run in over:
            self.on_over(run)
        self.changed.notify_all()

    def on_terminated(self) -> None:
        self.terminated.set()

    def _of_task(self, queues: SimpleQueue[EffectQueue[Run]]) -> None:
        while True:
            self._work(queues.get())

    def _work(self, queue: EffectQueue[Run]) -> None:
        """Carry out the effects of the queue, until there are none."""
        while True:
            with self.lock:
                step = self.dispatcher.next(queue)
            if step is None:
                return
            try:
                event = self.work.carry_out(step.effect, step.run)
            except Exception as e:
                cause = self._cause(step.run, e)
                with self.lock:
                    self.dispatcher.failed(queue, step, cause)
            else:
                with self.lock:
                    self.dispatcher.done(queue, step, event)

    # --- clocks ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the clocks: the first query is about to start. A repetition does nothing."""
        with self.lock:
            if self._has_begun:
                return
            self._has_begun = True
        threads.start(self._sample, "streamjob-sample")
        threads.start(self._measure_lag, "streamjob-lag")
        if self.config.checkpointing.interval:
            threads.start(self._checkpoint, "streamjob-checkpoint")

    def started(self) -> None:
        self._last_start = time.monotonic()

    @property
    def since_last_start(self) -> float:
        """Seconds since a new task began to start; minus infinity if no query has started."""
        return time.monotonic() - self._last_start if self.runs else -math.inf

    def _checkpoint(self) -> None:
        while not self.terminated.wait(self.config.checkpointing.interval):
            self.take(ev.CheckpointDue())

    def _sample(self) -> None:
        """Read each query's figures, for the status, and check whether a declared end of input is reached."""
        while not self.terminated.wait(SAMPLE_SECONDS):
            cores = self._cores()
            for run in self.runs.all():
                try:
                    run.sample(cores)
                except Exception as e:  # figures must never end a job
                    log.log(
                        logging.DEBUG if run.over.is_set() else logging.WARNING,
                        "no figures of stage %s: %r",
                        run.task,
                        e,
                    )
                self._look_for_end(run)
            with self.lock:
                self._board.refresh(stages=stage_statuses(self.coordinator, self.runs))
            try:
                self.on_sample()
            except Exception as e:  # without this thread an early request would wait for ever
                log.warning("the job could not be checked, and is again in a second: %r", e)

    def _cores(self) -> int:
        """Those of all executors that are connected; 0 if everything runs in the driver."""
        executors = self._board.status.executors
        return executors.running * int(self.config.spark_conf["spark.executor.cores"]) if executors else 0

    def _measure_lag(self) -> None:
        """Measure how far each query is behind its sources. That may list folders, and waits for brokers."""
        pause = LAG_SECONDS
        while not self.terminated.wait(pause):
            began = time.monotonic()
            for run in self.runs.all():
                try:
                    run.measure_lag()
                except Exception as e:  # figures must never end a job
                    log.debug("no lag of stage %s: %r", run.task, e)
            pause = max(LAG_SECONDS, LAG_SHARE * (time.monotonic() - began))

    def _look_for_end(self, run: Run) -> None:
        end = run.input_end
        try:
            if run.over.is_set() or not end.reached():
                return
        except StorageError as e:
            log.warning("stage %s: whether its input has ended is not known: %s", run.task, e)
            return
        except StreamJobError as e:
            self.fail(run, e)
            return
        self._take_of(run, ev.InputEnded(run.task, rest=end.leaves_rest))
