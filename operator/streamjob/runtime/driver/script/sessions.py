"""Puts off the end of a Spark session that the script stops while the job may still need it."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from pyspark import SparkContext
from pyspark.sql import SparkSession

from ....protocol.errors import StreamJobError
from ....protocol.messages.driver_status import Problem
from ....protocol.wording import fill
from ...query.run import Run
from .. import threads

log = logging.getLogger("streamjob")


class Sessions:
    """Ends Spark sessions, at once or later. Each `really` is pyspark's own stop()."""

    def __init__(self) -> None:
        self._put_off: Callable[[], None] | None = None
        self._ending = threading.local()

    @property
    def put_off_is_pending(self) -> bool:
        return self._put_off is not None

    @property
    def ending(self) -> bool:
        """Whether this thread is in SparkSession.stop(), which calls SparkContext.stop()."""
        return getattr(self._ending, "now", False)

    def end(self, really: Callable[[], None]) -> None:
        self._ending.now = True
        try:
            really()
        finally:
            self._ending.now = False

    def put_off(self, really: Callable[[], None]) -> None:
        """Hide the session from the script without ending it. The script's next session is a new one."""
        self._put_off = self._put_off or really
        SparkSession._instantiatedSession = None
        if hasattr(SparkSession, "_activeSession"):
            SparkSession._activeSession = None

    def end_put_off(self) -> None:
        """End the session that was put off, if there is one. May be repeated."""
        really, self._put_off = self._put_off, None
        if really is not None:
            self.end(really)


def keeps_windows(run: Run) -> bool:
    """Whether the run has ended by itself in a session that is gone, so that its windows cannot come out."""
    if not (run.lost_session and run.exhausts and run.over.is_set()):
        return False
    try:
        return run.directory.has_state()
    except StreamJobError:  # the file system of the session that is gone
        return True


def not_flushed(run: Run) -> Problem:
    """The warning for such a run, when the script has ended."""
    text = (
        f"query {run.name.name!r} is not flushed: the script has stopped its Spark session and made another "
        "one. What its state holds, such as its last windows, has not come out; the next start continues "
        "with it"
    )
    remedy = "Let the script use one session for all queries, and stop it when all have ended"
    log.warning("%s. %s", text, remedy)
    return Problem("SessionStopped", text, remedy)


def stopped_by_script(run: Run) -> Problem:
    """The warning for a query that the script has stopped and not started again, in a drain."""
    text = (
        f"query {run.name.name!r} is not drained: the script has stopped it before. What its sources have "
        "left and what its state holds has not come out; the savepoint has it"
    )
    remedy = fill("Leave the query to the drain. To continue with it, <new-job> <and-allow-drained>")
    log.warning("%s. %s", text, remedy)
    return Problem("QueryNotDrained", text, remedy)


def end_spark(seconds: float) -> bool:
    """Stop the Spark context that is still active, if there is one. Waits for at most `seconds`.

    :returns: whether it is done. Then Spark has told its listeners of everything.
    """
    context = SparkContext._active_spark_context
    if context is None:
        return True
    done = threading.Event()

    def stop() -> None:
        with suppress(Exception):  # the JVM may be gone
            # pyspark's own method: the patched one would first end the queries.
            inspect.unwrap(SparkContext.stop)(context)
        done.set()

    threads.start(stop, "stop-spark")
    return done.wait(max(seconds, 0))
