"""What the script waits for: runs that are over, for one of them or for any."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..query.task import Stage
from .threads import script_threads

Until = Callable[[], bool]


class Waits:
    """Guarded by the lock of `changed`."""

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._endless: dict[int, Until] = {}  # by thread
        self._terminated: list[Stage] = []  # in the order in which they ended

    def until(self, over: Until, milliseconds: int | None) -> bool:
        """Whether it is over, at the end of the wait."""
        me = threading.get_ident()
        with self._changed:
            if milliseconds is None:
                self._endless[me] = over
            try:
                return self._changed.wait_for(over, None if milliseconds is None else milliseconds / 1000)
            finally:
                if milliseconds is None:
                    self._endless.pop(me, None)

    # --- awaitAnyTermination ----------------------------------------------------------------------------------

    def over(self, stage: Stage) -> None:
        """A run is over."""
        self._terminated.append(stage)

    def terminated(self, mine: Callable[[Stage], bool]) -> Stage | None:
        """The first that ended, or the last that failed."""
        with self._changed:
            found = [stage for stage in self._terminated if mine(stage)]
        failed = [stage for stage in found if stage.failure is not None]
        return failed[-1] if failed else found[0] if found else None

    def reset(self, mine: Callable[[Stage], bool]) -> None:
        with self._changed:
            self._terminated = [stage for stage in self._terminated if not mine(stage)]

    # --- can the script start anything? -----------------------------------------------------------------------

    def script_is_blocked(self) -> bool:
        """Its only thread waits for a run to end, without end, and none of those that it waits for has."""
        with self._changed:
            waits = self._endless.get(threading.main_thread().ident or 0)
            return waits is not None and not waits() and self.only_main_thread()

    @staticmethod
    def only_main_thread() -> bool:
        """The script has no other thread."""
        return not script_threads()
