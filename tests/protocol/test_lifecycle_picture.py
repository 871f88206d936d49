"""The picture in docs/concepts.md is the table."""

from __future__ import annotations

from pathlib import Path

from streamjob.protocol import lifecycle

PAGE = Path(__file__).parents[2] / "docs" / "concepts.md"


def test_the_life_cycle_in_the_page_is_the_table() -> None:
    text = PAGE.read_text()
    block = text.partition("<!-- lifecycle: python -m streamjob.protocol.lifecycle -->\n")[2].partition(
        "<!-- /lifecycle -->"
    )[0]
    assert block == f"```mermaid\n{lifecycle.mermaid()}\n```\n"
