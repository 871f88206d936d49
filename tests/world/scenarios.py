"""Reference scenarios, and every fault at every effect of them. Those of one mishap each are in `special`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from .controller_process import Product
from .outcome import Outcome
from .plan import Fault, Mishap, Plan, Shape, Step
from .world import World

APPLY = Step("apply")
BOUND = 120.0  # seconds that one fault may cost: a crash and a timeout, both twice over
PLANS: dict[str, Plan] = {
    "stop": Plan(1, steps=(APPLY, Step("Stopped", 3.0, "Running"))),
    "drain": Plan(2, Shape(transactional=True), (APPLY, Step("Drained", 3.0, "Running"))),
    "cancel": Plan(3, steps=(APPLY, Step("Stopped", 3.0, "Running"), Step("Cancelled", 0.1, "Stopping"))),
    "resume": Plan(
        4,
        Shape(runtime="Injected"),
        steps=(APPLY, Step("Stopped", 3.0, "Running"), Step("Running", 3.0, "Stopped")),
    ),
    "suspend": Plan(23, steps=(APPLY, Step("suspend", 3.0, "Running"), Step("unsuspend", 3.0, "Suspended"))),
    # A controller that was throttled at its start lists the objects again with the next resync.
    "ui": Plan(24, Shape(ui=True), (APPLY, Step("hide UI", 120.0, "Running"), Step("no UI", 3.0))),
    "restart": Plan(5, Shape(executors=2), mishaps=(("Running", 0, Mishap.KILLED_BEFORE),)),
    "delete": Plan(6, steps=(APPLY, Step("delete", 3.0, "Running"))),
    "savepoint": Plan(15, Shape(transactional=True), (APPLY, Step("savepoint", 3.0, "Running"))),
    "upgrade": Plan(20, steps=(APPLY, Step("edit", 3.0, "Running"))),
    "handover": Plan(61, Shape(upgrade="Handover"), (APPLY, Step("edit", 3.0, "Running"))),
    "handover-in-vain": Plan(62, Shape(upgrade="Handover"), (APPLY, Step("broken script", 3.0, "Running"))),
    # Its standby takes over from a driver that is killed, and from one that is evicted.
    "standby": Plan(63, Shape(standby=True), (APPLY, Step("kill leader", 30.0, "Running"))),
    "standby-evicted": Plan(
        64, Shape(standby=True, transactional=True), (APPLY, Step("evict", 30.0, "Running"))
    ),
    "scale": Plan(23, Shape(executors=1), (APPLY, Step("scale", 3.0, "Running"), Step("scale", 9.0))),
    "autoscale": Plan(65, Shape(autoscale=True), (APPLY, Step("busy", 3.0, "Running"))),
    "rollback": Plan(21, steps=(APPLY, Step("bad image", 3.0, "Running"))),
    "out-of-input": Plan(7, Shape(("events", "sums"), bounded=10, interval="15s")),
}
SCENARIOS = {name: replace(plan, name=name) for name, plan in PLANS.items()}


def cells(scenario: str) -> Iterator[Plan]:
    """The scenario with each fault at each of its effects."""
    plan = SCENARIOS[scenario]
    for n in range(len(reference(scenario).effects)):
        for fault in Fault:
            yield replace(plan, faults=((n, fault),))


def pairs(scenario: str, many: int, rng: Random) -> Iterator[Plan]:
    """The scenario with two faults, at effects and of kinds drawn by `rng`."""
    plan, effects = SCENARIOS[scenario], len(reference(scenario).effects)
    for _ in range(many):
        first, second = sorted(rng.sample(range(effects), 2))
        kinds = rng.choices(list(Fault), k=2)
        yield replace(plan, faults=((first, kinds[0]), (second, kinds[1])))


def reference(scenario: str, product: Product | None = None) -> Outcome:
    """Without any fault of calls."""
    return World(SCENARIOS[scenario], product).run()


def differs(outcome: Outcome, calm: Outcome) -> str:
    """V9, V11: what was made or deleted more or less often than without the fault, and whether it took much
    longer; empty if nothing.
    """
    if outcome.seconds > calm.seconds + BOUND * max(len(outcome.plan.faults), 1):
        return f"it took {outcome.seconds:.0f} s, {calm.seconds:.0f} without the fault"
    keys = sorted({*outcome.made, *calm.made})
    return ", ".join(
        f"{key} {outcome.made[key]} times, {calm.made[key]} without the fault"
        for key in keys
        if outcome.made[key] != calm.made[key]
    )
