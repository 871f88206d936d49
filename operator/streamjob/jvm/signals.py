"""Signals of the driver's JVM, which belongs to the driver's process group."""

from __future__ import annotations

from typing import Any


def ignore_sigterm(jvm: Any) -> None:
    """Let the JVM ignore SIGTERM, which the whole process group receives.

    Otherwise the JVM would end the SparkContext in the middle of a batch.
    """
    jvm.sun.misc.Signal.handle(jvm.sun.misc.Signal("TERM"), jvm.sun.misc.SignalHandler.SIG_IGN)
