"""Progress on the terminal: one line for each step, with its duration."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

BEGAN = time.monotonic()


def say(text: str = "") -> None:
    print(text, flush=True)


@contextmanager
def step(title: str) -> Iterator[None]:
    """Announce a step and print how long it took. A terminal shows both on one line, a log only the end."""
    began = time.monotonic()
    if sys.stdout.isatty():
        print(f"  {title:<60} ...", end="", flush=True)
    try:
        yield
    except BaseException:
        _end(title, f"failed after {time.monotonic() - began:.1f} s")
        raise
    _end(title, f"{time.monotonic() - began:6.1f} s")


def _end(title: str, result: str) -> None:
    start = "\r" if sys.stdout.isatty() else ""
    print(f"{start}  {title:<60} {result}", flush=True)


def elapsed() -> str:
    return f"{time.monotonic() - BEGAN:.0f} s"
