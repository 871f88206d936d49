"""Which checkpoints are wanted, which are pending, and when one is triggered or aborted.

There are four kinds. For a run that has failed, each kind has the last committed batch.

- *Periodic*: when the driver's timer requests it, up to a maximum number in flight, with a pause in between.
- *Savepoint*: on demand. Neither the maximum nor the pause delays it.
- *Closing*: at once when a run has ended and the script continues. It makes visible what the sink holds back,
  and ends the script's wait.
- *Final*: when the job ends. Every task has ended, and the script has ended or the job was asked to stop.
"""

from __future__ import annotations

from ..lifecycle import Scenario, TaskState
from ..messages.commands import Mode, TerminationRequest
from ..messages.driver_status import Step
from .checkpoint import Checkpoint, Checkpointing, Kind, Order
from .effects import AbortCheckpoint, Effect, RetryLater, StartTimer, Timer
from .termination import Ending

WAITING_FOR_INDEX = 100  # maximum number of durable checkpoints kept; only the newest is likely to matter


class Flight:
    """The checkpoints of one job. `under_way` has the pending ones, ascending by number. `savepoints` has the
    savepoint requests by id; the value is None once the request is over.
    """

    def __init__(self, ending: Ending, settings: Checkpointing, next_number: int) -> None:
        self.next_number = next_number
        self.final: int | None = None
        self.request: TerminationRequest | None = None
        self.under_way: dict[int, Checkpoint] = {}
        self.savepoints: dict[str, Order | None] = {}
        self.backing_off = False  # until `RetryDue`
        self.canceled = False
        self._ending = ending
        self._settings = settings
        # The checkpoint numbers of each savepoint request, in order, until the request is over.
        self._attempts: dict[str, list[int]] = {}
        self._due = False  # a periodic checkpoint is due
        self._pause: int | None = None  # the checkpoint whose pause still delays periodic ones
        # Batches of snapshots, by (number, task), whose answer overtook that of an earlier snapshot.
        self._early: dict[tuple[int, str], int | None] = {}
        self._closing_due = False  # a run has ended, and no checkpoint was triggered since
        self._disowned: dict[int, Checkpoint] = {}  # final ones that were aborted when already durable
        self.ended = False  # the final checkpoint has completed

    @property
    def owes_savepoints(self) -> bool:
        return any(self.savepoints.values())

    def ends_tasks(self, c: Checkpoint) -> bool:
        """Whether the checkpoint ends tasks. Row 6: once the job is asked to stop, only the checkpoint of
        that request does.

        While the job drains, the script continues after each run that has ended, and the job ends when the
        script does. So runs are closed before that, by any checkpoint.
        """
        return c.kind is Kind.FINAL or self.request is None or self.request.mode is Mode.DRAIN

    # --- wanted ---------------------------------------------------------------------------------------------

    def due(self) -> list[Effect]:
        """The driver's timer requests a periodic checkpoint. A termination takes its own one instead."""
        self._due = self._ending.flow.total.running > 0 and self.request is None
        return self.trigger()

    def requested(self, request: TerminationRequest) -> list[Effect]:
        """The job is asked to end. A pending final checkpoint is aborted; in a stop, other pending
        checkpoints no longer end tasks.

        Savepoint requests that are not durable are aborted: the end of the job does not wait for a savepoint
        besides its own, because a SIGTERM leaves time for only one.
        """
        self.request = request
        self._due = self.backing_off = False
        self.give_up_final()
        self._closing_due = any(self._waits_for_closing(name) for name in self._ending.tasks)
        self._back_to_snapshot()
        reason = "the job is asked to end, with a savepoint of its own"
        owed = [name for name, order in self.savepoints.items() if order is not None]
        return [e for name in owed for e in self._give_up_savepoint(name, reason)]

    def pause_over(self, number: int) -> list[Effect]:
        if self._pause == number:
            self._pause = None
        return self.trigger()

    def trigger(self) -> list[Effect]:
        """Trigger every checkpoint that is wanted and can be taken."""
        if self.canceled or not self._ending.tasks or self._ending.partly_started:
            return []
        effects = [*self._void_reopened(), *self._release()]
        if not self.backing_off:
            started = [c.order for c in self.under_way.values()]
            for order in [o for o in self.savepoints.values() if o is not None and o not in started]:
                effects += self._start(order)
        if self._job_ends:
            self._due = False
            if not (self.ended or self.backing_off or self._flying(Kind.FINAL, or_durable=True)):
                r = self.request
                order = Order(Kind.FINAL, r.request_id, r.savepoint) if r else Order(Kind.FINAL)
                effects += self._start(order)
            return effects
        if self._closing_due and self._closing_can_be_had:
            self._due = False  # the closing checkpoint serves as the periodic one
            effects += self._start(Order(Kind.CLOSING))
        elif self._due and self._periodic_can_be_had:
            self._due = False
            effects += self._start(Order(Kind.PERIODIC))
        return effects

    @property
    def _closing_can_be_had(self) -> bool:
        """Whether a closing checkpoint can be triggered. Not while a task is being flushed, because it takes
        no snapshot. In a drain, not while any task is ending: its end would make the checkpoint void, and the
        checkpoint after the last end serves for all.
        """
        total, drains = self._ending.flow.total, self.request is not None
        if self.backing_off or self._ending.script_ended or self._flying(Kind.CLOSING):
            return False
        return not (total.ending if drains else total.flushing)

    @property
    def _periodic_can_be_had(self) -> bool:
        """Whether a periodic checkpoint can be triggered: within the limits, and not while the script still
        starts what was restored.
        """
        free = self._flying(Kind.PERIODIC) < self._settings.max_concurrent and self._pause is None
        return free and self._ending.flow.total.running > 0 and not self._ending.recorded

    def _void_reopened(self) -> list[Effect]:
        """Abort checkpoints that have a task at its end although it runs again."""
        names, self._ending.reopened = self._ending.reopened, []
        return self.give_up(f"task {names[0]} runs again", again=True) if names else []

    @property
    def _job_ends(self) -> bool:
        """Whether no task runs and nothing starts another one. Except in a stop, everything has to be
        flushed, so the job does not end while a task has failed.
        """
        total, ending = self._ending.flow.total, self._ending
        if total.running or not ending.fresh:
            return False
        if ending.requested is Scenario.STOP:
            return True
        return ending.script_ended and not total.failed and not total.open

    def _flying(self, kind: Kind, *, or_durable: bool = False) -> int:
        return sum(1 for c in self.under_way.values() if c.kind is kind and (or_durable or not c.durable))

    def _start(self, order: Order) -> list[Effect]:
        number = self.next_number
        self.next_number += 1
        c = Checkpoint.triggered(
            number, order, self._ending.graph, self._ending.tasks, self._ending.requested
        )
        self.under_way[number] = c
        self._closing_due = False
        if c.kind is Kind.FINAL:
            self.final = number
        seconds = self._seconds_for(number, order)
        return [*([StartTimer(Timer.CHECKPOINT_TIMEOUT, number, seconds)] if seconds else []), *c.begin()]

    def _seconds_for(self, number: int, order: Order) -> float | None:
        """Seconds for the timer to start, None for no timer. A savepoint request has one timer for all of its
        attempts, started with the first.
        """
        if order.kind in (Kind.FINAL, Kind.CLOSING):
            return None
        if order.kind is Kind.SAVEPOINT and order.request_id is not None:
            attempts = self._attempts.setdefault(order.request_id, [])
            attempts.append(number)
            if len(attempts) > 1:
                return None
        return order.timeout or self._settings.timeout

    # --- pending --------------------------------------------------------------------------------------------

    def snapshot_taken(self, task: str, number: int, batch: int | None) -> list[Effect]:
        """Accept the answer of a snapshot, or keep it until that of an earlier checkpoint has arrived.

        A channel keeps its order: barriers pass a task in the order of their numbers, whatever the order of
        the answers.
        """
        c = self.under_way.get(number)
        if c is None or not c.barriers.asked(task):
            return []
        if any(o.number < number and o.barriers.asked(task) for o in self.under_way.values()):
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
        c = self._stored(number)
        if c is None:
            return None, []
        c.durable = True
        self._settle(c.order)
        waiting = [n for n, o in self.under_way.items() if o.durable and o.kind is not Kind.FINAL]
        for old in waiting[:-WAITING_FOR_INDEX]:
            del self.under_way[old]
        return c, self._rest(c)

    def failed(self, number: int) -> list[Effect]:
        c = self._stored(number)
        if c is None:
            return []
        if c.kind is Kind.PERIODIC:
            return [*self._abort(c, "it could not be written"), *self._rest(c), *self.trigger()]
        if c.kind is Kind.FINAL:
            self.give_up_final()
        else:
            del self.under_way[number]
            self._closes(c)
        self.backing_off = True
        return [RetryLater()]

    def expired(self, number: int) -> list[Effect]:
        request_id = next((name for name, attempts in self._attempts.items() if number == attempts[0]), None)
        if request_id is not None:
            order = self.savepoints[request_id]
            seconds = (order.timeout if order else None) or self._settings.timeout or 0
            return (
                self._give_up_savepoint(request_id, f"it was not done after {seconds:g} s") + self.trigger()
            )
        c = self.under_way.get(number)
        if c is None or c.durable or c.kind is not Kind.PERIODIC:
            return []
        reason = f"it was not done after {self._settings.timeout or 0:g} s"
        return [*self._abort(c, reason, over=True), *self._rest(c), *self.trigger()]

    def _give_up_savepoint(self, request_id: str, reason: str) -> list[Effect]:
        """Abort a savepoint request. Its checkpoint is not durable; the request may also wait for its first
        attempt or the next one.
        """
        number = self._attempts.pop(request_id, [0])[-1]
        self.savepoints[request_id] = None
        c = self.under_way.get(number)
        if c is None:
            return [AbortCheckpoint(number, reason, request_id)]
        return [*self._abort(c, reason, over=True), *self._rest(c)]

    def completed(self, number: int) -> Checkpoint | None:
        """The checkpoint is committed to the index. Earlier checkpoints that still wait for the index need
        not complete any more.

        :returns: the checkpoint, None if it is not durable or has already completed.
        """
        c = self.under_way.get(number)
        if c is None or not c.durable:
            return None
        for o in list(self.under_way.values()):
            if o is c or (o.durable and o.number < c.number and o.kind is not Kind.FINAL):
                del self.under_way[o.number]
        self.ended = self.ended or c.kind is Kind.FINAL
        self._disowned = {n: o for n, o in self._disowned.items() if n > number}
        return c

    def awaits_commit(self, task: str) -> bool:
        """Whether the task's sink has transactions in a durable checkpoint that has not completed."""
        durable = [c for c in self.under_way.values() if c.durable]
        return any(task in c.live or task in c.failed for c in (*durable, *self._disowned.values()))

    def task_ended(self, name: str) -> list[Effect]:
        """Row 7: a checkpoint that still waits for the snapshot of this task is void. It is aborted and
        triggered again at once.
        """
        effects: list[Effect] = []
        for c in list(self.under_way.values()):
            if c.barriers.waits_for(name):
                effects += self._take_again(c, f"task {name} ended before its snapshot")
        return effects

    def run_ended(self, name: str) -> None:
        """The script may wait for this run to be closed, which needs a closing checkpoint."""
        self._closing_due = self._closing_due or self._waits_for_closing(name)

    def give_up(self, reason: str, *, again: bool) -> list[Effect]:
        """Abort the pending checkpoints: the tasks have changed since the trigger.

        :param again: the job continues, and other checkpoints are taken in their place.
        """
        self.give_up_final()
        effects: list[Effect] = []
        for c in list(self.under_way.values()):
            if not c.durable:
                effects += self._take_again(c, reason) if again else self._abort(c, reason)
        return effects

    def give_up_final(self) -> None:
        """Abort the final checkpoint. Its number is not used again: if it completes later, it is valid
        and ends nothing.
        """
        for c in list(self.under_way.values()):
            if c.kind is Kind.FINAL:
                del self.under_way[c.number]
                self._closes(c)
                if c.durable:
                    self._disowned[c.number] = c
            if c.number == self.final:
                self.final = None
                self._back_to_snapshot()

    def cancel(self) -> list[Effect]:
        """Abort everything: no checkpoint is wanted any more, and no later event changes anything."""
        effects = [
            e
            for c in list(self.under_way.values())
            if not c.durable
            for e in self._abort(c, "canceled", over=True)
        ]
        self.give_up_final()
        self.under_way.clear()
        self.savepoints = dict.fromkeys(self.savepoints)
        self._attempts.clear()
        self.canceled = True
        return effects

    def _stored(self, number: int) -> Checkpoint | None:
        c = self.under_way.get(number)
        return c if c is not None and c.complete and not c.durable else None

    def _settle(self, order: Order) -> None:
        if order.kind is Kind.SAVEPOINT and order.request_id is not None:
            self.savepoints[order.request_id] = None
            self._attempts.pop(order.request_id, None)

    def _waits_for_closing(self, name: str) -> bool:
        """Whether the script may wait for the run to be closed; once the script has ended, nobody does.

        In a drain a run needs a closing checkpoint only if its sink has something to commit, or if something
        else waits for its end.
        """
        task = self._ending.tasks[name]
        if self._ending.script_ended or task.covered or not task.ended or task.closing:
            return False
        if self.request is None:
            return True
        return self.request.mode is Mode.DRAIN and (task.commits or self._ending.holds_up(name))

    def _closes(self, c: Checkpoint) -> None:
        """The checkpoint is aborted: the ended runs that it covers need another one."""
        mine = (n for n, run in c.ended.items() if self._ending.tasks[n] is run)
        self._closing_due = self._closing_due or any(self._waits_for_closing(n) for n in mine)

    def _abort(self, c: Checkpoint, reason: str, *, over: bool = False, again: bool = False) -> list[Effect]:
        del self.under_way[c.number]
        self._closes(c)
        return [AbortCheckpoint(c.number, reason, c.order.request_id if over else None, again)]

    def _take_again(self, c: Checkpoint, reason: str) -> list[Effect]:
        """Abort a checkpoint that is to be taken again. Only a periodic one needs a note for that: a
        savepoint request is still pending, and a termination takes its own checkpoint.
        """
        if c.kind is Kind.PERIODIC and self.request is None:
            self._due, self._pause = True, None
        return self._abort(c, reason, again=True)

    def _rest(self, c: Checkpoint) -> list[Effect]:
        if not self._settings.min_pause or c.kind in (Kind.FINAL, Kind.CLOSING):
            return []
        self._pause = c.number
        return [StartTimer(Timer.MIN_PAUSE, c.number, self._settings.min_pause)]

    def _back_to_snapshot(self) -> None:
        for task in self._ending.tasks.values():
            if task.state is TaskState.WAITING_FOR_FINAL_CP:
                task.step = Step.SNAPSHOT
