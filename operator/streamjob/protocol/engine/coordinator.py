"""The engine: it decides what a driver does next. Events in, effects out; no I/O, no clock, no threads.

It applies FLIP-147 to the tasks of one job. `termination` knows the order in which tasks end, `checkpoints`
decides which checkpoints are taken, and this module says when. It guarantees the following, whatever the
order of events (rows of docs/semantics.md):

- A task ends only by a completed checkpoint that was triggered after its data ended (row 5), whichever that
  is. A task that has nothing to commit need not wait for one (row 12).
- The job ends when its script has ended. Until then the end of a query is only the end of a run, and another
  run may follow.
- A stop waits for exactly its own checkpoint, which is triggered when the data of every task has ended.
  Another checkpoint that completes meanwhile ends nothing (row 6), so all tasks end by the same checkpoint
  (V3). A drain also waits for its own checkpoint, which is triggered only when the script has ended as well.
- The max watermark fires only in a drain or at the end of the input, never on a stop (row 2).
- A checkpoint completes when it is committed to the index, not when it is written; only then are tasks closed
  (V2).
- In every checkpoint that an epoch can begin with, everything upstream of a finished stage is finished, or
  was drained and reads nothing more (row 10). The only exception is a stage that starts in a drain after its
  reader was flagged: it reads nothing, and ends with the drain.
- A repeated request changes nothing; another request while one is pending is refused (V8).
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import StreamJobError
from ..graph import parse_task_id, task_id
from ..lifecycle import Scenario, TaskState
from ..messages.commands import Mode, TerminationRequest
from ..messages.driver_status import TerminationStep
from . import events as ev
from .checkpoints.checkpoint import Checkpoint, Checkpointing, CheckpointRequest, Kind
from .checkpoints.checkpoints import Checkpoints
from .effects import (
    AbortTransactions,
    AnnounceCheckpoint,
    Cancel,
    Effect,
    Finish,
    FireMaxWatermark,
    NotifyComplete,
    Terminated,
    Timer,
)
from .events import CheckpointEvent, Event
from .task import Task
from .termination import TaskTermination

SCENARIO = {Mode.STOP: Scenario.STOP, Mode.DRAIN: Scenario.DRAIN}


class TerminationConflict(StreamJobError):
    """A request conflicts with a termination that is pending or completed, or with a cancel."""

    reason = "TerminationInProgress"


class Coordinator:
    """The tasks of a job, by id (`graph.task_id`).

    The driver may carry out an effect late, twice or never (if it dies). An event that was already handled
    returns no effects again.

    :param expected: the unfinished tasks of the restored checkpoint. Until each has started or is reported as
        finished, or the script has ended, nothing downstream of it ends. The driver's records have these
        tasks as they were restored.
    :param fresh: the restored checkpoint is not the end of the job, so the job ends with another one, even if
        no task runs.
    :param edges: those of the restored checkpoint, as (writer, reader).
    :param rounds: the script runs again, in another epoch. So its end is no end of any input: an exhausted
        run stays as it has ended, and the job ends as by a stop. Only a drain flushes it.
    """

    def __init__(
        self,
        next_checkpoint: int = 1,
        settings: Checkpointing | None = None,
        expected: Iterable[str] = (),
        fresh: bool = False,
        edges: Iterable[tuple[str, str]] = (),
        *,
        rounds: bool = False,
    ) -> None:
        tasks: dict[str, Task] = {}
        job = TaskTermination(tasks, rounds=rounds)
        self.tasks = tasks
        self._job = job
        self._checkpoints = Checkpoints(job, settings or Checkpointing(), next_checkpoint)
        self._terminated_sent = False
        job.restore(expected, edges, fresh=fresh)

    def handle(self, event: Event) -> list[Effect]:  # noqa: PLR0912 (one branch per event)
        """Handle one event.

        :returns: the effects to carry out, in order.
        :raises UpstreamTooLate: a stage that reads from the started one is being flushed or was flushed.
        :raises EdgeTooLate: the reader of a declared edge is being flushed or was flushed.
        :raises GraphCycle: a stage would read from itself.
        :raises TerminationConflict: a termination is requested while another one is pending or completed, or
            after a cancel; or a savepoint is requested while the job is ending with a checkpoint of its own.
        """
        match event:
            case ev.Restored(next_checkpoint, expected, fresh, edges):
                self._job.restore(expected, edges, fresh=fresh)
                self._checkpoints.next_number = next_checkpoint
                return []
            case ev.TaskStarted():
                return self._task_started(event)
            case ev.TaskRestoredFinished(task, upstream, batch):
                return self._task_restored_finished(task, upstream, batch)
            case ev.StageExpected(uid, parallelism):
                return self._stage_expected(uid, parallelism)
            case ev.EdgeDeclared(uid, upstream_uid, own):
                return self._edge_declared(uid, upstream_uid, own)
            case ev.InputEnded(task, rest):
                return self._input_ended(task, rest)
            case ev.RunEnded(task, exhausted, rest):
                return self._run_ended(task, rest) if exhausted else self._script_stopped(task)
            case ev.ScriptStopped(task):
                return self._script_stopped(task)
            case ev.BoundaryReached(task, batch, rest):
                return self._boundary_reached(task, batch, rest)
            case ev.MaxWatermarkFired(task, batch):
                return self._max_watermark_fired(task, batch)
            case ev.Finished(task):
                return self._finished(task)
            case ev.Closed(task):
                return self._job.closed(task) + self._terminated()
            case ev.TaskFailed(task):
                return self._task_failed(task)
            case ev.AllStarted(left):
                effects = self._drop_assumed() + self._job.expect_no_more(left)
                effects += self._job.begin_freed()
                return effects + self._checkpoints.trigger() + self._terminated()
            case ev.ScriptBlocked():
                return self._script_blocked()
            case ev.ScriptEnded(left):
                return self._script_ended(left)
            case ev.SessionEnded():
                return self._session_ended()
            case ev.TerminationAnnounced():
                self._job.termination_announced = self.request is None and not self.canceled
                return []
            case ev.TerminationRequested(request):
                return self._termination_requested(request)
            case ev.SavepointRequested(request_id, savepoint, timeout):
                return self._savepoint_requested(request_id, savepoint, timeout)
            case ev.CancelRequested():
                return self._cancel_requested()
            case _:
                return self._handle_checkpoint(event)

    # --- queries and refusals, allowed at any time: nothing here changes anything ---------------------------

    @property
    def request(self) -> TerminationRequest | None:
        """The termination request that is pending or completed, None if there is none."""
        return self._checkpoints.termination

    @property
    def stops(self) -> bool:
        """Whether a stop of the job is in progress or done."""
        return self.request is not None and self.request.mode is Mode.STOP

    @property
    def canceled(self) -> bool:
        return self._checkpoints.canceled

    @property
    def next_checkpoint(self) -> int:
        """The number that the next checkpoint gets."""
        return self._checkpoints.next_number

    @property
    def final_checkpoint(self) -> int | None:
        """The number of the final checkpoint. None until it is triggered, and again if it is aborted."""
        return self._checkpoints.final

    def is_pending(self, checkpoint: int) -> bool:
        """Whether the checkpoint has been triggered, and neither completed nor aborted."""
        return checkpoint in self._checkpoints.pending

    def awaits_commit(self, task: str) -> bool:
        """Whether the task's sink has transactions in a durable checkpoint that has not completed."""
        return self._checkpoints.awaits_commit(task)

    def has_finished(self, task: str) -> bool:
        """Whether the task's operators have finished: another run of it would have nothing to do."""
        return task in self.tasks and self.tasks[task].operators_finished

    def is_ending(self, task: str) -> bool:
        """Whether the task's last run is being ended, or was for good: another run of it changes nothing."""
        return task in self.tasks and not self.tasks[task].can_start_again

    @property
    def may_flush(self) -> bool:
        """Whether a query may still have to be flushed: the job is asked to end, or a task has exhausted its
        input and has no other run yet.
        """
        if self.canceled or self.terminated:
            return False
        return self.request is not None or any(t.paused and t.exhausted for t in self.tasks.values())

    @property
    def failed(self) -> list[str]:
        """Tasks whose last run failed."""
        return [name for name, task in self.tasks.items() if task.state is TaskState.FAILED]

    @property
    def script_ended(self) -> bool:
        """Whether the main thread and the other threads of the script have ended; its callbacks may go on."""
        return self._job.script_ended

    @property
    def has_tasks(self) -> bool:
        """Whether a query has started or was restored as finished, or a stop waits for none."""
        return self._job.has_tasks

    @property
    def awaits_tasks(self) -> bool:
        """Whether a task of the restored checkpoint, or a declared one, has yet to start."""
        return bool(self._job.expected)

    @property
    def terminated(self) -> bool:
        """Whether every task is closed and the final checkpoint has completed. No savepoint request may be
        pending.

        If the restored checkpoint was the end of the job and no task has run since, the end of the script is
        enough.
        """
        total = self._job.counters.total
        if not self.has_tasks or total.unclosed or self._checkpoints.has_pending_savepoints:
            return False
        if self._job.fresh:
            return self._checkpoints.ended
        return self._job.script_ended

    @property
    def terminating(self) -> bool:
        """Whether the job is ending and has not terminated: it is asked to end, or its script has ended and
        all of its tasks are ending. False after a cancel.
        """
        ending = bool(self.tasks) and self._job.counters.total.begun == len(self.tasks)
        asked = self.request is not None or (ending and self._job.script_ended)
        return asked and not self.terminated and not self.canceled

    def refuse_start(self, task: str, upstream: Iterable[str] = (), *, drained: bool = False) -> None:
        """Refuse a start that `TaskStarted` would refuse. Changes nothing.

        :raises UpstreamTooLate: see `handle`.
        :raises GraphCycle: see `handle`.
        """
        if not drained:
            self._job.refuse_if_too_late(task)
        self._job.graph.refuse_cycle(task, upstream)

    def reads(self, task: str, upstream: str, *, own_sources: bool = False) -> None:
        """A task that has started reads from a stage that is about to start.

        :param own_sources: the task also reads something that no stage writes.
        :raises GraphCycle: the stage would read from itself.
        """
        self._job.connect(parse_task_id(task)[0], upstream, own_sources=own_sources)

    def flushed_reader(self, task: str) -> str | None:
        """The uid of a stage that reads from the task's and has been flushed in this epoch, if any."""
        flushed = self._job.flushed(parse_task_id(task)[0], assumed=False)
        return next((uid for uid, reader in flushed if not reader.drained_before), None)

    def finished_before(self, task: str) -> list[str]:
        """The tasks upstream of this one, directly or not, that have finished in this epoch or before.

        Before its max watermark fires for the first time, the driver marks them as drained: when it dies and
        no checkpoint flags them, the next epoch knows it of each, in whatever order they start.
        """
        return self._job.finished_before(task)

    def ending_readers(self, task: str) -> list[str]:
        """The tasks downstream of this one, directly or not, that read nothing else when it has ended: the
        job drains, or all that they read is written by stages of the job.
        """
        drains = self._job.requested is Scenario.DRAIN
        todo, found = [parse_task_id(task)[0]], list[str]()
        for uid in todo:
            for stage in self._job.graph.downstream(uid):
                ends = [n for n in stage.tasks if drains or not self.tasks[n].reads_elsewhere]
                if ends and stage.uid not in todo:
                    found += ends
                    todo.append(stage.uid)
        return found

    def stays_stopped(self, task: str) -> bool:
        """Whether the script has stopped the task's last run: unless it starts another one, nothing of it is
        flushed.
        """
        known = self.tasks.get(task)
        if known is None or known.drained_before:
            return False
        return known.paused and not (known.exhausted or known.leaves_rest)

    def has_flushed(self, uids: Iterable[str]) -> bool:
        """Whether a task of these stages is being flushed, or was, in this epoch or before."""
        stages = [s for s in map(self._job.graph.stages.get, uids) if s is not None]
        return any(self.tasks[n].drains for s in stages for n in s.tasks)

    def connected(self, uid: str) -> set[str]:
        """The uids of the stages that edges connect with this one, directly or not, including itself."""
        return self._job.graph.connected(uid)

    def upstream(self, uid: str) -> tuple[str, ...]:
        """The uids of the stages that this one reads from, as far as one knows, started or not."""
        return self._job.upstream(uid)

    def downstream_first(self) -> list[str]:
        """The uids of all stages, each after the stages that read from it."""
        return self._job.graph.downstream_first()

    # --- tasks and the script -------------------------------------------------------------------------------

    def _task_started(self, start: ev.TaskStarted) -> list[Effect]:
        task, named, drained = start.task, start.upstream, start.drained
        known = self.tasks.get(task)
        if self.canceled and known is not None:
            return [Cancel(task)]
        if known is not None and known.state is TaskState.FAILED and known.operators_finished:
            self._terminated_sent = self._checkpoints.ended = False
            effects = self._checkpoints.abort_all(f"task {task} takes its place again", again=True)
            effects += self._job.take_place_again(task)
            self._checkpoints.run_ended(task)
            return effects + self._checkpoints.trigger()
        if known is not None and not known.can_start_again:
            if known.state is TaskState.RUNNING and known.step is None and known.exhausted:
                # Another run, inside a batch of a stage upstream that has not ended: it reads on.
                known.exhausted = known.consumed = known.own_ended = known.rest = False
            return []
        if not drained:
            self._job.refuse_if_too_late(task)
        reads_stages = named or self._job.names_upstream(parse_task_id(task)[0])
        own = not reads_stages if start.own_sources is None else start.own_sources
        entered = Task(commits=start.commits, own_sources=own, drained_before=drained, emits=start.emits)
        self._job.put(task, entered, named)
        self._job.fresh = True
        if self.canceled:
            return [Cancel(name) for name in self._job.cancel()]
        self._terminated_sent = self._checkpoints.backing_off = self._checkpoints.ended = False
        effects = self._checkpoints.abort_all(f"task {task} started", again=True)
        if drained:
            self.tasks[task].own_ended = True
        effects += self._job.begin_if_due(task) + self._job.begin_freed()
        return effects + self._checkpoints.trigger()

    def _stage_expected(self, uid: str, parallelism: int) -> list[Effect]:
        if not self.canceled:
            self._job.expect(uid, [task_id(uid, index, parallelism) for index in range(parallelism)])
        return []

    def _edge_declared(self, uid: str, upstream: str, own_sources: bool) -> list[Effect]:
        edges = self._job.declare(uid, upstream, own_sources=own_sources)
        if not edges:
            return []
        effects = self._checkpoints.abort_all(f"stage {uid} reads from {upstream}", again=True)
        for task in self._job.graph.stages[uid].tasks:
            effects += self._job.begin_if_due(task)
        return effects + self._job.begin_freed() + self._checkpoints.trigger()

    def _drop_assumed(self) -> list[Effect]:
        dropped = not self.canceled and self._job.drop_assumed()
        return self._checkpoints.abort_all("stages are not connected", again=True) if dropped else []

    def _task_restored_finished(self, task: str, upstream: Iterable[str], batch: int | None) -> list[Effect]:
        if task in self.tasks or self.canceled:
            return []
        effects = self._job.restored(task, upstream, batch)
        effects = self._checkpoints.abort_all(f"task {task} joined", again=True) + effects
        return effects + self._checkpoints.trigger() + self._terminated()

    def _script_blocked(self) -> list[Effect]:
        if self.request is not None or self.canceled:
            return []
        return self._job.flush_exhausted(self._job.waited_for()) + self._checkpoints.trigger()

    def _script_ended(self, left: Iterable[str]) -> list[Effect]:
        job = self._job
        job.script_ended = True
        effects: list[Effect] = self._drop_assumed()
        absent = job.forget_expected()
        job.continue_elsewhere(left)
        if job.requested is not Scenario.STOP and not self.canceled:
            effects += [*job.flush_exhausted(), *job.begin_all_due(), *job.begin_freed()]
        effects += [effect for uid in absent for effect in job.end_of_stage(uid)]
        return effects + self._checkpoints.trigger() + self._terminated()

    def _session_ended(self) -> list[Effect]:
        for task in self.tasks.values():
            if task.paused:
                task.exhausted = False
        return []

    def _input_ended(self, task: str, rest: bool) -> list[Effect]:
        t = self.tasks[task]
        t.own_ended, t.rest = True, rest
        return self._job.begin_if_due(task) + self._checkpoints.trigger()

    def _run_ended(self, task: str, rest: bool) -> list[Effect]:
        t = self.tasks[task]
        if t.state is not TaskState.RUNNING or t.step is not None:
            return []  # it is already ending, in the scenario that began first
        t.exhausted = t.own_ended = True
        t.consumed, t.rest = not rest, rest
        before_the_end = self._job.requested is None and (self._job.rounds or not self._job.script_ended)
        if before_the_end or (self._job.requested is Scenario.DRAIN and self._job.waits_for_the_script(task)):
            return self._job.begin(task, Scenario.STOP)
        return self._job.begin_if_due(task) + self._checkpoints.trigger()

    def _script_stopped(self, task: str) -> list[Effect]:
        job = self._job
        if job.requested is None or job.waits_for_the_script(task):
            return job.begin(task, Scenario.STOP)
        return job.begin_if_due(task)

    def _boundary_reached(self, task: str, batch: int | None, rest: bool) -> list[Effect]:
        t = self.tasks[task]
        if not t.runs_at(TerminationStep.BOUNDARY):
            return []
        assert t.scenario is not None
        with self._job.changing(task):
            t.batch, t.catching_up = batch, False
            if rest:
                self._job.leave_rest(t)
            if t.scenario.is_drain:
                t.step = TerminationStep.MAX_WATERMARK
        return [FireMaxWatermark(task)] if t.scenario.is_drain else self._end_of_data(task)

    def _max_watermark_fired(self, task: str, batch: int | None) -> list[Effect]:
        t = self.tasks[task]
        if not t.runs_at(TerminationStep.MAX_WATERMARK) or t.finishing:
            return []
        t.batch = batch
        t.finishing = True
        return [Finish(task)]

    def _finished(self, task: str) -> list[Effect]:
        t = self.tasks[task]
        if not t.runs_at(TerminationStep.MAX_WATERMARK) or not t.finishing:
            return []
        return self._end_of_data(task)

    def _task_failed(self, task: str) -> list[Effect]:
        if not self._job.fail(task):
            return []
        effects = self._checkpoints.abort_all(f"task {task} failed", again=True)
        return effects + self._job.after_failure(task) + self._checkpoints.trigger()

    # --- requests -------------------------------------------------------------------------------------------

    def _termination_requested(self, request: TerminationRequest) -> list[Effect]:
        if self.request is not None and self.request.request_id == request.request_id:
            return []
        if self.request is not None:
            raise TerminationConflict(
                f"termination {self.request.request_id} ({self.request.mode.value}) is in progress",
                remedy="Wait for it, or cancel the job",
            )
        if self.canceled:
            raise TerminationConflict(
                "the job was canceled", remedy="Start it again from its last checkpoint"
            )
        if self._checkpoints.ended:  # too late: the job has ended
            self._checkpoints.termination = request
            aborted = self._checkpoints.abort_savepoints("the job is asked to end, and has ended")
            return aborted + self._terminated()
        self._job.requested = SCENARIO[request.mode]
        self._job.termination_announced = False
        if request.mode is Mode.STOP and not self._job.script_ended:
            self._job.fresh = self._job.cut_short = True
        effects: list[Effect] = self._checkpoints.requested(request)
        if request.mode is Mode.DRAIN:
            if self._job.assume_again():
                effects += self._checkpoints.abort_all("the job drains along all known edges", again=True)
            effects += self._job.flush_exhausted()
        return effects + self._job.begin_all_due() + self._checkpoints.trigger() + self._terminated()

    def _savepoint_requested(self, request_id: str, savepoint: str, timeout: float | None) -> list[Effect]:
        if request_id in self._checkpoints.savepoints:
            return []
        if self.request is not None or self.canceled or self.terminated:
            raise TerminationConflict(
                "the job is ending, with a checkpoint of its own", remedy="Use the one that it ends with"
            )
        self._checkpoints.savepoints[request_id] = CheckpointRequest(
            Kind.SAVEPOINT, request_id, savepoint, timeout
        )
        return self._checkpoints.trigger()

    def _cancel_requested(self) -> list[Effect]:
        if self.canceled:
            return []
        over, self._terminated_sent = self.terminated, True
        effects = [*self._checkpoints.cancel(), *(Cancel(name) for name in self._job.cancel())]
        return effects if over else [*effects, Terminated()]

    # --- rules ----------------------------------------------------------------------------------------------

    def _end_of_data(self, task: str) -> list[Effect]:
        effects = [*self._checkpoints.task_ended(task), *self._job.end_of_data(task)]
        self._checkpoints.run_ended(task)
        return effects + self._checkpoints.trigger()

    # --- checkpoints ----------------------------------------------------------------------------------------

    def _handle_checkpoint(self, event: CheckpointEvent) -> list[Effect]:
        match event:
            case ev.CheckpointDue():
                return self._checkpoints.due()
            case ev.SnapshotTaken(task, number, batch):
                return self._checkpoints.snapshot_taken(task, number, batch)
            case ev.CheckpointDurable(number):
                return self._checkpoint_durable(number)
            case ev.CheckpointFailed(number):
                return self._checkpoints.failed(number)
            case ev.RetryDue():
                self._checkpoints.backing_off = False
                return self._checkpoints.trigger()
            case ev.CheckpointCompleted(number):
                return self._checkpoint_completed(number)
            case ev.TimerFired(timer, number):
                return self._timer_fired(timer, number)

    def _checkpoint_durable(self, number: int) -> list[Effect]:
        c, effects = self._checkpoints.durable(number)
        if c is None:
            return []
        for name, run in c.ended.items():
            if (
                c.kind is Kind.FINAL
                and self.tasks[name] is run
                and run.state is TaskState.WAITING_FOR_FINAL_CP
            ):
                run.step = TerminationStep.COMPLETING
        return [AnnounceCheckpoint(number), *effects, *self._checkpoints.trigger(), *self._terminated()]

    def _checkpoint_completed(self, number: int) -> list[Effect]:
        c = self._checkpoints.completed(number)
        if c is None:
            return []
        effects: list[Effect] = [NotifyComplete(name, number) for name in c.failed]
        for name, run in c.live.items():
            # Also notify a run that has since failed or been replaced: its transactions are in the record.
            now = self.tasks[name]
            if now.state not in (TaskState.CANCELED, TaskState.CLOSED) and not (
                now is run and run.has_final_checkpoint
            ):
                effects += [NotifyComplete(name, number), *self._complete(c, name, run)]
        for name, run in c.ended.items():
            effects += self._complete(c, name, run)
        return effects + self._checkpoints.trigger() + self._terminated()

    def _timer_fired(self, timer: Timer, number: int) -> list[Effect]:
        if timer is Timer.MIN_PAUSE:
            return self._checkpoints.pause_over(number)
        return self._checkpoints.expired(number) + self._terminated()

    # --- rules ----------------------------------------------------------------------------------------------

    def _ends(self, c: Checkpoint, name: str, run: Task) -> bool:
        """Rows 5 and 6: whether the checkpoint ends this run. The run's data had ended when the checkpoint
        was triggered, no other run has replaced it, and the checkpoint counts.
        """
        return c.ended.get(name) is run and self.tasks[name] is run and self._checkpoints.ends_tasks(c)

    def _complete(self, c: Checkpoint, name: str, run: Task) -> list[Effect]:
        if run.has_final_checkpoint or not self._ends(c, name, run):
            return []
        self._job.complete(name)
        later = any(o.number > c.number and name in o.live for o in self._checkpoints.pending.values())
        aborted = [AbortTransactions(name, c.number)] if later else []
        return [*aborted, *self._job.close_if_due(name)]

    def _terminated(self) -> list[Effect]:
        if self._terminated_sent or not self.terminated:
            return []
        self._terminated_sent = True
        return [Terminated()]
