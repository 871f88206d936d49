"""The picture in the README is the table."""

from __future__ import annotations

from pathlib import Path

from streamjob.protocol import lifecycle

README = Path(__file__).parents[2] / "README.md"


def test_the_life_cycle_in_the_readme_is_the_table() -> None:
    text = README.read_text()
    block = text.partition("<!-- lifecycle: python -m streamjob.protocol.lifecycle -->\n")[2].partition(
        "<!-- /lifecycle -->"
    )[0]
    assert block == f"```mermaid\n{lifecycle.mermaid()}\n```\n"
