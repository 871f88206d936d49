"""`--handover`: a new version of the script takes over from the process that runs the job.

The new process runs its script up to the first query and waits at the gate (`driver.start.gate_keeper`). Only
then is the running one asked to stop. If the new script does not come that far, the running job has not
noticed anything.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace

from ....protocol.errors import StreamJobError
from ....protocol.messages.driver_config import DriverConfig, Gate, Restore
from ....protocol.messages.driver_status import DriverPhase
from ...driver.status_board import StatusBoard
from .job_folder import JobFolder
from .telling import describe, tell

POLL_SECONDS = 0.01  # seconds between two looks: the pause of the job contains one
SAY = 2.0  # seconds after which it is told what is waited for
IDLE = 10.0  # seconds after which a script that has started no query is taken over all the same

ANEW = "Start this script again"


class NotOurs(StreamJobError):
    """The process that runs the job cannot be asked to stop."""

    reason = "StateInUse"


class RunMeanwhile(StreamJobError):
    """The epoch that this driver was prepared for has begun in another process."""

    reason = "StateInUse"


def process_to_follow(place: JobFolder) -> int | None:
    """Wait until the folder is locked by this process, or another one has the job and can be asked to stop.

    That one runs; or its script starts nothing, for IDLE seconds.

    :returns: the other process, which this one has to be prepared to follow; None if there is none.
    :raises NotOurs: that process may not be asked to stop.
    """
    waits = _Waiting("process {pid} has the job, which does not run: it is waited for")
    idle_from = time.monotonic() + IDLE
    while not place.try_lock():
        status, pid = place.status(), place.holder()
        phase = status.phase if status is not None else None
        idle = phase is DriverPhase.STARTING and time.monotonic() > idle_from
        if pid is not None and (phase is DriverPhase.RUNNING or idle):
            _signal(place, pid, 0)
            return pid
        waits.for_(pid)
    return None


def prepared(settings: DriverConfig, place: JobFolder) -> DriverConfig:
    """The configuration of a driver that waits at the gate: it does not know yet what to continue from.

    Its epoch follows that of the process that has the job, whether that one has begun it or will.
    """
    status = place.status()
    epoch = max(settings.epoch, status.epoch + 1 if status is not None else 1)
    empty = Restore()
    return replace(settings, epoch=epoch, prepared=True, restore=empty, next_checkpoint=1, termination=None)


def refuse_other_epoch(settings: DriverConfig, place: JobFolder) -> None:
    """Refuse to continue if another process has begun the epoch of this one, or a later one.

    :raises RunMeanwhile: there is one.
    """
    begun = place.next_epoch() - 1
    if begun >= settings.epoch:
        raise RunMeanwhile(
            f"another process has run the job since this one was prepared, in epoch {begun}",
            remedy=ANEW,
        )


def gate_of(settings: DriverConfig) -> Gate:
    """What opens the gate of a driver that would have started with these settings."""
    return Gate(
        f"handover-{settings.epoch}",
        settings.epoch,
        settings.restore,
        settings.next_checkpoint,
        settings.termination,
    )


def await_turn(settings: DriverConfig, place: JobFolder, board: StatusBoard, old: int) -> bool:
    """Wait until this driver is prepared, ask the running one to stop, and wait until its process has ended.

    :param settings: of this driver.
    :param old: the process that it was prepared to follow. No other one is asked to stop.
    :returns: whether the folder is locked by this process. False if this driver will not be prepared.
    :raises RunMeanwhile: another process has taken over first.
    """
    status = board.status
    while status.phase is not DriverPhase.PREPARED:
        if status.phase is DriverPhase.FAILED or status.exit_reason:
            return False
        status = board.wait(status.version, SAY)
    asked = False
    waits = _Waiting("process {pid} stops", lambda: _progress(place))
    while not place.try_lock():
        pid = place.holder()
        if pid is not None and (pid != old or not asked):
            refuse_other_epoch(settings, place)
            if pid != old:
                # It has the lock and perhaps no epoch yet.
                raise RunMeanwhile(
                    f"process {pid} has taken over the job since this one was prepared", remedy=ANEW
                )
            tell(f"streamjob: prepared; process {pid}, which runs the job, is asked to stop")
            _signal(place, pid, signal.SIGTERM)
            asked = True
        waits.for_(pid)
    refuse_other_epoch(settings, place)
    return True


def _signal(place: JobFolder, pid: int, number: int) -> None:
    """Send the process a signal; 0 only asks whether that is allowed.

    :raises NotOurs: it is not.
    """
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has just ended, or lives in another container: its lock shows which
    except PermissionError:
        raise NotOurs(
            f"process {pid} runs the job in {place.folder} as another user", remedy="Run this as that user"
        ) from None


def _progress(place: JobFolder) -> str:
    status = place.status()
    return describe(status) if status is not None else ""


class _Waiting:
    """Sleeps for an instant; tells from time to time what is waited for.

    :param text: told after SAY seconds, with `{pid}`.
    :param more: what the other process has told last.
    """

    def __init__(self, text: str, more: Callable[[], str] = lambda: "") -> None:
        self._text, self._more = text, more
        self._next = time.monotonic() + SAY
        self._said = ""

    def for_(self, pid: int | None) -> None:
        if time.monotonic() >= self._next:
            line = ": ".join(filter(None, [self._text.format(pid=pid or "?"), self._more()]))
            if line != self._said:
                tell(f"streamjob: {line}")
            self._said, self._next = line, time.monotonic() + SAY
        time.sleep(POLL_SECONDS)
