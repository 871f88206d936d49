"""Wait for a fact, never for a time. This is the one place that sleeps."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 600.0  # seconds; a machine that does other things beside may need them


class Failure(Exception):
    """The demonstration cannot go on: what happened, and what to do about it."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class TimedOut(Failure):
    """A fact did not come true in time."""


def until(fact: Callable[[], T | None], what: str, timeout: float, every: float = 0.3) -> T:
    """Return the first value of `fact` that is true. :raises TimedOut: there was none within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := fact()):
        if time.monotonic() > deadline:
            raise TimedOut(f"{what}: not within {timeout:.0f} s")
        time.sleep(every)
    return value
