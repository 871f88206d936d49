"""Runs the user's script in the main thread of the driver process and exits in one orderly way.

The process exits as Python does, so that atexit handlers run and files are flushed. When the script has
ended, the main thread returns here, waits for the threads and queries that the script left running, and exits
with the script's code. A script is ended by force only if the job was asked to end and the script does not:
first as by sys.exit(), then by os._exit().
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from ...jvm.errors import one_line
from ...protocol.errors import StreamJobError
from ...protocol.messages.commands import Mode
from ...protocol.messages.driver_config import DriverConfig
from ...protocol.messages.driver_status import DriverPhase, DriverStatus, Problem
from ..driver.driver import Driver
from ..driver.requests import PATIENCE
from ..driver.script.job_stopped import JobStopped, end_joiners, has_met
from ..driver.script.sessions import end_spark
from ..driver.status import problem_of
from ..driver.status_board import StatusBoard
from ..driver.threads import script_threads
from ..spark.dependencies.prepare import prepare
from . import patch_pyspark, script
from .jvm_ahead import JvmAhead
from .main_end import MainEnd
from .script import Outcome
from .signals import Signals

log = logging.getLogger("streamjob")

LOOK = 0.2  # seconds between two checks whether the script, or one of its threads, has ended
LAST = 10.0  # seconds that the script has after SystemExit, and that the process has after the script
NO_QUERY = "the script came to its end without starting a streaming query"
START_ONE = "Start one with writeStream…start() and wait for it with awaitTermination()"
SPARK_STOPS = 10.0  # seconds to wait for SparkContext.stop()


def run_script(settings: DriverConfig, driver: Driver, exits: Exit, jvm: JvmAhead) -> int:
    """Run the script in the calling thread, the main one, until the script and all its queries have ended.

    :param jvm: for the script, in a folder that also takes what the job needs beside its image.
    :returns: the exit code.
    """
    end, process = MainEnd(), os.getpid()
    try:
        patch_pyspark.install(driver)
        end_joiners()
        jvm.lend()
        file = prepare(settings.application, settings.deps, jvm.folder)
        # The modules stay to the end. Python's last collections would take 0.05 s to find nothing in them.
        gc.freeze()
        exits.script_begins()
        outcome = script.run(settings.application, file)
    except StreamJobError as e:  # raised by the runtime before the script began
        outcome = Outcome(1, e)
    except SystemExit:  # `Exit.leave_at_once`, before the script began
        outcome = Outcome(0)
    if os.getpid() != process:
        _leave_fork(outcome)
    end.come()
    _uninterrupted(lambda: _join_threads(driver))
    exits.script_is_over()
    if exits.reason is not None:
        return exits.leave(outcome.code, None)
    if outcome.code == 0 and not driver.has_begun:
        error = _without_query(driver)
        outcome = outcome if error is None else Outcome(1, error)
    problem = None if outcome.error is None else problem_of(outcome.error)
    if outcome.by_query:
        problem = driver.dead_query() or problem  # the query's failure is the cause
    code = outcome.code
    if problem is not None or (code and driver.jvm_died_at is not None):
        problem = driver.failure or problem
    refused = outcome.error is not None and not isinstance(outcome.error, script.ScriptFailed)
    if driver.has_tasks and (code == 0 or (driver.ending and not refused)):
        # The script ended and left its queries running: they are the job. If the job was asked to end, even a
        # script that fails does not cut the termination short.
        if problem is not None:
            log.warning("the script ended with: %s", problem.message)
        alive = any(not run.over.is_set() for run in driver.runs())
        handled = {run.task: run.failure for run in driver.runs() if run.failure is not None}
        _uninterrupted(driver.await_queries)
        if not driver.terminated.is_set():
            # The script has handled the failures before its end. What failed after it, the flush for
            # instance, nobody could handle.
            unhandled = not handled or any(run.failure is not handled.get(run.task) for run in driver.runs())
            failed = alive or unhandled or driver.jvm_died_at is not None
            problem, code = driver.failure or problem, code or int(failed)
    elif driver.has_tasks and outcome.error is not None:
        driver.abandon(outcome.error)
    return exits.leave(code, None if driver.terminated.is_set() else problem)


def _without_query(driver: Driver) -> StreamJobError | None:
    """Say why a script must not end without a query; None if all queries of the job had finished before, or
    the job was asked to stop.
    """
    if driver.script.refused is not None:
        return driver.script.refused  # a thread of the script has met with it
    try:
        if driver.without_query.is_the_end() or driver.without_query.stops():
            return None
    except StreamJobError as e:
        return e
    except Exception as e:  # no session can be made, or the JVM is gone
        log.exception("what the script has left cannot be read")
        return script.ScriptFailed(f"{NO_QUERY}: {one_line(e)}", remedy="See the driver's log")
    left = ", ".join(map(repr, driver.without_query.left))
    what = f", and the checkpoint has something left of {left}" if left else ""
    return script.NoQuery(f"{NO_QUERY}{what}", remedy=START_ONE)


def _leave_fork(outcome: Outcome) -> NoReturn:
    """Exit a process that the script forked, as Python exits. It is not a driver."""
    for thread in script_threads():
        if not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    script.flush()
    os._exit(outcome.code)


def _uninterrupted(wait: Callable[[], None]) -> None:
    """Wait to the end, even if the script's signal handler raises in the main thread (sys.exit() on SIGTERM).

    The script is over, so its sys.exit() must not end anything more.
    """
    while True:
        try:
            return wait()
        except (SystemExit, KeyboardInterrupt) as e:
            log.info("the script's end is waited for all the same: %r", e)


def _join_threads(driver: Driver) -> None:
    """Wait for the script's non-daemon threads, as Python does at exit: they are part of the script.

    Do not wait once the job has been stopped, because what they wait for may never happen.
    """
    while left := [thread for thread in script_threads() if not thread.daemon]:
        if driver.stops and driver.terminated.is_set():
            return
        left[0].join(LOOK)


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
        self._script_runs = False
        self._script_over = threading.Event()
        self._left = threading.Event()
        self._gone = threading.Event()
        self._process = os.getpid()
        self._ending = threading.Lock()
        self._main_ended = False
        self._told_at: float | None = None  # when `end_main_thread` has raised it
        self.deadline: float | None = None  # set by SIGTERM, on the clock of time.monotonic()
        self.reason: str | None = None  # why the job ended before its first query
        driver.end_main_thread = self.end_main_thread
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
        """End the script wherever its main thread is. No query has started, so nothing is lost."""
        self.reason = reason
        self.end_script(code)

    def end_main_thread(self) -> None:
        """Raise JobStopped in the script's main thread, unless it has met with it, or the script is over.

        A thread of the script is about to end because the job was stopped. The main thread may wait for that
        (an event, `is_alive()`, a queue) and would go on as if the thread had done its work.
        """
        with self._ending:
            if not (self._script_over.is_set() or self._main_ended):
                self._main_ended = True
                self._told_at = time.monotonic()
                # Where it has met with it, its `finally` blocks are running.
                self._signals.leave_once(
                    lambda: (
                        None
                        if self._script_over.is_set() or has_met(threading.current_thread())
                        else JobStopped()
                    )
                )

    def script_begins(self) -> None:
        """All that the script needs is there, and its first line is next."""
        self._script_runs = True

    def script_is_over(self) -> None:
        """The script has ended, including its threads."""
        self._script_runs = False
        self._script_over.set()
        self._signals.leave_no_more()

    def end_script(self, code: int) -> None:
        """End the script as by sys.exit() in its main thread. If that is not enough, end the process.

        A script that does not end by SystemExit is killed only after the final checkpoint: `await_queries`
        comes first.
        """
        self._signals.leave(code)
        if self._script_over.wait(LAST):
            self._left.wait()
        else:
            log.warning("the script does not end: its process does")
            if self._driver.has_tasks:
                self._driver.await_queries()
            code = self.leave(code, self._driver.failure if code else None)
        if not self._gone.wait(LAST):
            os._exit(code)

    def watch_request(self) -> None:
        """End a script that runs on for too long: its job was asked to end and its queries have ended, or the
        JVM has died.

        Runs in a thread of its own. Returns when the process is about to exit.
        """
        while not self._gone.wait(LOOK):
            if self._script_runs:
                self._driver.without_query.look(time.monotonic())
            if self._knows_of_no_stop():
                log.info("the job has stopped, and nothing tells its script: it ends here")
                self.end_main_thread()
            if self._script_is_left and time.monotonic() > self._limit():
                log.warning(
                    "the script runs on after its queries have ended, for longer than it may: it is ended"
                )
                self.end_script(0)
            died_at = self._driver.jvm_died_at
            if died_at is not None and time.monotonic() > died_at + LAST:
                log.warning("the script runs on without a JVM: it is ended")
                self.end_script(0 if self._driver.stops and self._driver.terminated.is_set() else 1)

    def _knows_of_no_stop(self) -> bool:
        """Whether the job has stopped and the script runs on: it waits for no query, but polls or works.

        It has `PATIENCE` to end by itself. If it has started no query in this epoch, it has had that before
        the stop (`WithoutQuery`).
        """
        driver, since = self._driver, self._driver.only_script_left_since
        told = self._main_ended or has_met(threading.main_thread())
        if told or not (driver.stops and driver.terminated.is_set() and driver.only_script_left):
            return False
        return not driver.runs() or (since is not None and time.monotonic() > since + PATIENCE)

    @property
    def _script_is_left(self) -> bool:
        """Whether the job was asked to end and only its script is left.

        That is the script's main thread; after it has ended, the script's other threads and atexit handlers.
        """
        return self._driver.only_script_left or (self._left.is_set() and self._driver.asked_to_end)

    def _limit(self) -> float:
        request, now = self._driver.request, time.monotonic()
        if self.deadline is not None:
            return self.deadline
        begun = self._driver.requested_at or now
        alone_since = self._driver.only_script_left_since or now
        if request is not None and request.timeout is not None:
            limit = max(begun + request.timeout, alone_since + LAST)
        else:
            limit = alone_since + self._driver.config.grace
        # A script that has just been told has time for its `finally` blocks.
        return limit if self._told_at is None else max(limit, self._told_at + LAST)

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
        self._driver.script.sessions.end_put_off()
        end_spark(SPARK_STOPS, may_leave=self._driver.terminated.is_set())
        script.flush()
        self._signals.ignore()
        self._gone.set()
