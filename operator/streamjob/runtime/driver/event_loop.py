"""The shell around the coordinator: takes events, carries out effects, feeds back their results as events.

One lock guards the coordinator, which never waits. Everything that may wait (a batch, a copy) happens outside
the lock, in one thread per task and in threads of the job, and comes back as an event.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable

from ...protocol import events as ev
from ...protocol.checkpoints import Checkpointing
from ...protocol.coordinator import Coordinator
from ...protocol.effects import (
    AbortTransactions,
    Cancel,
    CatchUp,
    Close,
    Effect,
    Finish,
    FireMaxWatermark,
    NotifyComplete,
    StartTimer,
    StopAtBoundary,
    Terminated,
)
from ...protocol.errors import StreamJobError
from ...protocol.events import Event
from ...protocol.graph import task_id
from ...protocol.lifecycle import TaskState
from ...protocol.messages import DriverConfig, Mode
from ..query.task import Stage
from ..storage.hadoop import StorageError
from . import threads
from .effects import Work
from .job_stopped import BatchEndedByStop
from .status import Notes, phase, problem_of, stage_statuses, termination_status
from .status_board import StatusBoard

log = logging.getLogger("streamjob")

SAMPLE_SECONDS = 1.0
# Effects that end one run. If another run has followed meanwhile, they are dropped: they would end that one.
OF_RUN = (StopAtBoundary, CatchUp, FireMaxWatermark, Finish, Close, Cancel)


OVER = (TaskState.CLOSED, TaskState.FAILED, TaskState.CANCELED)
# Effects that a completed checkpoint requires of a sink.
OF_SINK = (NotifyComplete, AbortTransactions)


Lane = queue.SimpleQueue[tuple[Effect, "Stage | None"]]


class Loop:
    """Thread-safe.

    `changed` is notified after each event. `terminated` is set with the coordinator's effect Terminated.
    `on_over` is called under the lock with each run that is over, `on_sample` about once a second.
    """

    def __init__(self, config: DriverConfig, board: StatusBoard) -> None:
        self.config = config
        self.stages: dict[str, Stage] = {}  # the last run of each task, by task id
        self.notes = Notes()
        self.terminated = threading.Event()
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        every = config.checkpointing
        self.coordinator = Coordinator(
            config.next_checkpoint,
            Checkpointing(every.max_concurrent, every.timeout, every.min_pause),
            expected(config),
        )
        self.work = Work(config, self.coordinator, self.stages, self.notes, board, self.publish, self.lock)
        self.on_over: Callable[[Stage], None] = lambda stage: None
        self.on_sample: Callable[[], None] = lambda: None
        self._lanes: dict[str, Lane] = {}  # by task
        self._board = board
        self._last_start = time.monotonic()

    def take(self, event: Event) -> None:
        """Give the coordinator an event and carry out the resulting effects.

        The effects of one task are carried out in order, whichever events they come from. Different tasks,
        and the effects of the job, run in parallel.
        """
        with self.lock:
            effects = self.coordinator.handle(event)
            log.debug("%s: %s", event, effects)
            if isinstance(event, ev.SavepointRequested):
                self.work.asked.begin(event.request_id)  # before any effect of it changes the entry
            of_job: list[tuple[Effect, Stage | None]] = []
            for effect in effects:
                stage = self.stages.get(getattr(effect, "task", ""))
                if isinstance(effect, Terminated):
                    self.terminated.set()
                elif isinstance(effect, StartTimer):
                    self._start_timer(effect)
                elif isinstance(effect, Cancel) or not hasattr(effect, "task"):
                    of_job.append((effect, stage))  # a cancel must not wait for earlier effects of its task
                else:
                    if isinstance(effect, StopAtBoundary) and self.stops and stage is not None:
                        stage.cut_short()
                    self._lane(effect.task).put((effect, stage))
            self.publish()
        if of_job:
            threads.start(self._of_job, "work-job", of_job)

    @property
    def stops(self) -> bool:
        """Whether a stop of the job is in progress or done."""
        request = self.coordinator.request
        return request is not None and request.mode is Mode.STOP

    # --- runs -------------------------------------------------------------------------------------------------

    def watch(self, stage: Stage) -> None:
        """Wait until the run's query ends by itself: out of input, stopped by somebody else, or failed."""
        assert stage.query is not None
        try:
            stage.query.awaitTermination()
        except Exception as e:  # the query's own error, or the JVM is gone
            self.fail(stage, e)
        else:
            # Splits are assigned to a shard once: when it has read them, its input has ended.
            if stage.sharded and stage.exhausts:
                self._of_run(stage, ev.InputEnded(stage.task))
            else:
                self._of_run(stage, ev.RunEnded(stage.task, exhausted=stage.exhausts))

    def _of_run(self, stage: Stage, event: Event) -> None:
        """Take an event of a run, unless another run has followed."""
        with self.lock:
            if self.stages.get(stage.task) is stage:
                self.take(event)

    def is_over(self, stage: Stage) -> bool:
        """Whether the script's wait for the run is over.

        It is when the run is closed, or has ended and has nothing left to commit. In a stop, the checkpoint
        that the stop waits for closes the run. If the job has failed, every run is over.
        """
        task = self.coordinator.tasks[stage.task]
        if self.notes.failure is not None or task.state in OVER:
            return True
        return task.ended and not task.commits and not self.stops

    def fail(self, stage: Stage, error: Exception) -> None:
        """The run has failed, and with it all runs that edges connect with it.

        They resume together from their last batches, when the script starts them again or in the next epoch.
        Other runs continue.
        """
        if stage.keeper is not None and stage.keeper.failure is not None:
            error = stage.keeper.failure
        with self.lock:
            if self.stages.get(stage.task) is not stage:
                return
            stage.failed_by_itself = stage.query is not None and stage.query.exception() is not None
            taken_down = []
            for other in self._connected(stage):
                concerned = other is stage or not other.over.is_set()
                if concerned and self.coordinator.tasks[other.task].can_fail:
                    other.failure = other.failure or error
                    self.notes.failed[other.task] = problem_of(error, stage.task)
                    taken_down.append(other)
                    self.take(ev.TaskFailed(other.task))
            self.publish()
        if self.stops and BatchEndedByStop.caused(error):
            log.info("stage %s: the stop has ended its batch, which runs again in the next epoch", stage.task)
        else:
            log.error("stage %s failed: %s", stage.task, problem_of(error).message)
        for other in taken_down:
            if other is not stage:
                log.warning("stage %s is interrupted: it is connected with %s", other.task, stage.task)
                threads.start(other.interrupt, f"interrupt-{other.task}")

    def _connected(self, stage: Stage) -> list[Stage]:
        uids = self.coordinator.connected(stage.uid)
        return [s for s in self.stages.values() if s.uid in uids]

    def fail_job(self, error: Exception, what: str = "the job") -> None:
        """Fail all runs, and so the driver: no run is at fault, or nothing can start the failed run again."""
        with self.lock:
            self.notes.fail(error, what)
            live = [s for s in self.stages.values() if not s.over.is_set()]
            for stage in live:  # before the first event, which wakes the script that waits for one of them
                stage.failure = stage.failure or error
            for stage in live:
                self.take(ev.TaskFailed(stage.task))
            self.publish()
        for stage in live:
            threads.start(stage.interrupt, f"interrupt-{stage.task}")

    def publish(self) -> None:
        """Mark the runs that are over, wake all waits, and update the status."""
        with self.lock:
            c, notes = self.coordinator, self.notes
            for stage in self.stages.values():
                if not stage.over.is_set() and self.is_over(stage):
                    stage.stopped_by_request = self.stops and stage.failure is None
                    stage.over.set()
                    self.on_over(stage)
            self.changed.notify_all()
            dead = [p for task, p in notes.failed.items() if task in c.failed]
            self._board.update(
                phase=phase(c),
                stages=stage_statuses(c, self.stages),
                termination=termination_status(c, notes, self.config.epoch),
                degraded=dead[0] if dead and notes.failure is None else None,
            )

    # --- clocks -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the clocks: the first query is about to start."""
        threads.start(self._sample, "streamjob-sample")
        if self.config.checkpointing.interval:
            threads.start(self._checkpoint, "streamjob-checkpoint")

    def started(self) -> None:
        self._last_start = time.monotonic()

    @property
    def since_last_start(self) -> float:
        """Seconds since a new task began to start; minus infinity if no query has started."""
        return time.monotonic() - self._last_start if self.stages else -math.inf

    def _start_timer(self, effect: StartTimer) -> None:
        fired = ev.TimerFired(effect.timer, effect.number)
        threads.own(threading.Timer(effect.seconds, self.take, [fired])).start()

    def _checkpoint(self) -> None:
        while not self.terminated.wait(self.config.checkpointing.interval):
            self.take(ev.CheckpointDue())

    def _sample(self) -> None:
        """Read each query's figures, for the status, and check whether a declared end of input is reached."""
        while not self.terminated.wait(SAMPLE_SECONDS):
            for stage in list(self.stages.values()):
                try:
                    stage.sample()
                except Exception as e:  # figures must never end a job
                    log.log(
                        logging.DEBUG if stage.over.is_set() else logging.WARNING,
                        "no figures of stage %s: %r",
                        stage.task,
                        e,
                    )
                self._look_for_end(stage)
            with self.lock:
                self._board.refresh(stages=stage_statuses(self.coordinator, self.stages))
            try:
                self.on_sample()
            except Exception as e:  # without this thread an early request would wait for ever
                log.warning("the job could not be checked, and is again in a second: %r", e)

    def _look_for_end(self, stage: Stage) -> None:
        end = stage.input_end
        try:
            if stage.over.is_set() or not end.reached():
                return
        except StorageError as e:
            log.warning("stage %s: whether its input has ended is not known: %s", stage.task, e)
            return
        except StreamJobError as e:
            self.fail(stage, e)
            return
        self._of_run(stage, ev.InputEnded(stage.task, rest=end.leaves_rest))

    # --- effects ----------------------------------------------------------------------------------------------

    def _lane(self, task: str) -> Lane:
        if task not in self._lanes:
            lane: Lane = queue.SimpleQueue()
            self._lanes[task] = lane
            threads.start(self._of_task, f"work-{task}", lane)
        return self._lanes[task]

    def _of_job(self, effects: list[tuple[Effect, Stage | None]]) -> None:
        for effect, stage in effects:
            if not self._carry_out(effect, stage):
                return

    def _of_task(self, lane: Lane) -> None:
        while True:
            effect, stage = lane.get()
            if self._carry_out(effect, stage):
                continue
            with self.lock:
                while not lane.empty():
                    lane.get()  # drop what depends on the failed effect: a close, after a failed commit

    def _carry_out(self, effect: Effect, stage: Stage | None) -> bool:
        """Carry out one effect and take the event that it returns.

        :param stage: the task's last run when the coordinator returned the effect, None for an effect of the
            job.
        :returns: False if it failed; the effects that were to follow it must be dropped.
        """
        if self._is_stale(effect, stage):
            return True
        if isinstance(effect, OF_RUN):
            stage = self.stages[effect.task]  # or the run that has taken over from the effect's
        try:
            event = self.work.carry_out(effect, stage)
        except Exception as e:  # whatever it is: report it, so that nobody waits for this effect for ever
            log.exception("%s failed", effect)
            if isinstance(effect, Close):
                self._board.warn(
                    problem_of(e, effect.task)
                )  # the final checkpoint is complete: nothing fails
                self.take(ev.Closed(effect.task))
            elif stage is None or self._is_owed(effect):
                self.fail_job(e)
            else:
                self.fail(stage, e)
            return False
        try:
            with self.lock:
                if stage is not None:
                    self.notes.progress.pop(stage.task, None)  # the step is done, so its progress is outdated
                if event is None:
                    self.publish()
                elif not self._is_stale(effect, stage):
                    self.take(event)
        except Exception as e:  # a bug of ours: fail, so that nobody waits for ever
            log.exception("what %s has come to is no event", effect)
            self.fail_job(e)
            return False
        return True

    def _is_owed(self, effect: Effect) -> bool:
        """Whether the effect commits or aborts transactions of a task that can no longer fail.

        The checkpoint is in the index, so this must be done. The job fails instead of the task, and the next
        driver recovers the transactions.
        """
        return isinstance(effect, OF_SINK) and not self.coordinator.tasks[effect.task].can_fail

    def _is_stale(self, effect: Effect, stage: Stage | None) -> bool:
        """Whether the effect ends a run that another one has followed, without taking over its end."""
        if not isinstance(effect, OF_RUN):
            return False
        run = self.stages.get(effect.task)
        return run is None or stage is None or not run.continues(stage)


def expected(config: DriverConfig) -> list[str]:
    """Unfinished tasks of the restored checkpoint. What reads from them does not end before they start."""
    latest = config.restore.latest
    if latest is None:
        return []
    return [
        task_id(stage.uid, task.index, len(stage.tasks))
        for stage in latest.stages
        for task in stage.tasks
        if not task.finished
    ]
