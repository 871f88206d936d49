"""The script's main thread, and how it is told that its job has ended: SystemExit is raised in it."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType

from ..driver import threads
from ..driver.script.job_stopped import is_unwinding, job_stopped
from .signals import Signals

log = logging.getLogger("streamjob")

_JOINS: CodeType = threading._shutdown.__code__  # type: ignore[attr-defined]
AT_ONCE = 5.0  # seconds that a thread of the script waits for the main thread to be told


class ScriptsMainThread:
    """The main thread as the script has it. Thread-safe.

    :ivar runs: the script runs there. It is false before its first line and after its last one.
    :ivar exits: behind the script, Python waits for its threads and calls what is registered with `atexit`.
    :ivar told_at: when it was told last, on the clock of time.monotonic().
    """

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._telling = threading.Lock()
        self._begun = False
        self._asked = False  # a thread of the script that ends has asked for it
        self.runs = self.exits = False
        self.told_at: float | None = None

    def begin(self) -> None:
        """The script's first line is next."""
        self._begun = self.runs = True

    def end_with_a_thread(self) -> None:
        """Tell it, once. Returns when it has been told, or is in C and will be told when it comes out.

        A thread of the script is about to end because the job was stopped. The main thread may wait for that
        (a join, an event, a queue) and would go on as if the thread had done its work.
        """
        if not self._asked:
            self._asked = True
            self._tell(0, AT_ONCE)

    def tell(self, code: int, within: float, then: Callable[[], None]) -> None:
        """Tell a script that runs on. Returns at once.

        :param code: for SystemExit.
        :param within: seconds for which it is tried.
        :param then: called afterwards, also if the script was not told.
        """
        self.told_at = time.monotonic()
        if self._telling.acquire(blocking=False):
            try:
                # It waits for the main thread.
                threads.start(self._tell_again, "streamjob-tell", code, within, then)
            except BaseException:
                self._telling.release()
                raise

    def _tell_again(self, code: int, within: float, then: Callable[[], None]) -> None:
        try:
            raised = self._tell(code, within)
        finally:
            self._telling.release()
            then()
        if raised:
            log.warning("the job has ended and its script runs on: SystemExit was raised in its main thread")

    def _tell(self, code: int, within: float) -> bool:
        """Raise SystemExit in it, unless an earlier one is on its way up: `finally` and `except` run then.

        :returns: whether it was raised.
        """
        raised = []

        def error() -> SystemExit | None:
            if is_unwinding() or not self._may_be_ended():
                return None
            raised.append(True)
            self.told_at = time.monotonic()
            return job_stopped(code)

        self._signals.raise_in_main_thread(error, within)
        return bool(raised)

    def _may_be_ended(self) -> bool:
        """Whether the thread is in the script, or before it, or where Python waits for the script's threads.

        Handlers at exit come after that, and are left alone.
        """
        if self.runs or not self._begun:
            return True
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_code is not _JOINS:
            frame = frame.f_back
        return self.exits and frame is not None
