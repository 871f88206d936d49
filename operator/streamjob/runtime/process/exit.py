"""The only way out of the driver process, and how a script is ended that does not end by itself.

A script is ended by force only if the job was asked to end and the script does not: first by SystemExit in
its main thread, then with its process.
"""

from __future__ import annotations

import atexit
import logging
import math
import os
import threading
import time
from collections.abc import Callable

from ...protocol.messages.commands import Mode
from ...protocol.messages.driver_status import DriverPhase, DriverStatus, Problem
from ..driver import threads
from ..driver.driver import Driver
from ..driver.script.overtime import LEAST_GRACE, Overtime, limit_of
from ..driver.script.sessions import end_spark
from ..driver.status_board import StatusBoard
from . import script
from .main_thread import ScriptsMainThread
from .signals import Signals

log = logging.getLogger("streamjob")

POLL_SECONDS = 0.2  # seconds between two checks whether the script has ended
LAST_WORDS = 1.0  # seconds to wait until the last status, and what the script has printed, are written


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
        self._script_runs = False
        self._left = threading.Event()
        self._process = os.getpid()
        self._ending = threading.Lock()
        self._alone_since: float | None = None  # nothing but the script is left
        self._at_once: tuple[float, int] | None = None  # since when, with which code
        self.deadline: float | None = None  # set by SIGTERM, on the clock of time.monotonic()
        self._waits_for_query: str | None = None  # id of the request that cannot be carried out without one
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
        self._record(code, problem)
        self._say(code, problem)
        return code

    def _record(self, code: int, problem: Problem | None) -> None:
        reason = self.reason or self._reason(code, problem)
        unchanged = self._driver.unchanged_since
        changes: dict[str, object] = {"exit_code": code, "exit_reason": reason, "unchanged_since": unchanged}
        if problem is not None:
            changes.update(phase=DriverPhase.FAILED, problem=problem, degraded=None)
        self._board.update(**changes)
        self.report()
        self._left.set()
        self._main_thread.exits = True

    def _say(self, code: int, problem: Problem | None) -> None:
        if problem is not None:
            log.error("%s: %s. %s", problem.reason, problem.message, problem.remedy)
        log.info("the driver exits: %s; exit code %d", self._board.status.exit_reason, code)

    def leave_at_once(self, reason: str, code: int = 0) -> None:
        """End the script wherever its main thread is. No query has started, so nothing is lost.

        It has the rest of the grace period to clean up.
        """
        with self._ending:
            if self.reason is not None or self._left.is_set():
                return
            self.reason = reason
            self._at_once = time.monotonic(), code

    def script_begins(self) -> None:
        """All that the script needs is there, and its first line is next."""
        self._script_runs = True
        self._main_thread.begin()

    def main_thread_is_over(self) -> None:
        """The script has come to its end in the main thread. Threads of it may run on."""
        self._main_thread.runs = False

    def script_is_over(self) -> None:
        """The script has ended, including its threads."""
        self._script_runs = False

    def watch_request(self) -> None:
        """End a script that runs on for too long: its job was asked to end and its queries have ended, or the
        JVM has died.

        Runs in a thread of its own, as long as the process does: what a library has registered with `atexit`
        before ours comes after that (`multiprocessing` waits for child processes there).
        """
        while True:
            time.sleep(POLL_SECONDS)
            try:
                self._watch(time.monotonic())
            except Exception as e:  # without this thread nothing has a limit any more
                log.warning("the script could not be watched, and is again: %r", e)

    def _watch(self, now: float) -> None:
        """The script may hold a lock that writing a log needs, so this logs in other threads only."""
        self._driver.look_at_requests()
        if self._script_runs and self._driver.outlasts_patience(now):
            self._end_without_query()
        left = self._overtime(now)
        if left is None:
            return
        overtime, code = left
        if now >= overtime.limit - LAST_WORDS:
            self._end_process(code)
        listeners = self._driver.script.listeners
        if overtime.is_due(now, self._main_thread.told_at):
            # First the script, which may wait for what a listener hears.
            self._main_thread.tell(code, overtime.pause, then=listeners.release)
        if overtime.listeners_are_due(now):
            listeners.release()

    def _end_without_query(self) -> None:
        """The job is asked to end, and its script starts no query: end it, unless the job needs one."""
        request = self._driver.requests.request
        if request is None or request.request_id == self._waits_for_query:
            return
        needed, mode = self._driver.why_needs_query(), request.mode.value.lower()
        if needed is None:
            self.leave_at_once(f"the script had started no query when the job was asked to {mode}")
        else:
            self._waits_for_query = request.request_id
            text = "the %s waits for the script, which has started no query: %s"
            threads.start(log.warning, "streamjob-waits", text, mode, needed)

    def _overtime(self, now: float) -> tuple[Overtime, int] | None:
        """The time of a script that runs on, and the exit code if that ends it. None: it may run."""
        driver, limit = self._driver, self.deadline
        if self._at_once is not None:
            since, code = self._at_once
            return Overtime(since, limit or since + driver.config.grace, at_once=True), code
        stopped = driver.requests.stops and driver.terminated.is_set()
        if driver.jvm_died_at is not None:
            died_at = driver.jvm_died_at
            return Overtime(died_at, min(limit or math.inf, died_at + 3 * LEAST_GRACE)), 0 if stopped else 1
        if not self._script_is_left or (driver.requests.stops and not stopped):
            self._alone_since = None
            return None
        since = self._alone_since = self._alone_since or now
        if limit is None:
            request = driver.requests.request
            timeout = None if request is None else request.timeout
            limit = limit_of(driver.requested_at or since, since, timeout, driver.config.grace)
        return Overtime(since, limit, works=not stopped), 0

    def _end_process(self, code: int) -> None:
        """End the process at once, with its last status and with what the script has printed.

        After a drain, the final checkpoint comes first, as if the script had ended.
        """
        driver = self._driver
        if driver.has_tasks and not driver.terminated.is_set():
            driver.await_queries()
        problem = driver.failure if code else None
        said = self._left.is_set()

        def last_words() -> None:
            if not said:
                self._record(code, problem)
                time.sleep(POLL_SECONDS)  # whoever follows the status sees the last one

        def says() -> None:
            log.warning("the script does not end in its time: its process ends")
            if not said:
                self._say(code, problem)

        try:
            # The script may hold the lock of its stream, or of the log, for ever.
            words = [threads.start(word, "streamjob-last") for word in (last_words, script.flush, says)]
            until = time.monotonic() + LAST_WORDS
            for word in words:
                word.join(max(until - time.monotonic(), 0))
        finally:  # when Python is about to end, it starts no thread any more
            decided = self._board.status.exit_code
            os._exit(code if decided is None else decided)

    @property
    def _script_is_left(self) -> bool:
        """Whether the job was asked to end and only its script is left.

        That is the script's main thread; after it has ended, the script's other threads and atexit handlers.
        """
        return self._driver.only_script_left or (self._left.is_set() and self._driver.requests.asked_to_end)

    def _reason(self, code: int, problem: Problem | None) -> str:
        if problem is not None:
            return problem.message[:300]
        request = self._driver.requests.request
        queries = ", ".join(sorted({run.name.name for run in self._driver.runs.all()})) or "none"
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
        self._main_thread.exits = False
        for run in self._driver.runs.all():
            run.interrupted.set()  # the end of Spark ends its batch
        try:
            self._driver.script.sessions.end_put_off()
            self._tell_listeners(time.monotonic() + self._driver.config.grace)
        finally:
            script.flush()
            self._signals.ignore()

    def _tell_listeners(self, limit: float) -> None:
        """Let the script's listeners hear of everything. A request to end the job may leave less time
        (`_watch`).

        :param limit: on the clock of time.monotonic().
        """
        listeners = self._driver.script.listeners
        listeners.release()
        ended = end_spark(limit - time.monotonic())
        told = listeners.all_told(limit - time.monotonic())
        if not (told and ended):
            log.warning("Spark, or a listener of the script, does not end in its time")
