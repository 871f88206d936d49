"""Where a prepared driver waits before its first query, until it is told what to continue from.

Up to here it has only read: its script has run, its session is up. Behind it, the job's directories are its
own (ADR 46).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from ....protocol.errors import StreamJobError
from ..event_loop import Loop

log = logging.getLogger("streamjob")

T = TypeVar("T")


class GateConflict(StreamJobError):
    """The gate is opened a second time, in another way, or the driver has none."""

    reason = "GateConflict"


class GateKeeper:
    """Thread-safe.

    :param closed: whether queries wait here. Without a gate, they never do.
    """

    def __init__(self, loop: Loop, *, closed: bool) -> None:
        self._loop = loop
        self._closed = closed
        self._token: str | None = None  # of the `Gate` that opened it

    @property
    def closed(self) -> bool:
        return self._closed

    def wait(self, prepare: Callable[[], T | None] = lambda: None) -> T | None:
        """Wait until the gate is open. The status says that the driver is prepared.

        :param prepare: called first if the gate is closed.
        :returns: what it returned. None if the gate was open.
        """
        prepared = prepare() if self._closed else None
        with self._loop.changed:
            if not self._closed:
                return prepared
            if not self._loop.notes.at_gate:
                self._loop.notes.at_gate = True
                log.info("prepared: the first query waits until this driver may continue")
                self._loop.publish()
            self._loop.changed.wait_for(lambda: not self._closed)
            return prepared

    def admits(self, token: str) -> bool:
        """Whether the gate has yet to be opened by this token. Call it, and `open`, under the loop's lock.

        :raises GateConflict: another token has opened it, or there is no gate.
        """
        if self._closed:
            return True
        if self._token == token:
            return False
        raise GateConflict(
            "this driver has begun" if self._token is None else f"the gate was opened by {self._token}",
            remedy="Look at the driver's status: it continues from what it was told first",
        )

    def open(self, token: str) -> None:
        self._closed, self._token = False, token
        self._loop.notes.at_gate = False
        self._loop.publish()
        log.info("the gate is open: %s", token)
