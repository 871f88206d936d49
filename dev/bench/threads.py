"""How much the threads of some processes work, by name: the instructions that they execute, as the processor
counts them.

The number of instructions does not depend on what else the machine does; a measured time does. Only user
space is counted, not what the kernel does for a thread. Without such a counter (`perf_event_open` is refused,
or a virtual machine has none), processor time is measured instead. It includes the kernel's part and depends
on the load of the machine.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Protocol

CALLS = {"x86_64": 298, "aarch64": 241}  # number of the system call perf_event_open
HARDWARE, INSTRUCTIONS = 0, 1
INHERIT, EXCLUDE_KERNEL, EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
SIZE = 64  # of the first version of perf_event_attr
ENDED = (FileNotFoundError, ProcessLookupError)


class Work(Protocol):
    unit: str

    def read(self) -> dict[str, float]:
        """The work so far, by thread name. Linux keeps the first 15 characters of a name."""


@contextmanager
def work(*processes: int) -> Iterator[Work]:
    """Count the work of these processes and of those that they start."""
    with ExitStack() as opened:
        try:
            os.close(_perf_event_open(0))
        except OSError:
            yield _Time(processes)
        else:
            yield _Instructions(processes, opened)


class _Instructions:
    """Counts the threads that exist at the beginning. Threads and processes that one of them starts count as
    its own.
    """

    unit = "million instructions"

    def __init__(self, processes: tuple[int, ...], opened: ExitStack) -> None:
        self._events: list[tuple[str, int]] = []
        for task in _tasks(processes):
            with suppress(*ENDED):
                self._events.append((_name(task), _perf_event_open(int(task.name))))
                opened.callback(os.close, self._events[-1][1])

    def read(self) -> dict[str, float]:
        counts: Counter[str] = Counter()
        for name, event in self._events:
            counts[name] += struct.unpack("Q", os.read(event, 8))[0]
        return {name: count / 1e6 for name, count in counts.items()}


class _Time:
    """Measures processor time. The time of child processes has no thread's name and is listed as
    "(processes)".
    """

    unit = "ms of processor time"

    def __init__(self, processes: tuple[int, ...]) -> None:
        self._processes = processes
        self._ticks: dict[Path, tuple[str, int]] = {}  # includes threads that have ended

    def read(self) -> dict[str, float]:
        for process in (Path(f"/proc/{process}") for process in self._processes):
            self._ticks[process] = "(processes)", _ticks(process, 13)
        for task in _tasks(self._processes):
            with suppress(*ENDED):
                # Keep the first name: some threads change theirs, which would move all their work to the new
                # name.
                name, _ = self._ticks.get(task) or (_name(task), 0)
                self._ticks[task] = name, _ticks(task, 11)
        counts: Counter[str] = Counter()
        for name, ticks in self._ticks.values():
            counts[name] += ticks
        return {name: count * 1000 / os.sysconf("SC_CLK_TCK") for name, count in counts.items()}


def _tasks(processes: tuple[int, ...]) -> Iterator[Path]:
    for process in processes:
        yield from Path(f"/proc/{process}/task").iterdir()


def _name(task: Path) -> str:
    return (task / "comm").read_text().rstrip("\n")


def _ticks(of: Path, field: int) -> int:
    """Ticks in user space and in the kernel.

    :param field: index of the first of the two fields.
    """
    fields = (of / "stat").read_text().rpartition(")")[2].split()
    return int(fields[field]) + int(fields[field + 1])


def _perf_event_open(thread: int) -> int:
    """Open a counter of the thread's instructions in user space. Return its file descriptor.

    :param thread: 0 for this thread.
    :raises OSError: there is no such counter, or we may not use it.
    """
    flags = INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR
    attributes = struct.pack("IIQQQQQ", HARDWARE, SIZE, INSTRUCTIONS, 0, 0, 0, flags).ljust(SIZE, b"\0")
    libc = ctypes.CDLL(None, use_errno=True)
    event = libc.syscall(CALLS.get(platform.machine(), -1), attributes, thread, -1, -1, 0)
    if event < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return int(event)
