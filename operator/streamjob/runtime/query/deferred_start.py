"""A start that waits until it is certain which query of the last epoch the run continues."""

from __future__ import annotations

import threading
from collections.abc import Callable


class DeferredStart:
    """A run that has been admitted and whose query has not begun. Thread-safe.

    :param start: starts the query.
    """

    def __init__(self, start: Callable[[], None]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._over = False

    @property
    def over(self) -> bool:
        """Whether the query has begun, could not begin, or never will."""
        return self._over

    def begin(self) -> bool:
        """Start the query, unless somebody has done so or has given it up.

        :returns: whether this call started it.
        :raises Exception: Spark's own, if it refuses the query.
        """
        with self._lock:
            if self._over:
                return False
            try:
                self._start()
            finally:
                self._over = True
            return True

    def give_up(self) -> None:
        """Never start the query. Returns when no start of it is in progress."""
        with self._lock:
            self._over = True
