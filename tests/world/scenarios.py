"""Reference scenarios, and every fault at every effect of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .plan import Fault, Mishap, Plan, Shape, Step
from .world import Outcome, Product, World

APPLY = Step("apply")
BOUND = 120.0  # seconds that one fault may cost: a crash and a timeout, both twice over
_PLANS: dict[str, Plan] = {
    "stop": Plan(1, steps=(APPLY, Step("Stopped", 3.0, "Running"))),
    "drain": Plan(2, Shape(transactional=True), (APPLY, Step("Drained", 3.0, "Running"))),
    "cancel": Plan(3, steps=(APPLY, Step("Stopped", 3.0, "Running"), Step("Cancelled", 0.1, "Stopping"))),
    "resume": Plan(4, steps=(APPLY, Step("Stopped", 3.0, "Running"), Step("Running", 3.0, "Stopped"))),
    "restart": Plan(5, mishaps=(("Running", 0, Mishap.KILLED_BEFORE),)),
    "delete": Plan(6, steps=(APPLY, Step("delete", 3.0, "Running"))),
    "upgrade": Plan(20, steps=(APPLY, Step("edit", 3.0, "Running"))),
    "rollback": Plan(21, steps=(APPLY, Step("bad image", 3.0, "Running"))),
    "out-of-input": Plan(7, Shape(("events", "sums"), bounded=10, interval="15s")),
}
SCENARIOS = {name: replace(plan, name=name) for name, plan in _PLANS.items()}
# What only a certain mishap shows; each has found something, or is the only one that notices a seeded bug.
_SPECIAL: dict[str, Plan] = {
    # The checkpoint is in the index, and the driver dies before its sinks have committed.
    "uncommitted": Plan(
        8,
        Shape(transactional=True),
        (APPLY, Step("Stopped", 9.0, "Running")),
        mishaps=(("NotifyComplete", 0, Mishap.KILLED_BEFORE),),
    ),
    # A deleted job's driver hangs for longer than the deletion is patient.
    "hung": Plan(
        9, steps=(APPLY, Step("delete", 3.0, "Running")), mishaps=(("StopAtBoundary", 0, Mishap.HANGS),)
    ),
    # Its directories are ahead of the newest checkpoint when it is killed.
    "behind": Plan(14, Shape(interval="5s"), mishaps=(("Running", 0, Mishap.KILLED_BEFORE),)),
    # The driver answers nobody for a while; then it is told to stop.
    "deaf": Plan(
        13, steps=(APPLY, Step("Stopped", 500.0, "Running")), mishaps=(("Running", 0, Mishap.HANGS),)
    ),
    # The index is deleted by hand: nothing may begin.
    "lost-index": Plan(
        12,
        steps=(
            APPLY,
            Step("Stopped", 3.0, "Running"),
            Step("delete index", 1.0, "Stopped"),
            Step("Running", 1.0),
        ),
    ),
    # A new script that fails in its first batch, when the driver has been Running already.
    "throws": Plan(22, steps=(APPLY, Step("throwing script", 3.0, "Running"))),
    # One that fails before its first query.
    "broken": Plan(33, steps=(APPLY, Step("broken script", 3.0, "Running"))),
    # Another one that cannot work, while the first one is tried: the job goes back behind both.
    "twice-broken": Plan(
        23, steps=(APPLY, Step("throwing script", 3.0, "Running"), Step("edit", 0.0, "Restarting"))
    ),
    # A second change while the new driver, which has run for a moment only, has yet to fail.
    "second-thought": Plan(
        24,
        steps=(
            APPLY,
            Step("throwing script", 30.0, "Running"),
            Step("edit", 0.0, "Starting"),
            Step("broken script", 0.1, "Running"),
        ),
    ),
    # The new driver is killed once, by chance.
    "unlucky": Plan(
        25,
        steps=(APPLY, Step("edit", 3.0, "Running")),
        mishaps=(("Started", 1, Mishap.KILLED_BEFORE),),
    ),
    # The old driver dies while it stops for the new one.
    "died-stopping": Plan(
        26,
        steps=(APPLY, Step("edit", 9.0, "Running")),
        mishaps=(("StoreCheckpoint", 0, Mishap.KILLED_BEFORE),),
    ),
    # It was rolled back; the spec is mended, and the job stopped and started in between.
    "mended": Plan(
        27,
        steps=(
            APPLY,
            Step("bad image", 3.0, "Running"),
            Step("Stopped", 120.0),
            Step("Running", 3.0, "Stopped"),
            Step("mend", 30.0, "Running"),
        ),
    ),
    # A drain hangs in its last batch for longer than its timeout: it becomes a stop.
    "drain-to-stop": Plan(
        28,
        Shape(escalation=("Stop",)),
        (APPLY, Step("Drained", 3.0, "Running")),
        mishaps=(("StopAtBoundary", 0, Mishap.HANGS),),
    ),
    # So does the stop that it has become.
    "drain-to-cancel": Plan(
        29,
        Shape(escalation=("Stop", "Cancel")),
        (APPLY, Step("Drained", 3.0, "Running")),
        mishaps=(("StopAtBoundary", 0, Mishap.HANGS), ("StopAtBoundary", 1, Mishap.HANGS)),
    ),
    "stop-to-cancel": Plan(
        30,
        Shape(escalation=("Cancel",)),
        (APPLY, Step("Stopped", 3.0, "Running")),
        mishaps=(("StopAtBoundary", 0, Mishap.HANGS),),
    ),
    # It hangs when its savepoint is in the index.
    "too-late-to-cancel": Plan(
        31,
        Shape(escalation=("Cancel",)),
        (APPLY, Step("Stopped", 3.0, "Running")),
        mishaps=(("Close", 0, Mishap.HANGS),),
    ),
    # Nothing is declared: it is waited for.
    "patient": Plan(
        32,
        steps=(APPLY, Step("Stopped", 3.0, "Running")),
        mishaps=(("StopAtBoundary", 0, Mishap.HANGS),),
    ),
    # While the controller is away the driver that it has made runs and is gone.
    "unseen": Plan(
        11, steps=(APPLY, Step("kill pod", 9.0), Step("Stopped")), faults=((6, Fault.CRASH_AFTER),)
    ),
}
SPECIAL = {name: replace(plan, name=name) for name, plan in _SPECIAL.items()}


def cells(scenario: str) -> Iterator[Plan]:
    """The scenario with each fault at each of its effects."""
    plan = SCENARIOS[scenario]
    for n in range(len(reference(scenario).effects)):
        for fault in Fault:
            yield replace(plan, faults=((n, fault),))


def reference(scenario: str, product: Product | None = None) -> Outcome:
    """Without any fault of calls."""
    return World(SCENARIOS[scenario], product).run()


def differs(outcome: Outcome, calm: Outcome) -> str:
    """V9, V11: what was made or deleted more or less often than without the fault, and whether it took much longer; empty if
    nothing."""
    if outcome.seconds > calm.seconds + BOUND:
        return f"it took {outcome.seconds:.0f} s, {calm.seconds:.0f} without the fault"
    keys = sorted({*outcome.made, *calm.made})
    return ", ".join(
        f"{key} {outcome.made[key]} times, {calm.made[key]} without the fault"
        for key in keys
        if outcome.made[key] != calm.made[key]
    )
