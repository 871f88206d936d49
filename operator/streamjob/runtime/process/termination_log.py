"""The pod's termination message, in which a driver leaves its final report."""

from __future__ import annotations

import logging
from pathlib import Path

from ...protocol.errors import StreamJobError
from ...protocol.messages.driver_config import DriverConfig
from ...protocol.messages.driver_status import DriverPhase, DriverStatus, Problem
from ...protocol.messages.final_report import report

log = logging.getLogger("streamjob")


def write(status: DriverStatus, file: Path) -> None:
    try:
        file.write_text(report(status))
    except OSError as e:
        log.warning("cannot write %s: %s", file, e)


def write_refusal(config: DriverConfig, error: StreamJobError, file: Path) -> None:
    """Report why the job cannot begin."""
    status = DriverStatus(1, config.job.uid, config.epoch, DriverPhase.FAILED, problem=Problem.of(error))
    write(status, file)
