"""The driver's status as the controller sees it: one immutable, versioned value, and a wait for the next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...protocol.messages.driver_status import DriverStatus, Problem

WARNINGS = 20  # the status keeps so many, the newest


class StatusBoard:
    """Thread-safe.

    `version` grows with every change that the controller must learn at once. Figures that change all the time
    (rows per second, watermark) are replaced without a new version, so that they do not answer a long poll.
    """

    def __init__(self, status: DriverStatus) -> None:
        self._status = status
        self._changed = threading.Condition()

    @property
    def status(self) -> DriverStatus:
        with self._changed:
            return self._status

    def update(self, **changes: Any) -> None:
        """Replace fields. If anything differs, the status gets a new version."""
        with self._changed:
            changed = replace(self._status, **changes)
            if changed != self._status:
                self._status = replace(changed, version=self._status.version + 1)
                self._changed.notify_all()

    def change(self, changes: Callable[[DriverStatus], dict[str, Any]]) -> None:
        """Replace fields by values that depend on the status as it is: no other change comes between.

        :param changes: gives the fields to replace.
        """
        with self._changed:
            self.update(**changes(self._status))

    def warn(self, *warnings: Problem) -> None:
        """Add warnings for the user. The job continues."""
        self.change(lambda status: {"warnings": (*status.warnings, *warnings)[-WARNINGS:]})

    def withdraw(self, warning: Problem) -> None:
        """Remove a warning that is no longer true."""
        self.change(lambda status: {"warnings": tuple(w for w in status.warnings if w != warning)})

    def refresh(self, **figures: Any) -> None:
        """Replace fields without a new version."""
        with self._changed:
            self._status = replace(self._status, **figures)

    def wait(self, after: int, timeout: float) -> DriverStatus:
        """The status, as soon as its version is above `after`, else as it is after `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._status.version > after, timeout)
            return self._status
