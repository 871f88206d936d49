"""Savepoints copied by real executors, with a Spark of their own: an executor that is killed, a session that
ends, a savepoint that is aborted. `tests/storage/test_executor_copy.py` has the rest.
"""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from .apps import said_by

pytestmark = [pytest.mark.any_spark, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def came_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One Spark for all: its start takes longer than what it does."""
    home = tmp_path_factory.mktemp("executors")
    return said_by("executors", home, home=home, timeout=1000)


@pytest.mark.slow
def test_executors_copy_the_state_and_the_driver_the_rest(came_of: dict[str, Any]) -> None:
    assert came_of["savepoint"] == {"broken": [], "state": 10, "by the driver": 0, "left": 0}


def test_a_savepoint_that_is_given_up_ends_the_job(came_of: dict[str, Any]) -> None:
    assert came_of["given_up"] == "nobody waits for it any more"


def test_an_executor_that_is_killed_costs_nothing(came_of: dict[str, Any]) -> None:
    assert came_of["killed"] == {
        "done": [[7, hashlib.sha256(b"content").hexdigest()]],
        "targets": ["content"],
    }


def test_a_session_that_the_script_ends_leaves_it_to_the_driver(came_of: dict[str, Any]) -> None:
    assert came_of["stopped"] == {"done": 0, "again": 0}
