"""Text with meaning: lines of spans, trees and tables, before anybody decides about colours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

GOOD, BAD, WARN, BUSY, DIM, STRONG = "good", "bad", "warn", "busy", "dim", "strong"


@dataclass(frozen=True)
class Span:
    """A piece of text, and what it means: one of the constants above, or nothing."""

    text: str
    style: str = ""


Line = tuple[Span, ...]


def line(*parts: Span | str | None) -> Line:
    """A line. Parts that are empty are left out, the others get a space between them."""
    found: list[Span] = []
    for part in parts:
        span = Span(part) if isinstance(part, str) else part
        if span is not None and span.text:
            found += [Span(" "), span] if found else [span]
    return tuple(found)


def plain(spans: Line) -> str:
    return "".join(span.text for span in spans)


@dataclass
class Node:
    """A tree."""

    label: Line
    children: list[Node] = field(default_factory=list)

    def add(self, *parts: Span | str | None) -> Node:
        child = Node(line(*parts))
        self.children.append(child)
        return child

    def lines(self, depth: int = 0) -> Iterator[str]:
        """The tree as plain text: two blanks for each level."""
        yield f"{'  ' * depth}{plain(self.label)}"
        for child in self.children:
            yield from child.lines(depth + 1)


@dataclass(frozen=True)
class Table:
    """A table.

    :param right: columns whose cells stand at the right: numbers.
    """

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Line]]
    right: frozenset[str] = frozenset()

    def lines(self) -> Iterator[str]:
        """The table as plain text: columns with two blanks between, as kubectl has them."""
        texts = [self.columns, *(tuple(map(plain, row)) for row in self.rows)]
        widths = [max(len(row[i]) for row in texts) for i in range(len(self.columns))]
        last = len(widths) - 1
        for row in texts:
            cells = [
                cell.rjust(widths[i])
                if self.columns[i] in self.right
                else cell.ljust(widths[i] if i != last else 0)
                for i, cell in enumerate(row)
            ]
            yield "  ".join(cells).rstrip()
