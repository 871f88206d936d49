"""Ends a job that runs without Kubernetes: by signals to its process, as Ctrl-C does."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from ..errors import CommandError, ExitCode
from ..printing import screen
from ..printing.asking import confirm
from ..views.checkpoints import parsed
from ..views.ending import Goal
from .folder import Folder, read_folder

LOOK_EVERY = 0.2  # seconds


class NotRunning(CommandError):
    """No process runs the job, so none can be asked."""

    reason = "NotRunning"


class OnlyAtStart(CommandError):
    """A local job is asked for this when it starts."""

    reason = "OnlyAtStart"


def end(path: Path, goal: Goal, *, wait: bool, timeout: float | None, yes: bool) -> int:
    """Ask the process for it.

    :returns: the exit code.
    :raises NotRunning: there is none.
    :raises OnlyAtStart: this cannot be asked of a process that runs.
    """
    folder = read_folder(path)
    process = _process(folder, goal.verb)
    if goal.final and not confirm(f"{goal.verb} process {process}", goal.final, yes=yes):
        return ExitCode.PROBLEM
    ask(read_folder(path), goal.verb)
    screen.note(f"Process {process} was asked to {goal.verb}")
    return _watch(path, timeout) if wait else ExitCode.DONE


def ask(folder: Folder, verb: str) -> None:
    """Ask the process that runs the job.

    :raises NotRunning: there is none.
    :raises OnlyAtStart: this cannot be asked of a process that runs.
    """
    os.kill(_process(folder, verb), signal.SIGKILL if verb == "cancel" else signal.SIGTERM)


def not_possible(verb: str) -> tuple[str, str] | None:
    """Why this cannot be asked of a local job, and what to do instead. None: it can."""
    if verb in ("stop", "cancel"):
        return None
    again = "Stop it; start the script to continue"
    if verb == "drain":
        start = "Stop it, then run `python -m streamjob.runtime --local --drain SCRIPT`"
        return "a local job is asked to drain when it starts", start
    if verb == "savepoint":
        return "a local job writes a savepoint when it ends", again
    if verb == "suspend":
        return "nobody would resume a local job", again
    return (
        f"nobody but you can {verb} a local job",
        "Start the script: it continues from its latest checkpoint",
    )


def _process(folder: Folder, verb: str) -> int:
    if refused := not_possible(verb):
        raise OnlyAtStart(refused[0], remedy=refused[1])
    if folder.process is None:
        raise NotRunning(
            f"no process runs the job in {folder.path}",
            remedy="Start the script, to continue from its latest checkpoint",
        )
    if not folder.process:
        raise NotRunning(
            f"a process runs the job in {folder.path}, but does not say which: press Ctrl-C there", remedy=""
        )
    return folder.process


def _watch(path: Path, timeout: float | None) -> int:
    ends = None if timeout is None else time.monotonic() + timeout
    said = ""
    try:
        while True:
            folder = read_folder(path)
            if folder.process is None:
                screen.put([_outcome(folder)])
                return ExitCode.DONE
            text = _progress(folder)
            if text and text != said:
                screen.put([text])
                said = text
            if ends is not None and time.monotonic() > ends:
                screen.note("The timeout has passed; the process continues to end")
                return ExitCode.TIMEOUT
            time.sleep(LOOK_EVERY)  # a file lock cannot be waited for without taking it
    except KeyboardInterrupt:
        screen.note("\nThe process continues to end")
        return ExitCode.INTERRUPTED


def _progress(folder: Folder) -> str:
    found = folder.status.get("termination") or {}
    return ": ".join(part for part in (found.get("step"), found.get("progress")) if part)


def _outcome(folder: Folder) -> str:
    with suppress(IndexError):
        latest = (parsed(folder.index) if folder.index else parsed("")).checkpoints[-1]
        where = f", savepoint {latest.savepoint}" if latest.savepoint else ""
        if latest.scenario and latest.epoch == folder.epoch:
            return f"It has ended with checkpoint {latest.number}{where}"
    return "The process is gone, without a savepoint"
