"""Which checkpoints are wanted, which are under way, and when one is triggered or given up.

Three kinds. A *periodic* one when the driver's timer says so, at most so many at a time, with a pause between. A *savepoint*
when somebody asks, held back by neither. The *final* one at once when the data of every task has ended. None is
taken while a task has failed: what it would record is what the job's next epoch starts from.
"""

from __future__ import annotations

from .checkpoints import Checkpoint, Checkpointing, Kind, Order
from .effects import AbortCheckpoint, Effect, RetryLater, StartTimer, Timer
from .ending import Ending
from .lifecycle import TaskState
from .messages import Step, TerminationRequest

WAITING_FOR_INDEX = 100  # so many durable ones are remembered; all of them but the newest will hardly matter


class Flight:
    """The checkpoints of one job. `under_way` ascends by number; `savepoints` by request id, None when it is over."""

    def __init__(self, ending: Ending, settings: Checkpointing, next_number: int) -> None:
        self.next_number = next_number
        self.final: int | None = None
        self.request: TerminationRequest | None = None
        self.under_way: dict[int, Checkpoint] = {}
        self.savepoints: dict[str, Order | None] = {}
        self.backing_off = False  # until `retry`
        self.canceled = False
        self._ending = ending
        self._settings = settings
        self._attempts: dict[
            str, list[int]
        ] = {}  # numbers that a savepoint request has had, while it is not over
        self._due = False  # a periodic checkpoint is
        self._pause: int | None = None  # the number after which no periodic one is triggered yet
        self._early: dict[
            tuple[int, str], int | None
        ] = {}  # snapshots whose answer overtook that of an earlier one

    @property
    def owes_savepoints(self) -> bool:
        return any(self.savepoints.values())

    def ends_tasks(self, c: Checkpoint) -> bool:
        """Row 6: once the job is asked to end, only the checkpoint of that request ends a task."""
        return self.request is None or c.kind is Kind.FINAL

    # --- wanted -----------------------------------------------------------------------------------------------

    def due(self) -> list[Effect]:
        """A termination takes a checkpoint of its own instead."""
        self._due = self._ending.flow.total.running > 0 and self.request is None
        return self.trigger()

    def requested(self, request: TerminationRequest) -> list[Effect]:
        """What is under way ends no task any more. The job's end does not wait for a savepoint beside its own: under SIGTERM
        there is time for one."""
        self.request = request
        self._due = self.backing_off = False
        self.give_up_final()
        self._back_to_snapshot()
        reason = "the job is asked to end, with a savepoint of its own"
        owed = [name for name, order in self.savepoints.items() if order is not None]
        return [e for name in owed for e in self._give_up_savepoint(name, reason)]

    def pause_over(self, number: int) -> list[Effect]:
        if self._pause == number:
            self._pause = None
        return self.trigger()

    def trigger(self) -> list[Effect]:
        """Whatever checkpoint is wanted and can be taken."""
        total = self._ending.flow.total
        if self.canceled or not self._ending.tasks or total.failed or total.expected:
            return []
        effects = self._release()
        if not self.backing_off:
            started = [c.order for c in self.under_way.values()]
            for order in [o for o in self.savepoints.values() if o is not None and o not in started]:
                effects += self._start(order)
        if total.running:
            if self._due and self._pause is None and self._slot_free():
                self._due = False
                effects += self._start(Order(Kind.PERIODIC))
            return effects
        self._due = False
        if total.uncovered and not self.backing_off and not self._last_under_way():
            r = self.request
            effects += self._start(Order(Kind.FINAL, r.request_id, r.savepoint) if r else Order(Kind.FINAL))
        return effects

    def _slot_free(self) -> bool:
        flying = sum(1 for c in self.under_way.values() if c.kind is Kind.PERIODIC and not c.durable)
        return flying < self._settings.max_concurrent

    def _last_under_way(self) -> bool:
        return any(c.last and self.ends_tasks(c) for c in self.under_way.values())

    def _start(self, order: Order) -> list[Effect]:
        number = self.next_number
        self.next_number += 1
        if refusal := self._ending.partly_finished_union():
            return self._refuse(number, order, refusal)
        c = Checkpoint.triggered(number, order, self._ending.graph, self._ending.tasks)
        self.under_way[number] = c
        if c.last and self.ends_tasks(c):
            self.final = number
        seconds = self._seconds_for(number, order)
        return [*([StartTimer(Timer.CHECKPOINT_TIMEOUT, number, seconds)] if seconds else []), *c.begin()]

    def _seconds_for(self, number: int, order: Order) -> float | None:
        """The timer to start; a savepoint request has one for all of its attempts, from the first on."""
        if order.kind is Kind.FINAL:
            return None
        if order.kind is Kind.SAVEPOINT and order.request_id is not None:
            attempts = self._attempts.setdefault(order.request_id, [])
            attempts.append(number)
            if len(attempts) > 1:
                return None
        return order.timeout or self._settings.timeout

    def _refuse(self, number: int, order: Order, reason: str) -> list[Effect]:
        """It cannot be had as things are. The one that the job ends with is tried again, so that somebody sees it."""
        if order.kind is Kind.FINAL:
            self.backing_off = True
            return [AbortCheckpoint(number, reason), RetryLater()]
        self._settle(order)
        return [AbortCheckpoint(number, reason, order.request_id)]

    # --- under way --------------------------------------------------------------------------------------------

    def snapshot_taken(self, task: str, number: int, batch: int | None) -> list[Effect]:
        """A channel keeps its order: barriers pass a task in the order of their numbers, whatever the order of the answers."""
        c = self.under_way.get(number)
        if c is None or not c.barriers.asked(task):
            return []
        if any(o.number < number and o.barriers.asked(task) for o in self.under_way.values()):
            self._early[number, task] = batch
            return []
        return c.snapshot_taken(task, batch) + self._release()

    def _release(self) -> list[Effect]:
        """Take the answers that are early no more."""
        effects: list[Effect] = []
        for number, task in sorted(self._early) if self._early else ():
            if (number, task) in self._early:
                effects += self.snapshot_taken(task, number, self._early.pop((number, task)))
        return effects

    def durable(self, number: int) -> tuple[Checkpoint | None, list[Effect]]:
        """The checkpoint, if it is that only now, and what follows."""
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
        """It is not durable; it may also wait for its first attempt, or the next."""
        number = self._attempts.pop(request_id, [0])[-1]
        self.savepoints[request_id] = None
        c = self.under_way.get(number)
        if c is None:
            return [AbortCheckpoint(number, reason, request_id)]
        return [*self._abort(c, reason, over=True), *self._rest(c)]

    def completed(self, number: int) -> Checkpoint | None:
        """The checkpoint, if it is that only now. Those that wait for the index before it need not complete any more."""
        c = self.under_way.get(number)
        if c is None or not c.durable:
            return None
        for o in list(self.under_way.values()):
            if o is c or (o.durable and o.number < c.number and o.kind is not Kind.FINAL):
                del self.under_way[o.number]
        return c

    def task_ended(self, name: str) -> list[Effect]:
        """Row 7: a checkpoint that still waits for the snapshot of this task is void, and is triggered again at once."""
        effects: list[Effect] = []
        for c in list(self.under_way.values()):
            if c.barriers.waits_for(name):
                effects += self._take_again(c, f"task {name} ended before its snapshot")
        return effects

    def give_up(self, reason: str, *, again: bool) -> list[Effect]:
        """The tasks are not what they were when the checkpoints under way were triggered.

        :param again: the job goes on, and others are taken in their place.
        """
        self.give_up_final()
        effects: list[Effect] = []
        for c in list(self.under_way.values()):
            c.last = False
            if not c.durable:
                effects += self._take_again(c, reason) if again else self._abort(c, reason)
        return effects

    def give_up_final(self) -> None:
        """Its number is not used again: should it complete later, it is valid and ends nothing."""
        for c in list(self.under_way.values()):
            if c.kind is Kind.FINAL:
                del self.under_way[c.number]
            if c.number == self.final:
                self.final = None
                self._back_to_snapshot()

    def cancel(self) -> list[Effect]:
        """Nothing is wanted any more, and nothing that comes in changes anything."""
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

    def _abort(self, c: Checkpoint, reason: str, *, over: bool = False, again: bool = False) -> list[Effect]:
        del self.under_way[c.number]
        return [AbortCheckpoint(c.number, reason, c.order.request_id if over else None, again)]

    def _take_again(self, c: Checkpoint, reason: str) -> list[Effect]:
        """A savepoint is still asked for, and a termination takes a checkpoint of its own."""
        if c.kind is Kind.PERIODIC and self.request is None:
            self._due, self._pause = True, None
        return self._abort(c, reason, again=True)

    def _rest(self, c: Checkpoint) -> list[Effect]:
        if not self._settings.min_pause or c.kind is Kind.FINAL:
            return []
        self._pause = c.number
        return [StartTimer(Timer.MIN_PAUSE, c.number, self._settings.min_pause)]

    def _back_to_snapshot(self) -> None:
        for task in self._ending.tasks.values():
            if task.state is TaskState.WAITING_FOR_FINAL_CP:
                task.step = Step.SNAPSHOT
