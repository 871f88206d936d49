"""Signals of the driver's JVM, which is in the process group of the driver."""

from __future__ import annotations

from typing import Any


def ignore_sigterm(jvm: Any) -> None:
    """Keep the JVM alive when the whole process group gets SIGTERM: it would end the SparkContext in mid-batch."""
    jvm.sun.misc.Signal.handle(jvm.sun.misc.Signal("TERM"), jvm.sun.misc.SignalHandler.SIG_IGN)
