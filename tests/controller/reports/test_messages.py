"""The texts about problems and upgrades."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.api import UpgradeStatus, UpgradeStep
from streamjob.controller.reports.messages import how_it_went, sentence
from streamjob.protocol.messages.driver_status import Problem
from streamjob.protocol.times import timestamp

from ..factories import NOW

ERROR = {
    "reason": "QueryFailed",
    "message": "password=hunter2 is wrong",
    "remedy": "See the log.",
    "time": timestamp(NOW),
}


@pytest.mark.parametrize(
    ("message", "remedy", "text"),
    [
        ("no space.\n", "Make room.", "no space. Make room."),
        ("no space", "", "no space."),
        ("token=abcdef is wrong", "See the log", "token=*** is wrong. See the log."),
    ],
)
def test_a_sentence_has_the_problem_and_its_remedy_without_secrets(
    message: str, remedy: str, text: str
) -> None:
    assert sentence(Problem("Any", message, remedy)) == text


@pytest.mark.parametrize(
    ("step", "warning", "reason"),
    [
        (UpgradeStep.PENDING, True, "UpgradePending"),
        (UpgradeStep.STOPPING, False, "Upgrading"),
        (UpgradeStep.STARTING, False, "Upgrading"),
        (UpgradeStep.COMPLETED, False, "Upgraded"),
        (UpgradeStep.ROLLED_BACK, True, "RolledBack"),
    ],
)
def test_each_step_of_an_upgrade_has_an_event(step: UpgradeStep, warning: bool, reason: str) -> None:
    event = how_it_went(upgrade(step, epoch=2, error=ERROR))
    assert (event.warning, event.reason) == (warning, reason)
    assert "hunter2" not in event.message


def test_a_rollback_names_the_error_and_the_remedy() -> None:
    message = how_it_went(upgrade(UpgradeStep.ROLLED_BACK, error=ERROR)).message
    assert "QueryFailed" in message
    assert "restart.nonce" in message


def test_a_start_names_its_savepoint() -> None:
    assert "file:///s" in how_it_went(upgrade(UpgradeStep.STARTING, epoch=2, savepoint="file:///s")).message
    assert "without a savepoint" in how_it_went(upgrade(UpgradeStep.STARTING, epoch=2)).message


def upgrade(step: UpgradeStep, **more: Any) -> UpgradeStatus:
    return UpgradeStatus.model_validate(
        {"step": step, "generation": 2, "target": "t", "previous": "p", **more}
    )
