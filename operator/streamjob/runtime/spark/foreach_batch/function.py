"""The function of a query's foreachBatch, and which batches run now.

The JVM calls the function in a thread. What the function hands to threads of its own is not followed there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

from pyspark.sql import DataFrame

from ....protocol.errors import StreamJobError
from ..handles import Table
from ..target import Target
from .failed_jobs import failed_since, sigterm

KILL_MODE = "Send SIGTERM to the driver alone; in a systemd unit, set KillMode=mixed"


class BatchInterrupted(StreamJobError):
    """The runtime interrupted the run while its batch was running, or SIGTERM has reached a Python worker, so
    the batch must not be committed.

    The function may have caught the error in which the interruption arrived, and left out part of its work.
    """

    reason: ClassVar[str] = "BatchInterrupted"
    retryable: ClassVar[bool] = True

    def __init__(self, by: str = "", remedy: str = "") -> None:
        super().__init__(
            f"the query was interrupted in the middle of this batch{by}; its next run repeats the batch",
            remedy=remedy,
        )


class BatchLeft(StreamJobError):
    """The function called sys.exit(), or raised KeyboardInterrupt.

    py4j would end its thread without an answer, and Spark would know no more than "Received empty command".
    """

    reason = "BatchLeft"
    retryable = True

    def __init__(self, error: BaseException) -> None:
        super().__init__(
            f"the function of foreachBatch raised {error!r}: that ends its batch, but not the script",
            remedy="Raise another exception to fail the query; call sys.exit() outside of the function",
        )


class BatchFunction:
    """The function that the script gave to foreachBatch(), with steps before and after it.

    The steps run inside the micro-batch: Spark commits the batch only when all of them are done, and runs it
    again if any of them raises. They are added once the query is a stage.

    :ivar interrupted: of the run that the writer is started for: once it is set, no batch of the run is
        committed any more, whatever the function makes of the errors that it meets. A batch in which the
        function has returned before may still be committed: it is complete.
    """

    def __init__(self, function: Callable[[DataFrame, int], object]) -> None:
        self.given = function
        self.function = function  # the one that is called; a transactional sink has another one
        self.batch: int | None = None  # that runs, or was the last to run
        # Why the batch must not be committed, whatever the function makes of that exception.
        self.must_fail: Exception | None = None
        self.failure: StreamJobError | None = None  # with which we have failed the batch, for the user
        self.interrupted = threading.Event()
        self.before: list[Callable[[int], object]] = []
        self.after: list[Callable[[int], object]] = []
        # Called before each write of the function that `writes` observes. The last argument is false if the
        # write may be that of another function.
        self.on_write: Callable[[Target, Table | None, bool], object] = lambda target, table, certain: None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        interrupted = self.interrupted  # of this run, also if another one is started meanwhile
        with batch_of(self):
            self.batch = batch
            for step in self.before:
                step(batch)
            self.must_fail = self.failure = None
            began = time.time()
            try:
                self.function(frame, batch)
            except (SystemExit, KeyboardInterrupt) as e:
                self.failure = BatchLeft(e)
                raise self.failure from e
            finally:
                if self.must_fail is not None:
                    raise self.must_fail
                if interrupted.is_set():
                    raise BatchInterrupted
                if sigterm.is_set() and failed_since(frame, began):
                    raise BatchInterrupted(" by SIGTERM, which has reached more than its driver", KILL_MODE)
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
