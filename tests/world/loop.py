"""An asyncio loop whose time passes only when nobody has anything to do: then it jumps to the next timer."""

from __future__ import annotations

import asyncio
from asyncio import base_events
from typing import Any


class Stuck(Exception):
    """Nothing is ready and no timer is set: whoever waits now waits for ever."""


class VirtualLoop(base_events.BaseEventLoop):
    """No sockets, threads or signals. Callbacks run in the order in which they were scheduled, so a run repeats exactly."""

    def __init__(self) -> None:
        super().__init__()
        self._clock_resolution = 1e-9
        self._now = 0.0
        self._selector = self  # BaseEventLoop asks it for I/O, and how long it may sleep

    def time(self) -> float:
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck
        self._now += timeout
        return []

    def _process_events(self, events: list[Any]) -> None:
        pass

    def end(self) -> None:
        """Cancel whatever is left, without letting time pass, and close."""
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        self.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.close()
