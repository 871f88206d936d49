"""What goes wrong in a command, and the exit codes, on which scripts rely."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from ..protocol.errors import StreamJobError


class ExitCode(IntEnum):
    DONE = 0
    PROBLEM = 1  # the job did not get there, or something is wrong with what was looked at
    USAGE = 2  # click's own
    CLUSTER = 3  # kubectl, the API server or permissions; nothing was changed
    TIMEOUT = 4  # --timeout has passed; what was requested stays requested
    SUPERSEDED = 5  # somebody has requested something else meanwhile
    INTERRUPTED = 130  # Ctrl-C


class CommandError(StreamJobError):
    """A command cannot do what it was asked to do."""

    reason: ClassVar[str] = "CommandFailed"
    exit_code: ClassVar[ExitCode] = ExitCode.PROBLEM


class Interrupted(CommandError):
    """Ctrl-C has come while something was being changed: nobody knows whether it has been."""

    reason = "Interrupted"
    exit_code = ExitCode.INTERRUPTED
