"""Kills its own process, JVM included, at a point that the environment names: `KILL="before NotifyComplete"`, `KILL="after
StoreCheckpoint 2"` (the second time). For scripts of tests: they import it before they start a query."""

import os
import signal
from typing import Any

from streamjob.runtime.work import Work


def now() -> None:
    os.killpg(0, signal.SIGKILL)


def install() -> None:
    when, _, rest = os.environ.get("KILL", "").partition(" ")
    effect, _, times = rest.partition(" ")
    left = int(times or 1)
    original = Work.carry_out

    def carry_out(work: Work, asked: Any) -> Any:
        nonlocal left
        hit = type(asked).__name__ == effect
        left -= hit
        if hit and left == 0 and when == "before":
            now()
        event = original(work, asked)
        if hit and left == 0 and when == "after":
            now()
        return event

    Work.carry_out = carry_out  # type: ignore[method-assign]
