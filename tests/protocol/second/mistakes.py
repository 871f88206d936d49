"""Mistakes that somebody could make in the engine, each as a coordinator that makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from streamjob.protocol.engine import effects as fx
from streamjob.protocol.engine import events as ev
from streamjob.protocol.engine.coordinator import Coordinator
from streamjob.protocol.engine.effects import Effect
from streamjob.protocol.lifecycle import TaskState


class ReadsDoesNothing(Coordinator):
    def reads(self, task: str, upstream: str, *, own_sources: bool = False) -> None:
        pass


class GraphForgotten(Coordinator):
    """The recorded graph does not count (before docs/adr/0055)."""

    def __init__(self, *args: Any) -> None:
        number, settings, _, fresh, _ = args
        super().__init__(number, settings, (), fresh, ())

    def handle(self, event: ev.Event) -> list[Effect]:
        return super().handle(replace(event, left=()) if isinstance(event, ev.AllStarted) else event)


class FlushesInAStop(Coordinator):
    """A stop fires the max watermark."""

    def handle(self, event: ev.Event) -> list[Effect]:
        effects = super().handle(event)
        if isinstance(event, ev.BoundaryReached) and self.stops:
            return [fx.FireMaxWatermark(event.task), *effects]
        return effects


class WaitsForNothingUpstream(Coordinator):
    """A task is flushed without EndOfData from upstream."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._job.waits_for_upstream = lambda name: False  # type: ignore[method-assign]


class AnyCheckpointEndsAStop(Coordinator):
    """A stop does not wait for exactly its savepoint."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._checkpoints.ends_tasks = lambda c: True  # type: ignore[method-assign]


class EndsByAnEarlierCheckpoint(Coordinator):
    """A checkpoint that was triggered before finish() ends a task."""

    def _ends(self, c: Any, name: str, run: Any) -> bool:
        now = self.tasks[name]
        return now is run and now.state is TaskState.WAITING_FOR_FINAL_CP


class LastRowsNotPreCommitted(Coordinator):
    """What a sink holds at its task's end is in no transaction."""

    def handle(self, event: ev.Event) -> list[Effect]:
        effects = super().handle(event)
        return [replace(e, pre_commit={}) if isinstance(e, fx.StoreCheckpoint) else e for e in effects]


class NobodyIsNotified(Coordinator):
    """A completed checkpoint is not told to the sinks."""

    def handle(self, event: ev.Event) -> list[Effect]:
        return [e for e in super().handle(event) if not isinstance(e, fx.NotifyComplete)]


class FlagsAreLost(Coordinator):
    """A record flags no task as finished."""

    def handle(self, event: ev.Event) -> list[Effect]:
        effects = super().handle(event)
        return [replace(e, finished=frozenset()) if isinstance(e, fx.StoreCheckpoint) else e for e in effects]


class StopsInsteadOfCatchingUp(Coordinator):
    """What upstream has committed last is not read before the flush."""

    def handle(self, event: ev.Event) -> list[Effect]:
        effects = super().handle(event)
        return [fx.StopAtBoundary(e.task) if isinstance(e, fx.CatchUp) else e for e in effects]


class ClosesInAnyOrder(Coordinator):
    """EndOfPartition of upstream is not awaited."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        close = self._job.close_if_due

        def at_once(name: str) -> list[Effect]:
            if self.tasks[name].state is TaskState.FINISHED and not self.tasks[name].closing:
                self.tasks[name].closing = True
                return [fx.Close(name)]
            return close(name)

        self._job.close_if_due = at_once  # type: ignore[method-assign]


class CancelIsForgotten(Coordinator):
    """A cancel does not end the job."""

    def handle(self, event: ev.Event) -> list[Effect]:
        effects = super().handle(event)
        return [e for e in effects if not (self.canceled and isinstance(e, fx.Terminated))]


MISTAKES: tuple[Callable[..., Coordinator], ...] = (
    ReadsDoesNothing,
    GraphForgotten,
    FlushesInAStop,
    WaitsForNothingUpstream,
    AnyCheckpointEndsAStop,
    EndsByAnEarlierCheckpoint,
    LastRowsNotPreCommitted,
    NobodyIsNotified,
    FlagsAreLost,
    StopsInsteadOfCatchingUp,
    ClosesInAnyOrder,
    CancelIsForgotten,
)
