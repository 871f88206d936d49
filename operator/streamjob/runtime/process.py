"""The driver's process: the user's script in its main thread, and one orderly way out."""

from __future__ import annotations

import inspect
import logging
import os
import sys
import threading
from collections.abc import Callable

from pyspark import SparkContext

from ..protocol.ending import UpstreamTooLate
from ..protocol.errors import StreamJobError
from ..protocol.messages import DriverConfig, DriverPhase, DriverStatus, Problem
from . import capture, script
from .board import StatusBoard
from .driver import Driver
from .reporting import problem_of

log = logging.getLogger("streamjob")

SCRIPT_TAIL = 60.0  # seconds that a script may go on after its queries are closed


def run_script(settings: DriverConfig, driver: Driver, exits: Exit) -> None:
    """The user's script in this, the main thread, until it and every query it started is over."""
    problem: Problem | None = None
    try:
        capture.install(driver)
        script.run(settings.application)
        if not driver.stages:
            raise script.NoQuery(
                "the script came to its end without starting a streaming query",
                remedy="Start one with writeStream…start() and wait for it with awaitTermination()",
            )
        # A script that falls off its end leaves its queries running: they are the job.
        driver.await_end()
    except StreamJobError as e:
        problem = problem_of(e)
        if driver.ending and driver.stages and isinstance(e, (script.ScriptFailed, UpstreamTooLate)):
            # Whatever a script does after its query was asked to end, it does not cut the end short. A query that cannot
            # start where it should is another matter: without it, the checkpoint would not be the job's.
            log.warning("the script ended with: %s", e)
            driver.await_end()
    exits.problem = driver.failure or problem


class Exit:
    """The one way out of the process; whoever comes first takes it."""

    def __init__(self, board: StatusBoard, driver: Driver, report: Callable[[DriverStatus], None]) -> None:
        self.problem: Problem | None = None
        self._board = board
        self._driver = driver
        self._report = report
        self._once = threading.Lock()

    def report(self) -> None:
        """Leave the status as it is now to whoever comes after this process."""
        self._report(self._board.status)

    def after_tail(self) -> None:
        """A script that goes on long after its queries are closed does not keep the pod."""
        self._driver.terminated.wait()
        threading.Event().wait(SCRIPT_TAIL)
        log.warning("the script still runs %.0f s after its queries are closed: leaving", SCRIPT_TAIL)
        self.leave()

    def leave(self) -> int:
        """Report, stop Spark (its executors with it) and end the process."""
        if not self._once.acquire(blocking=False):
            threading.Event().wait()  # the other one ends the process
        problem = self.problem if not self._driver.terminated.is_set() else None
        if problem is not None:
            self._board.update(phase=DriverPhase.FAILED, problem=problem)
            log.error("%s: %s. %s", problem.reason, problem.message, problem.remedy)
        self.report()
        code = 1 if problem is not None else 0
        stop_spark()
        sys.stdout.flush()
        sys.stderr.flush()
        # Not sys.exit: threads of the script or of pyspark may keep the interpreter, and the pod, for ever.
        os._exit(code)


def stop_spark() -> None:
    context = SparkContext._active_spark_context
    if context is None:
        return
    done = threading.Event()

    def stop() -> None:
        try:
            # The real one: `capture` makes the script's own call a graceful stop, and that would hide a failure.
            inspect.unwrap(SparkContext.stop)(context)
        except Exception as e:  # the JVM may be gone
            log.info("while Spark stopped: %s", e)
        done.set()

    threading.Thread(target=stop, daemon=True).start()
    done.wait(10.0)
