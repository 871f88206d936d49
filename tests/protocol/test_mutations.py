"""Seeded protocol bugs: each one is a mistake somebody could make, and the named cases, or some random
graphs, must notice it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.protocol.engine.randomjob import live
from tests.protocol.mutants import build, caught_by, engine_cases, first_failing
from tests.seeded_bugs import SeededBug, cases, difference, load

FILE = Path(__file__).with_name("mutations.txt")
BUGS = load(FILE)


def test_no_false_alarm() -> None:
    module = build(None)
    assert first_failing(engine_cases(module)) is None
    assert first_failing((f"plan {n}", lambda n=n: live(module, n)) for n in range(50)) is None


@pytest.mark.parametrize("bug", cases(FILE))
def test_noticed(bug: SeededBug) -> None:
    assert caught_by(bug), f"nothing noticed\n{difference(bug)}"


def test_there_are_enough() -> None:
    assert len({bug.title for bug in BUGS}) == len(BUGS) >= 20
