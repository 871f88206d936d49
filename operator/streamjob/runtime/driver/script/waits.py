"""What the script waits for: the end of one run, or of any run."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ...query.task import Stage
from ..threads import script_threads

Until = Callable[[], bool]


class Waits:
    """The waits of the script's threads, and the runs that have ended. Guarded by the lock of `changed`."""

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._endless: dict[int, Until] = {}  # the conditions of waits without a timeout, by thread
        self._terminated: list[Stage] = []  # in the order of their ends

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

    def over(self, stage: Stage) -> None:
        """A run is over. The caller holds the lock."""
        self._terminated.append(stage)

    def terminated(self, mine: Callable[[Stage], bool]) -> Stage | None:
        """The last run that failed, else the first that ended, else None."""
        with self._changed:
            found = [stage for stage in self._terminated if mine(stage)]
        failed = [stage for stage in found if stage.failure is not None]
        return failed[-1] if failed else found[0] if found else None

    def reset(self, mine: Callable[[Stage], bool]) -> None:
        with self._changed:
            self._terminated = [stage for stage in self._terminated if not mine(stage)]

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
