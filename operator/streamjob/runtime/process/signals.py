"""SIGTERM (pod deleted, node drained) and Ctrl-C as events, whatever handlers the script installs: those run as well."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from ..driver import threads

# Seconds. Whoever runs the job (`timeout`, `uv run`, `npm`) passes a Ctrl-C on that the terminal has sent to the whole group.
# Nobody presses it twice as fast.
SAME_KEYSTROKE = 0.2


class Signals:
    """Of this process. To be made in the main thread.

    The kernel's signal is taken by a handler of ours, in the main thread between two bytecodes, which wakes a thread that calls
    back and then calls the handler that the script has installed, if it has. The main thread belongs to the user's script, and
    may sit in a C call for long: the wake-up descriptor is written at once, in any thread.
    """

    def __init__(self) -> None:
        self._theirs: dict[int, Any] = {}  # what the script believes to be installed
        self._callbacks: dict[int, list[Callable[[], None]]] = {}
        self._arrived: queue.SimpleQueue[tuple[int, float]] = queue.SimpleQueue()  # number, time
        self._exit_code: int | None = None
        self._original = signal.signal
        signal.signal = self._install  # type: ignore[assignment]
        self._original_get = signal.getsignal
        signal.getsignal = lambda number: self._theirs.get(number, self._original_get(number))  # type: ignore[assignment]
        self._masks = threading.local()  # signals that were blocked in this thread before it forked
        os.register_at_fork(before=self._block, after_in_parent=self._unblock, after_in_child=self._forked)
        threads.start(self._call_back, "streamjob-signals")

    def on(self, number: int, *callbacks: Callable[[], None]) -> None:
        """Call the first callback at the first signal, the second at the second; later ones change nothing. One that comes
        with another (`SAME_KEYSTROKE`) is the same."""
        first = number not in self._callbacks
        self._callbacks[number] = list(callbacks)
        if first:
            self._theirs[number] = signal.getsignal(number)
            self._original(number, self._handle)
        if number == signal.SIGTERM:
            self._watch_descriptor()

    def leave(self, code: int) -> None:
        """Raise SystemExit in the main thread, wherever it is, and at each later signal again."""
        self._exit_code = code
        ident = threading.main_thread().ident
        if ident is not None:
            signal.pthread_kill(ident, signal.SIGTERM)

    def leave_no_more(self) -> None:
        """The script is over: what waits for its queries in the main thread is not to be ended."""
        self._exit_code = None

    def _block(self) -> None:
        """Until `_forked` is done the child has our handlers and the parent's descriptor: a signal to the child alone (a pool
        terminates its workers) would be told to the parent, which would stop the job."""
        self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, self._callbacks)

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._masks.before)

    def _forked(self) -> None:
        """A process that the script has forked has the signals that it believes to have; the descriptor is its parent's."""
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
        if self._exit_code is not None:
            raise SystemExit(self._exit_code)
        self._arrived.put((number, time.monotonic()))
        theirs = self._theirs.get(number)
        # pyspark's cancels all Spark jobs; Python's own raises KeyboardInterrupt, where a stop has SystemExit.
        of_libraries = str(getattr(theirs, "__module__", "")).split(".")[0] == "pyspark"
        if callable(theirs) and theirs is not signal.default_int_handler and not of_libraries:
            theirs(number, frame)

    def _watch_descriptor(self) -> None:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

        def watch() -> None:
            while True:
                if signal.SIGTERM in os.read(reader, 64) and self._exit_code is None:
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
