"""A program with the runtime's signals, in a process of its own: a real process gets a real signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import streamjob

PROGRAM = """
import os, sys, threading
import signal
from streamjob.runtime.process.signals import Signals
seen, theirs = threading.Event(), threading.Event()
ours = Signals()
ours.on(signal.SIGTERM, seen.set)
{before}
print("ready", flush=True)
{blocking}
print("saved", flush=True)
os._exit(0)  # as the runtime leaves: in an orderly exit Python gives SIGTERM its default action back
"""


ENV = {**os.environ, "PYTHONPATH": str(Path(streamjob.__file__).parents[1])}


def run(blocking: str, signals: int = 1, before: str = "") -> tuple[int, str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(blocking=blocking, before=before)],
        stdout=subprocess.PIPE,
        text=True,
        env=ENV,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        for _ in range(signals):
            process.send_signal(signal.SIGTERM)
        out = process.stdout.read()  # communicate() would lose what came with the first line
        return process.wait(timeout=300), out
    finally:
        process.kill()


# A thread that raises an error in the main thread as soon as that says that it is `inside`.
RAISES = """
inside = threading.Event()
def end():
    inside.wait()
    ours.raise_in_main_thread(KeyError, 60)
threading.Thread(target=end, daemon=True).start()
"""


# A driver without Spark: its job has a query, which the script awaits with `await_termination()`. SIGUSR1 is
# the request to end the job. With SIGHUP the script has started no query yet, and with SIGTERM the pod is
# deleted then.
DRIVER = """
import builtins, os, signal, sys, threading, time
from types import SimpleNamespace
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.messages.driver_config import Application, Restore
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus
from streamjob.runtime.driver import threads
from streamjob.runtime.driver.script import managed_query
from streamjob.runtime.driver.script.before_first_query import Patience, why_needed
from streamjob.runtime.driver.script.listeners import Listeners
from streamjob.runtime.driver.script.sessions import Sessions
from streamjob.runtime.driver.script_api import ScriptApi
from streamjob.runtime.driver.status_board import StatusBoard
from streamjob.runtime.process import logs, script
from streamjob.runtime.process.exit import Exit
from streamjob.runtime.process.lifecycle import _join_threads
from streamjob.runtime.process.signals import Signals
from streamjob.runtime.query.runs import Runs

mode, timeout, grace, file = Mode(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]


class Driver:
    def __init__(self):
        self.config = SimpleNamespace(grace=grace)
        self.terminated, self.over = threading.Event(), threading.Event()
        self.jvm_died_at = self.requested_at = self.request = self.failure = None
        self.has_tasks = True
        self.script_ended = False
        self.patience = Patience()
        self.script = SimpleNamespace(listeners=Listeners(self.over.is_set), sessions=Sessions())
        self.end_main_thread = lambda: None
        self.runs = Runs()
        self._job = self.requests = self  # as ScriptApi has it, and as Driver has its Requests

    stops = property(lambda self: self.request is not None and mode is Mode.STOP)
    drains = property(lambda self: self.request is not None and mode is Mode.DRAIN)
    asked_to_end = property(lambda self: self.request is not None)
    only_script_left = property(lambda self: self.over.is_set() and not self.script_ended)

    def look_at_requests(self):
        pass

    def ask_before_its_first_query(self):
        self.has_tasks = False
        self.request = TerminationRequest("end-1", 1, mode, None, timeout)

    def outlasts_patience(self, now):
        return self.patience.is_over(None if self.has_tasks else self.request, now)

    def why_needs_query(self):
        return why_needed(Restore(exact=True), mode)

    unchanged_since = None

    def end(self):
        self.requested_at = time.monotonic()
        self.request = SimpleNamespace(timeout=timeout, mode=mode, request_id="end-1")
        self.over.set()
        self.script.listeners.query_terminated(lambda: print("listener: terminated", flush=True))
        if mode is Mode.STOP:
            self.terminated.set()

    def await_queries(self):
        self.script_ended = True
        self.terminated.set()


def await_termination():
    driver.over.wait()
    if mode is Mode.STOP:
        run = SimpleNamespace(task="main", stopped_by_request=True, failure=None)
        ScriptApi.leave_if_stopped(driver, run)


logs.begin()
builtins.await_termination = await_termination
builtins.ready = lambda: print("ready", flush=True)
board = StatusBoard(DriverStatus(1, "uid", 1, DriverPhase.RUNNING))
driver, signals = Driver(), Signals()
exits = Exit(board, driver, signals, lambda status: None)
signals.on(signal.SIGUSR1, driver.end)
signals.on(signal.SIGHUP, driver.ask_before_its_first_query)
signals.on(signal.SIGTERM, lambda: exits.leave_at_once("SIGTERM, before its first query began"))
threads.start(exits.watch_request, "streamjob-tail")
exits.script_begins()
outcome = script.run(Application(file=file), file, exits.main_thread_is_over)
_join_threads(driver)
exits.script_is_over()
driver.await_queries()
sys.exit(exits.leave(outcome.code, None))
"""
END = "the script does not end in its time"  # what the log says of a process that is ended


def run_script(
    folder: Path,
    text: str,
    mode: str = "Stop",
    timeout: float = 600.0,
    grace: float = 600.0,
    by: signal.Signals = signal.SIGUSR1,
) -> tuple[int, str, str]:
    """Run a script, and end its job as soon as the script has called `ready()`.

    :param timeout: of the request: seconds until the process must have ended.
    :param by: the signal that is the request.
    :returns: the exit code, what the script has printed behind that, and the log.
    """
    file = folder / "app.py"
    file.write_text("import threading, time\n" + dedent(text))
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, mode, str(timeout), str(grace), str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**ENV, "PYTHONUNBUFFERED": ""},
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
        process.send_signal(by)
        out, log = process.communicate(timeout=300)
        return process.returncode, out, log
    finally:
        process.kill()
