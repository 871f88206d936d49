"""The engine: it decides what a driver does next. Events in, effects out; no I/O, no clock, no threads.

FLIP-147 for the tasks of one job: `ending` has the order in which tasks end, `checkpoints` what a checkpoint is, and this says
when. What it guarantees, whatever order events come in (rows of docs/semantics.md):

- A task ends only by a completed checkpoint that was triggered after its data ended (row 5), whichever that is.
- A stop or drain waits for exactly its own checkpoint, which is triggered when the data of every task has ended; another
  one that completes meanwhile ends nothing (row 6), so it is one and the same for all (V3).
- The max watermark comes only when draining or at the end of the input, never on a stop (row 2).
- A checkpoint completes when the index has it, not when it was written; only then are tasks closed (V2).
- In every checkpoint that is stored, all that is upstream of a finished stage is finished: it can be restored (row 10).
- The same request again changes nothing; another request while one is under way is refused (V8).
"""

from __future__ import annotations

from collections.abc import Iterable

from .checkpoints import Checkpoint, Checkpointing, Kind, Order
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
from .ending import Ending
from .errors import StreamJobError
from .flight import Flight
from .graph import task_id
from .lifecycle import Scenario, TaskState
from .messages import Mode, Step, TerminationRequest
from .task import Task

SCENARIO = {Mode.STOP: Scenario.STOP, Mode.DRAIN: Scenario.DRAIN}


class TerminationConflict(StreamJobError):
    """Another termination is under way, or done."""

    reason = "TerminationInProgress"


class Coordinator:
    """All tasks of a job, by id (`graph.task_id`).

    Each method is an event; it returns the effects to carry out, in order. Effects may be carried out late, twice or
    never (the driver dies): an event that has been taken already returns no effect again.

    :param expected: the tasks of the restored checkpoint (`recovery.Plan.expected`). Until each has started, or is told
        as finished, no checkpoint is taken, for it would lose their state, and nothing downstream of them ends.
    """

    def __init__(
        self,
        next_checkpoint: int = 1,
        settings: Checkpointing | None = None,
        expected: Iterable[str] = (),
    ) -> None:
        self.tasks: dict[str, Task] = {}
        self._ending = Ending(self.tasks, dict.fromkeys(expected))
        self._flight = Flight(self._ending, settings or Checkpointing(), next_checkpoint)
        self._said_terminated = False

    # --- events: tasks ----------------------------------------------------------------------------------------

    def task_started(
        self,
        task: str,
        upstream: Iterable[str] = (),
        *,
        commits: bool = True,
        union: Iterable[str] = (),
    ) -> list[Effect]:
        """A query runs. One that starts while a termination is under way ends at its first boundary.

        A checkpoint under way does not have it, so it is given up.

        :param upstream: uids of the stages that it reads from, started or not.
        :param commits: False if its sink is durable at each batch and has nothing to commit (row 12).
        :param union: names of its operators with union state (row 9).
        :raises UpstreamTooLate: what reads from it has been flushed. :raises GraphCycle: it reads from itself.
        """
        known = self.tasks.get(task)
        if self.canceled and known is not None:
            return [Cancel(task)]
        if known is not None and not known.can_start_again:
            return []
        self._ending.refuse_if_too_late(task)
        self._ending.put(task, Task(commits=commits), upstream, union)
        if self.canceled:
            return [Cancel(name) for name in self._ending.cancel()]
        self._said_terminated = self._flight.backing_off = False
        effects = self._flight.give_up(f"task {task} started", again=True)
        return effects + self._ending.begin_if_due(task) + self._flight.trigger()

    def expect(self, uid: str, parallelism: int) -> list[Effect]:
        """The stage will have so many tasks. Until each has started, or is told as finished, no checkpoint is taken and
        nothing downstream of them ends: one that ends early does not end the stage (row 9)."""
        if not self.canceled:
            self._ending.expect(uid, [task_id(uid, index, parallelism) for index in range(parallelism)])
        return []

    def refuse_start(self, task: str, upstream: Iterable[str] = ()) -> None:
        """Nothing changes. :raises UpstreamTooLate, GraphCycle: as `task_started` would."""
        self._ending.refuse_if_too_late(task)
        self._ending.graph.refuse_cycle(task, upstream)

    def reads(self, task: str, upstream: str) -> None:
        """A task that has started reads from a stage that is about to. :raises GraphCycle: it reads from itself."""
        self._ending.flow.connect(self._ending.graph.add(task, [upstream]))

    def edge_declared(self, uid: str, upstream: str) -> list[Effect]:
        """A stage that runs reads from another one, started or not, and the queries did not show it.

        :raises EdgeTooLate: the end of the stage has begun. :raises GraphCycle: it reads from itself.
        """
        edges = self._ending.declare(uid, upstream)
        if not edges:
            return []
        effects = self._flight.give_up(f"stage {uid} reads from {upstream}", again=True)
        for task in self._ending.graph.stages[uid].tasks:
            effects += self._ending.begin_if_due(task)
        return effects + self._flight.trigger()

    def downstream_first(self) -> list[str]:
        """The uids of all stages, each after those that read from it."""
        return self._ending.graph.downstream_first()

    def task_restored_finished(
        self, task: str, upstream: Iterable[str] = (), batch: int | None = None
    ) -> list[Effect]:
        """The restored checkpoint says that it has finished: it is not started, and its flag goes on (row 10)."""
        if task in self.tasks or self.canceled:
            return []
        effects = self._ending.restored(task, upstream, batch)
        return self._flight.give_up(f"task {task} joined", again=True) + effects + self._flight.trigger()

    def all_started(self) -> list[Effect]:
        """The script waits for its queries, or has ended: what it has not started by now is no part of the job."""
        return self._ending.expect_no_more() + self._flight.trigger() + self._terminated()

    def input_ended(self, task: str, *, rest: bool = False) -> list[Effect]:
        """All sources of the task ran out: the query stands at a boundary, or is to stop at the next.

        In the middle of the graph that is no end: more comes as long as something upstream has not ended.

        :param rest: nothing more comes to its sources, and what they hold now is still to be processed.
        """
        if self._ending.waits_for_upstream(task):
            return []
        if rest:
            return self._ending.take_the_rest(task)
        return self._ending.begin(task, Scenario.END_OF_INPUT)

    def script_stopped(self, task: str) -> list[Effect]:
        """The script called query.stop() or spark.stop(). It may start the query again, so nothing is flushed."""
        return self._ending.begin(task, Scenario.STOP)

    def boundary_reached(self, task: str, batch: int | None) -> list[Effect]:
        """The query has ended with offsets.latest == commits.latest == `batch`."""
        t = self.tasks[task]
        if not t.runs_at(Step.BOUNDARY):
            return []
        assert t.scenario is not None
        t.batch = batch
        if t.scenario.is_drain:
            t.step = Step.MAX_WATERMARK
            return [FireMaxWatermark(task)]
        return self._end_of_data(task)

    def max_watermark_fired(self, task: str, batch: int | None) -> list[Effect]:
        """Every event-time timer of the task has fired and what came out is committed as `batch`."""
        t = self.tasks[task]
        if not t.runs_at(Step.MAX_WATERMARK) or t.finishing:
            return []
        t.batch = batch
        t.finishing = True
        return [Finish(task)]

    def finished(self, task: str) -> list[Effect]:
        """endInput() and finish() of all operators have returned."""
        t = self.tasks[task]
        if not t.runs_at(Step.MAX_WATERMARK) or not t.finishing:
            return []
        return self._end_of_data(task)

    def closed(self, task: str) -> list[Effect]:
        """close() of all operators has returned."""
        return self._ending.closed(task) + self._terminated()

    def task_failed(self, task: str) -> list[Effect]:
        """The query died, or a step of its end cannot be had. The job fails; what is durable stays.

        After its final checkpoint a task has nothing left to lose: a close() that throws has closed it all the same.
        """
        if self._ending.fail(task):
            return self._flight.give_up(f"task {task} failed", again=False)
        return self.closed(task)

    # --- events: requests -------------------------------------------------------------------------------------

    def termination_requested(self, request: TerminationRequest) -> list[Effect]:
        """Only tasks without anything upstream are told; the others follow when their upstream has ended. Tasks
        that are ending already go on the way they began; their checkpoint becomes that of the request. A savepoint that is
        not durable yet is given up.

        :raises TerminationConflict: another one is under way or done, or the job was canceled.
        """
        if self.request is not None and self.request.request_id == request.request_id:
            return []
        if self.request is not None:
            raise TerminationConflict(
                f"termination {self.request.request_id} ({self.request.mode.value}) is under way",
                remedy="Wait for it, or cancel the job",
            )
        if self.canceled:
            raise TerminationConflict(
                "the job was canceled", remedy="Start it again from its last checkpoint"
            )
        self._ending.requested = SCENARIO[request.mode]
        effects: list[Effect] = self._flight.requested(request)
        for name in self.tasks:
            effects += self._ending.begin_if_due(name)
        return effects + self._flight.trigger()

    def savepoint_requested(
        self, request_id: str, savepoint: str, timeout: float | None = None
    ) -> list[Effect]:
        """Copy a checkpoint to `savepoint` while the job runs on. Asked for once; nothing holds it back (row 13). What cannot
        be written is tried again until `timeout`, seconds.

        :raises TerminationConflict: the job is ending, with a checkpoint of its own.
        """
        if request_id in self._flight.savepoints:
            return []
        if self.request is not None or self.canceled or self.terminated:
            raise TerminationConflict(
                "the job is ending, with a checkpoint of its own", remedy="Use the one that it ends with"
            )
        self._flight.savepoints[request_id] = Order(Kind.SAVEPOINT, request_id, savepoint, timeout)
        return self._flight.trigger()

    def cancel_requested(self) -> list[Effect]:
        """End now, also in the middle of a stop that is stuck: nothing is flushed or committed (row 13)."""
        if self.canceled:
            return []
        over, self._said_terminated = self.terminated, True
        effects = [*self._flight.cancel(), *(Cancel(name) for name in self._ending.cancel())]
        return effects if over else [*effects, Terminated()]

    # --- events: checkpoints ----------------------------------------------------------------------------------

    def checkpoint_due(self) -> list[Effect]:
        """The driver's timer: it is time for a periodic checkpoint. A termination takes its own instead."""
        return self._flight.due()

    def snapshot_taken(self, task: str, number: int, batch: int | None) -> list[Effect]:
        """The task has noted its state at `batch`, behind all that its upstream had at theirs, and runs on."""
        return self._flight.snapshot_taken(task, number, batch)

    def checkpoint_durable(self, number: int) -> list[Effect]:
        """Its record (and the savepoint's manifest, where one is written) can no longer be lost."""
        c, effects = self._flight.durable(number)
        if c is None:
            return []
        for name, run in c.ended.items():
            if self._ends(c, name, run) and run.state is TaskState.WAITING_FOR_FINAL_CP:
                run.step = Step.COMPLETING
        return [AnnounceCheckpoint(number), *effects, *self._flight.trigger(), *self._terminated()]

    def checkpoint_failed(self, number: int) -> list[Effect]:
        """It could not be written. A periodic one is given up; one that was asked for, or that the job ends with, is
        triggered again when `retry` comes. Nothing has ended."""
        return self._flight.failed(number)

    def retry(self) -> list[Effect]:
        """The wait after `checkpoint_failed` is over."""
        self._flight.backing_off = False
        return self._flight.trigger()

    def checkpoint_completed(self, number: int) -> list[Effect]:
        """The index has it: notifyCheckpointComplete. Late, repeated, overtaken and unknown numbers are fine."""
        c = self._flight.completed(number)
        if c is None:
            return []
        effects: list[Effect] = []
        for name, run in c.live.items():
            if self.tasks[name] is run and run.state in (TaskState.RUNNING, TaskState.WAITING_FOR_FINAL_CP):
                effects += [NotifyComplete(name, number), *self._complete(c, name, run)]
        for name, run in c.ended.items():
            effects += self._complete(c, name, run)
        return effects + self._flight.trigger() + self._terminated()

    def timer_fired(self, timer: Timer, number: int) -> list[Effect]:
        """A `StartTimer` is over. One that nobody waits for any more changes nothing."""
        if timer is Timer.MIN_PAUSE:
            return self._flight.pause_over(number)
        return self._flight.expired(number) + self._terminated()

    # --- what can be asked ------------------------------------------------------------------------------------

    @property
    def request(self) -> TerminationRequest | None:
        """The termination that is under way, or done."""
        return self._flight.request

    @property
    def canceled(self) -> bool:
        return self._flight.canceled

    @property
    def next_checkpoint(self) -> int:
        """The number that the next one gets."""
        return self._flight.next_number

    @property
    def final_checkpoint(self) -> int | None:
        """The number of the one that the job ends with, once it has been triggered."""
        return self._flight.final

    @property
    def awaits_tasks(self) -> bool:
        """Something of the restored checkpoint has yet to start."""
        return bool(self._ending.expected)

    @property
    def terminated(self) -> bool:
        """Every task is closed, and a checkpoint that was triggered after the last end has completed."""
        total = self._ending.flow.total
        over = bool(self.tasks) and not total.unclosed and not total.uncovered
        return over and not self._flight.owes_savepoints

    @property
    def terminating(self) -> bool:
        """The job is asked to end, or all of its tasks are ending; and it has not come to its end."""
        ending = bool(self.tasks) and self._ending.flow.total.begun == len(self.tasks)
        return (self.request is not None or ending) and not self.terminated and not self.canceled

    # --- rules ------------------------------------------------------------------------------------------------

    def _end_of_data(self, task: str) -> list[Effect]:
        return [*self._flight.task_ended(task), *self._ending.end_of_data(task), *self._flight.trigger()]

    def _ends(self, c: Checkpoint, name: str, run: Task) -> bool:
        """Rows 5 and 6: the data of this run had ended when the checkpoint was triggered, and it is one that counts."""
        return c.ended.get(name) is run and self.tasks[name] is run and self._flight.ends_tasks(c)

    def _complete(self, c: Checkpoint, name: str, run: Task) -> list[Effect]:
        if run.covered or not self._ends(c, name, run):
            return []
        self._ending.complete(name)
        later = any(o.number > c.number and name in o.live for o in self._flight.under_way.values())
        aborted = [AbortTransactions(name, c.number)] if later else []
        return [*aborted, *self._ending.close_if_due(name)]

    def _terminated(self) -> list[Effect]:
        if self._said_terminated or not self.terminated:
            return []
        self._said_terminated = True
        return [Terminated()]
