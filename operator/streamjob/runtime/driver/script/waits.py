"""What the script waits for: the end of one run, or of any run."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ...query.run import Run
from ..threads import script_threads

Until = Callable[[], bool]


class Waits:
    """The waits of the script's threads, and the runs that have ended. Guarded by the lock of `changed`."""

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._endless: dict[int, Until] = {}  # the conditions of waits without a timeout, by thread
        self._terminated: list[Run] = []  # in the order of their ends

    def until(self, over: Until, milliseconds: int | None) -> bool:
        """Wait until `over` returns true.

        :param milliseconds: timeout, None to wait without one.
        :returns: the last result of `over`.
        """
        me = threading.get_ident()
        with self._changed:
            if milliseconds is None:
                self._endless[me] = over
            try:
                return self._changed.wait_for(over, None if milliseconds is None else milliseconds / 1000)
            finally:
                if milliseconds is None:
                    self._endless.pop(me, None)

    # --- awaitAnyTermination --------------------------------------------------------------------------------

    def over(self, run: Run) -> None:
        """A run is over. The caller holds the lock."""
        self._terminated.append(run)

    def terminated(self, mine: Callable[[Run], bool]) -> Run | None:
        """The last run that failed, else the first that ended, else None."""
        with self._changed:
            found = [run for run in self._terminated if mine(run)]
        failed = [run for run in found if run.failure is not None]
        return failed[-1] if failed else found[0] if found else None

    def reset(self, mine: Callable[[Run], bool]) -> None:
        with self._changed:
            self._terminated = [run for run in self._terminated if not mine(run)]

    # --- can the script start anything? ---------------------------------------------------------------------

    def script_is_blocked(self) -> bool:
        """Whether the script's only thread waits without a timeout, and what it waits for has not ended."""
        with self._changed:
            waits = self._endless.get(threading.main_thread().ident or 0)
            return waits is not None and not waits() and self.only_main_thread()

    @staticmethod
    def only_main_thread() -> bool:
        """Whether the script has no thread but the main one."""
        return not script_threads()
