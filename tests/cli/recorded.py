"""Resources as the API server has them: each situation of tests/gitops, and all states of simulated lives."""

from __future__ import annotations

from functools import cache

from ..gitops.cases import Obj, cases
from ..gitops.test_life_cycles import PLANS, Recorded

# Between them: stops, drains, upgrades and their rollbacks, escalations, evictions, lost drivers and indexes.
CHOSEN = "careless broken mended drain-to-cancel lost-deleted index-deleted revoked-pods two-jobs"
LIVES = (*CHOSEN.split(), *(f"seed {n}" for n in (0, 1, 3)))  # no executor ever comes in that world


@cache
def situations() -> dict[str, Obj]:
    return cases()


@cache
def lives() -> dict[str, list[Obj]]:
    """All states of the jobs of each simulated life, in order."""
    found = {}
    for name in LIVES:
        world = Recorded(PLANS[name])
        outcome = world.run()
        assert outcome.violation is None, outcome.replay
        found[name] = list(world.jobs.values())
    return found


def states() -> list[Obj]:
    return [*situations().values(), *(obj for life in lives().values() for obj in life)]
