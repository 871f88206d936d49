"""What the documents name as evidence is there: each test, in the file in which they say it is."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/.]+)(?:::(\w+))?`")
DOCUMENTS = ["docs/security.md", "docs/reliability.md"]


@cache
def functions_of(file: str) -> frozenset[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = ast.walk(ast.parse((ROOT / file).read_text()))
    return frozenset(n.name for n in found if isinstance(n, functions) and n.name.startswith("test"))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_test_that_is_named_is_there(document: str) -> None:
    named = NAMED.findall((ROOT / document).read_text())
    assert len(named) >= 30, "the document says what is tested without saying where"
    missing = [file for file, _ in named if not (ROOT / file).exists()]
    missing += [f"{file}::{test}" for file, test in named if test and test not in functions_of(file)]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_needs_a_cluster_is_marked(document: str) -> None:
    """† behind its name: whoever runs the fast tests knows what they have not seen."""
    text = (ROOT / document).read_text()
    wrong = [
        (file, test)
        for file, test, mark in re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`( †)?", text)
        if bool(mark) != needs_a_cluster(file)
    ]
    assert wrong == []


@cache
def needs_a_cluster(file: str) -> bool:
    text = (ROOT / file).read_text() if file.endswith(".py") else ""
    return "mark.cluster" in text or bool(re.search(r"pytestmark = \[?\*?NEEDS_A_CLUSTER", text))
