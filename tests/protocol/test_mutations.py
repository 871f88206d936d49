"""Seeded protocol bugs: each one is a mistake somebody could make, and the named cases, or some random graphs, must notice it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.protocol.mutants import Mutation, build, caught_by, engine_cases, first_failing, load

MUTATIONS = list(load(Path(__file__).with_name("mutations.txt").read_text()))


def test_no_false_alarm() -> None:
    assert first_failing(engine_cases(build(None))) is None


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.title)
def test_noticed(mutation: Mutation) -> None:
    assert caught_by(mutation), "nothing noticed"


def test_there_are_enough() -> None:
    assert len({m.title for m in MUTATIONS}) == len(MUTATIONS) >= 20


def test_a_mutation_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(AssertionError, match="0 places"):
        build(Mutation("coordinator", "nothing", "no such text", ""))
