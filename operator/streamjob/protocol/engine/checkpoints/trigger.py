"""Which checkpoints are wanted, and when one is triggered.

There are four kinds. For a run that has failed, each kind has the last committed batch.

- *Periodic*: when the driver's timer requests it, up to a maximum number in flight, with a pause in between.
- *Savepoint*: on demand. Neither the maximum nor the pause delays it.
- *Closing*: at once when a run has ended and the script continues. It makes visible what the sink holds back,
  and ends the script's wait.
- *Final*: when the job ends. Every task has ended, and the script has ended or the job was asked to stop.
"""

from __future__ import annotations

from ...lifecycle import Scenario
from ...messages.commands import TerminationRequest
from ..effects import Effect, RetryLater, StartTimer, Timer
from .checkpoint import Checkpoint, CheckpointRequest, Kind
from .pending import PendingCheckpoints


class CheckpointTrigger(PendingCheckpoints):
    """Triggers the checkpoints of one job."""

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
