"""How many events per second the engine handles with 1,000 tasks: a whole life with checkpoints and a drain,
no I/O.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from dev.bench.figures import Figures
from streamjob.protocol import effects as fx
from streamjob.protocol.checkpoints import Checkpointing
from streamjob.protocol.coordinator import Coordinator
from streamjob.protocol.messages import Mode, TerminationRequest

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

ANSWERS: dict[type[Any], Callable[[Coordinator, Any], list[fx.Effect]]] = {
    fx.StopAtBoundary: lambda c, e: c.boundary_reached(e.task, 7),
    fx.CatchUp: lambda c, e: c.boundary_reached(e.task, 7),
    fx.FireMaxWatermark: lambda c, e: c.max_watermark_fired(e.task, 8),
    fx.Finish: lambda c, e: c.finished(e.task),
    fx.Close: lambda c, e: c.closed(e.task),
    fx.Snapshot: lambda c, e: c.snapshot_taken(e.task, e.number, 5),
    fx.StoreCheckpoint: lambda c, e: c.checkpoint_durable(e.number),
    fx.AnnounceCheckpoint: lambda c, e: c.checkpoint_completed(e.number),
}


def live(job: Job, *, script_waits: bool = False) -> int:
    """Run a job: start, some checkpoints, drain, end.

    :param script_waits: the script ends only after every query is closed, so that each end takes a
        checkpoint.
    :returns: the number of events.
    """
    c = Coordinator(settings=Checkpointing())
    events = 0

    def settle(wanted: list[fx.Effect]) -> None:
        """Carry out the effects of an event, and everything that follows from them."""
        nonlocal events
        events += 1
        todo = deque(wanted)
        while todo:
            effect = todo.popleft()
            if type(effect) in ANSWERS:
                todo.extend(ANSWERS[type(effect)](c, effect))
                events += 1

    for task, upstream in job:
        settle(c.task_started(task, upstream))
    for _ in range(CHECKPOINTS):
        settle(c.checkpoint_due())
    if not script_waits:
        settle(c.script_ended())
    settle(c.termination_requested(DRAIN))
    if script_waits:
        settle(c.script_ended())
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
