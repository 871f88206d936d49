"""Raises an exception in the script's main thread between two bytecodes, as Ctrl-C raises KeyboardInterrupt.

A lock that the script has just acquired may stay locked then, in a process that ends. Not so the locks that
the runtime needs to end it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from socket import SocketIO
from types import CodeType, FrameType
from typing import Any, TypeVar

from py4j.clientserver import ClientServerConnection

F = TypeVar("F", bound=Callable[..., Any])

# Where the runtime's locks are acquired, and those of `logging`, which its other threads need, too.
_LOCKS = (f"{Path(__file__).parents[3]}/", f"{Path(logging.__file__).parent}/")
_WAITS: tuple[CodeType, ...] = (threading.Condition.wait.__code__, SocketIO.readinto.__code__)
_SENDS: CodeType = ClientServerConnection.send_command.__code__
_calls_script: set[CodeType] = set()


def calls_script(function: F) -> F:
    """Mark a function of the runtime: what it calls is the script."""
    _calls_script.add(function.__code__)
    return function


def may_be_left(frame: FrameType | None) -> bool:
    """Whether an exception may leave this frame.

    Not if the script has called the runtime or `logging`, unless that waits: it may have acquired a lock.
    """
    if frame is not None and frame.f_code in _WAITS:
        return True
    locks = False
    while frame is not None:
        if frame.f_code in _calls_script:
            return not locks
        locks = locks or frame.f_code.co_filename.startswith(_LOCKS)
        frame = frame.f_back
    return True  # before the script, or behind it


def leave(frame: FrameType | None, error: BaseException) -> None:
    """Raise the error. Call it in the main thread, from a signal handler.

    py4j would take the answer to a call that is left for the answer to the next one, so its connection is
    closed.

    :param frame: where the handler has interrupted the thread.
    """
    while frame is not None:
        if frame.f_code is _SENDS:
            frame.f_locals["self"].close()
        frame = frame.f_back
    try:
        raise error
    finally:
        del error  # its traceback has this frame, which would keep it alive
