"""SIGTERM (pod deleted, node drained) and Ctrl-C as events. The script's own signal handlers run as well."""

from __future__ import annotations

import math
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from ..driver import threads
from ..driver.script.interruption import PATIENCE, interrupt, may_be_left, never_in

# Seconds. The terminal sends a Ctrl-C to the whole process group, and a parent (`timeout`, `uv run`, `npm`)
# may forward it again. Nobody presses it twice as fast as that.
SAME_KEYSTROKE = 0.2
RAISED, AGAIN = 5.0, 0.05  # seconds: the main thread gets a signal of ours for so long, again after so long
# It makes the main thread run our handler, and nobody takes it for a signal to the job. Processes ignore it
# unless they ask for it, as a script may: while we do not send it, it is the script's.
OURS = signal.SIGURG


class Signals:
    """The signals of this process. Create it in the main thread.

    Python runs our handler in the main thread, between two bytecodes. The handler wakes a thread that runs
    the callbacks, then calls the handler that the script has installed, if any. The main thread belongs to
    the user's script and may stay in a C call for a long time. So SIGTERM is also read from the wake-up
    descriptor, which is written at once, whatever the main thread does.
    """

    def __init__(self) -> None:
        self._theirs: dict[int, Any] = {}  # the handlers that the script believes are installed
        self._callbacks: dict[int, list[Callable[[], None]]] = {}
        self._arrived: queue.SimpleQueue[tuple[int, float]] = queue.SimpleQueue()  # number, time
        self._raising = threading.Lock()  # one error after the other
        # What the main thread is to raise, and how it says that it has come to that.
        self._wanted: tuple[Callable[[], BaseException | None], threading.Event] | None = None
        self._wanted_since = 0.0  # on the clock of time.monotonic()
        self._knocks = False  # signals of ours are on their way
        self._found: tuple[CodeType, int] | None = None  # where the last one found the main thread
        self._computed = 0.0  # its processor time then
        self._handling = False  # one is being handled: the next one comes in the middle of that
        self._original = signal.signal
        signal.signal = self._install  # type: ignore[assignment]
        self._original_get = signal.getsignal
        signal.getsignal = lambda number: self._theirs.get(number, self._original_get(number))  # type: ignore[assignment]
        self._masks = threading.local()  # the thread's signal mask before a fork
        never_in(Signals._block.__code__, Signals._unblock.__code__)  # Python drops what leaves them
        os.register_at_fork(before=self._block, after_in_parent=self._unblock, after_in_child=self._forked)
        threads.start(self._call_back, "streamjob-signals")
        self.on(OURS)

    def on(self, number: int, *callbacks: Callable[[], None]) -> None:
        """Call the first callback at the first signal, the second at the second. Later signals are ignored.

        Two signals within SAME_KEYSTROKE seconds count as one.
        """
        first = number not in self._callbacks
        self._callbacks[number] = list(callbacks)
        if first:
            self._theirs[number] = signal.getsignal(number)
            self._original(number, self._handle)
        if number == signal.SIGTERM:
            self._watch_descriptor()

    def raise_in_main_thread(
        self, error: Callable[[], BaseException | None], within: float | None = None
    ) -> bool:
        """Raise an error in the main thread, wherever it is.

        Python misses a signal that arrives just before the thread blocks in C: it notices it with the next
        one. So the thread gets the signal again until its handler has run. If it is in C for longer, the
        error is raised when it comes out, unless another one has been wanted since.

        :param error: called in the main thread, once; None: raise nothing.
        :param within: seconds to wait for that, `RAISED` if it is None.
        :returns: whether the main thread has come to it by then.
        """
        ident = threading.main_thread().ident
        assert ident is not None, "it has started"
        with self._raising:
            come = threading.Event()
            self._wanted_since = time.monotonic()
            self._wanted, self._knocks = (error, come), True
            try:
                for _ in range(math.ceil((RAISED if within is None else within) / AGAIN)):
                    signal.pthread_kill(ident, OURS)
                    if come.wait(AGAIN):
                        return True
                return False
            finally:
                self._knocks = False

    def ignore(self) -> None:
        """Ignore our signals from now on: the exit code is decided, and the process is about to end.

        While Python ends it restores the default actions, so a signal that comes too late would kill the
        process.
        """
        for number in self._callbacks:
            self._original(number, signal.SIG_IGN)

    def _block(self) -> None:
        """Block our signals during a fork.

        Until `_forked` has run, the child has our handlers and the parent's wake-up descriptor. A signal to
        the child alone (a pool terminates its workers) would reach the parent through it and stop the job.
        """
        self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, self._callbacks)

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._masks.before)

    def _forked(self) -> None:
        """In a forked child, install the script's handlers and drop the descriptor, which is the parent's."""
        signal.signal, signal.getsignal = self._original, self._original_get
        if self._callbacks:
            signal.set_wakeup_fd(-1)
        for number in self._callbacks:
            theirs = self._theirs[number]
            self._original(number, signal.SIG_DFL if theirs is None else theirs)
        self._unblock()

    def _install(self, number: int, handler: Any) -> Any:
        if number not in self._callbacks:
            return self._original(number, handler)
        if threading.current_thread() is not threading.main_thread():
            raise ValueError("signal only works in main thread of the main interpreter")
        before, self._theirs[number] = self._theirs[number], handler
        return before

    def _handle(self, number: int, frame: Any) -> None:
        if number == OURS and (self._knocks or self._wanted is not None):
            self._knock(frame)
            return
        self._arrived.put((number, time.monotonic()))
        theirs = self._theirs.get(number)
        # Skip pyspark's handler, which cancels all Spark jobs, and Python's default one, which raises
        # KeyboardInterrupt: a stop ends the script with SystemExit.
        of_libraries = str(getattr(theirs, "__module__", "")).split(".")[0] == "pyspark"
        if callable(theirs) and theirs is not signal.default_int_handler and not of_libraries:
            # It may interrupt us while we handle a signal of ours, and take its time.
            handling, self._handling = self._handling, False
            try:
                theirs(number, frame)
            finally:
                self._handling = handling

    def _knock(self, frame: FrameType | None) -> None:
        """Raise what is wanted, unless the main thread is at work where it should not be left.

        It waits there if it is where the last signal has found it, and has hardly computed since.
        """
        if self._handling:
            return
        self._handling = True
        try:
            computed = time.thread_time()
            found = None if frame is None else (frame.f_code, frame.f_lasti)
            waits = found == self._found and computed < self._computed + AGAIN / 10
            self._found, self._computed = found, computed
            if frame is None or waits or may_be_left(frame) or self._waited_long():
                interrupt(frame, self._next_error)
        finally:
            self._handling = False

    def _waited_long(self) -> bool:
        return time.monotonic() > self._wanted_since + PATIENCE

    def _next_error(self) -> BaseException | None:
        """What is to be raised now in the main thread."""
        wanted, self._wanted = self._wanted, None
        if wanted is None:
            return None
        error, come = wanted
        try:
            return error()
        finally:
            come.set()

    def _watch_descriptor(self) -> None:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

        def watch() -> None:
            while True:
                if signal.SIGTERM in os.read(reader, 64):
                    self._arrived.put((signal.SIGTERM, time.monotonic()))

        threads.start(watch, "streamjob-sigterm")

    def _call_back(self) -> None:
        last: dict[int, float] = {}
        while True:
            number, at = self._arrived.get()
            same = at - last.get(number, -SAME_KEYSTROKE) < SAME_KEYSTROKE
            last[number] = at
            if same:
                continue
            callbacks = self._callbacks.get(number, [])
            if callbacks:
                threads.start(callbacks.pop(0), "streamjob-signal")
