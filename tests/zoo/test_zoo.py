"""Each script in each way that applies to it. A spread of them is for every commit, the others are `slow`."""

from __future__ import annotations

import ast

import pytest

from . import header, ways

SPREAD = {
    ("any_termination_reset", "kills"),
}
RUNS = [(name, way) for name in header.names() for way in header.load(name).ways]


def _case(name: str, way: str) -> pytest.param:  # type: ignore[valid-type]
    marks = [] if (name, way) in SPREAD else [pytest.mark.slow]
    return pytest.param(name, way, id=f"{name}-{way}", marks=marks)


@pytest.mark.spark
@pytest.mark.any_spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "way"), [_case(*run) for run in RUNS])
def test_script(name: str, way: str) -> None:
    problems = ways.go(name, way, seed=1)
    assert not problems, "\n".join([f"PYTHONPATH=operator python -m tests.zoo {name} --way {way}", *problems])


@pytest.mark.parametrize("name", header.names())
def test_a_script_knows_nothing_of_us(name: str) -> None:
    script = header.load(name)
    for file in script.path.parent.glob("*.py") if script.path.name == "main.py" else [script.path]:
        for node in ast.walk(ast.parse(file.read_text())):
            imported = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [m for m in imported if m.split(".")[0] in ("streamjob", "tests")], file


def test_the_spread_is_there() -> None:
    assert set(RUNS) >= SPREAD
