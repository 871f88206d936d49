"""Signals of the driver's JVM, which belongs to the driver's process group."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext


def ignore_sigterm() -> None:
    """Let the JVM of the script's SparkContext ignore SIGTERM, which the whole process group receives.

    Otherwise the JVM would end the SparkContext in the middle of a batch.
    """
    gateway: Any = SparkContext._gateway
    misc = gateway.jvm.sun.misc
    misc.Signal.handle(misc.Signal("TERM"), misc.SignalHandler.SIG_IGN)
