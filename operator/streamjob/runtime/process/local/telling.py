"""What a local job tells the person at its terminal."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import cache

from ....protocol.messages.driver_status import DriverStatus

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
