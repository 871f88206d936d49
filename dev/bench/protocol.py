"""How many events per second the engine handles with 1,000 tasks: a whole life with checkpoints and a drain,
no I/O.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from dev.bench.figures import Figures
from streamjob.protocol.engine import effects as fx
from streamjob.protocol.engine import events as ev
from streamjob.protocol.engine.checkpoints.checkpoint import Checkpointing
from streamjob.protocol.engine.coordinator import Coordinator
from streamjob.protocol.messages.commands import Mode, TerminationRequest

TASKS = 1000
CHECKPOINTS = 3

Job = Iterator[tuple[str, tuple[str, ...]]]


def chain(tasks: int) -> Job:
    """Each stage reads from the previous one."""
    for i in range(tasks):
        yield f"s{i}", (f"s{i - 1}",) if i else ()


def tree(tasks: int) -> Job:
    """Each stage reads from two others."""
    for i in reversed(range(tasks)):
        yield f"s{i}", tuple(f"s{j}" for j in (2 * i + 1, 2 * i + 2) if j < tasks)


def wide(tasks: int) -> Job:
    """Two stages: every task of one is connected to every task of the other."""
    for i in range(tasks // 2):
        yield f"a/{i}", ()
    for i in range(tasks - tasks // 2):
        yield f"b/{i}", ("a",)


JOBS: dict[str, Callable[[int], Job]] = {"chain": chain, "tree": tree, "wide": wide}

ANSWERS: dict[type[Any], Callable[[Any], ev.Event]] = {
    fx.StopAtBoundary: lambda e: ev.BoundaryReached(e.task, 7),
    fx.CatchUp: lambda e: ev.BoundaryReached(e.task, 7),
    fx.FireMaxWatermark: lambda e: ev.MaxWatermarkFired(e.task, 8),
    fx.Finish: lambda e: ev.Finished(e.task),
    fx.Close: lambda e: ev.Closed(e.task),
    fx.Snapshot: lambda e: ev.SnapshotTaken(e.task, e.number, 5),
    fx.StoreCheckpoint: lambda e: ev.CheckpointDurable(e.number),
    fx.AnnounceCheckpoint: lambda e: ev.CheckpointCompleted(e.number),
}


def live(job: Job, *, script_waits: bool = False) -> int:
    """Run a job: start, some checkpoints, drain, end.

    :param script_waits: the script ends only after every query is closed, so that each end takes a
        checkpoint.
    :returns: the number of events.
    """
    c = Coordinator(settings=Checkpointing())
    events = 0

    def settle(event: ev.Event) -> None:
        """Handle an event, carry out its effects, and everything that follows from them."""
        nonlocal events
        events += 1
        todo = deque(c.handle(event))
        while todo:
            effect = todo.popleft()
            if type(effect) in ANSWERS:
                todo.extend(c.handle(ANSWERS[type(effect)](effect)))
                events += 1

    for task, upstream in job:
        settle(ev.TaskStarted(task, upstream))
    for _ in range(CHECKPOINTS):
        settle(ev.CheckpointDue())
    if not script_waits:
        settle(ev.ScriptEnded())
    settle(ev.TerminationRequested(DRAIN))
    if script_waits:
        settle(ev.ScriptEnded())
    assert c.terminated
    return events


DRAIN = TerminationRequest("r1", 1, Mode.DRAIN)


def measure(runs: int = 5) -> Figures:
    """Measure events per second of processor time."""
    figures = Figures()
    for _ in range(runs):
        for name, job in JOBS.items():
            began = time.process_time()
            events = live(job(TASKS))
            figures.add(f"{name}, {TASKS:,} tasks (events/s)", events / (time.process_time() - began))
    return figures
