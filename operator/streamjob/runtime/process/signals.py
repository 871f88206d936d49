"""SIGTERM (pod deleted, node drained) and Ctrl-C as events. The script's own signal handlers run as well."""

from __future__ import annotations

import functools
import math
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..driver import threads
from ..driver.script.interruption import calls_script, leave, may_be_left

# Seconds. The terminal sends a Ctrl-C to the whole process group, and a parent (`timeout`, `uv run`, `npm`)
# may forward it again. Nobody presses it twice as fast as that.
SAME_KEYSTROKE = 0.2
RESEND_SECONDS = 0.05  # seconds after which the main thread gets a signal of ours again
# It makes the main thread run our handler, and nobody takes it for a signal to the job. Processes ignore it
# unless they ask for it, as a script may: while we do not send it, it is the script's.
WAKE_SIGNAL = signal.SIGURG


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
        self._arrived: queue.SimpleQueue[tuple[int, float, bool]] = queue.SimpleQueue()  # see `_call_back`
        self._own: set[int] = set()  # what this process has sent to itself, on its way
        self._raising = threading.Lock()  # one error after the other
        # What the main thread is to raise, and how it says that it has come to that.
        self._wanted: tuple[Callable[[], BaseException | None], threading.Event] | None = None
        self._knocks = False  # signals of ours are on their way
        self._original = signal.signal
        signal.signal = self._install  # type: ignore[assignment]
        self._original_get = signal.getsignal
        signal.getsignal = lambda number: self._theirs.get(number, self._original_get(number))  # type: ignore[assignment]
        self._wake = signal.pthread_kill
        self._note_own(signal, "raise_signal", lambda _: True)
        self._note_own(signal, "pthread_kill", lambda _: True)
        self._note_own(os, "kill", lambda process: process in (os.getpid(), 0, -1, -os.getpgrp()))
        self._note_own(os, "killpg", lambda group: group in (0, os.getpgrp()))
        self._masks = threading.local()  # the thread's signal mask before a fork
        os.register_at_fork(before=self._block, after_in_parent=self._unblock, after_in_child=self._forked)
        threads.start(self._call_back, "streamjob-signals")
        self.on(WAKE_SIGNAL)

    def on(self, number: int, *callbacks: Callable[[], None]) -> None:
        """Call the first callback at the first signal, the second at the second. Later signals are ignored.

        Two signals within SAME_KEYSTROKE seconds count as one. A signal that this process sends to itself
        counts only as a first one: a web server that has shut down raises again the signal that it got.
        """
        first = number not in self._callbacks
        self._callbacks[number] = list(callbacks)
        if first:
            self._theirs[number] = signal.getsignal(number)
            self._original(number, self._handle)
        if number == signal.SIGTERM:
            self._watch_descriptor()

    def raise_in_main_thread(self, error: Callable[[], BaseException | None], within: float) -> bool:
        """Raise an error in the main thread, wherever that may be left (see `interruption`).

        Python misses a signal that arrives just before the thread blocks in C: it notices it with the next
        one. So the thread gets the signal again until its handler has run. If it is in C for longer, the
        error is raised when it comes out, unless another one has been wanted since.

        :param error: called in the main thread, once; None: raise nothing.
        :param within: seconds to wait for that.
        :returns: whether the main thread has come to it by then.
        """
        ident = threading.main_thread().ident
        assert ident is not None, "it has started"
        with self._raising:
            come = threading.Event()
            self._wanted, self._knocks = (error, come), True
            try:
                for _ in range(math.ceil(within / RESEND_SECONDS)):
                    self._wake(ident, WAKE_SIGNAL)
                    if come.wait(RESEND_SECONDS):
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

    def _note_own(self, owner: Any, name: str, reaches_us: Callable[[Any], bool]) -> None:
        """Note the signals that a function sends to this process: Python does not tell a handler the sender.

        :param reaches_us: whether it does, by its first argument.
        """
        original = getattr(owner, name)

        @functools.wraps(original)
        @calls_script  # a handler of the script's, for other signals than ours
        def send(*args: Any) -> Any:
            if args and args[-1] in self._callbacks and reaches_us(args[0]):
                self._own.add(args[-1])
            return original(*args)

        setattr(owner, name, send)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == WAKE_SIGNAL and (self._knocks or self._wanted is not None):
            if may_be_left(frame):
                self._raise_wanted(frame)
            return
        own = number in self._own
        self._own.discard(number)
        self._arrived.put((number, time.monotonic(), own))
        theirs = self._theirs.get(number)
        # Skip pyspark's handler, which cancels all Spark jobs, and Python's default one, which raises
        # KeyboardInterrupt: a stop ends the script with SystemExit.
        of_libraries = str(getattr(theirs, "__module__", "")).split(".")[0] == "pyspark"
        if callable(theirs) and theirs is not signal.default_int_handler and not of_libraries:
            self._call_theirs(theirs, number, frame)

    @staticmethod
    @calls_script
    def _call_theirs(handler: Callable[..., Any], number: int, frame: FrameType | None) -> None:
        handler(number, frame)

    def _raise_wanted(self, frame: FrameType | None) -> None:
        wanted, self._wanted = self._wanted, None
        if wanted is None:
            return
        error, come = wanted
        try:
            found = error()
        finally:
            come.set()
        if found is not None:
            try:
                leave(frame, found)
            finally:
                del found  # its traceback has this frame, which would keep it alive

    def _watch_descriptor(self) -> None:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

        def watch() -> None:
            while True:
                if signal.SIGTERM in os.read(reader, 64):
                    self._arrived.put((signal.SIGTERM, time.monotonic(), False))

        threads.start(watch, "streamjob-sigterm")

    def _call_back(self) -> None:
        last: dict[int, float] = {}
        while True:
            number, at, own = self._arrived.get()
            repeated = number in last and (own or at - last[number] < SAME_KEYSTROKE)
            last[number] = at
            callbacks = self._callbacks.get(number, [])
            if callbacks and not repeated:
                threads.start(callbacks.pop(0), "streamjob-signal")
