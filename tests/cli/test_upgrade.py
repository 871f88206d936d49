"""How far an upgrade has come: the operator gives up one whose driver does not come up."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.cli.diagnosis.diagnose import diagnose
from streamjob.cli.diagnosis.facts import Facts
from streamjob.cli.views import tree
from streamjob.cli.views.checkpoints import Index
from streamjob.cli.views.job import job
from streamjob.cli.views.progress import Mark, Mover, Outcome
from streamjob.cli.views.upgrade import look

from ..controller.factories import NOW, driver, observed, ran, running, waiting
from ..controller.factories import job as a_job
from ..gitops.cases import resource
from .recorded import situations

BACK = "2026-01-02T03:09:00Z"


def stalled(**upgrade: Any) -> dict[str, Any]:
    """The image of the new driver is not there."""
    obj = resource(observed(a_job(status=ran(2, phase="Starting")), pods=[waiting("ErrImagePull", epoch=2)]))
    return {**obj, "status": {**obj["status"], "upgrade": {"generation": 1, "step": "Starting", **upgrade}}}


def test_whoever_waits_for_one_that_is_rolled_back_waits_for_that() -> None:
    found = look(1, job(stalled(deadline=BACK)), NOW)
    assert (found.outcome, found.mover, found.stalled_since) == (Outcome.GOING, Mover.YOU, None)
    assert found.waits_for.endswith(
        "credentials. Unless it comes up, the job returns to the previous specification"
    )
    assert found.left is not None
    assert found.left > 0


def test_whoever_waits_for_one_that_stays_is_told_that_nothing_moves() -> None:
    assert look(1, job(stalled()), NOW).stalled_since == NOW


def test_a_diagnosis_says_what_the_operator_will_do() -> None:
    (error, *_) = diagnose(Facts(job(stalled(deadline=BACK)), Index(), NOW))
    assert error.what.startswith("The upgrade's driver does not come up: ")
    assert error.what.endswith("the job returns to the previous specification by itself.")
    shown = "\n".join(tree.tree(job(stalled(deadline=BACK)), Index(), NOW).lines())
    assert "back to the previous specification in" in shown


def test_a_job_that_runs_after_a_rollback_does_not_stand_still() -> None:
    obj = resource(observed(a_job(status=ran(3)), pods=[running(3)]))
    (condition,) = [c for c in stalled()["status"]["conditions"] if c["type"] == "Stalled"]
    conditions = [c for c in obj["status"]["conditions"] if c["type"] != "Stalled"]
    status = {"phase": "Running", "upgrade": {"generation": 1, "step": "RolledBack"}}
    obj = {**obj, "status": {**obj["status"], **status, "conditions": [*conditions, condition]}}
    (error, *_) = diagnose(Facts(job(obj), Index(), NOW))
    assert error.what.startswith("The job runs with its previous specification: the upgrade failed with ")


def preparing(**status: Any) -> dict[str, Any]:
    obj = resource(observed(a_job(status=ran()), pods=[running()], reported=driver()))
    upgrade = {"generation": 1, "step": "Preparing", "epoch": 2, "deadline": BACK}
    return {
        **obj,
        "spec": {**obj["spec"], "upgrade": {"mode": "Handover"}},
        "status": {**obj["status"], "upgrade": upgrade | status.pop("upgrade", {}), **status},
    }


@pytest.mark.parametrize(
    ("waits_for", "mover", "says"),
    [
        (None, Mover.JOB, "the driver of epoch 2 is being prepared beside the running one"),
        ("no node has room.", Mover.YOU, "the driver of epoch 2 waits: no node has room."),
    ],
)
def test_an_upgrade_says_what_its_prepared_driver_waits_for(
    waits_for: str | None, mover: Mover, says: str
) -> None:
    obj = preparing(upgrade={"waitsFor": waits_for})
    found = look(1, job(obj), NOW)
    assert (found.outcome, found.mover, found.waits_for) == (Outcome.GOING, mover, says)
    assert [s.text for s in found.steps if s.mark is Mark.NOW] == [
        "the new driver is prepared beside the running one"
    ]
    assert found.left is not None
    shown = "\n".join(tree.tree(job(obj), Index(), NOW).lines())
    assert "upgrade: Preparing" in shown
    assert "given up in 4m55s; the running driver stays" in shown


@pytest.mark.parametrize(
    ("standby", "says"),
    [
        ({"phase": "Pending"}, "orders-driver-2 is being prepared (Pending)"),
        (
            {"phase": "Running", "error": {"reason": "DriverNotPrepared"}},
            "orders-driver-2 is not prepared (DriverNotPrepared)",
        ),
        (
            {"error": {"reason": "Forbidden"}, "nextAt": BACK},
            f"orders-driver-2 has failed (Forbidden); the next one is made at {BACK}",
        ),
        ({"phase": "Running", "prepared": True}, "orders-driver-2 waits at its first query"),
    ],
)
def test_a_standby_is_shown_beside_the_one_that_runs(standby: dict[str, Any], says: str) -> None:
    obj = preparing(standby={"pod": "orders-driver-2", "epoch": 2, **standby})
    assert says in "\n".join(tree.tree(job(obj), Index(), NOW).lines())


def test_no_driver_of_a_drained_job_begins_with_another_image() -> None:
    obj = situations()["healthy_drained"]
    found = look(1, job(obj), NOW)
    assert found.outcome is Outcome.FAILED
    assert "no driver starts" in found.waits_for
