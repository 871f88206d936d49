"""What the script's StreamingQueryListeners are told, and when.

Spark tells a listener that a query has terminated as soon as it has. A listener may end the process then, so
that the query is started again. While the job is ended, that would be before its savepoint.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from .. import threads

log = logging.getLogger("streamjob")

Tell = Callable[[], object]


class Listeners:
    """The ends of queries that the script's listeners have yet to hear of. Thread-safe.

    :param ending: whether the job ends its queries, or has ended them.
    """

    def __init__(self, ending: Callable[[], bool]) -> None:
        self._ending = ending
        self._lock = threading.Lock()
        self._held: deque[Tell] = deque()
        self._released = False
        self._telling: threading.Thread | None = None

    def query_terminated(self, tell: Tell) -> None:
        """A query has terminated.

        :param tell: tells a listener. It is called now, or by `release`.
        """
        with self._lock:
            if self._held or (not self._released and self._ending()):
                self._held.append(tell)
                return
        tell()

    def release(self) -> None:
        """From now on, hold nothing. A thread tells what is held, in order. A repetition does nothing."""
        with self._lock:
            if not self._released:
                self._released = True
                self._telling = threads.start(self._tell, "streamjob-listeners")

    def all_told(self, seconds: float) -> bool:
        """Wait for that after `release`.

        :returns: whether it has come.
        """
        if self._telling is not None:
            self._telling.join(seconds)
        return not self._held

    def _tell(self) -> None:
        while True:
            with self._lock:
                if not self._held:
                    return
                tell = self._held[0]
            try:
                tell()
            except BaseException as e:  # of the script's own code, SystemExit for example
                log.warning("a StreamingQueryListener of the script has failed: %r", e)
            with self._lock:
                self._held.popleft()
