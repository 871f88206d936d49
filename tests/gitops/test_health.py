"""Argo CD's health check, actions and kstatus, on statuses that the controller's rules have made.

The scripts run in Argo CD's Lua interpreter; their tests have the form of those in Argo CD's repository, so
that the folder can be contributed there as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.gitops import programs
from dev.gitops.__main__ import config_map

from .cases import SCRIPTS, TESTDATA, Obj, cases

HEALTH = SCRIPTS / "health.lua"
ACTIONS = SCRIPTS / "actions"
CONFIG_MAP = SCRIPTS.parents[1] / "argocd-cm.yaml"
CASES = cases()
# What Flux waits for, by what Argo CD shows.
FLUX = {"Progressing": "InProgress", "Healthy": "Current", "Suspended": "Current", "Degraded": "Failed"}


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def said(objects: list[Obj]) -> list[dict[str, str]]:
    return [vars(verdict) for verdict in programs.argocd(HEALTH, objects)]


def test_the_health_of_each_situation() -> None:
    tests = loaded(SCRIPTS / "health_test.yaml")["tests"]
    assert [t["inputPath"] for t in tests] == [f"testdata/{name}.yaml" for name in CASES]
    found = said([loaded(SCRIPTS / t["inputPath"]) for t in tests])
    assert found == [t["healthStatus"] for t in tests]
    for name, health in zip(CASES, found, strict=True):
        assert name.startswith(health["status"].lower()), name


def test_the_situations_are_those_of_the_controller_of_today() -> None:
    assert {path.stem: loaded(path) for path in TESTDATA.glob("*.yaml")} == CASES, (
        "run python -m tests.gitops.cases"
    )


def test_a_deleted_job_is_progressing() -> None:
    running = CASES["healthy_running"]
    deleted = {
        **running,
        "metadata": {**running["metadata"], "deletionTimestamp": "2026-01-02T03:04:05Z"},
    }
    assert said([deleted]) == [{"status": "Progressing", "message": "Pending deletion"}]
    assert [v.status for v in programs.kstatus([deleted])] == ["Terminating"]


@pytest.mark.parametrize("field", ["conditions", "observedGeneration"])
def test_a_status_that_somebody_else_has_begun_is_progressing(field: str) -> None:
    running = CASES["healthy_running"]
    status = {k: v for k, v in running["status"].items() if k != field}
    assert said([{**running, "status": status}])[0]["status"] == "Progressing"


def test_flux_waits_for_what_argo_cd_shows_as_healthy() -> None:
    """Two exceptions. A dead query may be started again by its script: to kstatus that is in progress. And
    without the status that the CRD gives a new object, kstatus would take the object for finished.
    """
    found = dict(zip(CASES, programs.kstatus(CASES.values()), strict=True))
    expected = {
        name: FLUX[health["status"]] for name, health in zip(CASES, said(list(CASES.values())), strict=True)
    }
    expected |= {"degraded_deadQuery": "InProgress", "progressing_noStatus": "Current"}
    assert {name: verdict.status for name, verdict in found.items()} == expected


# --- actions ------------------------------------------------------------------------------------------------


def test_the_actions_that_are_offered() -> None:
    for test in loaded(ACTIONS / "action_test.yaml")["discoveryTests"]:
        found = programs.returned(ACTIONS / "discovery.lua", loaded(ACTIONS / test["inputPath"]))
        offered = {name: {"name": name} | {k: v for k, v in a.items() if v} for name, a in found.items()}
        assert offered == {a["name"]: a for a in test["result"]}, test["inputPath"]


def test_what_each_action_changes() -> None:
    tests = loaded(ACTIONS / "action_test.yaml")["actionTests"]
    assert {t["action"] for t in tests} == {path.parent.name for path in ACTIONS.glob("*/action.lua")}
    for test in tests:
        script = ACTIONS / test["action"] / "action.lua"
        after = programs.returned(script, loaded(ACTIONS / test["inputPath"]))
        assert after == loaded(ACTIONS / test["expectedOutputPath"]), test


def test_no_action_is_offered_that_a_job_cannot_follow() -> None:
    for name in ("healthy_drained", "healthy_finished", "degraded_alreadyDrained"):
        found = programs.returned(ACTIONS / "discovery.lua", CASES[name])
        assert all(action["disabled"] for action in found.values()), name


# --- Argo CD's ConfigMap ------------------------------------------------------------------------------------


def test_the_config_map_has_the_scripts() -> None:
    assert CONFIG_MAP.read_text() == config_map(), "run python -m dev.gitops"
    data = loaded(CONFIG_MAP)["data"]
    assert data["resource.customizations.health.streamjob.dev_StreamJob"] == HEALTH.read_text()
    actions = yaml.safe_load(data["resource.customizations.actions.streamjob.dev_StreamJob"])
    assert actions["discovery.lua"] == (ACTIONS / "discovery.lua").read_text()
    found = {d["name"]: d["action.lua"] for d in actions["definitions"]}
    assert found == {path.parent.name: path.read_text() for path in ACTIONS.glob("*/action.lua")}
