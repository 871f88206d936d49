"""Writes to standard output and standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

from .text import Line, Node, Table, plain
from .times import written

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

STYLES = {
    "good": "green",
    "bad": "bold red",
    "warn": "yellow",
    "busy": "cyan",
    "dim": "dim",
    "strong": "bold",
}


def is_plain(stream: TextIO | None = None) -> bool:
    """Whether the stream, by default standard output, gets plain text."""
    return (
        not (stream or sys.stdout).isatty()
        or bool(os.environ.get("NO_COLOR"))
        or os.environ.get("TERM") == "dumb"
    )


def tree(node: Node) -> None:
    if is_plain():
        put(node.lines())
    else:
        console().print(rich_tree(node))


def table(found: Table) -> None:
    if is_plain():
        put(found.lines())
    else:
        console().print(rich_table(found))


def lines(found: Iterable[Line]) -> None:
    if is_plain():
        put(map(plain, found))
    else:
        screen = console()
        for spans in found:
            screen.print(rich_text(spans), soft_wrap=True)


def put(texts: Iterable[str]) -> None:
    """Plain lines. What the output cannot encode becomes a question mark."""
    for text in texts:
        encoding = sys.stdout.encoding or "utf-8"
        print(text.encode(encoding, "replace").decode(encoding))


def note(text: str) -> None:
    """A line for a person, to standard error: progress, hints, questions."""
    print(text, file=sys.stderr, flush=True)


def document(found: Any) -> None:
    """JSON to standard output, with camelCase names, as Kubernetes has them."""
    print(json.dumps(simple(found), indent=2, ensure_ascii=False))


def simple(value: Any) -> Any:
    """Dataclasses, tuples and times as JSON has them. Fields that are None are left out."""
    if hasattr(value, "__dataclass_fields__"):
        fields = {name: getattr(value, name) for name in value.__dataclass_fields__ if name != "obj"}
        return {_camel(name): simple(v) for name, v in fields.items() if v is not None}
    if isinstance(value, dict):
        return {key: simple(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [simple(v) for v in value]
    return written(value) if isinstance(value, datetime) else value


def _camel(name: str) -> str:
    first, *more = name.split("_")
    return first + "".join(word.capitalize() for word in more)


# --- rich ---------------------------------------------------------------------------------------------------


def console() -> Console:
    from rich.console import Console  # noqa: PLC0415  for terminals only

    return Console(highlight=False)


def rich_text(spans: Line) -> Text:
    from rich.text import Text  # noqa: PLC0415

    return Text.assemble(*((span.text, STYLES.get(span.style, "")) for span in spans))


def rich_tree(node: Node) -> RenderableType:
    from rich.tree import Tree  # noqa: PLC0415

    def grown(found: Tree, child: Node) -> None:
        branch = found.add(rich_text(child.label))
        for grandchild in child.children:
            grown(branch, grandchild)

    root = Tree(rich_text(node.label), guide_style="dim")
    for child in node.children:
        grown(root, child)
    return root


def rich_table(found: Table) -> RenderableType:
    from rich.table import Table as RichTable  # noqa: PLC0415

    drawn = RichTable(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in found.columns:
        drawn.add_column(column, justify="right" if column in found.right else "left", overflow="fold")
    for row in found.rows:
        drawn.add_row(*map(rich_text, row))
    return drawn
