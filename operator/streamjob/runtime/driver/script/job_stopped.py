"""How a stop of the job ends the script: where it waits for a query, or for a thread that waited for one."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.pool import AsyncResult, ThreadPool
from queue import SimpleQueue
from typing import Any

from . import interruption

# Threads in which JobStopped has been raised, and those of it that are still handled or kept.
_raised_in: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_alive: weakref.WeakSet[JobStopped] = weakref.WeakSet()


class JobStopped(SystemExit):
    """Ends the script where it waits: the job has been stopped, and its queries resume in another epoch."""

    def __init__(self, code: int = 0) -> None:
        super().__init__(code)
        _raised_in.add(threading.current_thread())
        _alive.add(self)


def has_met(thread: threading.Thread) -> bool:
    """Whether JobStopped has been raised in the thread."""
    return thread in _raised_in


def cleans_up() -> bool:
    """Whether the calling thread runs code that JobStopped has caused: `finally`, `except`, `__exit__`.

    A coroutine that awaits something in its `finally` is not seen by its thread. It holds the exception.
    """
    return interruption.unwinds(SystemExit) or (interruption.runs_coroutines() and len(_alive) > 0)


def end_joiners() -> None:
    """Make JobStopped spread to the threads that wait for a stopped thread or pool.

    A thread that joins a thread ended by JobStopped, or waits for a pool with such work, must not continue as
    if that work were done: JobStopped is raised in it, too. It is raised only once per thread, so that joins
    in the script's `finally` blocks work as usual. Call this before the script runs.
    """
    ended: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
    excepthook, join = threading.excepthook, threading.Thread.join
    wait, shutdown = futures.wait, ThreadPoolExecutor.shutdown

    def note(args: threading.ExceptHookArgs) -> None:
        if args.thread is not None and issubclass(args.exc_type, JobStopped):
            ended.add(args.thread)  # Python's own hook ignores SystemExit, but not its subclasses
        else:
            excepthook(args)

    @functools.wraps(join)
    def joined(thread: threading.Thread, timeout: float | None = None) -> None:
        interruption.join(join, thread, timeout)
        if thread in ended and threading.current_thread() not in _raised_in:
            raise JobStopped

    def stopped(future: Future[Any]) -> bool:
        return future.done() and not future.cancelled() and isinstance(future.exception(), JobStopped)

    @functools.wraps(futures.wait)
    def waited(fs: Iterable[Future[Any]], *args: Any, **kwargs: Any) -> Any:
        result = wait(fs, *args, **kwargs)
        if any(map(stopped, result.done)) and threading.current_thread() not in _raised_in:
            raise JobStopped
        return result

    @functools.wraps(shutdown)
    def shut_down(pool: ThreadPoolExecutor, wait: bool = True, **kwargs: Any) -> None:
        shutdown(pool, wait, **kwargs)
        if not wait or threading.current_thread() in _raised_in or _of_asyncio(threading.current_thread()):
            return
        if any(thread in _raised_in for thread in pool._threads):
            raise JobStopped

    threading.excepthook = note
    futures.wait = waited
    setattr(ThreadPoolExecutor, "shutdown", shut_down)  # noqa: B010
    setattr(threading.Thread, "join", joined)  # noqa: B010  mypy reads its signature as another one
    _end_waiters_of_thread_pools()


def _end_waiters_of_thread_pools() -> None:
    """Do the same for `multiprocessing.pool.ThreadPool`.

    SystemExit, which JobStopped is, ends a worker of such a pool without a result, so that `map` would wait
    for ever. With other queues of its tasks and results, JobStopped becomes the result, as any Exception
    does, and is raised by whoever asks for that.
    """
    set_up, join, wait = ThreadPool._setup_queues, ThreadPool.join, AsyncResult.wait  # type: ignore[attr-defined]

    @functools.wraps(set_up)
    def set_up_ours(pool: Any) -> None:
        set_up(pool)
        pool._inqueue, pool._outqueue = _Tasks(), _Results()
        pool._quick_put, pool._quick_get = pool._inqueue.put, pool._outqueue.get

    @functools.wraps(join)
    def joined(pool: Any) -> None:
        join(pool)
        if getattr(pool._outqueue, "stopped", False) and threading.current_thread() not in _raised_in:
            raise JobStopped

    @functools.wraps(wait)
    def waited(result: Any, timeout: float | None = None) -> None:
        wait(result, timeout)
        stopped = result.ready() and not result._success and isinstance(result._value, JobStopped)
        if stopped and threading.current_thread() not in _raised_in:
            raise JobStopped

    setattr(ThreadPool, "_setup_queues", set_up_ours)  # noqa: B010
    setattr(ThreadPool, "join", joined)  # noqa: B010
    setattr(AsyncResult, "wait", waited)  # noqa: B010


class _Stopped:
    """What a task of a ThreadPool returns if JobStopped was raised in it."""

    def __init__(self, error: JobStopped) -> None:
        self.error = error


class _Tasks(SimpleQueue[Any]):
    """The tasks of a ThreadPool: (job, index, function, arguments, keyword arguments),
    None to end a worker.
    """

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        if item is not None:
            job, index, function, args, kwargs = item
            item = job, index, functools.partial(_caught, function), args, kwargs
        super().put(item, block, timeout)


class _Results(SimpleQueue[Any]):
    """The results of a ThreadPool: (job, index, (whether it succeeded, its value or its
    exception)), or None.
    """

    stopped = False  # whether JobStopped was raised in a task

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        if item is not None and isinstance(item[2][1], _Stopped):
            self.stopped = True
            item = item[0], item[1], (False, item[2][1].error)
        super().put(item, block, timeout)


def _caught(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except JobStopped as e:
        return _Stopped(e)


def _of_asyncio(thread: threading.Thread) -> bool:
    """Whether asyncio started the thread to shut down a loop's default executor.

    The loop waits until the thread reports back, so nothing may be raised in it. The script's `await` of the
    stopped work has already raised.
    """
    return getattr(getattr(thread, "_target", None), "__name__", "") == "_do_shutdown"
