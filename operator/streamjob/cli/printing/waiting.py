"""What a person reads on stderr while a command waits before it can begin. A short wait says nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from . import screen

if TYPE_CHECKING:
    from rich.status import Status

SOON, LATER = 2.0, 10.0  # seconds until the first word: in a terminal, and where the output is kept


class Waiting:
    """To be used in a `with` statement, which is as long as the wait.

    In a terminal one line that changes, from SOON on, and that is gone afterwards. Otherwise a line, from
    LATER on, and one for each change.

    :param clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._began = clock, clock()
        self._said = ""
        self._line: Status | None = None

    @property
    def speaks(self) -> bool:
        """Whether the wait is so long that what it waits for is shown."""
        return self._clock() - self._began >= (SOON if sys.stderr.isatty() else LATER)

    def on(self, text: str) -> None:
        """It waits for this now."""
        if text == self._said or not self.speaks:
            return
        self._said = text
        if screen.is_plain(sys.stderr):
            screen.note(text)
        elif self._line is None:
            from rich.console import Console  # noqa: PLC0415  for terminals only

            self._line = Console(stderr=True, highlight=False).status(text, refresh_per_second=4)
            self._line.start()
        else:
            self._line.update(text)

    def __enter__(self) -> Waiting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line is not None:
            self._line.stop()
