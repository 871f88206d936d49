"""Raises an exception in the script's main thread, wherever it is. Some calls come to their end first.

No library expects an exception between any two of its instructions: a lock that it has just acquired would
stay locked. So the exception is raised in the script's own code, or where the thread waits. If the thread is
at neither for `PATIENCE` seconds, it is raised where the thread is.
"""

from __future__ import annotations

import dis
import site
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import py4j
import pyspark
from py4j.clientserver import ClientServerConnection

SLICE = 0.1  # seconds
PATIENCE = 2.0  # seconds, from the first time that an error is to be raised

# Python 3.12 and older count a thread as ended if an exception leaves this call of `join` and `is_alive`.
# Nobody would wait for it any more, not even Python when it exits.
_WAITS_FOR_END: CodeType | None = getattr(
    getattr(threading.Thread, "_wait_for_tstate_lock", None), "__code__", None
)
# py4j would read the answer to the call that was left as the answer to the next one.
_SENDS: CodeType = ClientServerConnection.send_command.__code__

# What a lock that is written in Python has acquired is never released if an exception leaves it just then, or
# comes just before it is released. Python's own locks have no such instant.
_WAITS: CodeType = threading.Condition.wait.__code__
_PASSES_ON: tuple[CodeType, ...] = tuple(
    getattr(threading.Condition, name).__code__ for name in ("_acquire_restore", "_release_save")
)
_COUNTS: tuple[CodeType, ...] = tuple(
    f.__code__
    for f in (threading.Semaphore.acquire, threading.Semaphore.release, threading.BoundedSemaphore.release)
)
_BEGINS: int | None = dis.opmap.get("RESUME")  # where a function begins; Python 3.10 has no such instruction

# Where the code is that the script has not written: of Python, of packages, of the runtime.
_LIBRARIES: tuple[str, ...] = (
    "<frozen ",
    *(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    *(f"{folder}/" for folder in (*site.getsitepackages(), site.getusersitepackages())),
    *(f"{package.__path__[0]}/" for package in (py4j, pyspark)),
    f"{Path(__file__).parents[3]}/",
)

_never_in: set[CodeType] = set()
_put_off: list[BaseException] = []


def never_in(*functions: CodeType) -> None:
    """Raise nothing while these run."""
    _never_in.update(functions)


def unwinds(error: type[BaseException]) -> bool:
    """Whether the calling thread runs an `except`, `finally` or `__exit__` because of such an error."""
    current, seen = sys.exc_info()[1], set[int]()
    while current is not None and id(current) not in seen:
        if isinstance(current, error):
            return True
        seen.add(id(current))
        current = current.__context__
    return False


def runs_coroutines() -> bool:
    """Whether the calling thread runs an event loop of asyncio."""
    running = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)  # it may be half imported
    return running is not None and running() is not None


def is_in_a_call(thread: threading.Thread) -> bool:
    """Whether the thread waits for the answer of the JVM."""
    return _SENDS in _codes(sys._current_frames().get(thread.ident or 0))


def may_be_left(frame: FrameType) -> bool:
    """Whether an exception does no harm there: in the script's own code, but not while it enters a `with`."""
    code = frame.f_code
    return code.co_name != "__enter__" and not code.co_filename.startswith(_LIBRARIES)


def interrupt(frame: FrameType | None, error: Callable[[], BaseException | None]) -> bool:
    """Raise the error. Call it in the main thread, from a signal handler.

    In a join it is raised by `join`, an instant later.

    :param frame: where the handler has interrupted the thread.
    :param error: None: raise nothing.
    :returns: False if it is not the moment, in which case `error` has not been called.
    """
    codes = _codes(frame)
    if frame is not None and _holds(frame, codes):
        return False
    waits = _WAITS_FOR_END in codes
    # Python drops what leaves a `__del__`, which would not do its work either.
    dropped = any(code in _never_in or code.co_name == "__del__" for code in codes)
    if dropped or (waits and join.__code__ not in codes):
        return False
    found = error()
    if found is None:
        return True
    if waits:
        _put_off.append(found)
        return True
    if _SENDS in codes:
        codes[_SENDS].f_locals["self"].close()
    try:
        raise found
    finally:
        del found  # its traceback has this frame, which would keep it alive


def _holds(frame: FrameType, codes: Collection[CodeType]) -> bool:
    """Whether the thread holds what nobody would release if it left this function now.

    :param codes: the functions that the thread is in.
    """
    code = frame.f_code
    if code in _PASSES_ON or (_WAITS not in codes and any(f in codes for f in _COUNTS)):
        return True
    if code.co_name not in ("__enter__", "__exit__"):
        return False
    if code.co_name == "__exit__" and (frame.f_lasti < 0 or code.co_code[frame.f_lasti] == _BEGINS):
        return True
    module = frame.f_globals.get("__name__")
    if module not in ("threading", "multiprocessing.synchronize"):
        return False  # the script's own: its code is not called
    owner: Any = frame.f_locals["self"]
    if isinstance(owner, threading.Condition):
        return bool(owner._is_owned())  # type: ignore[attr-defined]
    lock = getattr(getattr(owner, "_lock", owner), "_semlock", None)  # a Condition of multiprocessing has one
    return lock is not None and bool(lock._is_mine())


def _codes(frame: FrameType | None) -> dict[CodeType, FrameType]:
    """The functions that a thread is in."""
    codes = dict[CodeType, FrameType]()
    while frame is not None:
        codes.setdefault(frame.f_code, frame)
        frame = frame.f_back
    return codes


def join(original: Callable[..., None], thread: threading.Thread, timeout: float | None = None) -> None:
    """`Thread.join`, which `interrupt` can end. Other threads than the main one are never interrupted.

    :param original: Python's.
    """
    if _WAITS_FOR_END is None or threading.current_thread() is not threading.main_thread():
        return original(thread, timeout)
    end = None if timeout is None else time.monotonic() + max(timeout, 0)
    while True:
        try:
            original(thread, SLICE if end is None else min(SLICE, max(end - time.monotonic(), 0)))
            # The thread's own class may have another idea of `is_alive()`.
            over = not threading.Thread.is_alive(thread) or (end is not None and time.monotonic() >= end)
        finally:
            _raise_what_was_put_off()
        if over:
            return None


def _raise_what_was_put_off() -> None:
    if _put_off:
        error: Any = _put_off.pop()
        _put_off.clear()
        try:
            raise error
        finally:
            del error  # as above
