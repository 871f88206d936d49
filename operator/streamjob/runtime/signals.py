"""SIGTERM (pod deleted, node drained) and Ctrl-C as events, whichever thread the kernel gives them to."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any


def on_sigterm(callback: Callable[[], None]) -> None:
    """Call `callback` in a thread of its own at the first SIGTERM; later ones change nothing.

    Not a plain handler: Python runs those in the main thread between two bytecodes, and the main thread belongs to the
    user's script, which may sit in a py4j call for hours. The wake-up descriptor is written at once, in any thread.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    # With no handler at all the default action would end the process before anything is written.
    signal.signal(signal.SIGTERM, lambda number, frame: None)

    def watch() -> None:
        while True:
            if signal.SIGTERM in os.read(reader, 64):
                callback()
                return

    threading.Thread(target=watch, name="streamjob-sigterm", daemon=True).start()


def block_interrupt() -> None:
    """For this thread and all that come later, and Spark's processes: to be called before any other thread is there. Otherwise
    the signal would reach the handler that a SparkContext installs, which cancels all jobs."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def on_interrupt(*callbacks: Callable[[], None]) -> None:
    """Call the first callback at the first Ctrl-C, the second at the second, in a thread of their own.

    :func:`block_interrupt` has to have been called.
    """

    def watch() -> None:
        for callback in callbacks:
            signal.sigwait({signal.SIGINT})
            callback()

    threading.Thread(target=watch, name="streamjob-interrupt", daemon=True).start()


def ignore_in_jvm(jvm: Any) -> None:
    """Keep the JVM alive when the whole process group gets SIGTERM: it would end the SparkContext in mid-batch."""
    jvm.sun.misc.Signal.handle(jvm.sun.misc.Signal("TERM"), jvm.sun.misc.SignalHandler.SIG_IGN)
