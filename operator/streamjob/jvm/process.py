"""The process of the driver's JVM, and its death: a crash in native code, ExitOnOutOfMemoryError, the OOM
killer.
"""

from __future__ import annotations

import signal
import subprocess

from pyspark import SparkContext

from ..protocol.errors import StreamJobError
from . import full_heap


class JvmDied(StreamJobError):
    """The driver's JVM has died. Nothing can start another one in this process."""

    reason = "JvmDied"
    retryable = True


class JvmOutOfMemory(JvmDied):
    """Its heap, or another memory that Java has a limit for, was full. `full_heap` ended it."""

    reason = "JvmOutOfMemory"


def await_death() -> JvmDied | None:
    """Wait until the JVM's process has ended.

    :returns: how it died; None if it ended in order, or is not a child of this process.
    """
    process = _process()
    return None if process is None else _died(process.wait())


def death(seconds: float) -> JvmDied | None:
    """How the JVM died, None if it is alive.

    :param seconds: how long to wait for the end of its process. Its sockets close a moment earlier.
    """
    process = _process()
    try:
        return None if process is None else _died(process.wait(seconds))
    except subprocess.TimeoutExpired:
        return None


def pid() -> int | None:
    """Of the JVM's process; None if it is not a child of this process."""
    process = _process()
    return None if process is None else process.pid


def _process() -> subprocess.Popen[bytes] | None:
    return getattr(SparkContext._gateway, "proc", None)  # set by pyspark.java_gateway.launch_gateway


def _died(code: int) -> JvmDied | None:
    if code == 0:
        return None
    if code in full_heap.CODES:
        return JvmOutOfMemory(
            f"the driver's JVM ran out of memory and exited with code {code}",
            remedy="Raise the driver's heap (<memory>), or keep less in it: what the script collects or "
            "broadcasts, cached tables, listeners. <Log> has the OutOfMemoryError",
        )
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
    return JvmDied(
        f"the driver's JVM {how}",
        remedy="See the end of <log>. If the kernel killed it, raise the driver's memory (<memory>)",
    )
