"""Whether the driver's JVM answers, and what its process does if it does not.

A JVM that is stopped (SIGSTOP, a debugger) or collects garbage for minutes is alive: each call of py4j waits
for it, without a limit.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pyspark import SparkContext

from ..protocol.messages.driver_status import JVM_NOT_RESPONDING, Problem
from ..protocol.wording import fill

LIMIT = 30  # seconds; a full collection of a large heap may take some, and is no news
LIMIT_IF_STOPPED = 10  # seconds; such a process does not go on by itself
BUSY = 0.5  # of a core
STOPPED = {"T": "is stopped (SIGSTOP)", "t": "is stopped by a debugger"}  # states in proc_pid_stat(5)


class ProcessLook(NamedTuple):
    """A process at one moment.

    :param state: a letter, as in proc_pid_stat(5).
    :param cpu: seconds of processor time that it has used.
    """

    pid: int
    state: str
    cpu: float


def look(pid: int | None) -> ProcessLook | None:
    """Look at a process. None if it is unknown, has ended, or on a system without `/proc`."""
    if pid is None:
        return None
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may have spaces and parentheses
    ticks = int(fields[11]) + int(fields[12])  # in user mode, in the kernel
    return ProcessLook(pid, fields[0], ticks / os.sysconf("SC_CLK_TCK"))


def end_if_stopped(pid: int | None) -> None:
    """A stopped JVM would outlive its Python process, and commit its batch when somebody continues it."""
    now = look(pid)
    if now is not None and now.state in STOPPED:
        os.kill(now.pid, signal.SIGKILL)


def ping() -> Callable[[], object]:
    """A call that returns when the JVM of the script's SparkContext has answered: one round trip of py4j.

    :returns: it raises an exception if the JVM has died.
    """
    gateway: Any = SparkContext._gateway
    call: Callable[[], object] = gateway.jvm.java.lang.System.nanoTime
    return call


def not_responding(
    seconds: float, since: str, before: ProcessLook | None, now: ProcessLook | None
) -> Problem | None:
    """What to tell of a JVM that has not answered for so long; None if that is nothing to tell.

    :param since: when it answered last.
    :param before: its process at that time.
    """
    stopped = now is not None and now.state in STOPPED
    if seconds < (LIMIT_IF_STOPPED if stopped else LIMIT):
        return None
    if now is not None and stopped:
        does = f"process {now.pid} {STOPPED[now.state]}"
        remedy = f"Whoever has stopped it has to continue it: `kill -CONT {now.pid}`<in-container>"
    elif before is not None and now is not None and now.cpu - before.cpu > BUSY * seconds:
        does = f"process {now.pid} is busy, as with a garbage collection"
        remedy = "If that repeats, raise the driver's heap (<memory>), or keep less in it"
    else:
        does = "its process may be paused, or may wait for a disk"
        remedy = "See its node: memory that is swapped out, a disk that hangs, a paused cgroup"
    told = f"the driver's JVM has not answered since {since}, so no batch can run: {does}"
    return Problem(JVM_NOT_RESPONDING, told, fill(remedy))
