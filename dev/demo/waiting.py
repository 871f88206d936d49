"""Wait for a condition, never for a fixed time. The demonstration sleeps only in this module."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 600.0  # seconds; a busy machine may need them


class Failure(Exception):
    """The demonstration cannot continue. Has what happened, and a remedy."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class TimedOut(Failure):
    """A condition was not met in time."""


def until(fact: Callable[[], T | None], what: str, timeout: float, every: float = 0.3) -> T:
    """Poll `fact` and return its first true value.

    :param what: names the condition in the error message.
    :param timeout: in seconds.
    :param every: pause between two polls, in seconds.
    :raises TimedOut: there was no true value in time.
    """
    deadline = time.monotonic() + timeout
    while not (value := fact()):
        if time.monotonic() > deadline:
            raise TimedOut(f"{what}: not within {timeout:.0f} s")
        time.sleep(every)
    return value
