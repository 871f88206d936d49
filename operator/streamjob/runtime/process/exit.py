"""The only way out of the driver process, and how a script is ended that does not end by itself.

A script is ended by force only if the job was asked to end and the script does not: first as by sys.exit(),
then by os._exit().
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable

from ...protocol.messages.commands import Mode
from ...protocol.messages.driver_status import DriverPhase, DriverStatus, Problem
from ..driver import threads
from ..driver.driver import Driver
from ..driver.requests import PATIENCE
from ..driver.script.job_stopped import cleans_up
from ..driver.script.sessions import end_spark
from ..driver.status_board import StatusBoard
from . import script
from .main_thread import ScriptsMainThread
from .signals import Signals

log = logging.getLogger("streamjob")

LOOK = 0.2  # seconds between two checks whether the script has ended
LAST = 10.0  # seconds that the script has after SystemExit, and that the process has after the script
AGAIN = 1.0  # seconds, at least, from one time that a script is told to the next one
LAST_PRINTS = 1.0  # seconds to wait until what the script has printed is written
SPARK_STOPS = 10.0  # seconds to wait for SparkContext.stop()


class Exit:
    """The only way out of the process.

    Create it before the script runs: the atexit handler that is registered first is called last.

    :param report: leaves a status to whoever comes after this process; in a pod, in the termination message.
    """

    def __init__(
        self, board: StatusBoard, driver: Driver, signals: Signals, report: Callable[[DriverStatus], None]
    ) -> None:
        self._board = board
        self._driver = driver
        self._signals = signals
        self._report = report
        self._main_thread = ScriptsMainThread(signals)
        self._script_begun = self._script_runs = False
        self._script_over = threading.Event()
        self._left = threading.Event()
        self._gone = threading.Event()
        self._process = os.getpid()
        self._ending = threading.Lock()
        self._leaving = False
        self.deadline: float | None = None  # set by SIGTERM, on the clock of time.monotonic()
        self.reason: str | None = None  # why the job ended before its first query
        driver.end_main_thread = self._main_thread.end_with_a_thread
        atexit.register(self._at_exit)

    def report(self) -> None:
        """Leave the current status to whoever comes after this process."""
        self._report(self._board.status)

    def leave(self, code: int, problem: Problem | None) -> int:
        """Record in the status, the log and the report why the driver exits.

        :returns: `code`.
        """
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

    def leave_at_once(self, reason: str, code: int = 0) -> None:
        """End the script wherever its main thread is. No query has started, so nothing is lost.

        It has the rest of the grace period to clean up.
        """
        with self._ending:
            if self.reason is not None or self._left.is_set():
                return
            self.reason = reason
        self.end_script(code, self.deadline or time.monotonic() + self._driver.config.grace)

    def script_begins(self) -> None:
        """All that the script needs is there, and its first line is next."""
        self._script_begun = self._script_runs = self._main_thread.runs = True

    def main_thread_is_over(self) -> None:
        """The script has come to its end in the main thread. Threads of it may run on."""
        self._main_thread.runs = False

    def script_is_over(self) -> None:
        """The script has ended, including its threads."""
        self._script_runs = False
        self._script_over.set()

    def end_script(self, code: int, limit: float = 0) -> None:
        """End the script as by sys.exit() in its main thread. If that is not enough, end the process.

        A script that does not end by SystemExit is killed only after the final checkpoint: `await_queries`
        comes first.

        :param limit: until when the script may take to end, on the clock of time.monotonic(); at least `LAST`
            seconds.
        """
        until = max(limit, time.monotonic() + LAST)

        def error() -> SystemExit | None:
            # Behind the script's end, the driver waits for what has to be finished. Then the process may wait
            # for the script's threads and for its atexit handlers.
            waits = self._script_begun and not self._main_thread.runs and not self._left.is_set()
            return None if waits or self._leaving else SystemExit(self._code(code))

        def left() -> float:
            return max(until - time.monotonic(), 0)

        self._signals.raise_in_main_thread(error, left())
        while not self._script_over.wait(max(_patience(left()), AGAIN)) and left():
            # The script has caught it, or Python has dropped it.
            self._signals.raise_in_main_thread(lambda: None if cleans_up() else error())
        over = self._script_over.is_set()
        if not (over and self._left.wait(None if self._driver.has_tasks else max(left(), LAST))):
            log.warning("the script does not end: its process does")
            if self._driver.has_tasks:
                self._driver.await_queries()
            if not self._left.is_set():
                self.leave(code, self._driver.failure if code else None)
                self._gone.wait(LOOK)  # whoever follows the status sees the last one
                self._end_process(code)
        if not self._gone.wait(max(left(), LAST)):
            self._end_process(code)

    def _end_process(self, code: int) -> None:
        """End the process at once, with what the script has printed."""
        try:
            # The script may hold the lock of its stream for ever.
            threads.start(script.flush, "streamjob-flush").join(LAST_PRINTS)
        finally:  # when Python is about to end, it starts no thread any more
            os._exit(self._code(code))

    def _code(self, otherwise: int) -> int:
        """The exit code that is decided."""
        decided = self._board.status.exit_code
        return otherwise if decided is None else decided

    def watch_request(self) -> None:
        """End a script that runs on for too long: its job was asked to end and its queries have ended, or the
        JVM has died.

        Runs in a thread of its own. Returns when the process is about to exit.
        """
        while not self._gone.wait(LOOK):
            try:
                self._watch()
            except Exception as e:  # without this thread nothing has a limit any more
                log.warning("the script could not be watched, and is again: %r", e)

    def _watch(self) -> None:
        self._driver.look_at_requests()
        if self._script_runs:
            self._driver.without_query.look(time.monotonic())
        if self._runs_on():
            self._main_thread.tell_in_background()
        if self._script_is_left and time.monotonic() > self._limit():
            log.warning(
                "the script runs on after its queries have ended, for longer than it may: it is ended"
            )
            self.end_script(0)
        died_at = self._driver.jvm_died_at
        if died_at is not None and time.monotonic() > died_at + LAST:
            log.warning("the script runs on without a JVM: it is ended")
            self.end_script(0 if self._driver.stops and self._driver.terminated.is_set() else 1)

    def _runs_on(self) -> bool:
        """Whether the job has stopped and the script runs on: it polls, or works, or has caught JobStopped.

        It has `PATIENCE` to end by itself, less if it has little time left. If it has started no query in
        this epoch, it has had that before the stop (`WithoutQuery`).
        """
        driver, main, now = self._driver, self._main_thread, time.monotonic()
        stopped = driver.stops and driver.terminated.is_set() and driver.only_script_left
        if not (stopped and main.runs):
            return False
        first = main.tried_at is None and not main.has_met
        if first and not driver.runs():
            return True
        since = driver.only_script_left_since or now
        patience = _patience(self._limit(extended=False) - since)
        if main.tried_at is not None:
            return now > main.tried_at + max(patience, AGAIN)
        return now > max(since, main.told_at or 0) + patience

    @property
    def _script_is_left(self) -> bool:
        """Whether the job was asked to end and only its script is left.

        That is the script's main thread; after it has ended, the script's other threads and atexit handlers.
        """
        return self._driver.only_script_left or (self._left.is_set() and self._driver.asked_to_end)

    def _limit(self, *, extended: bool = True) -> float:
        """Until when the script may run, on the clock of time.monotonic().

        :param extended: by the time that a script has for its `finally` blocks once it was told.
        """
        request, now = self._driver.request, time.monotonic()
        if self.deadline is not None:
            return self.deadline
        begun = self._driver.requested_at or now
        alone_since = self._driver.only_script_left_since or now
        if request is not None and request.timeout is not None:
            limit = max(begun + request.timeout, alone_since + LAST)
        else:
            limit = alone_since + self._driver.config.grace
        told = self._main_thread.told_at if extended else None
        return limit if told is None else max(limit, told + LAST)

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
        """The last atexit handler: it runs after those of the script."""
        if os.getpid() != self._process:
            return  # a forked child is not the driver
        self._leaving = True
        for run in self._driver.runs():
            run.interrupted.set()  # the end of Spark ends its batch
        try:
            self._driver.script.sessions.end_put_off()
            end_spark(SPARK_STOPS, may_leave=self._driver.terminated.is_set())
        finally:
            script.flush()
            self._signals.ignore()
            self._gone.set()


def _patience(time_left: float) -> float:
    """Seconds that a script with so many left has to end by itself."""
    return min(PATIENCE, max(time_left, 0) / 3)
