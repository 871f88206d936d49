"""The function of a query's foreachBatch, and which batches run now.

The JVM calls the function in a thread. What the function hands to threads of its own is not followed there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
        # Called before each write of the function that `writes` observes. The last argument is false if the
        # write may be that of another function.
        self.on_write: Callable[[Target, Table | None, bool], object] = lambda target, table, certain: None

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


_running: list[BatchFunction] = []
_thread = threading.local()  # `runs`: the BatchFunction whose batch this thread runs


def running_batch_function() -> BatchFunction | None:
    """The function whose batch this thread runs, None outside of foreachBatch."""
    found: BatchFunction | None = getattr(_thread, "runs", None)
    return found


def running_batch_functions() -> list[BatchFunction]:
    """The functions whose batches run now, in any thread."""
    return list(_running)


@contextmanager
def batch_of(function: BatchFunction) -> Iterator[None]:
    """This thread runs a batch of the function."""
    outer = running_batch_function()
    _running.append(function)
    _thread.runs = function
    try:
        yield
    finally:
        _thread.runs = outer
        _running.remove(function)
