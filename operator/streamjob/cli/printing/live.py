"""A picture that changes: in a terminal in one place, as plain text a line for each change."""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import screen
from .text import Node, Table

if TYPE_CHECKING:
    from rich.live import Live as RichLive


class Live:
    """To be used in a `with` statement. What it shows goes to standard output.

    :param as_json: only documents are written.
    """

    def __init__(self, as_json: bool = False) -> None:
        self._json = as_json
        self._shown: list[str] = []
        self._screen: RichLive | None = None

    def __enter__(self) -> Live:
        if not self._json and not screen.is_plain():
            from rich.live import Live as RichLive  # noqa: PLC0415  for terminals only

            self._screen = RichLive(console=screen.console(), auto_refresh=False, vertical_overflow="visible")
            self._screen.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._screen is not None:
            self._screen.stop()

    def show(self, picture: Node | Table) -> None:
        """Replace the picture. As plain text, only lines that are not in the last picture are written."""
        if self._json:
            return
        if self._screen is not None:
            drawn = screen.rich_tree(picture) if isinstance(picture, Node) else screen.rich_table(picture)
            self._screen.update(drawn, refresh=True)
            return
        lines = list(picture.lines())
        new = [line for line in lines if without_times(line) not in self._shown]
        self._shown = [without_times(line) for line in lines]
        if new:
            screen.put(new)
            sys.stdout.flush()

    def document(self, found: Any) -> None:
        """Write one document as one line of JSON."""
        print(json.dumps(screen.simple(found), ensure_ascii=False), flush=True)


def without_times(line: str) -> str:
    """The line without what changes by itself: the ages that grow."""
    import re  # noqa: PLC0415

    ages = r"\b\d+(\.\d+)?(ms|[smhd])(\d+[smh])?\b( ago| left)?"
    return re.sub(r"\s+", " ", re.sub(ages, "", line))  # a column is as wide as its longest age
