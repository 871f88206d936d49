"""The driver's status as the controller sees it: one immutable value, a version, and a way to wait for the next."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from ...protocol.messages import DriverStatus, Problem

WARNINGS = 20  # of the newest; each is in the log


class StatusBoard:
    """Thread-safe. `version` grows with every change that a controller has to know at once; figures that only
    drift (rows per second, watermark) are renewed without one, so that a long poll is not answered for them."""

    def __init__(self, status: DriverStatus) -> None:
        self._status = status
        self._changed = threading.Condition()

    @property
    def status(self) -> DriverStatus:
        with self._changed:
            return self._status

    def update(self, **changes: Any) -> None:
        """Replace fields; a new version if anything differs."""
        with self._changed:
            changed = replace(self._status, **changes)
            if changed != self._status:
                self._status = replace(changed, version=self._status.version + 1)
                self._changed.notify_all()

    def warn(self, *warnings: Problem) -> None:
        """Tell what a person should know though the job goes on."""
        with self._changed:
            self.update(warnings=(*self._status.warnings, *warnings)[-WARNINGS:])

    def refresh(self, **figures: Any) -> None:
        """Replace fields without a new version."""
        with self._changed:
            self._status = replace(self._status, **figures)

    def wait(self, after: int, timeout: float) -> DriverStatus:
        """The status once its version is above `after`, or as it is after `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._status.version > after, timeout)
            return self._status
