"""Task termination along the edges (FLIP-147, "the revised process of finishing"): the coordinator says when,
this module knows the order.

- A stop ends each task where it is. No task waits for another one, and none processes the backlog of its
  upstream.
- The end of a run is not the end of its stage, because the script may start the stage again. An exhausted run
  becomes the end of the stage's input only if no other run can follow: the script has ended, the script waits
  for something that only this end brings, or the job drains.
- EndOfData goes downstream. In a drain, or when inputs end, a task begins its termination when everything
  upstream has ended and its own sources have ended.
- isDrain is false as soon as one upstream task was stopped, unless the job drains: while more input may come,
  nothing is flushed.
- The acknowledgement: a task is closed when nothing that it sent can be lost. A completed checkpoint that
  was triggered after the task's end is enough, because it has the task's last batch, and what downstream
  has not read of it is durable (ADR 7). A task that did not wait for a checkpoint (`NOTHING_TO_COMMIT`)
  waits until its downstream ends, or for the next checkpoint.
- EndOfPartition: a finished task is closed after everything upstream is closed; in a stop this holds for
  every task. A run that the script ended is closed independently, and so is a task that an earlier epoch
  drained.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ..graph import parse_task_id
from ..lifecycle import (
    LifecycleEvent,
    OperatorState,
    Scenario,
    TaskState,
    next_operator_state,
    next_task_state,
)
from ..messages.driver_status import TerminationStep
from .effects import CatchUp, Close, Effect, StopAtBoundary
from .roster import Roster
from .task import Task, restored_finished


@dataclass
class TaskTermination(Roster):
    """The tasks of a job and how they end.

    :param reopened: tasks that run again to be flushed. A checkpoint triggered before that has them at a
        position that they have left.
    :param unacknowledged: tasks that have finished without waiting for a checkpoint, by stage.
    """

    reopened: list[str] = field(default_factory=list)
    unacknowledged: dict[str, dict[str, None]] = field(default_factory=dict)

    def restored(self, name: str, upstream: Iterable[str], batch: int | None) -> list[Effect]:
        """Add a task that is not started because it has finished: it has sent all its data."""
        self.put(name, restored_finished(batch), upstream)
        return self.begin_freed() + self.end_of_stage(parse_task_id(name)[0])

    def begin_freed(self) -> list[Effect]:
        """An edge was dropped: what it held up goes on."""
        freed = dict.fromkeys(self.take_freed())
        effects = [effect for name in freed for effect in self.begin_if_due(name)]
        return effects + [effect for name in freed for effect in self.close_if_due(name)]

    def expect_no_more(self, left: Iterable[str] = ()) -> list[Effect]:
        began = self.begins
        effects = [effect for uid in self.forget_expected(left) for effect in self.end_of_stage(uid)]
        waits = self.requested is Scenario.DRAIN and (began or self.recorded)
        return effects + (self.begin_all_due() if waits else [])

    # --- termination begins ---------------------------------------------------------------------------------

    @property
    def no_run_follows(self) -> bool:
        """Whether no other run can follow an exhausted one, so that its input has ended."""
        if self.rounds or self.requested is not None:
            return self.requested is Scenario.DRAIN
        return self.script_ended

    def waits_for_upstream(self, name: str) -> bool:
        """Whether more data may come from upstream: a task there runs, has failed, has yet to start, or may
        be started again by the script.
        """
        if self.counters_of(name).upstream_open > 0:
            return True
        if self.script_ended or self.requested is not None:
            return False
        sources = self.sources(parse_task_id(name)[0])
        return any(self.counters.of(stage.uid).tasks.stopped for stage in sources)

    def waits_for_the_script(self, name: str) -> bool:
        """Whether a stage somewhere upstream has yet to start, or has failed and has to start again."""
        todo, seen = [parse_task_id(name)[0]], set[str]()
        while todo:
            for stage in self.graph.upstream(todo.pop()):
                tasks = self.counters.of(stage.uid).tasks
                if tasks.expected or tasks.failed:
                    return True
                if stage.uid not in seen:
                    seen.add(stage.uid)
                    todo.append(stage.uid)
        return False

    def begin_if_due(self, name: str) -> list[Effect]:
        """Begin the task's termination if it is due: the job stops, or EndOfData has arrived from everything
        upstream and nothing else is left to read.
        """
        task = self.tasks[name]
        if self.termination_announced:
            return []
        if self.requested is Scenario.STOP:
            return self._stop(name)
        if not (task.awaits_flush or (task.state is TaskState.RUNNING and task.step is None)):
            return []
        if self.requested is Scenario.DRAIN and self.misses_the_end(name):
            return self._leave_unflushed(name) if task.awaits_flush else self.begin(name, Scenario.STOP)
        if self.waits_for_upstream(name):
            return self._let_go(name) if self.requested is Scenario.DRAIN else []
        uid = parse_task_id(name)[0]
        sources = self.sources(uid)
        if self.requested is None and (task.reads_elsewhere or not (sources or task.own_ended)):
            return []
        upstream = [self.counters.of(stage.uid).tasks for stage in self.graph.upstream(uid)]
        stopped = any(t.stopped for t in upstream)
        leaves_rest = any(self.tasks[t].leaves_rest for stage in sources for t in stage.tasks)
        scenario = self.requested or (Scenario.STOP if stopped else Scenario.END_OF_INPUT)
        if leaves_rest:
            scenario = Scenario.STOP  # also in a drain: what is left upstream follows in another epoch
        if task.awaits_flush and scenario is Scenario.STOP:
            return self._leave_unflushed(name)  # upstream may continue in another epoch
        catch_up, rest = None, task.rest and (self.requested is None or task.exhausted)
        if upstream or (rest and scenario.is_drain):
            catch_up = CatchUp(name, {t: self.tasks[t].batch for stage in sources for t in stage.tasks})
        effects = self._begin(name, scenario, catch_up)
        if leaves_rest:
            with self.changing(name) as begun:
                self.leave_rest(begun)
        return effects

    @staticmethod
    def leave_rest(task: Task) -> None:
        """The task ends, and whether it has read everything is not known: it is stopped instead of flushed.
        The caller counts the change.
        """
        task.scenario = Scenario.STOP
        task.leaves_rest = True
        task.exhausted = task.consumed = False

    def _let_go(self, name: str) -> list[Effect]:
        """In a drain, end a task where it is if only the script can bring on what it waits for.

        The script may wait for the task. It is flushed when everything upstream has been. The same holds for
        what reads from it.
        """
        effects: list[Effect] = []
        todo = [name]
        while todo and not (self.begins or self.script_ended):
            task = self.tasks[name := todo.pop()]
            runs = task.state is TaskState.RUNNING and task.step is None
            if task.held or not (runs or task.awaits_flush) or not self.waits_for_the_script(name):
                continue
            with self.changing(name):
                task.held = task.exhausted = True
            effects += self.begin(name, Scenario.STOP) if runs else []
            todo += [t for stage in self.graph.downstream(parse_task_id(name)[0]) for t in stage.tasks]
        return effects

    def begin(self, name: str, scenario: Scenario) -> list[Effect]:
        """End the task where it is."""
        return self._begin(name, scenario)

    def _stop(self, name: str) -> list[Effect]:
        """End the task where it is. The rest of the upstream backlog is left to the next epoch."""
        task = self.tasks[name]
        if not (task.catching_up and task.runs_at(TerminationStep.BOUNDARY)):
            return self.begin(name, Scenario.STOP)
        with self.changing(name):
            task.scenario, task.catching_up = Scenario.STOP, False
        return [StopAtBoundary(name)]

    def _begin(self, name: str, scenario: Scenario, catch_up: CatchUp | None = None) -> list[Effect]:
        task = self.tasks[name]
        if task.awaits_flush and scenario.is_drain:
            task = self._run_again(name)
        if task.state is not TaskState.RUNNING or task.step is not None:
            return []
        with self.changing(name):
            task.scenario = scenario
            task.step = TerminationStep.BOUNDARY
            task.catching_up = catch_up is not None
        return [catch_up or StopAtBoundary(name)]

    def _leave_unflushed(self, name: str) -> list[Effect]:
        """Do not flush the task after all."""
        with self.changing(name) as task:
            task.awaits_flush = task.held = False
        return [*self.end_of_stage(parse_task_id(name)[0]), *self.close_if_due(name)]

    def _run_again(self, name: str) -> Task:
        """Begin the run that flushes the task: a run of the driver's own, after the script's last one."""
        last = self.tasks[name]
        task = replace(
            last,
            state=TaskState.RUNNING,
            operator=OperatorState.RUNNING,
            step=None,
            scenario=None,
            finishing=False,
            has_final_checkpoint=False,
            closing=False,
            last_transaction=None,
            awaits_flush=False,
            held=False,
        )
        self.tasks[name] = task
        self.counters.change(parse_task_id(name)[0], last.counters(), task.counters())
        self.reopened.append(name)
        return task

    # --- an exhausted run becomes the end of its input ------------------------------------------------------

    def flush_exhausted(self, stages: Iterable[str] | None = None) -> list[Effect]:
        """No other run follows for the stages that have exhausted their input: they terminate as at the end
        of their input.

        :param stages: uids, upstream first; None for all.
        """
        uids = self.graph.upstream_first() if stages is None else stages
        wanted = [n for uid in uids for n in self.graph.stages[uid].tasks if self._can_be_flushed(n)]
        for name in wanted:
            with self.changing(name) as task:
                task.awaits_flush = True
        return [effect for name in wanted for effect in self.begin_if_due(name)]

    def _can_be_flushed(self, name: str) -> bool:
        if self.rounds and self.requested is not Scenario.DRAIN:
            return False
        task = self.tasks[name]
        return task.paused and task.exhausted and not task.awaits_flush

    def waited_for(self) -> list[str]:
        """The stages that have exhausted their input and that a running stage waits for, directly or through
        other stages.

        The running stage reads nothing else, so it ends once they are flushed.

        :returns: uids, upstream first.
        """
        order = self.graph.upstream_first()
        ends: dict[str, bool] = {}  # whether all tasks of the stage end with their upstream
        waits: set[str] = set()  # stages of which such a task still runs
        for uid in order:
            upstream = all(ends[stage.uid] for stage in self.graph.upstream(uid))
            reads = bool(self.sources(uid))
            tasks = [(t.state, self._ends_with_its_upstream(t, reads)) for t in self._tasks_of(uid)]
            ends[uid] = upstream and not self.counters.of(uid).tasks.expected and all(it for _, it in tasks)
            if upstream and (TaskState.RUNNING, True) in tasks:
                waits.add(uid)
        waited: set[str] = set()
        for uid in reversed(order):
            readers = {reader.uid for reader in self.graph.downstream(uid)}
            if ends[uid] and not readers.isdisjoint(waits | waited):
                waited.add(uid)
        return [uid for uid in order if uid in waited]

    def _tasks_of(self, uid: str) -> list[Task]:
        return [self.tasks[t] for t in self.graph.stages[uid].tasks]

    @staticmethod
    def _ends_with_its_upstream(task: Task, reads_stages: bool) -> bool:
        if task.state is TaskState.RUNNING:
            return task.own_ended or (reads_stages and not task.own_sources)
        return task.operators_finished or (task.paused and task.exhausted)

    def begin_all_due(self) -> list[Effect]:
        return [effect for name in list(self.tasks) for effect in self.begin_if_due(name)]

    # --- EndOfData ------------------------------------------------------------------------------------------

    def end_of_data(self, name: str) -> list[Effect]:
        """endInput() and finish() have returned, or were not due (a stop). From here on a checkpoint may be
        the task's final one.
        """
        with self.changing(name) as task:
            assert task.scenario is not None
            task.state = next_task_state(task.state, LifecycleEvent.END_OF_DATA)
            task.operator = next_operator_state(task.scenario, task.operator, LifecycleEvent.END_OF_DATA)
            task.step = TerminationStep.SNAPSHOT
            task.catching_up = False
            if not task.commits and task.scenario is Scenario.END_OF_INPUT and self.requested is None:
                task.state = next_task_state(task.state, LifecycleEvent.NOTHING_TO_COMMIT)
                self.unacknowledged.setdefault(parse_task_id(name)[0], {})[name] = None
            task.awaits_flush = task.paused and task.exhausted and self.no_run_follows
        if task.awaits_flush:
            return self.begin_if_due(name)
        return [*self.end_of_stage(parse_task_id(name)[0]), *self.close_if_due(name)]

    def end_of_stage(self, uid: str) -> list[Effect]:
        """If all tasks of the stage have ended: EndOfData goes downstream, the acknowledgement upstream."""
        if self.counters.of(uid).tasks.open:
            return []
        effects: list[Effect] = []
        for reader in self.graph.downstream(uid):
            if not self.counters.of(reader.uid).upstream_open:
                effects += [e for name in list(reader.tasks) for e in self.begin_if_due(name)]
        for source in self.graph.upstream(uid):
            for name in list(self.unacknowledged.get(source.uid, ())):
                effects += self.close_if_due(name)
        return effects

    # --- other ends -----------------------------------------------------------------------------------------

    def fail(self, name: str) -> bool:
        """Mark the task as failed.

        :returns: False if it has nothing left to lose: its final checkpoint has completed, or it has already
            failed or been canceled.
        """
        if not self.tasks[name].can_fail:
            return False
        with self.changing(name) as task:
            task.state = next_task_state(task.state, LifecycleEvent.FAIL)
            task.awaits_flush = task.held = False
        return True

    def after_failure(self, name: str) -> list[Effect]:
        """Close tasks that waited only for the failed task to be closed. Tasks that wait for its data keep
        waiting until it has started again, in a drain at their boundaries.
        """
        uid = parse_task_id(name)[0]
        effects = self._stage_closed(uid)
        if self.requested is Scenario.DRAIN:
            readers = [t for stage in self.graph.downstream(uid) for t in stage.tasks]
            effects += [effect for reader in readers for effect in self._let_go(reader)]
        return effects

    def take_place_again(self, name: str) -> list[Effect]:
        """Reinstate a task that failed after its finish(): finished operators stay finished (V6)."""
        with self.changing(name) as task:
            task.state = TaskState.FINISHED if task.has_final_checkpoint else TaskState.WAITING_FOR_FINAL_CP
            task.step = TerminationStep.SNAPSHOT
        return [*self.end_of_stage(parse_task_id(name)[0]), *self.close_if_due(name)]

    def cancel(self) -> list[str]:
        """Cancel every task, or close it if it has finished.

        :returns: the names of the tasks that this ended.
        """
        live = (TaskState.RUNNING, TaskState.WAITING_FOR_FINAL_CP, TaskState.FINISHED)
        names = [name for name, task in self.tasks.items() if task.state in live]
        for name in names:
            with self.changing(name) as task:
                task.state = next_task_state(task.state, LifecycleEvent.CANCEL)
                if task.state is TaskState.CLOSED:
                    task.operator, task.step = OperatorState.CLOSED, TerminationStep.CLOSED
        return names

    # --- ended tasks are closed -----------------------------------------------------------------------------

    def complete(self, name: str) -> None:
        """A checkpoint that was triggered after the end of the task has completed."""
        with self.changing(name) as task:
            task.has_final_checkpoint = True
            if task.state is TaskState.WAITING_FOR_FINAL_CP:
                task.state = next_task_state(task.state, LifecycleEvent.FINAL_CHECKPOINT)
        self._acknowledged(name)

    def close_if_due(self, name: str) -> list[Effect]:
        """Close the task, unless upstream is not closed or downstream has not taken all that it sent."""
        task, stage = self.tasks[name], self.counters_of(name)
        if task.state is not TaskState.FINISHED or task.closing:
            return []
        in_order = (task.operators_finished and not task.drained_before) or self.requested is Scenario.STOP
        if in_order and stage.upstream_unclosed:
            return []
        if not task.has_final_checkpoint and stage.downstream_open:
            return []
        task.closing = True
        return [Close(name)]

    def holds_up(self, name: str) -> bool:
        """Whether something downstream has ended and cannot be closed before this task is."""
        flows = [self.counters.of(reader.uid) for reader in self.graph.downstream(parse_task_id(name)[0])]
        return any(f.tasks.unclosed and not f.tasks.open for f in flows)

    def closed(self, name: str) -> list[Effect]:
        """close() has returned: EndOfPartition goes downstream."""
        task = self.tasks[name]
        if task.state is not TaskState.FINISHED or not task.closing:
            return []
        assert task.scenario is not None
        with self.changing(name):
            task.state = next_task_state(task.state, LifecycleEvent.CLOSE)
            task.operator = next_operator_state(task.scenario, task.operator, LifecycleEvent.CLOSE)
            task.step = TerminationStep.CLOSED
        self._acknowledged(name)
        return self._stage_closed(parse_task_id(name)[0])

    def _acknowledged(self, name: str) -> None:
        self.unacknowledged.get(parse_task_id(name)[0], {}).pop(name, None)

    def _stage_closed(self, uid: str) -> list[Effect]:
        if self.counters.of(uid).tasks.unclosed:
            return []
        readers = [r for r in self.graph.downstream(uid) if not self.counters.of(r.uid).upstream_unclosed]
        return [e for reader in readers for name in reader.tasks for e in self.close_if_due(name)]
