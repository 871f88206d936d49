"""What a local job tells the person at its terminal."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache

from ....protocol.messages.driver_status import DriverStatus


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
    if end is None:
        return status.phase.value
    problem = f" ({end.problem.message}. {end.problem.remedy})" if end.problem else ""
    return f"{end.mode.value}: {end.step.value}{': ' if end.progress else ''}{end.progress}{problem}"
