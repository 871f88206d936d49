"""Tells which threads are the script's: all that the runtime, pyspark and py4j did not start."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T", bound=threading.Thread)
_own: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
POOLS = "streamjob-"  # prefix of the thread names of the runtime's own pools


def own(thread: T) -> T:
    """Mark a thread that is not started yet as the runtime's own, and make it a daemon."""
    thread.daemon = True
    _own.add(thread)
    return thread


def start(target: Callable[..., object], name: str, *args: Any) -> threading.Thread:
    """Start a daemon thread of the runtime's own."""
    thread = own(threading.Thread(target=target, name=name, args=args))
    thread.start()
    return thread


def script_threads() -> list[threading.Thread]:
    """The script's own threads, without the main thread."""
    main = threading.main_thread()
    return [t for t in threading.enumerate() if t is not main and not (_is_at_its_end(t) or _is_of_others(t))]


def _is_at_its_end(thread: threading.Thread) -> bool:
    """Whether the thread is about to end.

    `Thread.run` deletes its target when that has returned, shortly before the thread ends. From then on the
    owner of the thread is unknown, and the thread starts nothing more.
    """
    return not hasattr(thread, "_target")


def _is_of_others(thread: threading.Thread) -> bool:
    """Whether the thread belongs to the runtime, to py4j, or to pyspark's accumulator server.

    Other threads with pyspark code are the script's: it may use pyspark's InheritableThread, or run a method
    of a pyspark object in a thread.
    """
    if thread in _own or thread.name.startswith(POOLS):
        return True
    target = getattr(thread, "_target", None)
    owner = getattr(target, "__self__", None)
    modules = (type(thread).__module__, type(owner).__module__, getattr(target, "__module__", None) or "")
    return any(m.split(".")[0] in ("py4j", "streamjob") or m == "pyspark.accumulators" for m in modules)
