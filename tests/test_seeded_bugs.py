"""Seeded bugs fit the source, and what no longer fits says so.

What each does is shown where it is noticed: test_mutations.py.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.seeded_bugs import NotApplicable, SeededBug, load, main, seeded, with_bug

TEXT = """
LIMIT = 2

class Counter:
    def add(self, n):
        if self.closed and n > LIMIT:
            return []
        if n:
            log(n)
        self.sum = self.sum + n
        return [n, *self.rest(n, again=True)]
"""


def bug(*changes: str, function: str = "Counter.add") -> SeededBug:
    return SeededBug("protocol.counter", function, "title", changes)


@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        ("drop Compare[LIMIT]", "self.closed and n > LIMIT", "self.closed"),
        ("drop Expr[log]", "log(n)", "pass"),
        ("drop keyword[again]", ", again=True", ""),
        ("drop If[1 of 2].test.values[closed]", "self.closed and ", ""),
        ("replace If[closed].test: not _", "self.closed and n > LIMIT", "not (self.closed and n > LIMIT)"),
        ("replace BinOp[sum]: _2", "= self.sum + n", "= n"),
        ("replace Expr[log]:\n_\nself.rest(n)", "log(n)", "log(n); self.rest(n)"),
        (
            "swap Return[rest].value.elts[1 of 2], Starred",
            "n, *self.rest(n, again=True)",
            "*self.rest(n, again=True), n",
        ),
    ],
)
def test_changes(change: str, old: str, new: str) -> None:
    assert TEXT.count(old) == 1
    assert ast.unparse(with_bug(bug(change), TEXT)) == ast.unparse(ast.parse(TEXT.replace(old, new)))


def test_a_constant() -> None:
    assert "LIMIT = 1" in ast.unparse(with_bug(bug("replace value: 1", function="LIMIT"), TEXT))


def test_it_survives_other_names_and_another_format() -> None:
    other = TEXT.replace("n >", "number  >").replace("(n)", "( number )").replace("self, n", "self, number")
    assert "number" in ast.unparse(with_bug(bug("drop If[closed]"), other))
    assert "closed" not in ast.unparse(with_bug(bug("drop If[closed]"), other))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("drop While", "`While` in `While` is there 0 times"),
        ("drop If[open]", "(?s)0 times. Choose from:.*2 of 2: if n:"),
        ("drop If", "(?s)2 times. Choose from:.*2 of 2: if n:"),
        ("drop If[1 of 3]", "there are 2"),
        ("drop Name[n]", "0 times"),  # a local variable
        ("drop Return[rest].text", "no field of Return and no class of ast"),
        ("drop Return[rest].value", "cannot be without its value"),
        ("replace If[closed].test: m > 1", "nothing is called m"),
        ("replace BinOp: self.no_such_field", "nothing is called no_such_"),
        ("replace BinOp: _3", "there are 2 parts"),
        ("remove If[closed]", "is no change"),
    ],
)
def test_what_does_not_fit_says_so(change: str, message: str) -> None:
    with pytest.raises(NotApplicable, match=message) as raised:
        with_bug(bug(change), TEXT)
    assert str(raised.value).startswith("protocol.counter:Counter.add: title: ")


def test_a_function_that_is_gone() -> None:
    with pytest.raises(NotApplicable, match="no sub; there is add"):
        with_bug(bug("drop If", function="Counter.sub"), TEXT)


FILES = sorted(Path(__file__).parent.glob("*/mutations.txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_each_place_is_there(file: Path) -> None:
    for found in load(file):
        seeded(found)


def test_a_bug_is_shown_as_a_difference() -> None:
    first = load(FILES[0])[0]
    head, *lines = main([first.title]).splitlines()
    assert head == f"{first.module}:{first.function}: {first.title}"
    assert any(line.startswith("-") for line in lines)
