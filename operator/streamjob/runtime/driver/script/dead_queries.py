"""Failed queries that the script has not started again, and when they fail the job."""

from __future__ import annotations

import time

from ....protocol.messages.driver_status import Problem
from ..event_loop import Loop
from ..requests import RESTART_GRACE


class DeadQueries:
    """Called by the script's main thread and by the thread that samples the queries."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._since: float | None = None  # when a drain began to wait, on the clock of time.monotonic()

    def problem(self) -> Problem | None:
        """Why one of them failed, None if there is none."""
        with self._loop.lock:
            dead = set(self._loop.coordinator.failed)
            return next((why for task, why in self._loop.notes.failed.items() if task in dead), None)

    def failure(self) -> Exception:
        """The exception with which the first of them failed."""
        runs = self._loop.runs.all()
        return next((s.failure for s in runs if s.failure is not None), RuntimeError("a query failed"))

    def end_the_job(self, stops: bool) -> bool:
        """Whether a failed query keeps the job from ending: the script has ended and cannot restart it.

        A stop does not need the failed query. A failed job is dead once all its runs are over.
        """
        if self._loop.notes.failure is not None:
            return not self._loop.runs.active()
        return bool(self._loop.coordinator.failed) and not stops

    def fail_waiting_drain(self, *, awaited: bool) -> None:
        """Fail the job if a drain waits for a failed query that the script does not start again.

        A drain needs every query. When all others have ended, wait RESTART_GRACE seconds, then leave it to
        the next epoch.

        :param awaited: a drain is requested, a query has failed, and nothing but the script is left.
        """
        if not awaited:
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()
        elif time.monotonic() - self._since > RESTART_GRACE and self._loop.notes.failure is None:
            self._loop.fail_job(self.failure())
