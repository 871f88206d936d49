"""What a local job tells the person at its terminal."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache

from ....protocol.messages.driver_status import DriverStatus

CANCELS = "; to wait no longer, press Ctrl-C again: the next start continues from the checkpoint directories"


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
        found = status.problem
        return f"{found.reason}: {found.message}. {found.remedy}".rstrip(". ")
    end = status.termination
    frozen = status.frozen
    problem = frozen or (end.problem if end else status.degraded)
    told = f" ({problem.message}. {problem.remedy})" if problem else ""
    if end is None:
        return f"{status.phase.value}{told}"
    told += CANCELS if frozen else ""
    return f"{end.mode.value}: {end.step.value}{': ' if end.progress else ''}{end.progress}{told}"
