"""The driver's process: the user's script in its main thread, and one orderly way out.

The way out is Python's own, so that atexit handlers run and files are flushed: the main thread comes back here when the script
has ended, waits for what it has left running, and exits with the script's code. Only where the job was asked to end, a script
that does not is ended: first as by sys.exit(), then for good.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from ...protocol.errors import StreamJobError
from ...protocol.messages import DriverConfig, DriverPhase, DriverStatus, Mode, Problem
from ..driver.driver import Driver
from ..driver.job_stopped import end_joiners
from ..driver.sessions import stop_spark
from ..driver.status import problem_of
from ..driver.status_board import StatusBoard
from ..driver.threads import script_threads
from . import patch_pyspark, script
from .main_end import MainEnd
from .script import Outcome
from .signals import Signals

log = logging.getLogger("streamjob")

LOOK = 0.2  # seconds between two looks whether a script that should end has
LAST = 10.0  # seconds from sys.exit() in the script's main thread to the end of the process
SPARK_STOPS = 10.0  # seconds


def run_script(settings: DriverConfig, driver: Driver, exits: Exit) -> int:
    """The user's script in this, the main thread, until it and every query it started is over; the exit code."""
    end, process = MainEnd(), os.getpid()
    try:
        patch_pyspark.install(driver)
        end_joiners()
        outcome = script.run(settings.application)
    except StreamJobError as e:  # of ours, before the script began
        outcome = Outcome(1, e)
    if os.getpid() != process:
        _leave_fork(outcome)
    end.come()
    _uninterrupted(lambda: _join_threads(driver))
    exits.script_is_over()
    if exits.reason is not None:
        return exits.leave(outcome.code, None)
    if outcome.code == 0 and not driver.has_begun:
        outcome = Outcome(
            1,
            script.NoQuery(
                "the script came to its end without starting a streaming query",
                remedy="Start one with writeStream…start() and wait for it with awaitTermination()",
            ),
        )
    problem = None if outcome.error is None else problem_of(outcome.error)
    if outcome.by_query:
        problem = driver.dead_query() or problem  # the cause
    code = outcome.code
    refused = outcome.error is not None and not isinstance(outcome.error, script.ScriptFailed)
    if driver.stages and (code == 0 or (driver.ending and not refused)):
        # A script that falls off its end leaves its queries running: they are the job. Whatever a script does after its query was
        # asked to end, it does not cut the end short.
        if problem is not None:
            log.warning("the script ended with: %s", problem.message)
        alive = any(not run.over.is_set() for run in driver.runs())
        _uninterrupted(driver.await_queries)
        if not driver.terminated.is_set():
            problem, code = driver.failure or problem, code or (1 if alive else 0)
    elif driver.stages and outcome.error is not None:
        driver.abandon(outcome.error)
    return exits.leave(code, None if driver.terminated.is_set() else problem)


def _leave_fork(outcome: Outcome) -> NoReturn:
    """The script has forked, and this is the end of the child: it leaves as Python does, and is no driver."""
    for thread in script_threads():
        if not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    script.flush()
    os._exit(outcome.code)


def _uninterrupted(wait: Callable[[], None]) -> None:
    """A handler of the script may raise in the main thread (sys.exit() on SIGTERM). The script is over: it ends nothing more."""
    while True:
        try:
            return wait()
        except (SystemExit, KeyboardInterrupt) as e:
            log.info("the script's end is waited for all the same: %r", e)


def _join_threads(driver: Driver) -> None:
    """As Python does it at its end: threads of the script's that are no daemons are part of it. Not once the job has been
    stopped: what they wait for may never come."""
    while left := [thread for thread in script_threads() if not thread.daemon]:
        if driver.stops and driver.terminated.is_set():
            return
        left[0].join(LOOK)


class Exit:
    """The one way out of the process. To be made before the script runs: what is registered first is called last at exit."""

    def __init__(
        self, board: StatusBoard, driver: Driver, signals: Signals, report: Callable[[DriverStatus], None]
    ) -> None:
        self._board = board
        self._driver = driver
        self._signals = signals
        self._report = report
        self._script_over = threading.Event()
        self._left = threading.Event()
        self._gone = threading.Event()
        self._process = os.getpid()
        self.deadline: float | None = None  # of SIGTERM, on the clock of time.monotonic()
        self.reason: str | None = None  # of an end before the first query
        atexit.register(self._at_exit)

    def report(self) -> None:
        """Leave the status as it is now to whoever comes after this process."""
        self._report(self._board.status)

    def leave(self, code: int, problem: Problem | None) -> int:
        """Say why, in the log and in the report; the exit code."""
        reason = self.reason or self._reason(code, problem)
        changes: dict[str, object] = {"exit_code": code, "exit_reason": reason}
        if problem is not None:
            changes.update(phase=DriverPhase.FAILED, problem=problem, degraded=None)
            log.error("%s: %s. %s", problem.reason, problem.message, problem.remedy)
        self._board.update(**changes)
        log.info("the driver exits: %s; exit code %d", reason, code)
        self.report()
        self._left.set()
        return code

    def leave_at_once(self, reason: str) -> None:
        """Nothing has begun, so nothing is lost: end the script where it is, in its main thread."""
        self.reason = reason
        self.end_script(0)

    def script_is_over(self) -> None:
        """Its threads too."""
        self._script_over.set()
        self._signals.leave_no_more()

    def end_script(self, code: int) -> None:
        """As by sys.exit() in the script's main thread; what does not end by that is ended, behind the final checkpoint."""
        self._signals.leave(code)
        if self._script_over.wait(LAST):
            self._left.wait()
        else:
            log.warning("the script does not end: its process does")
            if self._driver.stages:
                self._driver.await_queries()
            code = self.leave(code, None)
        if not self._gone.wait(LAST):
            os._exit(code)

    def watch_request(self) -> None:
        """A job that was asked to end does not wait for its script for ever. Returns when the process is about to end."""
        while not self._gone.wait(LOOK):
            if self._script_is_left and time.monotonic() > self._limit():
                log.warning(
                    "the script goes on after its queries have ended, for longer than it may: it is ended"
                )
                self.end_script(0)

    @property
    def _script_is_left(self) -> bool:
        """Its main thread; or what that has left: other threads, and what it has registered with atexit."""
        return self._driver.only_script_left or (self._left.is_set() and self._driver.asked_to_end)

    def _limit(self) -> float:
        request, now = self._driver.request, time.monotonic()
        if self.deadline is not None:
            return self.deadline
        begun = self._driver.requested_at or now
        if request is not None and request.timeout is not None:
            return begun + request.timeout
        return (self._driver.only_script_left_since or now) + self._driver.config.grace

    def _reason(self, code: int, problem: Problem | None) -> str:
        if problem is not None:
            return problem.message[:300]
        request = self._driver.request
        queries = ", ".join(sorted({run.name.name for run in self._driver.runs()})) or "none"
        if request is not None and self._driver.terminated.is_set():
            what = "stopped" if request.mode is Mode.STOP else "drained"
            by = "SIGTERM" if self._board.status.evicted else f"request {request.request_id}"
            record = self._board.status.completed
            at = f" with checkpoint {record.checkpoint}" if record else ""
            return f"{what} by {by}{at}; queries: {queries}"
        if self._driver.terminated.is_set():
            how = "with exit code 0" if code == 0 else f"with exit code {code}"
            return f"the script has ended {how}, and so has every query that it started: {queries}"
        return "the script has ended before a query began"

    def _at_exit(self) -> None:
        """After all that the script has registered."""
        if os.getpid() != self._process:
            return  # a fork's end is not the driver's
        self._driver.sessions.end_put_off()
        stop_spark(SPARK_STOPS)
        script.flush()
        self._gone.set()
