"""Savepoints copied by real executors, with a Spark of their own: an executor that is killed, a session that
ends, a savepoint that is aborted. `tests/storage/test_executor_copy.py` has the rest.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

pytestmark = [pytest.mark.any_spark, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def came_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One Spark for all: its start takes longer than what it does."""
    home = tmp_path_factory.mktemp("executors")
    root = Path(__file__).parents[2]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{root / 'operator'}:{root}",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
    }
    with (home / "log").open("w") as log:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.apps.executors", home],
            env=environment,
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            timeout=1000,
            check=False,
        )
    assert done.returncode == 0, (home / "log").read_text()[-3000:]
    return {key: value for line in done.stdout.splitlines() for key, value in json.loads(line).items()}


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
