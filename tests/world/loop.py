"""An asyncio loop whose time passes only when nobody has anything to do: then it jumps to the next timer."""

from __future__ import annotations

import asyncio
from asyncio import base_events, events
from contextvars import Context
from heapq import heappop, heappush
from itertools import count
from typing import Any


class Stuck(Exception):
    """Nothing is ready and no timer is set: whoever waits now waits for ever."""


class VirtualLoop(base_events.BaseEventLoop):
    """No sockets, threads or signals.

    Callbacks run in the order in which they were scheduled, so a run repeats exactly.

    A plan is thousands of timers: they are compared as numbers, and none of asyncio's checks for mistakes of
    callers is made.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._timers: list[tuple[float, int, events.TimerHandle]] = []
        self._order = count()

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]  # a generic signature, as in typeshed, would say no more
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> events.Handle:
        handle = events.Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> events.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> events.TimerHandle:
        timer = events.TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._order), timer))
        return timer

    def _run_once(self) -> None:
        """As BaseEventLoop does it, without its I/O."""
        ready, timers = self._ready, self._timers  # type: ignore[attr-defined]
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            if not timers:
                raise Stuck
            self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            ready.append(heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def end(self) -> None:
        """Cancel whatever is left, without letting time pass, and close."""
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        self.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.close()
