"""The script's main thread, and how it is told that its job has stopped: JobStopped is raised in it."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from ...jvm import spark_jobs
from ..driver import threads
from ..driver.script.interruption import is_in_a_call
from ..driver.script.job_stopped import JobStopped, cleans_up, has_met
from ..driver.threads import script_threads
from .signals import Signals

log = logging.getLogger("streamjob")

JVM_ANSWERS = 10.0  # seconds: a JVM that takes longer hangs, and the script is told all the same


class ScriptsMainThread:
    """The main thread as the script has it. Thread-safe.

    `runs` is false before the script's first line and after its last one. Then nothing is raised.
    """

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._ending, self._telling = threading.Lock(), threading.Lock()
        self._asked = False  # a thread of the script that ends has asked for it
        self.runs = False  # the script, in the main thread
        # On the clock of time.monotonic(): when it was told for the first time, and last tried.
        self.told_at: float | None = None
        self.tried_at: float | None = None

    @property
    def has_met(self) -> bool:
        """Whether JobStopped has reached the script there, by whatever way."""
        return has_met(threading.main_thread())

    def end_with_a_thread(self) -> None:
        """Tell it once, unless it has met with JobStopped.

        A thread of the script is about to end because the job was stopped. The main thread may wait for that
        (an event, `is_alive()`, a queue) and would go on as if the thread had done its work.
        """
        with self._ending:
            if not self._asked:
                self._asked = True
                # Where it has met with it, its `finally` blocks are running.
                self._tell(lambda: self.has_met)

    def tell_in_background(self) -> None:
        """Tell it, unless it cleans up.

        It runs on after the job has stopped: it polls, or works, or has caught what told it before.
        """
        self.tried_at = time.monotonic()
        if self._telling.acquire(blocking=False):
            try:
                threads.start(self._tell_again, "streamjob-tell")  # it waits for the main thread
            except BaseException:
                self._telling.release()
                raise

    def _tell_again(self) -> None:
        try:
            jobs = self._jobs()
            if self._tell(cleans_up):
                log.warning(
                    "the job has stopped and its script runs on: SystemExit was raised in its main thread"
                )
                spark_jobs.cancel(jobs)  # they would keep the cores from `finally`
        finally:
            self._telling.release()

    def _tell(self, spared: Callable[[], bool]) -> bool:
        """Raise JobStopped in it.

        :param spared: asked in the main thread: raise nothing.
        :returns: whether it was raised.
        """
        raised = []

        def error() -> JobStopped | None:
            if not self.runs or spared():
                return None
            raised.append(True)
            self.told_at = self.told_at or time.monotonic()
            return JobStopped()

        self._signals.raise_in_main_thread(error)
        return bool(raised)

    def _jobs(self) -> list[int]:
        """The Spark jobs whose results it waits for. Empty if other threads may have jobs, too."""
        found: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
        if is_in_a_call(threading.main_thread()) and not script_threads():
            threads.start(lambda: found.put(spark_jobs.running()), "streamjob-jobs")
            with suppress(queue.Empty):
                return found.get(timeout=JVM_ANSWERS)
        return []
