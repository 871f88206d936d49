"""A driver in its pod: the control endpoint, SIGTERM, the final report in the termination message."""

from __future__ import annotations

import logging
import os
import signal
import time
from dataclasses import replace

from ...protocol.errors import StreamJobError
from ...protocol.messages.driver_config import Application, DriverConfig
from ...protocol.messages.driver_status import DriverPhase, DriverStatus
from ..driver import threads
from ..driver.driver import Driver
from ..driver.status_board import StatusBoard
from ..spark.foreach_batch.failed_jobs import after_sigterm
from ..startup import index_recovery
from ..startup.own_disk import refuse_own_disk
from . import config, termination_log
from .exit import Exit
from .lifecycle import run_script
from .servers.control_server import ControlServer
from .servers.metrics_server import serve_metrics
from .signals import Signals

log = logging.getLogger("streamjob")

INDEX_WAIT = 5.0  # seconds that an evicted driver waits for the index before it relies on its report


def run(application: Application | None) -> int:
    """Run the job in this pod until it ends.

    :param application: overrides the application of the configuration, None to keep it.
    :returns: the exit code of the process. 1, with a final report, if a lost index cannot be recovered, or
        the job's state would be on the pod's own disk.
    :raises NotConfigured: the process does not run in a driver pod, or its configuration is invalid.
    :raises CheckpointNotMounted: the mounted index does not have the checkpoint to resume from.
    """
    settings = config.load(os.environ)
    if application is not None:
        settings = replace(settings, application=application)
    place = config.DriverPaths.of(os.environ)
    folder = config.adopt_spark_properties(settings.spark_conf, settings.executor_template)
    config.forget(os.environ)
    credentials = config.credentials(place.secrets)
    status = DriverStatus(1, settings.job.uid, settings.epoch, DriverPhase.STARTING)
    try:
        refuse_own_disk(settings, os.environ)
        settings = index_recovery.with_record(settings)
    except StreamJobError as e:
        log.error("%s", e)
        termination_log.write_refusal(settings, e, place.termination_log)
        return 1
    board = StatusBoard(status)
    driver = Driver(settings, board)
    driver.on_engine = lambda engine: refuse_own_disk(settings, os.environ, engine.files.qualify)
    ours = Signals()
    exits = Exit(board, driver, ours, lambda status: termination_log.write(status, place.termination_log))
    ControlServer(("", place.port), credentials, settings.epoch, board, driver).start()
    serve_metrics(("", place.metrics_port), settings.job, board)
    ours.on(signal.SIGTERM, after_sigterm(lambda: evict(settings, driver, exits)))
    threads.start(exits.watch_request, "streamjob-tail")
    return run_script(settings, driver, exits, folder)


def evict(settings: DriverConfig, driver: Driver, exits: Exit) -> None:
    """Handle SIGTERM: stop with savepoint within the grace period.

    If no query has started, there is nothing to save, so the script is ended at once.
    """
    deadline = time.monotonic() + max(settings.grace - 3, 1)
    exits.deadline = deadline
    log.info("SIGTERM: stopping with savepoint, %d s of grace", settings.grace)
    driver.evict()
    if not driver.has_begun:
        exits.leave_at_once("SIGTERM, before its first query began")
        return
    if driver.durable.wait(deadline - time.monotonic()):
        exits.report()
        # The index may take long (the controller may be on the same node). The report stands in for it.
        driver.terminated.wait(min(INDEX_WAIT, deadline - time.monotonic()))
        driver.complete_announced()
        driver.terminated.wait(max(deadline - time.monotonic(), 0))
    else:
        exits.report()  # whoever kills it in a moment finds out why it was not done
