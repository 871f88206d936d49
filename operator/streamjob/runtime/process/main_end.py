"""The end of the script's main thread, as the script's other threads see it: at Python's own end that thread counts as ended, and
thread pools that nobody has shut down are, before the threads that are left are waited for. Here the process goes on behind it.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

OURS = "streamjob"  # how the names of the threads of our own pools begin


class MainEnd:
    """To be made in the main thread, before the script runs."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._pools: weakref.WeakSet[Executor] = weakref.WeakSet()
        main = threading.main_thread()
        join = main.join

        def join_script(timeout: float | None = None) -> None:
            if threading.current_thread() is main:
                join(timeout)  # refuses that
            self._over.wait(timeout)

        main.join = join_script  # type: ignore[method-assign]
        main.is_alive = lambda: not self._over.is_set()  # type: ignore[method-assign]
        for kind in (ThreadPoolExecutor, ProcessPoolExecutor):
            kind.__init__ = self._remembering(kind.__init__)  # type: ignore[method-assign]

    def come(self) -> None:
        """What was submitted to the pools is still done."""
        self._over.set()
        for pool in list(self._pools):
            pool.shutdown(wait=False)

    def _remembering(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def __init__(pool: Executor, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(pool, *args, **kwargs)
            if not str(kwargs.get("thread_name_prefix", "")).startswith(OURS):
                self._pools.add(pool)

        return __init__
