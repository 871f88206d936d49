"""The command line: replay one plan, run many, or go on for as long as one likes."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from dataclasses import replace
from itertools import chain
from random import Random

from .plan import Fault, Mishap, Plan, random_plan
from .scenarios import SCENARIOS, cells, differs, pairs, reference
from .soak import cores, soak
from .special import SPECIAL
from .world import World

HELP = """Run the production controller in a simulated cluster, with faults.

See docs/architecture.md, "The world".

examples (from the top of the repository, with PYTHONPATH=operator):
  python -m tests.world --seed 7 --verbose                          one plan, step by step
  python -m tests.world --plans 10000                               plans 0 to 9999, on all cores
  python -m tests.world --seconds 3600                new plans for an hour (make soak SECONDS=3600)
  python -m tests.world --table                       the reference scenarios, each with each fault
  python -m tests.world --scenario stop --fault "12:crash before"   one cell of the table
"""
NAMED = SCENARIOS | SPECIAL
PAIRS = 100  # other ones each time


def main() -> int:
    logging.getLogger("streamjob").addHandler(logging.NullHandler())  # the drivers log their mishaps
    parser = argparse.ArgumentParser(
        prog="python -m tests.world", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seed", type=int, help="the plan of this seed; with --plans or --seconds, the first one"
    )
    parser.add_argument("--plans", type=int, help="how many")
    parser.add_argument("--seconds", type=float, help="for how long")
    parser.add_argument(
        "--jobs", type=int, default=cores(), help="processes side by side, default %(default)s"
    )
    parser.add_argument(
        "--scenario",
        choices=NAMED,
        metavar="NAME",
        help="a reference scenario or special plan instead of a seed",
    )
    parser.add_argument("--table", action="store_true", help="every fault at every effect of every scenario")
    parser.add_argument("--fault", action="append", default=[], metavar="N:KIND", help=", ".join(Fault))
    parser.add_argument(
        "--mishap", action="append", default=[], metavar="MOMENT:N:KIND", help=", ".join(Mishap)
    )
    parser.add_argument("--verbose", action="store_true", help="show each step also if nothing is wrong")
    given = parser.parse_args()
    if given.scenario or (given.seed is not None and given.plans is None and given.seconds is None):
        plan = NAMED[given.scenario] if given.scenario else random_plan(given.seed)
        faults = tuple((int(n), Fault(kind)) for n, kind in (f.split(":") for f in given.fault))
        mishaps = tuple((moment, int(n), Mishap(k)) for moment, n, k in (m.split(":") for m in given.mishap))
        plan = replace(plan, faults=plan.faults + faults, mishaps=plan.mishaps + mishaps)
        return 0 if show(plan, verbose=given.verbose) else 1
    if given.table:
        return table(int(time.time()))
    first = given.seed if given.seed is not None else 0 if given.plans else int(time.time()) * 1000
    return soak(first, given.plans, given.seconds, given.jobs)


def show(plan: Plan, *, verbose: bool) -> bool:
    """Run it; what happened, if it is asked for or has broken something."""
    outcome = World(plan).run()
    if verbose or outcome.violation:
        print(plan)
        print(outcome)
    print(outcome.violation or f"all invariants hold, {outcome.seconds:.0f} virtual seconds")
    return outcome.violation is None


def table(seed: int) -> int:
    """Every cell, and PAIRS of two faults for each scenario.

    Goes on behind one that breaks something: the whole table is what one wants to see.
    """
    broken = cells_run = 0
    for scenario in SCENARIOS:
        calm = reference(scenario)
        for plan in chain(cells(scenario), pairs(scenario, PAIRS, Random(seed))):
            outcome = World(plan).run()
            cells_run += 1
            if wrong := outcome.violation or differs(outcome, calm):
                broken += 1
                print(f"{wrong}\nreplay: {outcome.replay}")
        print(f"{scenario}: {len(calm.effects)} effects, {cells_run} cells so far", file=sys.stderr)
    print(f"{cells_run} cells, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
