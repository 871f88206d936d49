"""Runs a job without Kubernetes: does the controller's part in the driver's own process.

What it keeps is in the job's folder (`job_folder`).
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from ...protocol.errors import StreamJobError
from ...protocol.formats import index as indices
from ...protocol.formats.index import Index
from ...protocol.formats.records import JobRef
from ...protocol.messages.commands import Mode, TerminationRequest
from ...protocol.messages.driver_config import Application, CheckpointSettings, DriverConfig, Restore
from ...protocol.messages.driver_status import DriverPhase, DriverStatus
from ...storage.fetch import is_local, local_path
from ..driver import threads
from ..driver.driver import Driver
from ..driver.status_board import StatusBoard
from . import config, page
from .job_folder import JobFolder
from .lifecycle import Exit, run_script
from .script import ScriptNotFound
from .signals import Signals

log = logging.getLogger("streamjob")

STATUS_SECONDS = 2.0  # between two looks at figures that change all the time
CHECKPOINT_SECONDS = 10.0  # between two checkpoints; a transactional sink's rows become visible this often
# Remedies name fields of the custom resource. Patterns for those, and the command-line option for each.
OPTIONS = {
    r"\bMake a new StreamJob with (spec\.)?restoreFrom\.savepoint": (
        "Start with another --state and --restore"
    ),
    r"\bmake a new StreamJob with (spec\.)?restoreFrom\.savepoint": (
        "start with another --state and --restore"
    ),
    r"\bset (spec\.)?restoreFrom\.allowNonRestoredState to true": "use --allow-non-restored-state",
    r"\bset (spec\.)?restoreFrom\.allowDrained to true": "use --allow-drained",
    r"\b(spec\.)?restoreFrom\.allowDrained": "--allow-drained",
    r"\bset (spec\.)?allowUnknownSpark to true": "use --allow-unknown-spark",
    r"\bwithout restoreFrom\b": "with another --state and without --restore",
}


class HasCheckpoints(StreamJobError):
    """The job has checkpoints of its own. Only a job without any can begin from a savepoint."""

    reason = "RestoreTargetNotEmpty"


def run(
    application: Application,
    place: JobFolder,
    begin: Restore,
    *,
    drain: bool,
    allow_unknown_spark: bool = False,
    ui: bool = False,
) -> int:
    """Run the script until its job ends.

    :param begin: the user's options: a savepoint to start from, and what is allowed.
    :param ui: serve the page of the job as long as it runs.
    :returns: the exit code of the process.
    :raises StreamJobError: the job cannot begin.
    """
    _refuse_missing(application)
    place.lock()
    index = place.index()
    if begin.savepoint is not None and index.latest is not None:
        raise HasCheckpoints(
            f"the job in {place.folder} has checkpoints of its own",
            remedy="Choose another --state for --restore",
        )
    place.write_index(index)  # if it is new, it gives the job its uid
    settings = settings_for(application, place, index, begin, drain=drain)
    settings = replace(settings, allow_unknown_spark=allow_unknown_spark)
    place.write_config(settings)
    folder = config.adopt_spark_properties(settings)
    board = StatusBoard(DriverStatus(1, settings.job.uid, settings.epoch, DriverPhase.STARTING))
    driver = Driver(settings, board)
    driver.on_begin = lambda: place.begin(settings.epoch)
    ours = Signals()
    exits = Exit(board, driver, ours, lambda status: None)

    def asked_to_stop() -> None:
        stop(driver, place, settings.epoch, exits)

    ours.on(signal.SIGINT, asked_to_stop, cancel)
    ours.on(signal.SIGTERM, asked_to_stop)  # systemd, docker stop
    threads.start(complete, "streamjob-index", board, driver, place, index)
    threads.start(exits.watch_request, "streamjob-tail")
    tell(f"streamjob: epoch {settings.epoch} in {place.folder}; Ctrl-C stops with a savepoint")
    if ui:
        page.start(place.folder, tell)
    return run_script(settings, driver, exits, folder)


def _refuse_missing(application: Application) -> None:
    """Refuse a script that is not there, before the job has a folder.

    :raises ScriptNotFound: it is not there. A script that has yet to be fetched is not looked for.
    """
    script = application.file
    if script is not None and is_local(script) and not Path(local_path(script)).is_file():
        raise ScriptNotFound(
            f"there is no file {script}", remedy="Name the script as python does: --local [options] SCRIPT"
        )


def settings_for(
    application: Application,
    place: JobFolder,
    index: Index,
    begin: Restore,
    *,
    drain: bool,
) -> DriverConfig:
    """The configuration that the controller would give a driver of the next epoch.

    The restore is `exact` if the latest checkpoint ended the job and no epoch has begun since.
    """
    epoch = place.next_epoch()
    latest = index.latest
    exact = latest is not None and latest.scenario is not None and latest.epoch == epoch - 1
    request = TerminationRequest(
        f"drain-{epoch}", epoch, Mode.DRAIN, place.uri("savepoints", f"drain-{epoch}")
    )
    return DriverConfig(
        job=JobRef("local", place.folder.name, index.job_uid),
        epoch=epoch,
        application=application,
        checkpoints=place.uri("checkpoints"),
        next_checkpoint=index.next_id,
        restore=replace(begin, latest=latest, exact=exact),
        checkpointing=CheckpointSettings(interval=CHECKPOINT_SECONDS),
        termination=request if drain else None,
        # Spark's default of 200 partitions suits a cluster. On a laptop, each costs a state store and a file.
        spark_conf={"spark.master": "local[*]", "spark.sql.shuffle.partitions": str(os.cpu_count() or 2)},
    )


def complete(board: StatusBoard, driver: Driver, place: JobFolder, index: Index) -> None:
    """Do the controller's part. Runs until the process ends.

    Prints the progress of a termination, and commits each durable checkpoint to the index.
    """
    version, said = 0, ""
    while True:
        status = board.wait(version, STATUS_SECONDS)
        version = status.version
        place.write_status(status)
        line = describe(status)
        if line and line != said:
            said = line
            tell(f"streamjob: {line}")
        if status.phase is DriverPhase.TERMINATED:
            index = indices.committed(index, status.epoch)
            place.write_index(index)
        record = status.completed
        if record is None or (index.latest is not None and index.latest.checkpoint >= record.checkpoint):
            continue
        index = indices.add(index, record)
        place.write_index(index)
        if record.scenario is None:
            driver.complete(record.checkpoint)
            continue
        ended = "drained, nothing is left to resume" if record.drained else "the next start resumes from it"
        where = f", savepoint {record.savepoint}" if record.savepoint else ""
        tell(f"streamjob: checkpoint {record.checkpoint}{where}: {ended}")
        driver.complete(record.checkpoint)


@cache
def _out() -> int:
    """The standard output that the process started with, whatever the script does with `sys.stdout`."""
    return os.dup(1)


def tell(line: str) -> None:
    """Print a line in one write, because the script prints, too. A missing reader does not end the job."""
    with suppress(OSError):
        os.write(_out(), f"{line}\n".encode())


def describe(status: DriverStatus) -> str:
    """One line about the job's progress."""
    if status.problem is not None:
        remedy = in_options(status.problem.remedy)
        return f"{status.problem.reason}: {status.problem.message}. {remedy}".rstrip(". ")
    end = status.termination
    if end is None:
        return status.phase.value
    problem = f" ({end.problem.message}. {end.problem.remedy})" if end.problem else ""
    return f"{end.mode.value}: {end.step.value}{': ' if end.progress else ''}{end.progress}{problem}"


def in_options(remedy: str) -> str:
    """The remedy with command-line options in place of fields of the custom resource."""
    for field, option in OPTIONS.items():
        remedy = re.sub(field, option, remedy)
    return remedy


def stop(driver: Driver, place: JobFolder, epoch: int, exits: Exit) -> None:
    """Handle the first Ctrl-C, or SIGTERM: stop with savepoint."""
    name = f"stop-{epoch}"
    try:
        driver.terminate(TerminationRequest(name, epoch, Mode.STOP, place.uri("savepoints", name)))
    except StreamJobError as e:
        print(f"streamjob: {e}", file=sys.stderr, flush=True)
    if not driver.has_begun:
        exits.leave_at_once("stopped before its first query began")


def cancel() -> None:
    """Handle the second Ctrl-C: exit at once, with code 130."""
    tell("streamjob: cancelled; the next start continues from the checkpoint directories")
    log.info("the driver exits: cancelled by the second Ctrl-C; exit code 130")
    os._exit(130)
