"""The production controller in simulated clusters: reference scenarios with every fault at every effect, and
random plans.

With CI set it is the same each time for a commit (tests/gate.py): a gate has to be repeatable. Elsewhere it
continues searching.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import replace
from typing import Any

import pytest

from tests import gate

from .controller_process import Controller
from .outcome import Outcome
from .plan import Fault, Plan, Step
from .scenarios import SCENARIOS, cells, differs, pairs, reference
from .special import SPECIAL
from .user import JOB
from .world import World

SEED = gate.seed() if os.environ.get("CI") else random.randrange(1 << 30)
SECONDS = 8.0  # of processor time for random plans, at least PLANS of them
PLANS = 25
PAIRS = 4
WHOLE = ("drain", "cancel", "delete")  # which `make test-all` goes through cell by cell


def holds(outcome: Outcome) -> None:
    if outcome.violation:
        pytest.fail(f"{outcome}\n{outcome.violation}\nreplay: {outcome.replay}", pytrace=False)


@pytest.mark.parametrize("one_in", [16, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_effect_with_every_fault(scenario: str, one_in: int) -> None:
    """V9 besides: faults of calls change neither how many pods, Secrets and ConfigMaps are made nor how many
    go.
    """
    calm = reference(scenario)
    holds(calm)
    assert len(calm.effects) >= 15, "the scenario comes to nothing"
    plans = list(cells(scenario))
    assert len(plans) == len(calm.effects) * len(Fault)
    for plan in plans if one_in == 8 and scenario in WHOLE else plans[SEED % one_in :: one_in]:
        outcome = World(plan).run()
        holds(outcome)
        assert not differs(outcome, calm), f"{differs(outcome, calm)}\nreplay: {outcome.replay}"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_two_faults_in_one_run(scenario: str) -> None:
    """A few of the pairs, other ones each time; `python -m tests.world --table` takes more."""
    calm = reference(scenario)
    for plan in pairs(scenario, PAIRS, random.Random(SEED)):
        outcome = World(plan).run()
        holds(outcome)
        assert not differs(outcome, calm), f"{differs(outcome, calm)}\nreplay: {outcome.replay}"


@pytest.mark.parametrize("name", SPECIAL)
def test_special(name: str) -> None:
    holds(World(SPECIAL[name]).run())


@pytest.mark.parametrize("name", ["savepoint", pytest.param("index-deleted", marks=pytest.mark.slow)])
def test_i3_and_i5_every_fault_at_every_write_of_the_index(name: str) -> None:
    """A write that is lost, refused, taken twice, or the last one that its controller does.

    The index has each savepoint once; if the user has deleted it, it is made anew all the same.
    """
    plan = {**SCENARIOS, **SPECIAL}[name]
    writes = [n for n, effect in enumerate(World(plan).run().effects) if "configmaps" in effect]
    assert len(writes) >= 3
    for n in writes[:: 1 if name in SCENARIOS else 6]:
        for fault in Fault:
            holds(World(replace(plan, faults=((n, fault),))).run())


def test_a_stop_reaches_its_driver_without_a_list_of_pods() -> None:
    """The API server takes up to a tenth of a second for one; it was most of the time from a patch to the
    command.
    """
    world = World(SCENARIOS["stop"])
    ask = world.ask

    def noted(controller: Controller, method: str, path: str, body: Any = None) -> tuple[int, str]:
        if "pods?labelSelector" in path:
            world.note(controller.name, "lists pods")
        return ask(controller, method, path, body)

    world.ask = noted  # type: ignore[method-assign]
    holds(world.run())
    said = [what for _, _, what in world.trace]
    told = next(n for n, what in enumerate(said) if what.startswith("PUT /v1/termination"))
    assert "lists pods" in said, "all else is decided on what is"
    assert "lists pods" not in said[said.index("Stopped") : told]


def test_a_driver_that_ran_unseen_is_resumed_for_its_savepoint() -> None:
    """The controller crashes when it has made the pod; the driver runs, is killed, and the user asks for
    Stopped: it was said to have 'Stopped before it began'.
    """
    world = World(SPECIAL["unseen"])
    holds(world.run())
    (truth,) = world.oracle.truths.values()
    assert truth.started == [1, 1], "the first driver was to run unseen"
    assert [r["scenario"] for r in truth.numbers.values()] == ["Stop"]


def test_s5_a_stop_that_has_no_room_for_its_savepoint_says_so_and_ends_when_there_is() -> None:
    world = World(SPECIAL["full"])
    said: set[str] = set()
    look = world._look

    def watch() -> None:
        status = world.server.objects.get(JOB, {}).get("status") or {}
        said.update(c["message"] for c in status.get("conditions", ()))
        look()

    world._look = watch  # type: ignore[method-assign]
    outcome = world.run()
    holds(outcome)
    assert any("Make room" in text for text in said), said
    (truth,) = world.oracle.truths.values()
    assert [r["scenario"] for r in truth.numbers.values()] == ["Stop"]


@pytest.mark.parametrize("deaf", ["streamjobs", "pods"])
def test_a_dead_watch_costs_time_and_nothing_else(deaf: str) -> None:
    """O6. No event of one kind ever comes, and nobody says so."""
    for plan in SCENARIOS.values():
        holds(World(replace(plan, deaf=deaf)).run())


def test_random_plans() -> None:
    end = time.process_time() + (0.0 if os.environ.get("CI") else SECONDS)
    done = 0
    while done < PLANS or time.process_time() < end:
        holds(World(SEED + done).run())
        done += 1


def test_a_seed_is_the_same_world_again() -> None:
    for seed in (3, 14, 15):
        assert World(seed).run() == World(seed).run()


def test_an_unknown_deed_of_the_user_is_no_quiet_success() -> None:
    with pytest.raises(KeyError):
        World(Plan(0, steps=(Step("appply"),))).run()
