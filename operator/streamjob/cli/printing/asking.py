"""Asks before what cannot be undone."""

from __future__ import annotations

import sys

from ..errors import CommandError, ExitCode
from . import screen


class NotConfirmed(CommandError):
    """It cannot be undone, and nobody is there to ask."""

    reason = "NotConfirmed"
    exit_code = ExitCode.USAGE


def confirm(what: str, why: str, *, yes: bool) -> bool:
    """Whether the user wants it.

    :param why: what cannot be undone about it.
    :raises NotConfirmed: standard input is no terminal, and --yes is not there.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise NotConfirmed(f"{what} has to be confirmed. {why.rstrip('.')}", remedy="Add --yes")
    screen.note(why)
    sys.stderr.write(f"{what}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    screen.note("Nothing was changed")
    return False
