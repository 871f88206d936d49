"""The shell around the coordinator: events go in, effects are carried out, what comes of them goes in as events again.

One lock guards the coordinator, which never waits; everything that may wait (a batch, a copy) happens outside the lock, in
a thread for each task, and comes back as an event.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable

from ..protocol.checkpoints import Checkpointing
from ..protocol.coordinator import Coordinator
from ..protocol.effects import Cancel, Effect, StartTimer, Terminated
from ..protocol.errors import StreamJobError
from ..protocol.graph import task_id
from ..protocol.messages import DriverConfig
from .board import StatusBoard
from .files import StorageError
from .reporting import Notes, closed, phase, stage_statuses, termination_status
from .stage import Stage
from .work import Work

log = logging.getLogger("streamjob")

SAMPLE_SECONDS = 1.0


class Loop:
    """Thread-safe. `changed` is notified after each event; `terminated` is set when the coordinator says so; `on_settled` is
    called when no query has started for `patience` seconds."""

    def __init__(self, config: DriverConfig, board: StatusBoard) -> None:
        self.config = config
        self.stages: dict[str, Stage] = {}  # by task id
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
        self.work = Work(config, self.coordinator, self.stages, self.notes, board, self.publish)
        self._lanes: dict[str, queue.SimpleQueue[Effect]] = {}  # by task
        self._board = board
        self._last_start = time.monotonic()
        self.on_settled: Callable[[], None] = lambda: None
        self.patience: Callable[[], float] = lambda: math.inf

    def take(self, event: Callable[[], list[Effect]]) -> None:
        """Give the coordinator an event and carry out what it wants: the effects of one task in order, whatever event they
        come from; tasks, and what is not of a task, side by side."""
        with self.lock:
            effects = event()
            self.publish()
            of_job = []
            for effect in effects:
                if isinstance(effect, Terminated):
                    self.terminated.set()
                    self.publish()
                elif isinstance(effect, StartTimer):
                    self._start_timer(effect)
                elif isinstance(effect, Cancel) or not hasattr(effect, "task"):
                    of_job.append(effect)  # a cancel waits for nothing
                else:
                    self._lane(effect.task).put(effect)
        if of_job:
            threading.Thread(target=self._of_job, args=(of_job,), name="work-job", daemon=True).start()

    def _lane(self, task: str) -> queue.SimpleQueue[Effect]:
        if task not in self._lanes:
            lane: queue.SimpleQueue[Effect] = queue.SimpleQueue()
            self._lanes[task] = lane
            threading.Thread(
                target=self._of_task, args=(task, lane), name=f"work-{task}", daemon=True
            ).start()
        return self._lanes[task]

    def watch(self, stage: Stage) -> None:
        """Wait for the stage's query to end by itself: out of input, stopped past us, or failed."""
        assert stage.query is not None
        try:
            stage.query.awaitTermination()
        except Exception as e:  # its own, or the JVM is gone
            self.fail(stage, e)
        else:
            self.take(lambda: self.coordinator.input_ended(stage.task))

    def fail(self, stage: Stage | None, error: Exception) -> None:
        """The job has failed, with all its stages: they go on together from the last checkpoint, in the next epoch or when
        the script starts them again."""
        if stage is not None and stage.keeper is not None and stage.keeper.failure is not None:
            error = stage.keeper.failure
        with self.lock:
            self.notes.fail(error, stage.task if stage else "the job")
            others = [s for s in self.stages.values() if s is not stage and not s.over.is_set()]
            for one in [stage, *others] if stage else others:
                self.coordinator.task_failed(one.task)
                one.failure = one.failure or error
                one.over.set()
            self.publish()
        for other in others:
            threading.Thread(target=other.interrupt, name=f"interrupt-{other.task}", daemon=True).start()

    def publish(self) -> None:
        with self.lock:
            for task, stage in self.stages.items():
                if closed(self.coordinator, task):
                    stage.over.set()
            self.changed.notify_all()
            self._board.update(
                phase=phase(self.coordinator),
                stages=stage_statuses(self.coordinator, self.stages),
                termination=termination_status(self.coordinator, self.notes, self.config.epoch),
                problem=self.notes.failure,
            )

    def begin(self) -> None:
        """The first query is about to start: from now on the clock matters."""
        threading.Thread(target=self._sample, name="streamjob-sample", daemon=True).start()
        if self.config.checkpointing.interval:
            threading.Thread(target=self._checkpoint, name="streamjob-checkpoint", daemon=True).start()

    def started(self) -> None:
        self._last_start = time.monotonic()

    def _of_job(self, effects: list[Effect]) -> None:
        for effect in effects:
            if not self._carry_out("", effect):
                return

    def _of_task(self, task: str, lane: queue.SimpleQueue[Effect]) -> None:
        while True:
            if self._carry_out(task, lane.get()):
                continue
            with self.lock:
                while not lane.empty():
                    lane.get()  # what was to follow does not follow: a close, after a commit that failed

    def _carry_out(self, task: str, effect: Effect) -> bool:
        try:
            event = self.work.carry_out(effect)
        except Exception as e:  # whatever it is, somebody waits for it: say it and let go
            log.exception("%s failed", effect)
            self.fail(self.stages.get(task), e)
            return False
        self.notes.progress.pop(task, None)  # the words of a step that is behind
        self.take(event)
        return True

    def _start_timer(self, effect: StartTimer) -> None:
        timer = threading.Timer(
            effect.seconds,
            lambda: self.take(lambda: self.coordinator.timer_fired(effect.timer, effect.number)),
        )
        timer.daemon = True
        timer.start()

    def _checkpoint(self) -> None:
        while not self.terminated.wait(self.config.checkpointing.interval):
            self.take(self.coordinator.checkpoint_due)

    def _sample(self) -> None:
        """Look what a running job has come to: the figures, for people, and whether a declared input has ended."""
        settled = False
        while not self.terminated.wait(SAMPLE_SECONDS):
            for stage in list(self.stages.values()):
                try:
                    stage.sample()
                except Exception as e:  # figures never end a job
                    log.warning("no figures of stage %s: %r", stage.task, e)
                self._look_for_end(stage)
            with self.lock:
                self._board.refresh(stages=stage_statuses(self.coordinator, self.stages))
            if not settled and time.monotonic() - self._last_start > self.patience():
                settled = True
                self.on_settled()

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
        self.take(lambda: self.coordinator.input_ended(stage.task, rest=end.leaves_rest))


def expected(config: DriverConfig) -> list[str]:
    """Tasks of the checkpoint that the job goes on from. Until they have started, a new one would lose their state."""
    latest = config.restore.latest
    if latest is None:
        return []
    return [
        task_id(stage.uid, task.index, len(stage.tasks))
        for stage in latest.stages
        for task in stage.tasks
        if not task.finished
    ]
