"""The command `python -m streamjob.runtime check`: will this script continue from that state? (ADR 65)

The script runs up to its first wait. Each query that it starts is judged by the rules of a start, and none
runs. Nothing is written into a checkpoint, a savepoint or a sink.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...protocol.errors import StreamJobError
from ...protocol.formats import codec, manifest
from ...protocol.formats import index as indices
from ...protocol.messages.check_report import NOT_CHECKED, Report
from ...protocol.messages.driver_config import Application, CheckpointSettings, DriverConfig, Restore
from ...protocol.messages.driver_status import DriverPhase, DriverStatus, Problem
from ...protocol.restore.recovery import refuse_if_over
from ...protocol.wording import speak_of_laptop
from ...storage.fetch import is_local, local_path
from ..driver import threads
from ..driver.check.script import CheckedScript, NotChecked
from ..driver.driver import Driver
from ..driver.status_board import StatusBoard
from ..savepoints.layout import SavepointIncomplete
from ..spark.dependencies.prepare import prepare
from ..startup.index_recovery import SavepointForeign
from . import config, logs, patch_pyspark, script
from .image import floor
from .lifecycle import NO_QUERY, START_ONE
from .local.job_folder import JobFolder
from .local.run import settings_for

QUIET = 30.0  # seconds without a new query: a script that never waits has started all (docs/scripts.md)
POLL_SECONDS = 0.2
ALONE = {"spark.ui.enabled": "false"}
IN_POD = {**ALONE, "spark.master": "local[2]", "spark.dynamicAllocation.enabled": "false"}
DESCRIPTION = """
Say whether a script continues from the state of its job, before anything is touched. The script
runs up to its first wait; its queries are judged and do not run. What else it does, it does.

exit codes:
  0  it goes on
  1  it does not: a query is refused, or its state would be lost
  2  it could not be checked
"""


def main(arguments: list[str]) -> int:
    """If the script begins, this does not return: what it has left running ends with the process."""
    options = parser().parse_args(arguments)
    in_pod = config.VARIABLE in os.environ
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the script prints is no part of the report
    logs.begin()
    logging.getLogger("streamjob").setLevel(logging.ERROR)  # the report has the warnings
    speak_of_laptop(on=not in_pod)

    def show(report: Report) -> int:
        if options.json:
            lines = [json.dumps({**codec.to_plain(report), "exit_code": report.code})]
        else:
            lines = list(report.lines(shutil.get_terminal_size((100, 24)).columns))
        out.writelines(f"{line}\n" for line in lines)
        out.flush()
        return report.code

    report = Report(options.script or "the script", "its job")
    try:
        floor.refuse_image(in_pod=False)
        settings, against = _in_pod(options, os.environ) if in_pod else on_laptop(options)
        script_name = settings.application.file or settings.application.module or ""
        report = replace(report, script=script_name, against=against)
        refuse_if_over(settings.restore)
        folder = config.adopt_spark_properties(settings.spark_conf, None)
    except StreamJobError as e:
        return show(replace(report, **found(e)))
    config.forget(os.environ)

    def leave(report: Report) -> None:
        code = NOT_CHECKED
        try:
            code = show(report)
        finally:  # at once: no `finally` of the script runs, and no atexit handler
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(code)

    checking = Checking(settings, report, leave)
    try:
        patch_pyspark.install(checking.driver)
        file = prepare(settings.application, settings.deps, folder)
    except StreamJobError as e:
        checking.conclude(**found(e))
        return NOT_CHECKED
    threads.start(checking.watch, "streamjob-check", options.timeout)
    checking.run(file)
    return NOT_CHECKED


class Checking:
    """The check of one script, in this process.

    :param report: what is known before.
    :param leave: called with the whole report, in the thread that knows it first. It does not return.
    """

    def __init__(self, settings: DriverConfig, report: Report, leave: Callable[[Report], object]) -> None:
        self._settings = replace(settings, termination=None, checkpointing=CheckpointSettings())
        board = StatusBoard(DriverStatus(1, settings.job.uid, settings.epoch, DriverPhase.STARTING))
        self.driver = Driver(self._settings, board, CheckedScript)
        assert isinstance(self.driver.script, CheckedScript)
        self._script = self.driver.script
        self._script.all_started = self.conclude
        self._report = report
        self._leave = leave
        self._one = threading.Lock()

    def run(self, file: str | None) -> None:
        """Run the script in the calling thread, the main one.

        :param file: None for a module.
        """
        outcome = script.run(self._settings.application, file, lambda: None)
        while self.driver.runs and any(not thread.daemon for thread in threads.script_threads()):
            time.sleep(POLL_SECONDS)  # a thread may start another query; `watch` ends this
        needed = None if self._script.last_start else self.driver.why_needs_query()
        if outcome.error is not None:
            self.conclude(**found(outcome.error))
        elif needed is not None:
            self.conclude(**found(script.NoQuery(f"{NO_QUERY}, and {needed}", remedy=START_ONE)))
        else:
            self.conclude()

    def watch(self, limit: float) -> None:
        """End the check of a script that does not wait. Runs in a thread of its own.

        :param limit: seconds until its first wait.
        """
        began = time.monotonic()
        while time.monotonic() < began + limit:
            last = self._script.last_start
            if last is not None and time.monotonic() > last + QUIET:
                self.conclude()
            time.sleep(POLL_SECONDS)
        text = f"the script has not come to its first wait in {limit:.0f} s"
        self.conclude(**found(NotChecked(text, remedy="Raise --timeout, or look for what it waits for")))

    def conclude(self, **known: Any) -> None:
        with self._one:
            self._leave(self._script.report(replace(self._report, **known)))


# --- what the script would continue from -------------------------------------------------------------------


def on_laptop(options: Any) -> tuple[DriverConfig, str]:
    """The configuration of the driver that would run the script, and in words what it would continue from.

    :raises StreamJobError: there is nothing that the script could continue from, or no script.
    """
    if options.script is None or not Path(options.script).is_file():
        text = f"there is no file {options.script}" if options.script else "there is no script to check"
        raise script.ScriptNotFound(text, remedy="Name it as python does: check [options] SCRIPT [ARGS]")
    folder = Path(options.state or f".streamjob/{Path(options.script).stem}")
    place = JobFolder(folder)
    index = place.index()
    if options.savepoint is not None:
        against = f"savepoint {options.savepoint}"
        _refuse_unfit(options.savepoint, index.job_uid if index.latest and options.state else None)
        # A new job, whose folder nobody has.
        place, index = JobFolder(folder / f"check-{uuid.uuid4()}"), indices.empty(str(uuid.uuid4()))
    elif index.latest is None and not (place.folder / "checkpoints").is_dir():
        raise NotChecked(
            f"{place.folder} has no checkpoint of a job",
            remedy="Name the folder of the job with --state, or a savepoint with --savepoint",
        )
    else:
        against = f"checkpoint {index.latest.checkpoint if index.latest else 0} of {folder}"
    application = Application(file=options.script, args=tuple(options.args))
    settings = settings_for(application, place, index, _restore(options), drain=False)
    return replace(settings, spark_conf={**settings.spark_conf, **ALONE}), against


def _in_pod(options: Any, environment: Mapping[str, str]) -> tuple[DriverConfig, str]:
    """As `on_laptop`, in a pod that has the configuration of a driver of its job.

    :raises StreamJobError: the configuration or the index cannot be read.
    """
    settings = config.parse(environment)
    mounted = Path(environment[config.INDEX])
    latest = indices.loads(mounted.read_text(), "the index").latest if mounted.exists() else None
    lost = options.allow_non_restored_state or settings.restore.allow_non_restored_state
    restore = replace(settings.restore, latest=latest, allow_non_restored_state=lost)
    against = f"checkpoint {latest.checkpoint}" if latest is not None else "what it begins from"
    if options.savepoint is not None:
        _refuse_unfit(options.savepoint, settings.job.uid)
        restore, against = _restore(options), f"savepoint {options.savepoint}"
    settings = replace(settings, restore=restore, spark_conf={**settings.spark_conf, **IN_POD})
    return settings, f"{against} of job {settings.job.namespace}/{settings.job.name}"


def _restore(options: Any) -> Restore:
    uri = options.savepoint
    return Restore(
        savepoint=Path(local_path(uri)).absolute().as_uri() if uri is not None and is_local(uri) else uri,
        allow_drained=options.allow_drained,
        allow_non_restored_state=options.allow_non_restored_state,
    )


def _refuse_unfit(savepoint: str, uid: str | None) -> None:
    """Before the script begins, as far as that needs no JVM: of a savepoint on a disk.

    :param uid: of the job that it has to belong to, None if it may be any job's.
    :raises SavepointIncomplete: it is none.
    :raises SavepointForeign: it belongs to another job.
    :raises FormatError: its manifest cannot be read.
    """
    if not is_local(savepoint):
        return
    path = Path(local_path(savepoint)) / manifest.NAME
    if not path.is_file():
        text = f"{savepoint} has no {manifest.NAME}: it was never finished, or is no savepoint"
        raise SavepointIncomplete(text, remedy="Check the path")
    job = manifest.loads(path.read_bytes(), str(path)).job
    if uid not in (None, job.uid):
        text = f"{savepoint} belongs to another job, {job.namespace}/{job.name}"
        raise SavepointForeign(text, remedy="Name a savepoint of this job")


def found(error: StreamJobError) -> dict[str, Any]:
    """Where a report has an error: the script is refused, or could not be looked at."""
    not_looked_at = (NotChecked, SavepointIncomplete, SavepointForeign, config.NotConfigured)
    of_script = (script.ScriptFailed, script.ScriptNotFound, script.ScriptSyntaxError)
    where = "unknown" if isinstance(error, (*not_looked_at, *of_script)) else "refused"
    return {where: Problem.of(error)}


def parser() -> argparse.ArgumentParser:
    shape = argparse.RawDescriptionHelpFormatter
    p = argparse.ArgumentParser(
        "python -m streamjob.runtime check", description=DESCRIPTION, formatter_class=shape
    )
    p.add_argument("--state", metavar="DIR", help="the folder of a local job (default: .streamjob/SCRIPT)")
    p.add_argument("--savepoint", metavar="URI", help="continue from this savepoint, as a new job")
    p.add_argument("--allow-drained", action="store_true", help="the savepoint may be one of a drain")
    p.add_argument(
        "--allow-non-restored-state", action="store_true", help="the state of missing queries may be lost"
    )
    until = "until the script waits for its queries (default: 300)"
    p.add_argument("--timeout", metavar="SECONDS", type=float, default=300.0, help=until)
    p.add_argument("--json", action="store_true", help="write one JSON document to standard output")
    p.add_argument("script", nargs="?", help="the PySpark script to check")
    p.add_argument("args", nargs=argparse.REMAINDER, help="the script's own arguments")
    return p
