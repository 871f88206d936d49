"""How a stop of the job ends the script."""

from __future__ import annotations

import sys
import threading
import weakref


class JobStopped(SystemExit):
    """Ends the script in its main thread: its job has ended."""


_alive: weakref.WeakSet[JobStopped] = weakref.WeakSet()  # those that are still handled, or kept


def job_stopped(code: int = 0) -> SystemExit:
    """What ends the script in the calling thread."""
    if threading.current_thread() is not threading.main_thread():
        return SystemExit(code)  # Python prints no traceback of it, but of a subclass
    error = JobStopped(code)
    _alive.add(error)
    return error


def is_unwinding() -> bool:
    """Whether the calling thread runs code that SystemExit has caused: `finally`, `except`, `__exit__`.

    A coroutine that awaits something in its `finally` is not seen by its thread. It holds the exception.
    """
    current, seen = sys.exc_info()[1], set[int]()
    while current is not None and id(current) not in seen:
        if isinstance(current, SystemExit):
            return True
        seen.add(id(current))
        current = current.__context__
    return _runs_coroutines() and len(_alive) > 0


def _runs_coroutines() -> bool:
    """Whether the calling thread runs an event loop of asyncio."""
    running = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)  # it may be half imported
    return running is not None and running() is not None
