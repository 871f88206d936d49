"""The engine: it decides what a driver does next. Events in, effects out; no I/O, no clock, no threads.

FLIP-147 for the tasks of one job: `ending` has the order in which tasks end, `checkpoints` what a checkpoint is, `flight` which
are wanted, `completion` what follows from one, and this says when. What it guarantees, whatever order events come in (rows of
docs/semantics.md):

- A task ends only by a completed checkpoint that was triggered after its data ended (row 5), whichever that is.
- The job ends when its script has: until then every end of a query is the end of a run, and another one may follow.
- A stop waits for exactly its own checkpoint, which is triggered when the data of every task has ended; another one that
  completes meanwhile ends nothing (row 6), so it is one and the same for all (V3). A drain waits for its own, too, and that is
  triggered when the script has ended besides.
- The max watermark comes only when draining or at the end of the input, never on a stop (row 2).
- A checkpoint completes when the index has it, not when it was written; only then are tasks closed (V2).
- In every checkpoint that an epoch can begin with, all that is upstream of a finished stage is finished (row 10). Only what
  starts in a drain, behind the flush of what reads from it, is an exception: it reads nothing, and ends with the drain.
- The same request again changes nothing; another request while one is under way is refused (V8).
"""

from __future__ import annotations

from collections.abc import Iterable

from .checkpoints import Checkpointing, Kind, Order
from .completion import CheckpointEvents
from .effects import Cancel, Effect, Finish, FireMaxWatermark, Terminated
from .ending import Ending
from .errors import StreamJobError
from .flight import Flight
from .graph import parse_task_id, task_id
from .lifecycle import Scenario, TaskState
from .messages import Mode, Step, TerminationRequest
from .task import Task

SCENARIO = {Mode.STOP: Scenario.STOP, Mode.DRAIN: Scenario.DRAIN}


class TerminationConflict(StreamJobError):
    """Another termination is under way, or done."""

    reason = "TerminationInProgress"


class Coordinator(CheckpointEvents):
    """All tasks of a job, by id (`graph.task_id`).

    Each method is an event; it returns the effects to carry out, in order. Effects may be carried out late, twice or
    never (the driver dies): an event that has been taken already returns no effect again.

    :param expected: the tasks of the restored checkpoint (`recovery.Plan.expected`). Until each has started, or is told
        as finished, nothing downstream of them ends. The driver's records have them as they were restored.
    """

    def __init__(
        self,
        next_checkpoint: int = 1,
        settings: Checkpointing | None = None,
        expected: Iterable[str] = (),
    ) -> None:
        tasks: dict[str, Task] = {}
        ending = Ending(tasks, dict.fromkeys(expected))
        super().__init__(tasks, ending, Flight(ending, settings or Checkpointing(), next_checkpoint))

    # --- events: tasks ----------------------------------------------------------------------------------------

    def task_started(
        self,
        task: str,
        upstream: Iterable[str] = (),
        *,
        commits: bool = True,
        own_sources: bool | None = None,
        drained: bool = False,
    ) -> list[Effect]:
        """A query runs, for the first time or again. One that starts while a termination is under way ends at its first boundary.

        A checkpoint under way does not have it, so it is given up.

        :param upstream: uids of the stages that it reads from, started or not.
        :param commits: False if its sink is durable at each batch and has nothing to commit (row 12).
        :param own_sources: it reads something that no stage writes. None: if it names nothing upstream.
        :param drained: an earlier epoch has fired its max watermark: it reads nothing, and ends as it began to.
        :raises UpstreamTooLate: what reads from it has been flushed. :raises GraphCycle: it reads from itself.
        """
        known, named = self.tasks.get(task), tuple(upstream)
        if self.canceled and known is not None:
            return [Cancel(task)]
        if known is not None and known.state is TaskState.FAILED and known.operators_finished:
            self._said_terminated = self._flight.ended = False
            effects = self._flight.give_up(f"task {task} takes its place again", again=True)
            effects += self._ending.take_place_again(task)
            self._flight.run_ended(task)
            return effects + self._flight.trigger()
        if known is not None and not known.can_start_again:
            return []
        if not drained:
            self._ending.refuse_if_too_late(task)
        reads_stages = named or self._ending.names_upstream(parse_task_id(task)[0])
        own = not reads_stages if own_sources is None else own_sources
        self._ending.put(task, Task(commits=commits, own_sources=own, drained_before=drained), named)
        self._ending.fresh = True
        if self.canceled:
            return [Cancel(name) for name in self._ending.cancel()]
        self._said_terminated = self._flight.backing_off = self._flight.ended = False
        effects = self._flight.give_up(f"task {task} started", again=True)
        if drained:
            self.tasks[task].own_ended = True
        return effects + self._ending.begin_if_due(task) + self._flight.trigger()

    def expect(self, uid: str, parallelism: int) -> list[Effect]:
        """The stage will have so many tasks. Until each has started, or is told as finished, nothing downstream of them ends: one
        that ends early does not end the stage (row 9)."""
        if not self.canceled:
            self._ending.expect(uid, [task_id(uid, index, parallelism) for index in range(parallelism)])
        return []

    def refuse_start(self, task: str, upstream: Iterable[str] = (), *, drained: bool = False) -> None:
        """Nothing changes. :raises UpstreamTooLate, GraphCycle: as `task_started` would."""
        if not drained:
            self._ending.refuse_if_too_late(task)
        self._ending.graph.refuse_cycle(task, upstream)

    def reads(self, task: str, upstream: str, *, own_sources: bool = False) -> None:
        """A task that has started reads from a stage that is about to. :raises GraphCycle: it reads from itself."""
        self._ending.connect(parse_task_id(task)[0], upstream, own_sources=own_sources)

    def edge_declared(self, uid: str, upstream: str, *, own_sources: bool = False) -> list[Effect]:
        """A stage that runs reads from another one, started or not, and the queries did not show it.

        :param own_sources: it also reads something that no stage writes.
        :raises EdgeTooLate: the stage is being flushed, or was. :raises GraphCycle: it reads from itself.
        """
        edges = self._ending.declare(uid, upstream, own_sources=own_sources)
        if not edges:
            return []
        effects = self._flight.give_up(f"stage {uid} reads from {upstream}", again=True)
        for task in self._ending.graph.stages[uid].tasks:
            effects += self._ending.begin_if_due(task)
        return effects + self._flight.trigger()

    def connected(self, uid: str) -> set[str]:
        """The stages that are connected with it by edges, itself included."""
        return self._ending.graph.connected(uid)

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
        effects = self._flight.give_up(f"task {task} joined", again=True) + effects
        return effects + self._flight.trigger() + self._terminated()

    def all_started(self) -> list[Effect]:
        """The script waits for its queries: nothing waits any longer for what it has not started by now."""
        return self._ending.expect_no_more() + self._flight.trigger() + self._terminated()

    def script_blocked(self) -> list[Effect]:
        """The script waits, without end, for a query that does not end by itself, and nothing else of it could start one. So no
        other run follows of what has exhausted its input and is waited for: that was its end. To be said again whenever a run
        has ended and the script waits on."""
        if self.request is not None or self.canceled:
            return []
        return self._ending.flush_exhausted(self._ending.waited_for()) + self._flight.trigger()

    def script_ended(self) -> list[Effect]:
        """The script is over, all of its threads are: no run follows any more. What has exhausted its input has ended for good;
        queries that still run are the job, until they end."""
        ending = self._ending
        ending.script_ended = True
        effects: list[Effect] = []
        absent = ending.forget_expected()
        if ending.requested is not Scenario.STOP and not self.canceled:
            effects += [*ending.flush_exhausted(), *ending.begin_all_due()]
        effects += [effect for uid in absent for effect in ending.end_of_stage(uid)]
        return effects + self._flight.trigger() + self._terminated()

    def flush_nothing_exhausted(self) -> list[Effect]:
        """What has exhausted its input cannot be flushed any more: it stays as it is, as if it had been stopped."""
        for task in self.tasks.values():
            if task.paused:
                task.exhausted = False
        return []

    def input_ended(self, task: str, *, rest: bool = False) -> list[Effect]:
        """All sources of the task ran out, as its script has declared: the query stands at a boundary, or is to stop at the next.

        In the middle of the graph that is no end: more comes as long as something upstream has not ended.

        :param rest: nothing more comes to its sources, and what they hold now is still to be processed.
        """
        t = self.tasks[task]
        t.own_ended, t.rest = True, rest
        return self._ending.begin_if_due(task) + self._flight.trigger()

    def run_ended(self, task: str, *, exhausted: bool) -> list[Effect]:
        """The query has ended by itself and without an error.

        :param exhausted: its trigger (availableNow, once) had taken all there was. Otherwise somebody has stopped it.
        """
        if not exhausted:
            return self.script_stopped(task)
        t = self.tasks[task]
        if t.state is not TaskState.RUNNING or t.step is not None:
            return []  # it ends already, as whoever began that wanted
        t.exhausted = t.own_ended = True
        if self._ending.requested is None and not self._ending.script_ended:
            return self._ending.begin(task, Scenario.STOP)
        return self._ending.begin_if_due(task) + self._flight.trigger()

    def script_stopped(self, task: str) -> list[Effect]:
        """The script called query.stop() or spark.stop(). It may start the query again, so nothing is flushed. Under a request it
        ends as the job does; but in a drain it does not wait for what the script, which waits for this end, has yet to start."""
        if self._ending.requested is None or self._ending.waits_for_the_script(task):
            return self._ending.begin(task, Scenario.STOP)
        return self._ending.begin_if_due(task)

    def boundary_reached(self, task: str, batch: int | None) -> list[Effect]:
        """The query has ended with offsets.latest == commits.latest == `batch`."""
        t = self.tasks[task]
        if not t.runs_at(Step.BOUNDARY):
            return []
        assert t.scenario is not None
        with self._ending.changing(task):
            t.batch, t.catching_up = batch, False
            if t.scenario.is_drain:
                t.step = Step.MAX_WATERMARK
        return [FireMaxWatermark(task)] if t.scenario.is_drain else self._end_of_data(task)

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
        """The query died, or a step of its end cannot be had. Others run on; what is durable stays.

        After its final checkpoint a task has nothing left that could fail; what is left to commit is committed by this driver or
        the next one, and a close() that throws has closed it all the same.
        """
        if not self._ending.fail(task):
            return []
        effects = self._flight.give_up(f"task {task} failed", again=True)
        return effects + self._ending.after_failure(task) + self._flight.trigger()

    # --- events: requests -------------------------------------------------------------------------------------

    def termination_announced(self) -> list[Effect]:
        """A request will follow, when the script has started its queries. A stop must not find what would have been flushed until
        then: no end of an input begins before it. To be said before a task starts that is not to read either."""
        self._ending.held = self.request is None and not self.canceled
        return []

    def termination_requested(self, request: TerminationRequest) -> list[Effect]:
        """A stop tells every task that runs; one that is catching up with its upstream stops where it is. A drain tells those
        without anything upstream, and the others follow when their upstream has ended. Other tasks that are ending already
        go on the way they began; their checkpoint becomes that of the request. A savepoint that is not durable yet is given up.

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
        if self._flight.ended:  # too late: the job has ended
            self._flight.request = request
            return []
        self._ending.requested = SCENARIO[request.mode]
        self._ending.held = False
        if request.mode is Mode.STOP and not self._ending.script_ended:
            self._ending.fresh = True
        effects: list[Effect] = self._flight.requested(request)
        if request.mode is Mode.DRAIN:
            effects += self._ending.flush_exhausted()
        return effects + self._ending.begin_all_due() + self._flight.trigger() + self._terminated()

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

    # --- rules ------------------------------------------------------------------------------------------------

    def _end_of_data(self, task: str) -> list[Effect]:
        effects = [*self._flight.task_ended(task), *self._ending.end_of_data(task)]
        self._flight.run_ended(task)
        return effects + self._flight.trigger()
