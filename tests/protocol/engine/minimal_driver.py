"""A driver in five lines each: it carries the coordinator's effects out and tells it what came of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, get_args

from streamjob.protocol.engine import coordinator, effects, events
from streamjob.protocol.messages.commands import Mode, TerminationRequest

STOP = TerminationRequest("r1", 1, Mode.STOP, "file:/savepoints/r1")
DRAIN = TerminationRequest("r1", 1, Mode.DRAIN, "file:/savepoints/r1")

EVENTS: dict[str, type[Any]] = {
    re.sub("(?<!^)(?=[A-Z])", "_", event.__name__).lower(): event for event in get_args(events.Event)
}


def event_of(name: str, *args: Any, **options: Any) -> events.Event:
    """The event of this name, in lower case: `task_failed` for TaskFailed."""
    made: events.Event = EVENTS[name](*args, **options)
    return made


class Driver:
    """`todo` are the effects not carried out yet, `log` all that ever came, in order."""

    def __init__(
        self, module: ModuleType = coordinator, *tasks: str, script_runs: bool = False, **fields: Any
    ) -> None:
        self.c = module.Coordinator(**fields)
        if not script_runs:  # it has ended without giving up what is expected
            self.c._job.script_ended = True
        self.todo: list[effects.Effect] = []
        self.log: list[effects.Effect] = []
        for task in tasks:
            self.tell("task_started", task)

    def tell(self, event: str, *args: Any, **options: Any) -> list[effects.Effect]:
        """Give the coordinator an event; what it wants done is queued and returned."""
        wanted = self.c.handle(event_of(event, *args, **options))
        self.todo += wanted
        self.log += wanted
        return list(wanted)

    def do(
        self, kind: type[effects.Effect], task: str | None = None, number: int | None = None
    ) -> list[effects.Effect]:
        """Carry out the oldest queued effect of this kind (of this task, of this checkpoint)."""
        effect = next(
            e
            for e in self.todo
            if type(e) is kind
            and task in (None, getattr(e, "task", None))
            and number in (None, getattr(e, "number", None))
        )
        self.todo.remove(effect)
        return self.carry_out(effect)

    def carry_out(self, effect: effects.Effect) -> list[effects.Effect]:
        event = ANSWERS.get(type(effect))
        return self.tell(*event(effect)) if event else []

    def run(self, until: type[effects.Effect] | None = None) -> list[effects.Effect]:
        """Carry out all there is, in order, up to but without the first effect of kind `until`."""
        start = len(self.log)
        while self.todo and (until is None or type(self.todo[0]) is not until):
            self.carry_out(self.todo.pop(0))
        return self.log[start:]

    def kinds(self, task: str | None = None) -> list[str]:
        """The names of all effects so far that concern `task` or the whole job."""
        return [type(e).__name__ for e in self.log if getattr(e, "task", task) == task]

    def states(self) -> dict[str, str]:
        return {name: task.state.value for name, task in self.c.tasks.items()}


ANSWERS: dict[type[Any], Callable[[Any], tuple[Any, ...]]] = {
    effects.StopAtBoundary: lambda e: ("boundary_reached", e.task, 7),
    effects.CatchUp: lambda e: ("boundary_reached", e.task, 7),
    effects.Snapshot: lambda e: ("snapshot_taken", e.task, e.number, 5),
    effects.FireMaxWatermark: lambda e: ("max_watermark_fired", e.task, 8),
    effects.Finish: lambda e: ("finished", e.task),
    effects.StoreCheckpoint: lambda e: ("checkpoint_durable", e.number),
    effects.RetryLater: lambda e: ("retry_due",),
    effects.AnnounceCheckpoint: lambda e: ("checkpoint_completed", e.number),
    effects.Close: lambda e: ("closed", e.task),
}
