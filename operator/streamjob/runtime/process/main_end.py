"""Shows the script's other threads the end of the script as the end of the main thread.

When plain Python exits, the main thread counts as ended, and Python shuts down open thread pools before it
waits for the remaining threads. Under the runtime, the main thread lives on after the script has ended, so
this module imitates both.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

OUR_PREFIX = "streamjob"  # prefix of the thread names of the runtime's own pools


class MainEnd:
    """Patches the main thread and the pool classes. Create it in the main thread, before the script runs."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._pools: weakref.WeakSet[Executor] = weakref.WeakSet()
        main = threading.main_thread()
        join = main.join

        def join_script(timeout: float | None = None) -> None:
            if threading.current_thread() is main:
                join(timeout)  # raises: a thread cannot join itself
            self._over.wait(timeout)

        main.join = join_script  # type: ignore[method-assign]
        main.is_alive = lambda: not self._over.is_set()  # type: ignore[method-assign]
        for kind in (ThreadPoolExecutor, ProcessPoolExecutor):
            kind.__init__ = self._remembering(kind.__init__)  # type: ignore[method-assign]

    def come(self) -> None:
        """Mark the main thread as ended and shut down the script's pools. Submitted work still runs."""
        self._over.set()
        for pool in list(self._pools):
            pool.shutdown(wait=False)

    def _remembering(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def __init__(pool: Executor, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(pool, *args, **kwargs)
            if not str(kwargs.get("thread_name_prefix", "")).startswith(OUR_PREFIX):
                self._pools.add(pool)

        return __init__
