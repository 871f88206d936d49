"""How ended tasks are closed (FLIP-147, "the revised process of finishing").

- The acknowledgement: a task is closed when nothing that it sent can be lost. A completed checkpoint that
  was triggered after the task's end is enough, because it has the task's last batch, and what downstream
  has not read of it is durable (ADR 7). A task that did not wait for a checkpoint (`NOTHING_TO_COMMIT`)
  waits until its downstream ends, or for the next checkpoint.
- EndOfPartition: a finished task is closed after everything upstream is closed; in a stop this holds for
  every task. A run that the script ended is closed independently, and so is a task that an earlier epoch
  drained.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..graph import parse_task_id
from ..lifecycle import LifecycleEvent, Scenario, TaskState, next_operator_state, next_task_state
from ..messages.driver_status import TerminationStep
from .effects import Close, Effect
from .roster import Roster


@dataclass
class Closing(Roster):
    """The tasks of a job and how they are closed.

    :param unacknowledged: tasks that have finished without waiting for a checkpoint, by stage.
    """

    unacknowledged: dict[str, dict[str, None]] = field(default_factory=dict)

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
