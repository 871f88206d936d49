"""Runs the user's script in the main thread of the driver process and exits in one orderly way.

The process exits as Python does, so that atexit handlers run and files are flushed. When the script has
ended, the main thread returns here, waits for the threads and queries that the script left running, and exits
with the script's code. `exit.py` has the rest.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from ...protocol.errors import StreamJobError
from ...protocol.messages.driver_config import DriverConfig
from ..driver.driver import Driver
from ..driver.status import problem_of
from ..driver.threads import script_threads
from ..spark.dependencies.prepare import prepare
from . import patch_pyspark, script
from .exit import Exit
from .main_end import MainEnd
from .script import Outcome

log = logging.getLogger("streamjob")

POLL_SECONDS = 0.2  # seconds between two checks whether a thread of the script has ended
NO_QUERY = "the script came to its end without starting a streaming query"
START_ONE = "Start one with writeStream…start() and wait for it with awaitTermination()"


def run_script(settings: DriverConfig, driver: Driver, exits: Exit, folder: Path) -> int:
    """Run the script in the calling thread, the main one, until the script and all its queries have ended.

    :param folder: takes what the job needs beside its image.
    :returns: the exit code.
    """
    end, process = MainEnd(), os.getpid()
    try:
        patch_pyspark.install(driver)
        file = prepare(settings.application, settings.deps, folder)
        exits.script_begins()
        outcome = script.run(settings.application, file, exits.main_thread_is_over)
    except StreamJobError as e:  # raised by the runtime before the script began
        outcome = Outcome(1, e)
    except SystemExit as e:  # `Exit.leave_at_once`, before the script began
        outcome = Outcome(e.code if isinstance(e.code, int) else 0)
    finally:
        exits.main_thread_is_over()
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
        alive = bool(driver.runs.active())
        handled = {run.task: run.failure for run in driver.runs.all() if run.failure is not None}
        _uninterrupted(driver.await_queries)
        if not driver.terminated.is_set():
            # The script has handled the failures before its end. What failed after it, the flush for
            # instance, nobody could handle.
            unhandled = not handled or any(
                run.failure is not handled.get(run.task) for run in driver.runs.all()
            )
            failed = alive or unhandled or driver.jvm_died_at is not None
            problem, code = driver.failure or problem, code or int(failed)
    elif driver.has_tasks and outcome.error is not None:
        driver.abandon(outcome.error)
    return exits.leave(code, None if driver.terminated.is_set() else problem)


def _without_query(driver: Driver) -> StreamJobError | None:
    """Say why a script must not end without a query; None if it may."""
    if driver.script.refused is not None:
        return driver.script.refused  # a thread of the script has met with it
    needed = driver.why_needs_query()
    return script.NoQuery(f"{NO_QUERY}, and {needed}", remedy=START_ONE) if needed is not None else None


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
        if driver.requests.stops and driver.terminated.is_set():
            return
        left[0].join(POLL_SECONDS)
