"""Random jobs: some lives that are the same each time, and some that Hypothesis looks for.

`plans` runs many more.
"""

from __future__ import annotations

import pytest

from streamjob.protocol.engine import coordinator
from tests.protocol.engine.graph_machine import machine
from tests.protocol.engine.randomjob import live

PLANS = 500
PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_plans(part: int) -> None:
    for seed in range(part, PLANS, PARTS):
        live(coordinator, seed)


TestGraphJob = machine(coordinator, 60, 30).TestCase
