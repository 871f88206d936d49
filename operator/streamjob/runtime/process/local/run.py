"""Runs a job without Kubernetes: does the controller's part in the driver's own process.

What it keeps is in the job's folder (`job_folder`).
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from ....jvm import liveness
from ....jvm import process as jvm_process
from ....protocol.errors import StreamJobError
from ....protocol.formats import index as indices
from ....protocol.formats.index import Index
from ....protocol.formats.records import JobRef
from ....protocol.messages.commands import Mode, TerminationRequest
from ....protocol.messages.driver_config import Application, CheckpointSettings, DriverConfig, Restore
from ....protocol.messages.driver_status import DriverPhase, DriverStatus
from ....protocol.restore.recovery import refuse_if_over
from ....storage.fetch import is_local, local_path
from ...driver import threads
from ...driver.driver import Driver
from ...driver.status_board import StatusBoard
from ...spark.foreach_batch.failed_jobs import after_sigterm
from .. import config
from ..exit import Exit
from ..lifecycle import run_script
from ..script import ScriptNotFound
from ..signals import Signals
from . import handover as handovers
from . import page
from .job_folder import JobFolder
from .telling import describe, tell

log = logging.getLogger("streamjob")

STATUS_SECONDS = 2.0  # between two looks at figures that change all the time
CHECKPOINT_SECONDS = 10.0  # between two checkpoints; a transactional sink's rows become visible this often


class HasCheckpoints(StreamJobError):
    """The job has checkpoints of its own. Only a job without any can begin from a savepoint."""

    reason = "RestoreTargetNotEmpty"


def run(
    application: Application,
    place: JobFolder,
    begin: Restore,
    *,
    drain: bool,
    handover: bool = False,
    ui: bool = False,
    one_round: bool = False,
) -> int:
    """Run the script until its job ends.

    :param begin: the user's options: a savepoint to start from, and what is allowed.
    :param handover: if the job runs already, take over from the process that runs it.
    :param ui: serve the page of the job as long as it runs.
    :param one_round: the script runs again and again, so its end keeps the windows.
    :returns: the exit code of the process.
    :raises StreamJobError: the job cannot begin.
    """
    _refuse_missing(application)
    old = handovers.process_to_follow(place) if handover else None
    prepared = old is not None
    if not handover:
        place.lock()
    index = place.index()
    if begin.savepoint is not None and (prepared or index.latest is not None):
        raise HasCheckpoints(
            f"the job in {place.folder} has checkpoints of its own",
            remedy="Choose another --state for --restore",
        )
    settings = settings_for(application, place, index, begin, drain=drain, one_round=one_round)
    if not prepared:
        refuse_if_over(settings.restore)  # before the script does anything
    if prepared:
        settings = handovers.prepared(settings, place)
    folder = config.adopt_spark_properties(settings.spark_conf, None)
    board = StatusBoard(DriverStatus(1, settings.job.uid, settings.epoch, DriverPhase.STARTING))
    driver = Driver(settings, board)
    driver.on_begin = lambda: place.begin(settings.epoch)
    ours = Signals()
    exits = Exit(board, driver, ours, lambda status: None)

    def asked_to_stop() -> None:
        stop(driver, place, settings.epoch, exits)

    def own(index: Index, settings: DriverConfig) -> None:
        """The folder is locked: this process is the job."""
        place.write_index(index)  # if it is new, it gives the job its uid
        place.write_config(settings)
        if index.latest is None:
            place.write_origin(settings.restore)
        threads.start(complete, "streamjob-index", board, driver, place, index)

    def take_over(old: int) -> None:
        try:
            if handovers.await_turn(settings, place, board, old):
                index = place.index()
                final = settings_for(application, place, index, begin, drain=drain, one_round=one_round)
                refuse_if_over(final.restore)
                own(index, final)
                driver.open(handovers.gate_of(final))
        except StreamJobError as e:
            tell(f"streamjob: {e}")
            exits.leave_at_once(e.message, code=1)

    ours.on(signal.SIGINT, asked_to_stop, cancel)
    ours.on(signal.SIGTERM, after_sigterm(asked_to_stop))  # systemd, docker stop
    if old is not None:
        threads.start(take_over, "streamjob-handover", old)
    else:
        own(index, settings)
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


def origin_of(place: JobFolder, begin: Restore) -> Restore:
    """What a job without a checkpoint of its own begins from.

    An attempt may have ended when only some of its queries had begun from a savepoint. The others begin from
    it, too, and not from nothing.

    :param begin: the user's options.
    :raises HasCheckpoints: they name another savepoint.
    """
    before = place.origin()
    if before is None:
        return begin
    if begin.savepoint not in (None, before.savepoint):
        raise HasCheckpoints(
            f"the job in {place.folder} has begun from {before.savepoint}",
            remedy="Choose another --state for --restore",
        )
    if begin.savepoint is None:
        tell(f"streamjob: continues to restore {before.savepoint}: no checkpoint has completed since")
    return replace(
        before,
        allow_drained=begin.allow_drained or before.allow_drained,
        allow_non_restored_state=begin.allow_non_restored_state or before.allow_non_restored_state,
    )


def settings_for(
    application: Application,
    place: JobFolder,
    index: Index,
    begin: Restore,
    *,
    drain: bool,
    one_round: bool = False,
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
        restore=replace(begin if latest else origin_of(place, begin), latest=latest, exact=exact),
        checkpointing=CheckpointSettings(interval=CHECKPOINT_SECONDS),
        termination=request if drain else None,
        round=one_round,
        spark_conf=config.of_laptop(),
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
        ended = "drained, nothing is left to resume" if record.over else "the next start resumes from it"
        where = f", savepoint {record.savepoint}" if record.savepoint else ""
        tell(f"streamjob: checkpoint {record.checkpoint}{where}: {ended}")
        driver.complete(record.checkpoint)


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
    liveness.end_if_stopped(jvm_process.pid())
    os._exit(130)
