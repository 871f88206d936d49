"""How tasks end, along the edges (FLIP-147, "the revised process of finishing"). The coordinator says when; this knows the order.

- EndOfData goes downstream: a task begins its end when everything upstream has ended, whatever it was asked for.
- isDrain is false as soon as one upstream task was stopped: what could still come from it must not be flushed away.
- The acknowledgement: a task is closed when its downstream has taken all that it sent. A completed checkpoint that was
  triggered after the task's end says so, since downstream takes its snapshot behind the task's last batch; a task
  that did not wait for one (`NOTHING_TO_COMMIT`) waits for the ends of its downstream, or for the next checkpoint.
- EndOfPartition: a task is closed after everything upstream is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .effects import CatchUp, Close, Effect, StopAtBoundary
from .errors import StreamJobError
from .flow import Flow, StageFlow
from .graph import Graph, Stage, parse_task_id
from .lifecycle import Event, OperatorState, Scenario, TaskState, next_operator_state, next_task_state
from .messages import Step
from .task import EXPECTED, NOTHING, Task, restored_finished


class UpstreamTooLate(StreamJobError):
    """A stage starts whose downstream is being flushed, or was: what it produces would be read by nobody."""

    reason = "UpstreamStartedTooLate"


class EdgeTooLate(StreamJobError):
    """An edge is declared to a stage that is ending: it did not wait for what is upstream of it now."""

    reason = "EdgeTooLate"


@dataclass
class Ending:
    """The tasks by id and the graph. Every change of a task goes through here, so that the sums stay right.

    :param expected: tasks of the restored checkpoint that have not started yet.
    :param requested: how the job is asked to end.
    :param union: names of the operators with union state, by stage.
    """

    tasks: dict[str, Task]
    expected: dict[str, None] = field(default_factory=dict)
    requested: Scenario | None = None
    union: dict[str, tuple[str, ...]] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    flow: Flow = field(init=False)
    unacknowledged: dict[str, dict[str, None]] = field(
        default_factory=dict
    )  # finished without a wait, by stage

    def __post_init__(self) -> None:
        self.flow = Flow(self.graph)
        for name in self.expected:
            uid = parse_task_id(name)[0]
            self.graph.expect(uid)
            self.flow.change(uid, NOTHING, EXPECTED)

    def flow_of(self, name: str) -> StageFlow:
        return self.flow.of(parse_task_id(name)[0])

    # --- tasks come -------------------------------------------------------------------------------------------

    def refuse_if_too_late(self, name: str) -> None:
        """:raises UpstreamTooLate: a stage that reads from the task's has begun to drain."""
        uid = parse_task_id(name)[0]
        for reader in self.graph.downstream(uid):
            if self.flow.of(reader.uid).tally.draining:
                raise UpstreamTooLate(
                    f"stage {uid!r} starts when all input of stage {reader.uid!r} has ended and is being flushed: "
                    "what it produces would never be read",
                    remedy=f"Start {uid!r} before {reader.uid!r}; or let the next attempt of the job start both",
                )

    def put(self, name: str, task: Task, upstream: Iterable[str], union: Iterable[str] = ()) -> None:
        """The task is new, or takes the place of its earlier run. :raises GraphCycle: see `Graph.add`."""
        self.flow.connect(self.graph.add(name, upstream))
        if names := tuple(union):
            self.union[parse_task_id(name)[0]] = names
        before = self.tasks[name].tally() if name in self.tasks else NOTHING
        if name in self.expected:
            del self.expected[name]
            before = EXPECTED
        self.tasks[name] = task
        self.flow.change(parse_task_id(name)[0], before, task.tally())

    def declare(self, uid: str, upstream: str) -> list[tuple[Stage, Stage]]:
        """An edge to a stage that has started; the edges that exist from now on.

        :raises EdgeTooLate: see there. :raises GraphCycle: see `Graph.add`.
        """
        stage = self.graph.stages[uid]
        if upstream in stage.named:
            return []
        if any(self.tasks[t].step is not None and not self.tasks[t].can_start_again for t in stage.tasks):
            raise EdgeTooLate(
                f"stage {uid!r} is declared to read from {upstream!r} when its end has begun",
                remedy="Declare the edge before either of them ends, best before they start",
            )
        edges = self.graph.add(next(iter(stage.tasks)), [upstream])
        self.flow.connect(edges)
        return edges

    def expect(self, uid: str, names: Iterable[str]) -> None:
        """The stage will have these tasks, whatever was expected of it before."""
        self.flow.connect(self.graph.expect(uid))
        wanted = dict.fromkeys(names)
        for name in [n for n in wanted if n not in self.tasks and n not in self.expected]:
            self.expected[name] = None
            self.flow.change(uid, NOTHING, EXPECTED)
        for name in [n for n in self.expected if parse_task_id(n)[0] == uid and n not in wanted]:
            del self.expected[name]
            self.flow.change(uid, EXPECTED, NOTHING)

    def expect_no_more(self) -> list[Effect]:
        """What has not started by now is no part of the job."""
        absent, self.expected = self.expected, {}
        uids = [parse_task_id(name)[0] for name in absent]
        for uid in uids:
            self.flow.change(uid, EXPECTED, NOTHING)
        return [e for uid in dict.fromkeys(uids) for e in (*self.end_of_stage(uid), *self._stage_closed(uid))]

    def restored(self, name: str, upstream: Iterable[str], batch: int | None) -> list[Effect]:
        """A task that is not started since it has finished: it has sent all that it will ever send."""
        self.put(name, restored_finished(batch), upstream)
        return self.end_of_stage(parse_task_id(name)[0])

    # --- their end begins -------------------------------------------------------------------------------------

    def waits_for_upstream(self, name: str) -> bool:
        """A task upstream has not sent EndOfData: it runs, it failed, or it has yet to start."""
        return self.flow_of(name).behind_open > 0

    def begin_if_due(self, name: str) -> list[Effect]:
        """EndOfData has come from everything upstream; or nothing is upstream, and the job is asked to end."""
        if self.waits_for_upstream(name):
            return []
        sources = self._sources(parse_task_id(name)[0])
        if sources:
            return self._catch_up([name], sources)
        return self.begin(name, self.requested) if self.requested else []

    def begin(self, name: str, scenario: Scenario) -> list[Effect]:
        """The task ends where it is."""
        return [StopAtBoundary(name)] if self._begin(name, scenario) else []

    def take_the_rest(self, name: str) -> list[Effect]:
        """The task ends when it has processed what its sources hold."""
        return [CatchUp(name)] if self._begin(name, Scenario.END_OF_INPUT) else []

    def _catch_up(self, names: Iterable[str], sources: list[Stage]) -> list[Effect]:
        stopped = any(self.flow.of(stage.uid).tally.stopped for stage in sources)
        scenario = Scenario.STOP if stopped else self.requested or Scenario.END_OF_INPUT
        batches = {t: self.tasks[t].batch for stage in sources for t in stage.tasks}
        return [CatchUp(name, batches) for name in names if self._begin(name, scenario)]

    def _begin(self, name: str, scenario: Scenario) -> bool:
        task = self.tasks[name]
        if task.state is not TaskState.RUNNING or task.step is not None:
            return False
        with self._changing(name):
            task.scenario = scenario
            task.step = Step.BOUNDARY
        return True

    # --- EndOfData --------------------------------------------------------------------------------------------

    def end_of_data(self, name: str) -> list[Effect]:
        """endInput and finish are behind the task (or not due: a stop). From here a checkpoint may be its final one."""
        task = self.tasks[name]
        assert task.scenario is not None
        with self._changing(name):
            task.state = next_task_state(task.state, Event.END_OF_DATA)
            task.operator = next_operator_state(task.scenario, task.operator, Event.END_OF_DATA)
            task.step = Step.SNAPSHOT
            if not task.commits and task.scenario is Scenario.END_OF_INPUT and self.requested is None:
                task.state = next_task_state(task.state, Event.NOTHING_TO_COMMIT)
                self.unacknowledged.setdefault(parse_task_id(name)[0], {})[name] = None
        return [*self.end_of_stage(parse_task_id(name)[0]), *self.close_if_due(name)]

    def end_of_stage(self, uid: str) -> list[Effect]:
        """Once all tasks of the stage have ended: EndOfData goes downstream, the acknowledgement upstream."""
        if self.flow.of(uid).tally.open:
            return []
        effects: list[Effect] = []
        for reader in self.graph.downstream(uid):
            if self.flow.of(reader.uid).behind_open:
                continue
            if sources := self._sources(reader.uid):
                effects += self._catch_up(reader.tasks, sources)
            elif self.requested:  # what it waited for never came
                effects += [e for name in reader.tasks for e in self.begin(name, self.requested)]
        for source in self.graph.upstream(uid):
            for name in list(self.unacknowledged.get(source.uid, ())):
                effects += self.close_if_due(name)
        return effects

    def _sources(self, uid: str) -> list[Stage]:
        return [stage for stage in self.graph.upstream(uid) if stage.tasks]

    def partly_finished_union(self) -> str:
        """Why no checkpoint can be had: union state of which some tasks have finished (row 9). Empty if there is none."""
        for uid, names in self.union.items():
            finished, tasks = self.flow.of(uid).tally.finished, len(self.graph.stages[uid].tasks)
            if 0 < finished < tasks:
                return (
                    f"operator {', '.join(names)} of stage {uid} has union state and has finished in {finished} of "
                    f"{tasks} tasks: what those held is in no other task, so it would be lost"
                )
        return ""

    # --- the final checkpoint and EndOfPartition --------------------------------------------------------------

    def complete(self, name: str) -> bool:
        """A checkpoint that was triggered after the end of the task has completed. True if the task waited for it."""
        task = self.tasks[name]
        waited = task.state is TaskState.WAITING_FOR_FINAL_CP
        with self._changing(name):
            task.covered = True
            if waited:
                task.state = next_task_state(task.state, Event.FINAL_CHECKPOINT)
        self.unacknowledged.get(parse_task_id(name)[0], {}).pop(name, None)
        return waited

    def close_if_due(self, name: str) -> list[Effect]:
        """Close it, unless something upstream is open or downstream has not taken all that it sent."""
        task, flow = self.tasks[name], self.flow_of(name)
        if task.state is not TaskState.FINISHED or task.closing or flow.behind_unclosed:
            return []
        if not task.covered and flow.ahead_open:
            return []
        task.closing = True
        return [Close(name)]

    def closed(self, name: str) -> list[Effect]:
        """close() has returned: EndOfPartition goes downstream."""
        task = self.tasks[name]
        if task.state is not TaskState.FINISHED or not task.closing:
            return []
        assert task.scenario is not None
        with self._changing(name):
            task.state = next_task_state(task.state, Event.CLOSE)
            task.operator = next_operator_state(task.scenario, task.operator, Event.CLOSE)
            task.step = Step.CLOSED
        self.unacknowledged.get(parse_task_id(name)[0], {}).pop(name, None)
        return self._stage_closed(parse_task_id(name)[0])

    def _stage_closed(self, uid: str) -> list[Effect]:
        if self.flow.of(uid).tally.unclosed:
            return []
        readers = [r for r in self.graph.downstream(uid) if not self.flow.of(r.uid).behind_unclosed]
        return [e for reader in readers for name in reader.tasks for e in self.close_if_due(name)]

    # --- other ends -------------------------------------------------------------------------------------------

    def fail(self, name: str) -> bool:
        """False if it has nothing left to lose: its final checkpoint has completed, or it is gone already."""
        task = self.tasks[name]
        if task.state not in (TaskState.RUNNING, TaskState.WAITING_FOR_FINAL_CP):
            return False
        with self._changing(name):
            task.state = next_task_state(task.state, Event.FAIL)
        return True

    def cancel(self) -> list[str]:
        """Every task is canceled, or closed if it is finished. The names of those that it ended."""
        live = (TaskState.RUNNING, TaskState.WAITING_FOR_FINAL_CP, TaskState.FINISHED)
        names = [name for name, task in self.tasks.items() if task.state in live]
        for name in names:
            task = self.tasks[name]
            with self._changing(name):
                task.state = next_task_state(task.state, Event.CANCEL)
                if task.state is TaskState.CLOSED:
                    task.operator, task.step = OperatorState.CLOSED, Step.CLOSED
        return names

    @contextmanager
    def _changing(self, name: str) -> Iterator[None]:
        task = self.tasks[name]
        before = task.tally()
        yield
        self.flow.change(parse_task_id(name)[0], before, task.tally())
