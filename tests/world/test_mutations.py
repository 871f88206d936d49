"""Seeded bugs in the controller: each one is a mistake somebody could make, and some scenario or plan must break an invariant."""

from __future__ import annotations

from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from tests.protocol.mutants import Mutation, cases, load, rebuilt

from .outcome import Outcome
from .plan import Fault, Plan, random_plan
from .process import Product
from .scenarios import SCENARIOS, cells, differs, reference
from .special import SPECIAL
from .world import World

MUTATIONS = list(load(Path(__file__).with_name("mutations.txt").read_text()))
# In the order in which they import each other.
MODULES = (
    "protocol.index",
    *(
        f"controller.{m}"
        for m in (
            "kube",
            "names",
            "certs",
            "line",
            "drivers",
            "lastwords",
            "words",
            "observe",
            "status",
            "build",
            "events",
            "actions",
        )
    ),
    *(
        f"controller.{m}"
        for m in (
            "lease",
            "leader",
            "case",
            "charge",
            "faults",
            "savepoints",
            "retention",
            "rebuild",
            "upgrade",
            "escalation",
            "indexing",
            "restarts",
            "outcomes",
            "decide",
            "act",
            "recorder",
            "reconciler",
        )
    ),
)
RANDOM = range(30)


def product(mutation: Mutation | None) -> Product:
    built = rebuilt(mutation, MODULES)
    return Product(built["controller.reconciler"], built["controller.kube"], built["controller.leader"])


@cache
def plans() -> list[Plan]:
    """Scenarios first, for most bugs show there; then a spread of the table's cells and of random plans."""
    spread = [p for s in SCENARIOS for p in list(cells(s))[:: 2 * len(Fault) + 1]]
    mixed = chain(*zip(spread, map(random_plan, RANDOM), strict=False))
    errors = [p for p in cells("drain") if p.faults[0][1] is Fault.ERROR]
    return [*SCENARIOS.values(), *SPECIAL.values(), *mixed, *errors]


@cache
def calm(scenario: str) -> Outcome:
    return reference(scenario)


def caught_by(mutation: Mutation | None) -> str | None:
    changed = product(mutation)
    for plan in plans():
        outcome = World(plan, changed).run()
        if wrong := outcome.violation or (plan.name in SCENARIOS and differs(outcome, calm(plan.name))):
            return f"{wrong} ({outcome.replay})"
    return None


@pytest.mark.slow
def test_no_false_alarm() -> None:
    assert caught_by(None) is None


@pytest.mark.parametrize("mutation", cases(MUTATIONS))
def test_noticed(mutation: Mutation) -> None:
    assert caught_by(mutation), "nothing noticed"


def test_there_are_enough() -> None:
    assert len({m.title for m in MUTATIONS}) == len(MUTATIONS) >= 20
