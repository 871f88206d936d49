"""The function of a query's foreachBatch, and which threads run its batches.

The JVM calls the function in a thread. The function may hand work to threads of its own, to a
ThreadPoolExecutor, or to a ThreadPool that it makes. What these do belongs to the batch, which waits for
them.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from ....protocol.errors import StreamJobError
from ..handles import Table
from ..target import Target


class BatchFunction:
    """The function that the script gave to foreachBatch(), with steps before and after it.

    The steps run inside the micro-batch: Spark commits the batch only when all of them are done, and runs it
    again if any of them raises. They are added once the query is a stage.
    """

    def __init__(self, function: Callable[[DataFrame, int], object]) -> None:
        self.given = function
        self.function = function  # the one that is called; a transactional sink has another one
        self.batch: int | None = None  # that runs, or was the last to run
        # Why the batch must not be committed, whatever the function makes of that exception.
        self.must_fail: Exception | None = None
        self.failure: StreamJobError | None = None  # with which we have failed the batch, for the user
        self.before: list[Callable[[int], object]] = []
        self.after: list[Callable[[int], object]] = []
        # Called before each write of the function that `writes` observes.
        self.on_write: Callable[[Target, Table | None], object] = lambda target, table: None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        with batch_of(self):
            self.batch = batch
            for step in self.before:
                step(batch)
            self.must_fail = self.failure = None
            try:
                self.function(frame, batch)
            finally:
                if self.must_fail is not None:
                    raise self.must_fail
            for step in self.after:
                step(batch)


class Batch(NamedTuple):
    """A batch of a function."""

    function: BatchFunction
    number: int | None

    @property
    def runs(self) -> bool:
        return self.function in _running and self.function.batch == self.number


_running: list[BatchFunction] = []
_thread = threading.local()  # `runs`: the BatchFunction that this thread works for


def running_batch_function() -> BatchFunction | None:
    """The function whose batch this thread runs, None outside of foreachBatch."""
    found: BatchFunction | None = getattr(_thread, "runs", None)
    return found if found in _running else None  # a thread may outlive the batch that has started it


def running_batch() -> Batch | None:
    """The batch that this thread runs, None outside of foreachBatch."""
    function = running_batch_function()
    return Batch(function, function.batch) if function is not None else None


def running_batch_functions() -> list[BatchFunction]:
    """The functions whose batches run now, in any thread."""
    return list(_running)


@contextmanager
def batch_of(function: BatchFunction) -> Iterator[None]:
    """This thread runs a batch of the function."""
    _running.append(function)
    try:
        with _works_for(function):
            yield
    finally:
        _running.remove(function)


def follow() -> None:
    """Let threads work for the batch that has started them. Call this once, before the script is imported."""
    start = threading.Thread.start
    submit: Callable[..., Any] = ThreadPoolExecutor.submit

    @functools.wraps(start)
    def started(thread: threading.Thread) -> None:
        if (function := running_batch_function()) is not None:
            setattr(thread, "run", functools.partial(_run_for, function, thread.run))  # noqa: B010
        start(thread)

    @functools.wraps(submit)
    def submitted(pool: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        # Also outside of a batch: the thread of the pool may have been started in one.
        return submit(pool, _run_for, running_batch_function(), fn, *args, **kwargs)

    setattr(threading.Thread, "start", started)  # noqa: B010
    setattr(ThreadPoolExecutor, "submit", submitted)  # noqa: B010


@contextmanager
def _works_for(function: BatchFunction | None) -> Iterator[None]:
    outer = getattr(_thread, "runs", None)
    _thread.runs = function
    try:
        yield
    finally:
        _thread.runs = outer


def _run_for(function: BatchFunction | None, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    with _works_for(function):
        return work(*args, **kwargs)
