"""Which checkpoints are wanted, which are under way, and when one is triggered or given up.

Four kinds. A *periodic* one when the driver's timer says so, at most so many at a time, with a pause between. A *savepoint*
when somebody asks, held back by neither. A *closing* one at once when a run has ended and the script goes on: what its sink
holds back becomes visible, and the script's wait for it is over. The *final* one when the job ends: every task has
ended, and the script has, or the job was asked to stop. Of a run that has failed each has the last committed batch.
"""

from __future__ import annotations

from .checkpoints import Checkpoint, Checkpointing, Kind, Order
from .effects import AbortCheckpoint, Effect, RetryLater, StartTimer, Timer
from .ending import Ending
from .lifecycle import Scenario, TaskState
from .messages import Mode, Step, TerminationRequest

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
        self._closing_due = False  # a run has ended that no checkpoint was triggered after
        self._disowned: dict[int, Checkpoint] = {}  # final ones that were given up when they were durable
        self.ended = False  # the final checkpoint has completed

    @property
    def owes_savepoints(self) -> bool:
        return any(self.savepoints.values())

    def ends_tasks(self, c: Checkpoint) -> bool:
        """Row 6: once the job is asked to stop, only the checkpoint of that request ends a task. While it drains, the script goes
        on behind each run that has ended, and its job ends when the script does: runs are closed before that."""
        return c.kind is Kind.FINAL or self.request is None or self.request.mode is Mode.DRAIN

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
        """Whatever checkpoint is wanted and can be taken."""
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
            self._due = False  # it serves as well
            effects += self._start(Order(Kind.CLOSING))
        elif self._due and self._periodic_can_be_had:
            self._due = False
            effects += self._start(Order(Kind.PERIODIC))
        return effects

    @property
    def _closing_can_be_had(self) -> bool:
        """Not while a task is being flushed, which takes no snapshot. In a drain not while any task is coming to its end: its end
        would make the checkpoint void, and that of the last one serves for all."""
        total, drains = self._ending.flow.total, self.request is not None
        if self.backing_off or self._ending.script_ended or self._flying(Kind.CLOSING):
            return False
        return not (total.ending if drains else total.flushing)

    @property
    def _periodic_can_be_had(self) -> bool:
        """Not while the script still starts what was restored."""
        free = self._flying(Kind.PERIODIC) < self._settings.max_concurrent and self._pause is None
        return free and self._ending.flow.total.running > 0 and not self._ending.recorded

    def _void_reopened(self) -> list[Effect]:
        """They have tasks at their end that run again."""
        names, self._ending.reopened = self._ending.reopened, []
        return self.give_up(f"task {names[0]} runs again", again=True) if names else []

    @property
    def _job_ends(self) -> bool:
        """Every task has ended, and nothing starts another one. A drain flushes everything, so not without what has failed."""
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
        """The timer to start; a savepoint request has one for all of its attempts, from the first on."""
        if order.kind in (Kind.FINAL, Kind.CLOSING):
            return None
        if order.kind is Kind.SAVEPOINT and order.request_id is not None:
            attempts = self._attempts.setdefault(order.request_id, [])
            attempts.append(number)
            if len(attempts) > 1:
                return None
        return order.timeout or self._settings.timeout

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
        self.ended = self.ended or c.kind is Kind.FINAL
        self._disowned = {n: o for n, o in self._disowned.items() if n > number}
        return c

    def awaits_commit(self, task: str) -> bool:
        """A durable checkpoint has what the task's sink pre-committed, and has not completed."""
        durable = [c for c in self.under_way.values() if c.durable]
        return any(task in c.live or task in c.failed for c in (*durable, *self._disowned.values()))

    def task_ended(self, name: str) -> list[Effect]:
        """Row 7: a checkpoint that still waits for the snapshot of this task is void, and is triggered again at once."""
        effects: list[Effect] = []
        for c in list(self.under_way.values()):
            if c.barriers.waits_for(name):
                effects += self._take_again(c, f"task {name} ended before its snapshot")
        return effects

    def run_ended(self, name: str) -> None:
        """Somebody may wait for it to be closed."""
        self._closing_due = self._closing_due or self._waits_for_closing(name)

    def give_up(self, reason: str, *, again: bool) -> list[Effect]:
        """The tasks are not what they were when the checkpoints under way were triggered.

        :param again: the job goes on, and others are taken in their place.
        """
        self.give_up_final()
        effects: list[Effect] = []
        for c in list(self.under_way.values()):
            if not c.durable:
                effects += self._take_again(c, reason) if again else self._abort(c, reason)
        return effects

    def give_up_final(self) -> None:
        """Its number is not used again: should it complete later, it is valid and ends nothing."""
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

    def _waits_for_closing(self, name: str) -> bool:
        """The script may wait for the run to be closed; when it has ended nobody does. In a drain that takes a checkpoint of its
        own only where its sink has something to commit, or something else waits for its end."""
        task = self._ending.tasks[name]
        if self._ending.script_ended or task.covered or not task.ended or task.closing:
            return False
        if self.request is None:
            return True
        return self.request.mode is Mode.DRAIN and (task.commits or self._ending.holds_up(name))

    def _closes(self, c: Checkpoint) -> None:
        """It is not taken: runs that have ended wait for another one."""
        mine = (n for n, run in c.ended.items() if self._ending.tasks[n] is run)
        self._closing_due = self._closing_due or any(self._waits_for_closing(n) for n in mine)

    def _abort(self, c: Checkpoint, reason: str, *, over: bool = False, again: bool = False) -> list[Effect]:
        del self.under_way[c.number]
        self._closes(c)
        return [AbortCheckpoint(c.number, reason, c.order.request_id if over else None, again)]

    def _take_again(self, c: Checkpoint, reason: str) -> list[Effect]:
        """A savepoint is still asked for, and a termination takes a checkpoint of its own."""
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
