"""Every status that the controller writes in simulated life cycles, as Argo CD and Flux judge it.

The verdicts are held against what the job's spec asks for and against its phase, never against the conditions
alone: a condition that is wrong is what this looks for.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from dev.gitops import programs
from streamjob.api import GROUP, KIND, VERSION

from ..world.apiserver import Change, Obj
from ..world.plan import Plan
from ..world.scenarios import SCENARIOS
from ..world.special import SPECIAL
from ..world.world import World
from .cases import SCRIPTS

# A query stays dead, a specification is rolled back, a drain is escalated, a driver is lost, and more.
CHOSEN = (
    "careless careless-stopped broken mended drain-to-cancel lost-deleted index-deleted revoked-pods two-jobs"
)
PLANS: dict[str, Plan | int] = {
    **SCENARIOS,
    **{name: SPECIAL[name] for name in CHOSEN.split()},
    **{f"seed {n}": n for n in range(8)},
}
# Phases in which the requested state is reached: an end of input ends a job whatever is requested.
REACHED = {
    "Running": {"Running", "Finished"},
    "Suspended": {"Suspended", "Finished", "Drained"},
    "Stopped": {"Stopped", "Finished", "Drained"},
    "Drained": {"Drained", "Finished"},
    "Cancelled": {"Cancelled", "Finished", "Drained"},
}
ARGO_CD = {
    "Current": {"Healthy", "Suspended"},
    "Failed": {"Degraded"},
    "InProgress": {"Progressing", "Degraded"},  # Degraded: a query is dead
    "Terminating": {"Progressing"},
}


class Recorded(World):
    """Remembers each state of each StreamJob."""

    def __init__(self, plan: Plan | int) -> None:
        self.jobs: dict[str, Obj] = {}
        super().__init__(plan)

    def _changed(self, change: Change) -> None:
        if change.key[0] == "streamjobs" and change.new is not None:
            obj = {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, **change.new}
            self.jobs.setdefault(json.dumps(obj, sort_keys=True), obj)
        super()._changed(change)


@pytest.fixture(scope="module")
def judged() -> list[tuple[str, Obj, str, str]]:
    """The plan, the object, and what Argo CD and Flux say of it."""
    found: list[tuple[str, Obj]] = []
    for name, plan in PLANS.items():
        world = Recorded(plan)
        outcome = world.run()
        assert outcome.violation is None, outcome.replay
        found += [(name, obj) for obj in world.jobs.values()]
    objects = [obj for _, obj in found]
    argocd = programs.argocd(SCRIPTS / "health.lua", objects)
    flux = programs.kstatus(objects)
    return [(*which, a.status, f.status) for which, a, f in zip(found, argocd, flux, strict=True)]


def wanted(obj: Obj) -> str:
    state = obj["spec"].get("state", "Running")
    return "Suspended" if state == "Running" and obj["spec"].get("suspend") else state


def conditions(obj: Obj) -> dict[str, Any]:
    return {c["type"]: c for c in obj["status"].get("conditions", ())}


def test_they_cover_the_life_cycle(judged: list[tuple[str, Obj, str, str]]) -> None:
    phases = Counter(obj["status"].get("phase") for _, obj, _, _ in judged)
    assert len(phases) == 14, "13 phases, and none"
    assert {a for *_, a, _ in judged} == {"Healthy", "Suspended", "Progressing", "Degraded"}
    assert {f for *_, f in judged} == {"Current", "InProgress", "Failed", "Terminating"}
    assert any("Degraded" in conditions(obj) for _, obj, _, _ in judged)
    assert len(judged) >= 1000


def test_what_is_healthy_is_what_the_newest_spec_asks_for(judged: list[tuple[str, Obj, str, str]]) -> None:
    """The one that counts: nobody is told that a commit has arrived before it has."""
    for plan, obj, argocd, flux in judged:
        if flux == "Current" or argocd in ("Healthy", "Suspended"):
            status = obj["status"]
            assert status["observedGeneration"] == obj["metadata"]["generation"], plan
            assert status["phase"] in REACHED[wanted(obj)], (plan, status["phase"], wanted(obj))
            assert "Degraded" not in conditions(obj), plan
            if status["phase"] == "Running":
                step = (status.get("upgrade") or {}).get("step")
                assert step not in ("Stopping", "RolledBack"), plan


def test_what_nobody_has_looked_at_is_in_progress(judged: list[tuple[str, Obj, str, str]]) -> None:
    for plan, obj, argocd, flux in judged:
        if obj["status"]["observedGeneration"] != obj["metadata"]["generation"]:
            assert argocd == "Progressing", plan
            assert flux in ("InProgress", "Terminating"), plan


def test_what_is_failed_needs_a_person_and_says_what_to_do(judged: list[tuple[str, Obj, str, str]]) -> None:
    for plan, obj, argocd, flux in judged:
        found = conditions(obj)
        if flux == "Failed":
            assert found["Stalled"]["status"] == "True", plan
            assert found["Stalled"]["message"], plan
            assert found["Reconciling"]["status"] == "False", plan
            assert (
                obj["status"]["phase"] == "Failed"
                or obj["status"].get("lastError")
                or (found["Stalled"]["reason"] in ("RolledBack", "Escalated"))
            ), (plan, found["Stalled"])
        if obj["status"].get("phase") == "Failed" and flux not in ("InProgress", "Terminating"):
            assert (argocd, flux) == ("Degraded", "Failed"), plan


def test_work_in_progress_is_never_failed(judged: list[tuple[str, Obj, str, str]]) -> None:
    """A restart after a failure is progress until the restarts are used up: Flux and a sync of Argo CD would
    give up at once.
    """
    for plan, obj, argocd, flux in judged:
        if conditions(obj).get("Reconciling", {}).get("status") == "True":
            assert flux in ("InProgress", "Terminating"), plan
            assert argocd == "Progressing", plan


def test_both_say_the_same(judged: list[tuple[str, Obj, str, str]]) -> None:
    for plan, obj, argocd, flux in judged:
        assert argocd in ARGO_CD[flux], (plan, obj["status"])
        if flux == "InProgress" and argocd == "Degraded":
            assert conditions(obj)["Degraded"]["status"] == "True", plan
        if argocd == "Suspended":
            assert obj["spec"]["suspend"], plan
