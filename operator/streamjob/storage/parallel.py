"""Works on many files in parallel, and reports the progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

THREADS = 8
SAY_EVERY = 1.0  # seconds between two progress lines

Progress = Callable[[str], None]
In = TypeVar("In")
Out = TypeVar("Out")


class Counter:
    """Counts finished files and reports the count, at most once in `SAY_EVERY` seconds."""

    def __init__(self, verb: str, total: int, say: Progress | None) -> None:
        self._verb, self._total, self._say = verb, total, say
        self._done = 0
        self._said = time.monotonic()

    def one_more(self) -> None:
        self._done += 1
        if self._say and time.monotonic() - self._said >= SAY_EVERY:
            self._said = time.monotonic()
            self._say(f"{self._verb} {self._done} of {self._total} files")


def each(
    work: Callable[[In], Out], items: Iterable[In], threads: int, counter: Counter | None = None
) -> list[Out]:
    """Call `work` for all items in `threads` threads.

    On the first error, items that have not started are dropped, and the error is raised when the running ones
    have ended.

    :returns: the results, in the order of the items.
    """
    results = []
    with ThreadPoolExecutor(threads, thread_name_prefix="streamjob-files") as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            for future in futures:
                results.append(future.result())
                if counter is not None:
                    counter.one_more()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return results
