"""The driver's process: configuration, control endpoint, the user's script, and an orderly way out.

    python -m streamjob.runtime

is what the controller's driver pods run; the script and everything else is in STREAMJOB_CONFIG. The exit code is 0 when
every task is closed and 1 when the job failed; the last status is the pod's termination message.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from pyspark import SparkContext

from ..protocol.errors import StreamJobError
from ..protocol.messages import (
    Application,
    DriverConfig,
    DriverPhase,
    DriverStatus,
    Problem,
    report,
)
from . import capture, config, script, signals
from .board import StatusBoard
from .driver import Driver
from .reporting import problem_of
from .server import ControlServer

log = logging.getLogger("streamjob")

SCRIPT_TAIL = 60.0  # seconds that a script may go on after its queries are closed
INDEX_WAIT = 5.0  # seconds that an evicted driver waits for the index before it relies on its report
HELP = """usage: python -m streamjob.runtime [app.py [ARGS...]]

Runs a PySpark script inside a StreamJob's driver pod. The controller sets
STREAMJOB_CONFIG; a script named here is run instead of the one named there.

example (in a pod template):
    args: ["python", "-m", "streamjob.runtime", "/app/orders.py"]
"""


def main(arguments: list[str]) -> int:
    if arguments[:1] in (["-h"], ["--help"]):
        print(HELP)
        return 0
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO, stream=sys.stderr
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of each connection
    try:
        settings = config.load(os.environ)
        if arguments:
            settings = replace(
                settings, application=Application(file=arguments[0], args=tuple(arguments[1:]))
            )
        place = config.Place.of(os.environ)
        credentials = config.credentials(place.secrets)
        config.adopt_spark_defaults(settings)
    except StreamJobError as e:
        print(f"streamjob: {e}", file=sys.stderr)
        return 2
    board = StatusBoard(DriverStatus(1, settings.job.uid, settings.epoch, DriverPhase.STARTING))
    driver = Driver(settings, board)
    ControlServer(("", place.port), credentials, settings.epoch, board, driver).start()
    exits = Exit(board, driver, place.termination_log)
    signals.on_sigterm(lambda: evict(settings, driver, exits))
    threading.Thread(target=exits.after_tail, name="streamjob-tail", daemon=True).start()
    run_script(settings, driver, exits)
    return exits.leave()


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
        driver.await_all()
    except StreamJobError as e:
        problem = problem_of(e)
        if driver.ending:
            # Whatever a script does after its query was asked to end, it does not cut the end short.
            log.warning("the script ended with: %s", e)
            driver.await_all()
    exits.problem = driver.failure or problem


def evict(settings: DriverConfig, driver: Driver, exits: Exit) -> None:
    """SIGTERM: save what can be saved within the grace period, then go."""
    deadline = time.monotonic() + max(settings.grace - 3, 1)
    log.info("SIGTERM: stopping with savepoint, %d s of grace", settings.grace)
    driver.evict()
    if not driver.stages:
        exits.leave()  # nothing has begun, nothing is lost
    if driver.durable.wait(deadline - time.monotonic()):
        exits.write_report()
        # The index may be long in coming (the controller may be on the same node). The report stands in for it.
        driver.terminated.wait(min(INDEX_WAIT, deadline - time.monotonic()))
        driver.complete_announced()
        driver.terminated.wait(max(deadline - time.monotonic(), 0))
        exits.leave()


class Exit:
    """The one way out of the process; whoever comes first takes it."""

    def __init__(self, board: StatusBoard, driver: Driver, termination_log: Path) -> None:
        self.problem: Problem | None = None
        self._board = board
        self._driver = driver
        self._termination_log = termination_log
        self._once = threading.Lock()

    def write_report(self) -> None:
        try:
            self._termination_log.write_text(report(self._board.status))
        except OSError as e:
            log.warning("cannot write %s: %s", self._termination_log, e)

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
            log.error("%s: %s %s", problem.reason, problem.message, problem.remedy)
        self.write_report()
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
