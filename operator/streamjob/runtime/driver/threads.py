"""Which threads are the script's: all that neither we nor pyspark and py4j have started for themselves."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T", bound=threading.Thread)
_own: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
POOLS = "streamjob-"  # how the names of the threads of our own pools begin


def own(thread: T) -> T:
    """A thread of ours, to be started."""
    thread.daemon = True
    _own.add(thread)
    return thread


def start(target: Callable[..., object], name: str, *args: Any) -> None:
    """A daemon thread of our own."""
    own(threading.Thread(target=target, name=name, args=args)).start()


def script_threads() -> list[threading.Thread]:
    """Threads that are the script's own, apart from the main one."""
    main = threading.main_thread()
    return [t for t in threading.enumerate() if t is not main and not (_is_at_its_end(t) or _is_of_others(t))]


def _is_at_its_end(thread: threading.Thread) -> bool:
    """`Thread.run` deletes what it was to call when that has returned, a moment before the thread is gone. Whose it was cannot be
    told any more, and it starts nothing."""
    return not hasattr(thread, "_target")


def _is_of_others(thread: threading.Thread) -> bool:
    """pyspark's: the server of the accumulators. A script may well give a method of a pyspark object, or pyspark's
    InheritableThread, something to do."""
    if thread in _own or thread.name.startswith(POOLS):
        return True
    target = getattr(thread, "_target", None)
    owner = getattr(target, "__self__", None)
    modules = (type(thread).__module__, type(owner).__module__, getattr(target, "__module__", None) or "")
    return any(m.split(".")[0] in ("py4j", "streamjob") or m == "pyspark.accumulators" for m in modules)
