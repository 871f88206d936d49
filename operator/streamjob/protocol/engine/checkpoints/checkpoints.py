"""The checkpoints of a job: which are wanted, when one is triggered, and how it becomes durable, completes,
or is aborted.

There are four kinds. For a run that has failed, each kind has the last committed batch.

- *Periodic*: when the driver's timer requests it, up to a maximum number in flight, with a pause in between.
- *Savepoint*: on demand. Neither the maximum nor the pause delays it.
- *Closing*: at once when a run has ended and the script continues. It makes visible what the sink holds back,
  and ends the script's wait.
- *Final*: when the job ends. Every task has ended, and the script has ended or the job was asked to stop.
"""

from __future__ import annotations

from ...lifecycle import Scenario, TaskState
from ...messages.commands import Mode, TerminationRequest
from ...messages.driver_status import TerminationStep
from ..effects import AbortCheckpoint, Effect, RetryLater, StartTimer, Timer
from ..termination import TaskTermination
from .checkpoint import Checkpoint, Checkpointing, CheckpointRequest, Kind

WAITING_FOR_INDEX = 100  # maximum number of durable checkpoints kept; only the newest is likely to matter


class Checkpoints:
    """The checkpoints of one job. `pending` has the pending ones, ascending by number. `savepoints` has the
    savepoint requests by id; the value is None once the request is over.
    """

    def __init__(self, job: TaskTermination, settings: Checkpointing, next_number: int) -> None:
        self.next_number = next_number
        self.final: int | None = None
        self.termination: TerminationRequest | None = None
        self.pending: dict[int, Checkpoint] = {}
        self.savepoints: dict[str, CheckpointRequest | None] = {}
        self.backing_off = False  # until `RetryDue`
        self.canceled = False
        self._job = job
        self._settings = settings
        # The checkpoint numbers of each savepoint request, in order, until the request is over.
        self._attempts: dict[str, list[int]] = {}
        self._due = False  # a periodic checkpoint is due
        self._pause: int | None = None  # the checkpoint whose pause still delays periodic ones
        # Batches of snapshots, by (number, task), whose answer overtook that of an earlier snapshot.
        self._early: dict[tuple[int, str], int | None] = {}
        self._closing_due = False  # a run has ended, and no checkpoint was triggered since
        self._aborted_final: dict[int, Checkpoint] = {}  # final ones that were aborted when already durable
        self.ended = False  # the final checkpoint has completed

    # --- which are wanted, and when one is triggered --------------------------------------------------------

    def due(self) -> list[Effect]:
        """The driver's timer requests a periodic checkpoint. A termination takes its own one instead."""
        self._due = self._job.counters.total.running > 0 and self.termination is None
        return self.trigger()

    def requested(self, termination: TerminationRequest) -> list[Effect]:
        """The job is asked to end. A pending final checkpoint is aborted; in a stop, other pending
        checkpoints no longer end tasks.

        Savepoint requests that are not durable are aborted: the end of the job does not wait for a savepoint
        besides its own, because a SIGTERM leaves time for only one.
        """
        self.termination = termination
        self._due = self.backing_off = False
        self.abort_final()
        self._closing_due = any(self._waits_for_closing(name) for name in self._job.tasks)
        self._back_to_snapshot()
        return self.abort_savepoints("the job is asked to end, with a savepoint of its own")

    def abort_savepoints(self, reason: str) -> list[Effect]:
        """Abort the requests that are not durable."""
        unfinished = [name for name, request in self.savepoints.items() if request is not None]
        return [e for name in unfinished for e in self._abort_savepoint(name, reason)]

    def pause_over(self, number: int) -> list[Effect]:
        if self._pause == number:
            self._pause = None
        return self.trigger()

    def failed(self, number: int) -> list[Effect]:
        c = self._awaiting_storage(number)
        if c is None:
            return []
        if c.kind is Kind.PERIODIC:
            return [*self._abort(c, "it could not be written"), *self._start_pause(c), *self.trigger()]
        if c.kind is Kind.FINAL:
            self.abort_final()
        else:
            del self.pending[number]
            self._note_closing_due(c)
        self.backing_off = True
        return [RetryLater()]

    def expired(self, number: int) -> list[Effect]:
        request_id = next((name for name, attempts in self._attempts.items() if number == attempts[0]), None)
        if request_id is not None:
            request = self.savepoints[request_id]
            seconds = (request.timeout if request else None) or self._settings.timeout or 0
            return self._abort_savepoint(request_id, f"it was not done after {seconds:g} s") + self.trigger()
        c = self.pending.get(number)
        if c is None or c.durable or c.kind is not Kind.PERIODIC:
            return []
        reason = f"it was not done after {self._settings.timeout or 0:g} s"
        return [*self._abort(c, reason, over=True), *self._start_pause(c), *self.trigger()]

    def trigger(self) -> list[Effect]:
        """Trigger every checkpoint that is wanted and can be taken."""
        if self.canceled or not self._job.has_tasks or self._job.partly_started:
            return []
        effects = [*self._void_reopened(), *self._release()]
        if not self.backing_off:
            started = [c.request for c in self.pending.values()]
            for request in [r for r in self.savepoints.values() if r is not None and r not in started]:
                effects += self._start(request)
        if self._job_ends:
            self._due = False
            if not (self.ended or self.backing_off or self._count(Kind.FINAL, or_durable=True)):
                t = self.termination
                final = (
                    CheckpointRequest(Kind.FINAL, t.request_id, t.savepoint)
                    if t
                    else CheckpointRequest(Kind.FINAL)
                )
                effects += self._start(final)
            return effects
        if self._closing_due and self._can_take_closing:
            self._due = False  # the closing checkpoint serves as the periodic one
            effects += self._start(CheckpointRequest(Kind.CLOSING))
        elif self._due and self._can_take_periodic:
            self._due = False
            effects += self._start(CheckpointRequest(Kind.PERIODIC))
        return effects

    @property
    def _can_take_closing(self) -> bool:
        """Whether a closing checkpoint can be triggered. Not while a task is being flushed, because it takes
        no snapshot. In a drain, not while any task is ending: its end would make the checkpoint void, and the
        checkpoint after the last end serves for all.
        """
        total, drains = self._job.counters.total, self.termination is not None
        if self.backing_off or self._job.script_ended or self._count(Kind.CLOSING):
            return False
        return not (total.ending if drains else total.flushing)

    @property
    def _can_take_periodic(self) -> bool:
        """Whether a periodic checkpoint can be triggered: within the limits, and not while the script still
        starts what was restored.
        """
        free = self._count(Kind.PERIODIC) < self._settings.max_concurrent and self._pause is None
        still_starts = self._job.begins and self._job.recorded
        return free and self._job.counters.total.running > 0 and not still_starts

    def _void_reopened(self) -> list[Effect]:
        """Abort checkpoints that have a task at its end although it runs again."""
        names, self._job.reopened = self._job.reopened, []
        return self.abort_all(f"task {names[0]} runs again", again=True) if names else []

    @property
    def _job_ends(self) -> bool:
        """Whether no task runs and nothing starts another one. Except in a stop, everything has to be
        flushed, so the job does not end while a task has failed.
        """
        total, job = self._job.counters.total, self._job
        if total.running or not job.fresh:
            return False
        if job.requested is Scenario.STOP:
            return True
        return job.script_ended and not total.failed and not total.open

    def _count(self, kind: Kind, *, or_durable: bool = False) -> int:
        return sum(1 for c in self.pending.values() if c.kind is kind and (or_durable or not c.durable))

    def _start(self, request: CheckpointRequest) -> list[Effect]:
        number = self.next_number
        self.next_number += 1
        job = self._job
        c = Checkpoint.triggered(
            number, request, job.graph, job.tasks, job.requested, cut_short=job.cut_short
        )
        self.pending[number] = c
        self._closing_due = False
        if c.kind is Kind.FINAL:
            self.final = number
        seconds = self._seconds_for(number, request)
        return [*([StartTimer(Timer.CHECKPOINT_TIMEOUT, number, seconds)] if seconds else []), *c.begin()]

    def _seconds_for(self, number: int, request: CheckpointRequest) -> float | None:
        """Seconds for the timer to start, None for no timer. A savepoint request has one timer for all of its
        attempts, started with the first.
        """
        if request.kind in (Kind.FINAL, Kind.CLOSING):
            return None
        if request.kind is Kind.SAVEPOINT and request.request_id is not None:
            attempts = self._attempts.setdefault(request.request_id, [])
            attempts.append(number)
            if len(attempts) > 1:
                return None
        return request.timeout or self._settings.timeout

    # --- how one becomes durable, completes, or is aborted --------------------------------------------------

    @property
    def has_pending_savepoints(self) -> bool:
        return any(self.savepoints.values())

    def ends_tasks(self, c: Checkpoint) -> bool:
        """Whether the checkpoint ends tasks. Row 6: once the job is asked to stop, only the checkpoint of
        that request does.

        While the job drains, the script continues after each run that has ended, and the job ends when the
        script does. So runs are closed before that, by any checkpoint.
        """
        return c.kind is Kind.FINAL or self.termination is None or self.termination.mode is Mode.DRAIN

    def snapshot_taken(self, task: str, number: int, batch: int | None) -> list[Effect]:
        """Accept the answer of a snapshot, or keep it until that of an earlier checkpoint has arrived.

        A channel keeps its request: barriers pass a task in the order of their numbers, whatever the order of
        the answers.
        """
        c = self.pending.get(number)
        if c is None or not c.barriers.is_aligned(task):
            return []
        if any(o.number < number and o.barriers.is_aligned(task) for o in self.pending.values()):
            self._early[number, task] = batch
            return []
        return c.snapshot_taken(task, batch) + self._release()

    def _release(self) -> list[Effect]:
        """Accept the early answers whose turn has come."""
        effects: list[Effect] = []
        for number, task in sorted(self._early) if self._early else ():
            if (number, task) in self._early:
                effects += self.snapshot_taken(task, number, self._early.pop((number, task)))
        return effects

    def durable(self, number: int) -> tuple[Checkpoint | None, list[Effect]]:
        """Mark a complete checkpoint as durable.

        :returns: the checkpoint, None if it is not pending, incomplete or already durable; and the effects
            that follow.
        """
        c = self._awaiting_storage(number)
        if c is None:
            return None, []
        c.durable = True
        self._end_request(c.request)
        waiting = [n for n, o in self.pending.items() if o.durable and o.kind is not Kind.FINAL]
        for old in waiting[:-WAITING_FOR_INDEX]:
            del self.pending[old]
        return c, self._start_pause(c)

    def _abort_savepoint(self, request_id: str, reason: str) -> list[Effect]:
        """Abort a savepoint request. Its checkpoint is not durable; the request may also wait for its first
        attempt or the next one.
        """
        number = self._attempts.pop(request_id, [0])[-1]
        self.savepoints[request_id] = None
        c = self.pending.get(number)
        if c is None:
            return [AbortCheckpoint(number, reason, request_id)]
        return [*self._abort(c, reason, over=True), *self._start_pause(c)]

    def completed(self, number: int) -> Checkpoint | None:
        """The checkpoint is committed to the index. Earlier checkpoints that still wait for the index need
        not complete any more.

        :returns: the checkpoint, None if it is not durable or has already completed.
        """
        c = self.pending.get(number)
        if c is None or not c.durable:
            return None
        for o in list(self.pending.values()):
            if o is c or (o.durable and o.number < c.number and o.kind is not Kind.FINAL):
                del self.pending[o.number]
        self.ended = self.ended or c.kind is Kind.FINAL
        self._aborted_final = {n: o for n, o in self._aborted_final.items() if n > number}
        return c

    def awaits_commit(self, task: str) -> bool:
        """Whether the task's sink has transactions in a durable checkpoint that has not completed."""
        durable = [c for c in self.pending.values() if c.durable]
        return any(task in c.live or task in c.failed for c in (*durable, *self._aborted_final.values()))

    def task_ended(self, name: str) -> list[Effect]:
        """Row 7: a checkpoint that still waits for the snapshot of this task is void. It is aborted and
        triggered again at once.
        """
        effects: list[Effect] = []
        for c in list(self.pending.values()):
            if c.barriers.waits_for(name):
                effects += self._trigger_again(c, f"task {name} ended before its snapshot")
        return effects

    def run_ended(self, name: str) -> None:
        """The script may wait for this run to be closed, which needs a closing checkpoint."""
        self._closing_due = self._closing_due or self._waits_for_closing(name)

    def abort_all(self, reason: str, *, again: bool) -> list[Effect]:
        """Abort the pending checkpoints: the tasks have changed since the trigger.

        :param again: the job continues, and other checkpoints are taken in their place.
        """
        self.abort_final()
        effects: list[Effect] = []
        for c in list(self.pending.values()):
            if not c.durable:
                effects += self._trigger_again(c, reason) if again else self._abort(c, reason)
        return effects

    def abort_final(self) -> None:
        """Abort the final checkpoint. Its number is not used again: if it completes later, it is valid
        and ends nothing.
        """
        for c in list(self.pending.values()):
            if c.kind is Kind.FINAL:
                del self.pending[c.number]
                self._note_closing_due(c)
                if c.durable:
                    self._aborted_final[c.number] = c
            if c.number == self.final:
                self.final = None
                self._back_to_snapshot()

    def cancel(self) -> list[Effect]:
        """Abort everything: no checkpoint is wanted any more, and no later event changes anything."""
        effects = [
            e
            for c in list(self.pending.values())
            if not c.durable
            for e in self._abort(c, "canceled", over=True)
        ]
        self.abort_final()
        self.pending.clear()
        self.savepoints = dict.fromkeys(self.savepoints)
        self._attempts.clear()
        self.canceled = True
        return effects

    def _awaiting_storage(self, number: int) -> Checkpoint | None:
        c = self.pending.get(number)
        return c if c is not None and c.complete and not c.durable else None

    def _end_request(self, request: CheckpointRequest) -> None:
        if request.kind is Kind.SAVEPOINT and request.request_id is not None:
            self.savepoints[request.request_id] = None
            self._attempts.pop(request.request_id, None)

    def _waits_for_closing(self, name: str) -> bool:
        """Whether the script may wait for the run to be closed; once the script has ended, nobody does.

        In a drain a run needs a closing checkpoint only if its sink has something to commit, or if something
        else waits for its end.
        """
        task = self._job.tasks[name]
        if self._job.script_ended or task.has_final_checkpoint or not task.ended or task.closing:
            return False
        if self.termination is None:
            return True
        return self.termination.mode is Mode.DRAIN and (task.commits or self._job.holds_up(name))

    def _note_closing_due(self, c: Checkpoint) -> None:
        """The checkpoint is aborted: the ended runs that it covers need another one."""
        mine = (n for n, run in c.ended.items() if self._job.tasks[n] is run)
        self._closing_due = self._closing_due or any(self._waits_for_closing(n) for n in mine)

    def _abort(self, c: Checkpoint, reason: str, *, over: bool = False, again: bool = False) -> list[Effect]:
        del self.pending[c.number]
        self._note_closing_due(c)
        return [AbortCheckpoint(c.number, reason, c.request.request_id if over else None, again)]

    def _trigger_again(self, c: Checkpoint, reason: str) -> list[Effect]:
        """Abort a checkpoint that is to be taken again. Only a periodic one needs a note for that: a
        savepoint request is still pending, and a termination takes its own checkpoint.
        """
        if c.kind is Kind.PERIODIC and self.termination is None:
            self._due, self._pause = True, None
        return self._abort(c, reason, again=True)

    def _start_pause(self, c: Checkpoint) -> list[Effect]:
        if not self._settings.min_pause or c.kind in (Kind.FINAL, Kind.CLOSING):
            return []
        self._pause = c.number
        return [StartTimer(Timer.MIN_PAUSE, c.number, self._settings.min_pause)]

    def _back_to_snapshot(self) -> None:
        for task in self._job.tasks.values():
            if task.state is TaskState.WAITING_FOR_FINAL_CP:
                task.step = TerminationStep.SNAPSHOT
