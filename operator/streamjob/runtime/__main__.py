"""The entry of a driver's process.

    python -m streamjob.runtime                         in a driver pod: all is in STREAMJOB_CONFIG
    python -m streamjob.runtime --local app.py [ARGS]   on a laptop, without Kubernetes

The exit code is 0 when every task is closed, 1 when the job failed, 2 when it could not begin.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from ..protocol.errors import StreamJobError
from ..protocol.messages import Application, DriverConfig, DriverPhase, DriverStatus, report
from . import config, local, signals
from .board import StatusBoard
from .driver import Driver
from .process import Exit, run_script
from .server import ControlServer

log = logging.getLogger("streamjob")

INDEX_WAIT = 5.0  # seconds that an evicted driver waits for the index before it relies on its report
EXAMPLES = """
In a driver pod the controller sets STREAMJOB_CONFIG; a script named here is run instead of the one named there:
    args: ["python", "-m", "streamjob.runtime", "/app/orders.py"]

On a laptop the same script stops, resumes and drains as it will in the cluster. Ctrl-C is a stop with savepoint, a
second Ctrl-C cancels:
    python -m streamjob.runtime --local orders.py             # begin, or go on from the latest checkpoint
    python -m streamjob.runtime --local --drain orders.py     # flush every window and end for good
    python -m streamjob.runtime --local --state /tmp/fork --restore file:///tmp/orders/savepoints/stop-1 orders.py
"""


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO, stream=sys.stderr
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of each connection
    application = Application(file=options.script, args=tuple(options.args)) if options.script else None
    try:
        if not options.local:
            return run_in_pod(application)
        if application is None:
            raise config.NotConfigured("--local needs a script", remedy="See --help")
        place = local.JobFolder(Path(options.state or f".streamjob/{Path(options.script).stem}").absolute())
        return local.run(application, place, options.restore, options.allow_drained, drain=options.drain)
    except StreamJobError as e:
        print(f"streamjob: {e}", file=sys.stderr)
        return 2


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m streamjob.runtime",
        description="Run a PySpark script so that its streaming queries can be stopped, resumed and drained.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--local", action="store_true", help="run without Kubernetes")
    p.add_argument(
        "--state",
        metavar="DIR",
        help="with --local: checkpoints, savepoints and index (default: .streamjob/SCRIPT)",
    )
    p.add_argument("--drain", action="store_true", help="with --local: drain the job")
    p.add_argument("--restore", metavar="URI", help="with --local: begin from a savepoint")
    p.add_argument("--allow-drained", action="store_true", help="with --restore: also from one of a drain")
    p.add_argument("script", nargs="?")
    p.add_argument("args", nargs=argparse.REMAINDER, help="the script's own arguments")
    return p


def run_in_pod(application: Application | None) -> int:
    """:raises StreamJobError: this is no driver pod."""
    settings = config.load(os.environ)
    if application is not None:
        settings = replace(settings, application=application)
    place = config.Place.of(os.environ)
    credentials = config.credentials(place.secrets)
    config.adopt_spark_defaults(settings)
    board = StatusBoard(DriverStatus(1, settings.job.uid, settings.epoch, DriverPhase.STARTING))
    driver = Driver(settings, board)
    ControlServer(("", place.port), credentials, settings.epoch, board, driver).start()
    exits = Exit(board, driver, lambda status: write_report(status, place.termination_log))
    signals.on_sigterm(lambda: evict(settings, driver, exits))
    threading.Thread(target=exits.after_tail, name="streamjob-tail", daemon=True).start()
    run_script(settings, driver, exits)
    return exits.leave()


def write_report(status: DriverStatus, termination_log: Path) -> None:
    try:
        termination_log.write_text(report(status))
    except OSError as e:
        log.warning("cannot write %s: %s", termination_log, e)


def evict(settings: DriverConfig, driver: Driver, exits: Exit) -> None:
    """SIGTERM: save what can be saved within the grace period, then go."""
    deadline = time.monotonic() + max(settings.grace - 3, 1)
    log.info("SIGTERM: stopping with savepoint, %d s of grace", settings.grace)
    driver.evict()
    if not driver.stages:
        exits.leave()  # nothing has begun, nothing is lost
    if driver.durable.wait(deadline - time.monotonic()):
        exits.report()
        # The index may be long in coming (the controller may be on the same node). The report stands in for it.
        driver.terminated.wait(min(INDEX_WAIT, deadline - time.monotonic()))
        driver.complete_announced()
        driver.terminated.wait(max(deadline - time.monotonic(), 0))
        exits.leave()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
