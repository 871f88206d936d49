"""Seeded bugs in the controller: each one is a mistake somebody could make, and some scenario or plan must
break an invariant.
"""

from __future__ import annotations

from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from tests.protocol.mutants import rebuilt
from tests.seeded_bugs import SeededBug, cases, difference, load

from .controller_process import Product
from .outcome import Outcome
from .plan import Fault, Plan, random_plan
from .scenarios import SCENARIOS, cells, differs, reference
from .special import SPECIAL
from .world import World

FILE = Path(__file__).with_name("mutations.txt")
BUGS = load(FILE)
# In the order in which they import each other.
MODULES = (
    "protocol.formats.index",
    *(
        f"controller.{m}"
        for m in (
            "api_server.errors",
            "api_server.paths",
            "api_server.kube",
            "objects.names",
            "api_server.finalizers",
            "api_server.lease",
            "api_server.leader",
            "drivers.credentials",
            "drivers.connection",
            "rules.actions",
            "drivers.connections",
            "objects.certs",
            "objects.merging",
            "objects.owned",
            "objects.runtime_files",
            "objects.pod_parts",
            "objects.executor_template",
            "objects.driver_pod",
            "objects.spark_conf",
            "reconciler.runtime_config_maps",
            "rules.observed",
            "reconciler.ui_objects",
            "reconciler.act",
            "rules.parse_index",
            "reports.log_redaction",
            "rules.parse_pod",
            "reconciler.observe",
            "reconciler.work_queue",
            "reports.messages",
            "reports.events",
            "reconciler.recorder",
            "rules.conditions",
            "rules.status",
            "reconciler.status_writer",
            "rules.context",
            "rules.diagnosis",
            "rules.driver_config",
            "rules.policies.escalation",
            "rules.scaling.autoscale",
            "rules.scaling.executors",
            "rules.policies.rebuild",
            "rules.policies.indexing",
            "rules.policies.upgrade",
            "rules.policies.terminal_states",
            "rules.policies.handover",
            "rules.policies.restarts",
            "rules.policies.past_drivers",
            "rules.policies.retention",
            "rules.policies.savepoints",
            "rules.policies.rounds",
            "rules.policies.suspension",
            "rules.ui",
            "rules.decide",
            "rules.fencing",
            "reconciler.reconcile",
            "reconciler.resync",
            "reconciler.reconciler",
        )
    ),
)
RANDOM = range(30)


def product(bug: SeededBug | None) -> Product:
    built = rebuilt(bug, MODULES)
    return Product(
        built["controller.reconciler.reconciler"],
        built["controller.api_server.kube"],
        built["controller.api_server.leader"],
    )


@cache
def plans() -> list[Plan]:
    """Scenarios first, for most bugs show there; then a spread of the table's cells and of random plans."""
    spread = [p for s in SCENARIOS for p in list(cells(s))[:: 2 * len(Fault) + 1]]
    at_random = (random_plan(seed, rounds=False) for seed in RANDOM)  # those with rounds are special
    mixed = chain(*zip(spread, at_random, strict=False))
    errors = [p for p in cells("drain") if p.faults[0][1] is Fault.ERROR]
    return [*SCENARIOS.values(), *SPECIAL.values(), *mixed, *errors]


@cache
def calm(scenario: str) -> Outcome:
    return reference(scenario)


def caught_by(bug: SeededBug | None) -> str | None:
    changed = product(bug)
    for plan in plans():
        outcome = World(plan, changed).run()
        if wrong := outcome.violation or (plan.name in SCENARIOS and differs(outcome, calm(plan.name))):
            return f"{wrong} ({outcome.replay})"
    return None


@pytest.mark.slow
def test_no_false_alarm() -> None:
    assert caught_by(None) is None


@pytest.mark.parametrize("bug", cases(FILE))
def test_noticed(bug: SeededBug) -> None:
    assert caught_by(bug), f"nothing noticed\n{difference(bug)}"


def test_there_are_enough() -> None:
    assert len({bug.title for bug in BUGS}) == len(BUGS) >= 20
