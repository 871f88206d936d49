"""What must be known of the main thread before an error is raised in it."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import CodeType, FrameType
from typing import Any

import pytest

from streamjob.runtime.driver.script import interruption


class Worker(threading.Thread):
    """It has another idea of `is_alive()` than Python."""

    def __init__(self, healthy: bool) -> None:
        super().__init__(daemon=True)
        self.healthy = healthy
        self.goes_on = threading.Event()
        self.has_worked = False

    def run(self) -> None:
        self.goes_on.wait()
        self.has_worked = True

    def is_alive(self) -> bool:
        return self.healthy


@pytest.mark.parametrize("healthy", [False, True])
def test_a_join_waits_for_the_thread_whatever_that_says_of_itself(healthy: bool) -> None:
    worker = Worker(healthy)
    worker.start()
    threading.Timer(3 * interruption.SLICE, worker.goes_on.set).start()
    interruption.join(threading.Thread.join, worker)
    assert worker.has_worked


@pytest.mark.skipif(interruption._WAITS_FOR_END is None, reason="Python's own join can be left")
def test_a_join_that_fails_leaves_nothing_for_the_next_one() -> None:
    def fails(thread: threading.Thread, timeout: float | None = None) -> None:
        interruption._put_off.append(KeyError())
        raise ValueError

    with pytest.raises((KeyError, ValueError)):
        interruption.join(fails, threading.current_thread())
    assert not interruption._put_off


@contextmanager
def resource(seen: list[bool]) -> Iterator[None]:
    try:
        yield
    finally:
        seen.append(interruption.unwinds(SystemExit))


def test_what_an_error_makes_the_script_do_is_told_from_what_follows_it() -> None:
    seen: list[bool] = []
    try:
        try:
            with resource(seen):
                raise SystemExit
        finally:
            try:
                raise ValueError("of the clean-up")
            except ValueError:
                seen.append(interruption.unwinds(SystemExit))
            seen.append(any(interruption.unwinds(SystemExit) for _ in range(1)))
    except SystemExit:
        seen.append(interruption.unwinds(SystemExit))
    seen.append(interruption.unwinds(SystemExit))
    try:
        raise ValueError("of another kind")
    except ValueError:
        seen.append(interruption.unwinds(SystemExit))
    assert seen == [True, True, True, True, False, False]


def moments(code: CodeType, work: Callable[[], object], event: str) -> list[bool]:
    """Whether the error would be raised at each such event of a function while `work` runs."""
    found = []

    def look(frame: FrameType, what: str, value: Any) -> None:
        if frame.f_code is code and what == event:
            sys.setprofile(None)
            found.append(interruption.interrupt(frame, lambda: None))
            sys.setprofile(look)

    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


class Folder:
    """A context manager of a script."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def use(resource: AbstractContextManager[object]) -> Callable[[], None]:
    def work() -> None:
        with resource:
            pass

    return work


@pytest.mark.parametrize("resource", [threading.Condition(), threading.Condition(threading.Lock()), Folder()])
def test_nothing_is_raised_before_a_context_manager_releases_what_it_holds(
    resource: AbstractContextManager[object],
) -> None:
    assert moments(type(resource).__exit__.__code__, use(resource), "call") == [False]


@pytest.mark.parametrize(
    "resource",
    [
        threading.Condition(),
        threading.Condition(threading.Lock()),
        threading.Semaphore(),
        threading.BoundedSemaphore(),
        multiprocessing.Lock(),
        multiprocessing.RLock(),
        multiprocessing.Condition(),
        multiprocessing.BoundedSemaphore(),
    ],
)
def test_nothing_is_raised_when_a_lock_has_just_been_acquired(
    resource: AbstractContextManager[object],
) -> None:
    assert moments(type(resource).__enter__.__code__, use(resource), "return") == [False]


@pytest.mark.parametrize("lock", [threading.Lock, threading.RLock])
def test_it_is_raised_while_something_is_waited_for(lock: Callable[[], Any]) -> None:
    condition = threading.Condition(lock())

    def work() -> None:
        with condition:
            condition.wait(0.01)

    def acquires() -> None:
        threading.Semaphore(0).acquire(timeout=0.01)

    assert moments(threading.Condition.wait.__code__, work, "c_call")
    assert all(moments(threading.Condition.wait.__code__, work, "c_call"))
    assert all(moments(threading.Condition.wait.__code__, acquires, "c_call"))
