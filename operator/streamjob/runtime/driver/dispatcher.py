"""Decides which effect is carried out when, for which run, and what follows when it fails.

No threads, no clock: `event_loop` carries the effects out in threads. The simulated world of the tests
carries them out on models, in virtual time.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from ...protocol.engine import events as ev
from ...protocol.engine.checkpoints.checkpoint import Checkpointing
from ...protocol.engine.coordinator import Coordinator
from ...protocol.engine.effects import (
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
    StoreCheckpoint,
    Terminated,
)
from ...protocol.engine.events import Event
from ...protocol.lifecycle import TaskState
from ...protocol.messages.driver_config import DriverConfig
from ...protocol.restore.recovery import recorded_edges, unfinished_tasks
from ..query.runs import Ending, Runs
from ..startup.restore_point import is_fresh
from .live_savepoints import LiveSavepoints
from .status import Notes, Reported, interrupted, phase, problem_of, stage_statuses, termination_status
from .status_board import StatusBoard

log = logging.getLogger("streamjob")

# Effects that end one run. If another run has followed meanwhile, they are dropped: they would end that one.
OF_RUN = (StopAtBoundary, CatchUp, FireMaxWatermark, Finish, Close, Cancel)
# Effects that a completed checkpoint requires of a sink.
OF_SINK = (NotifyComplete, AbortTransactions)
OVER = (TaskState.CLOSED, TaskState.FAILED, TaskState.CANCELED)


class DispatchedRun(Reported, Ending, Protocol):
    """What the dispatcher needs of a run. `query.run.Run` implements it."""

    failure: Exception | None
    stopped_by_request: bool
    takes_over: Any

    @property
    def brokers(self) -> Sequence[str]: ...

    def continues(self, other: Any) -> bool: ...

    def cut_short(self) -> None: ...


R = TypeVar("R", bound=DispatchedRun)


@dataclass(eq=False)
class QueuedEffect(Generic[R]):
    """An effect to carry out.

    :param run: the last run of the effect's task when the coordinator returned the effect, None for an effect
        of the job.
    """

    effect: Effect
    run: R | None


@dataclass(eq=False)
class EffectQueue(Generic[R]):
    """Effects that are carried out one after another: those of one task, or those of the job from one event.

    :param task: id of the task, "" for the job.
    :param busy: somebody carries its effects out.
    :param owes: a commit has failed that has to be done: the task is not closed in this epoch.
    """

    task: str = ""
    waiting: deque[QueuedEffect[R]] = field(default_factory=deque)
    busy: bool = False
    owes_commit: bool = False


class Shell(Protocol[R]):
    """What waits and carries out, for a dispatcher that does neither."""

    def work_on(self, queue: EffectQueue[R]) -> None:
        """Carry out what `Dispatcher.next` returns for the queue, until it returns None.

        Report each result with `Dispatcher.done` or `failed`. Returns at once.
        """

    def call_later(self, seconds: float, event: Event) -> None:
        """Take the event after so many seconds. Returns at once."""

    def interrupt(self, run: R) -> None:
        """Stop the run's query without waiting for its batch. Returns at once."""

    def published(self, over: Sequence[R]) -> None:
        """The status is up to date.

        :param over: the runs that are over since the last call.
        """

    def on_terminated(self) -> None:
        """Every task is closed or canceled."""


class Dispatcher(Generic[R]):
    """The events and effects of one job. Not thread-safe, and no call waits."""

    def __init__(self, config: DriverConfig, board: StatusBoard, shell: Shell[R]) -> None:
        every = config.checkpointing
        settings = Checkpointing(every.max_concurrent, every.timeout, every.min_pause)
        latest, first = config.restore.latest, config.next_checkpoint
        self.coordinator = Coordinator(
            first,
            settings,
            unfinished_tasks(latest),
            is_fresh(config),
            recorded_edges(latest),
            rounds=config.round,
        )
        self.runs = Runs[R]()
        self.notes = Notes()
        self.board = board
        self.live_savepoints = LiveSavepoints(board)
        self._epoch = config.epoch
        self._shell = shell
        self._queues: dict[str, EffectQueue[R]] = {}  # by task

    @property
    def stops(self) -> bool:
        """Whether a stop of the job is in progress or done."""
        return self.coordinator.stops

    # --- events ---------------------------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """Give the coordinator an event and have the resulting effects carried out.

        Those of one task are carried out in order, whichever events they come from. Others do not wait.
        """
        effects = self.coordinator.handle(event)
        log.debug("%s: %s", event, effects)
        if isinstance(event, ev.SavepointRequested):
            self.live_savepoints.begin(event.request_id)  # before any effect of it changes the entry
        # Not in a drain: it ends nothing before its input, which a batch that has started it may need.
        cut_short = self.stops or (self.coordinator.request is None and isinstance(event, ev.ScriptStopped))
        of_job = EffectQueue[R]()
        queues: list[EffectQueue[R]] = []
        for effect in effects:
            task = getattr(effect, "task", "")
            run = self.runs.get(task)
            if isinstance(effect, Terminated) and not of_job.waiting:
                self._shell.on_terminated()
            elif isinstance(effect, StartTimer):
                self._shell.call_later(effect.seconds, ev.TimerFired(effect.timer, effect.number))
            else:
                # A cancel must not wait for earlier effects of its task.
                of_task = task and not isinstance(effect, Cancel)
                queue = self._queues.setdefault(task, EffectQueue(task)) if of_task else of_job
                if isinstance(effect, StopAtBoundary) and cut_short and run is not None:
                    run.cut_short()
                queue.waiting.append(QueuedEffect(effect, run))
                queues.append(queue)
        self.publish()
        for queue in queues:
            if not queue.busy:
                queue.busy = True
                self._shell.work_on(queue)

    def enter(self, run: R, event: Event) -> None:
        """A run begins, and takes the place of the last one of its task.

        :param event: tells the coordinator.
        """
        before = self.runs.get(run.task)
        if before is not None and self.coordinator.is_ending(run.task):
            run.takes_over = before  # a drain ends the run before; this one reads nothing
        self.runs[run.task] = run
        self.notes.failed.pop(run.task, None)
        self.take(event)

    def take_of(self, run: R, event: Event) -> None:
        """Take an event of a run, unless another run has followed."""
        if self.runs.get(run.task) is run:
            self.take(event)

    # --- effects --------------------------------------------------------------------------------------------

    def next(self, queue: EffectQueue[R]) -> QueuedEffect[R] | None:
        """The next effect of the queue to carry out.

        :returns: None if there is none. `Shell.work_on` is called when there is one again.
        """
        while queue.waiting:
            step = queue.waiting.popleft()
            if isinstance(step.effect, Terminated):  # after the announcement of a savepoint that came last
                self._shell.on_terminated()
            elif not self.is_stale(step):
                if isinstance(step.effect, OF_RUN):
                    step.run = self.runs[step.effect.task]  # or the run that has taken over from the effect's
                return step
        queue.busy = False
        return None

    def done(self, queue: EffectQueue[R], step: QueuedEffect[R], event: Event | None) -> None:
        """The effect has been carried out.

        :param event: reports the result, None if nothing waits for one.
        """
        try:
            if step.run is not None:
                self.notes.progress.pop(step.run.task, None)  # it is outdated
            if event is None:
                self.publish()
            elif not self.is_stale(step):
                self.take(event)
        except Exception as e:  # a bug of ours: fail, so that nobody waits for ever
            log.exception("the result of %s, %s, cannot be handled", step.effect, event)
            self.fail_job(e)
            queue.waiting.clear()

    def failed(self, queue: EffectQueue[R], step: QueuedEffect[R], error: Exception) -> None:
        """The effect has failed.

        :param error: the cause, see `Run.cause_of`.

        What depends on it is dropped: a close, after a failed commit. The effects of a run that has followed
        meanwhile stay. Whatever the error is, it is reported, so that nobody waits for the effect for ever.
        """
        effect = step.effect
        log.error("%s failed", effect, exc_info=error)
        if isinstance(effect, Close):
            # The final checkpoint is complete: nothing fails.
            self.board.warn(problem_of(error, effect.task))
            self.take(ev.Closed(effect.task))
        elif step.run is None or self._is_owed(effect):
            queue.owes_commit = self._is_owed(effect)
            self.fail_job(error)
        else:
            self.fail(step.run, error)
            self._shell.interrupt(step.run)  # its query may still run, and commit what no record has
        queue.waiting = deque(
            s for s in queue.waiting if s.run is not None and not (step.run and step.run.continues(s.run))
        )

    def _is_owed(self, effect: Effect) -> bool:
        """Whether the effect commits or aborts transactions of a task that can no longer fail.

        The checkpoint is in the index, so this must be done. The job fails instead of the task, and the next
        driver recovers the transactions.
        """
        return isinstance(effect, OF_SINK) and not self.coordinator.tasks[effect.task].can_fail

    def is_stale(self, step: QueuedEffect[R]) -> bool:
        """Whether it ends a run that has a follower or owes a commit, or writes an aborted checkpoint."""
        if isinstance(step.effect, StoreCheckpoint) and step.effect.scenario is not None:
            return not self.coordinator.is_pending(step.effect.number)
        if not isinstance(step.effect, OF_RUN):
            return False
        task = step.effect.task
        run = self.runs.get(task)
        owes_commit = isinstance(step.effect, Close) and self._queues[task].owes_commit
        return owes_commit or run is None or step.run is None or not run.continues(step.run)

    # --- failures -------------------------------------------------------------------------------------------

    def fail(self, run: R, error: Exception) -> None:
        """The run has failed, and with it all runs that edges connect with it.

        They resume together from their last batches, when the script starts them again or in the next epoch.
        Other runs continue.

        :param error: the cause, see `Run.cause_of`.
        """
        if self.runs.get(run.task) is not run:
            return
        uids, taken_down = self.coordinator.connected(run.uid), []
        problem = problem_of(error, run.task, run.brokers)
        # The cause first: it is what a failed job reports.
        for other in sorted((r for r in self.runs.values() if r.uid in uids), key=lambda r: r is not run):
            concerned = other is run or not other.over.is_set()
            if concerned and self.coordinator.tasks[other.task].can_fail:
                other.failure = other.failure or error
                self.notes.failed[other.task] = (
                    problem if other is run else interrupted(other.task, run.task, problem)
                )
                taken_down.append(other)
                self.take(ev.TaskFailed(other.task))
        self.publish()
        log.error("stage %s failed: %s", run.task, problem_of(error, brokers=run.brokers).message)
        for other in taken_down:
            if other is not run:
                log.warning("stage %s is interrupted: it is connected with %s", other.task, run.task)
                self._shell.interrupt(other)

    def fail_job(self, error: Exception, what: str = "the job") -> None:
        """Fail all runs, and so the driver: no run is at fault, or nothing can start the failed run again."""
        self.notes.fail(error, what)
        live = self.runs.active()
        for run in live:  # before the first event, which wakes the script that waits for one of them
            run.failure = run.failure or error
        for run in live:
            self.take(ev.TaskFailed(run.task))
        self.publish()
        for run in live:
            self._shell.interrupt(run)

    # --- the status -----------------------------------------------------------------------------------------

    def is_over(self, run: R) -> bool:
        """Whether the script's wait for the run is over.

        It is when the run is closed, or has ended and has nothing left to commit. In a stop, the checkpoint
        that the stop waits for closes the run. If the job has failed, every run is over.
        """
        task = self.coordinator.tasks[run.task]
        if self.notes.failure is not None or task.state in OVER:
            return True
        return task.ended and not task.commits and not self.stops

    def publish(self) -> None:
        """Mark the runs that are over, and update the status."""
        over = [run for run in self.runs.active() if self.is_over(run)]
        for run in over:
            run.stopped_by_request = self.stops and run.failure is None
            run.over.set()
        c, notes = self.coordinator, self.notes
        dead = [p for task, p in notes.failed.items() if task in c.failed]
        self.board.update(
            phase=phase(c, notes),
            stages=stage_statuses(c, self.runs),
            termination=termination_status(c, notes, self._epoch),
            degraded=dead[0] if dead and notes.failure is None else None,
        )
        self._shell.published(over)
