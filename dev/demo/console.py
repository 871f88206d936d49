"""The output of the demonstration: chapters, what happened in them, and how long each took.

A terminal and a CI log get the same lines; colours appear only on a terminal that supports them.
"""

import os
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager

WIDTH = 90
INDENT = 10
BOLD, DIM, GREEN, RED, PLAIN = "\033[1m", "\033[2m", "\033[32m", "\033[31m", "\033[0m"


class Console:
    """Prints to standard output. `seconds` holds the duration of each finished chapter, by name."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.seconds: dict[str, float] = {}
        self._colours = (
            sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        )
        unicode = (sys.stdout.encoding or "").lower().startswith("utf")
        self._good, self._bad, self._dot = ("✓", "✗", "·") if unicode else ("+", "x", "-")

    def title(self, text: str) -> None:
        self._print(f"\n{self._in(BOLD, text)}\n")

    @contextmanager
    def chapter(self, name: str, about: str) -> Iterator[None]:
        """Announce a chapter, and record its duration when the block ends."""
        began = time.monotonic()
        self._print(f"{self._clock()}  {self._in(BOLD, name)}: {about}")
        try:
            yield
        except BaseException:
            self._print(f"{self._clock()}  {self._in(RED, self._bad)} {name} failed")
            raise
        self.seconds[name] = round(time.monotonic() - began, 1)

    def did(self, text: str) -> None:
        """Print something that succeeded."""
        self._lines(self._in(GREEN, self._good), text)

    def saw(self, text: str) -> None:
        """Print something that happened along the way."""
        self._lines(self._in(DIM, self._dot), text, DIM)

    def failed(self, text: str) -> None:
        self._lines(self._in(RED, self._bad), text)

    def plain(self, text: str) -> None:
        """Print another program's lines as they are, cut to the width of the output."""
        for line in text.rstrip().splitlines():
            self._print(" " * INDENT + line[: WIDTH - INDENT])

    def _lines(self, mark: str, text: str, colour: str = "") -> None:
        first, *rest = textwrap.wrap(text, WIDTH - INDENT, break_on_hyphens=False) or [""]
        self._print(f"{self._clock()}  {mark} {self._in(colour, first)}")
        for line in rest:
            self._print(" " * INDENT + self._in(colour, line))

    def _clock(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self.began), 60)
        return f"{minutes:>3}:{seconds:02}"

    def _in(self, colour: str, text: str) -> str:
        return f"{colour}{text}{PLAIN}" if self._colours and colour else text

    def _print(self, text: str) -> None:
        print(text, flush=True)
