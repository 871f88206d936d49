"""What must be known of the main thread before an error is raised in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

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
