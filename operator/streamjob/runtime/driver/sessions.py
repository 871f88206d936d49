"""The end of a Spark session that the script has stopped while the job may still need it."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from contextlib import suppress

from pyspark import SparkContext
from pyspark.sql import SparkSession

from . import threads


class Sessions:
    def __init__(self) -> None:
        self._put_off: Callable[[], None] | None = None
        self._ending = threading.local()

    @property
    def put_off_is_pending(self) -> bool:
        return self._put_off is not None

    @property
    def ending(self) -> bool:
        """In this thread: SparkSession.stop() is about to call SparkContext.stop()."""
        return getattr(self._ending, "now", False)

    def end(self, really: Callable[[], None]) -> None:
        self._ending.now = True
        try:
            really()
        finally:
            self._ending.now = False

    def put_off(self, really: Callable[[], None]) -> None:
        """To the script the session is gone: what it makes now is another one."""
        self._put_off = self._put_off or really
        SparkSession._instantiatedSession = None
        if hasattr(SparkSession, "_activeSession"):
            SparkSession._activeSession = None

    def end_put_off(self) -> None:
        """May be repeated."""
        really, self._put_off = self._put_off, None
        if really is not None:
            self.end(really)


def stop_spark(seconds: float) -> None:
    """End the session that is left, if there is one; after `seconds` nobody waits for it any longer."""
    context = SparkContext._active_spark_context
    if context is None:
        return
    done = threading.Event()

    def stop() -> None:
        with suppress(Exception):  # the JVM may be gone
            # The real one: the script's own call ends the queries first.
            inspect.unwrap(SparkContext.stop)(context)
        done.set()

    threads.start(stop, "stop-spark")
    done.wait(seconds)
