"""Another number of executors while Spark runs, with real ones (`local-cluster`): more, fewer, and other
bounds of dynamic allocation. What is private of Spark here has the same names in all versions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

pytestmark = pytest.mark.timeout(900)


def steps(how: str, home: Path) -> dict[str, Any]:
    root = Path(__file__).parents[2]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{root / 'operator'}:{root}",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
    }
    with (home / "log").open("w") as log:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.apps.executor_numbers", how],
            env=environment,
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            timeout=800,
            check=False,
        )
    assert done.returncode == 0, (home / "log").read_text()[-3000:]
    return {key: value for line in done.stdout.splitlines() for key, value in json.loads(line).items()}


def test_fewer_and_more(tmp_path: Path) -> None:
    """Those that go have moved their shuffle files to the one that stays."""
    assert steps("static", tmp_path) == {
        "begins": 3,
        "fewer": 1,
        "wanted": 1,
        "same": True,
        "more": 2,
        "sum": 4950,
        "again": 2,
    }


def test_other_bounds_of_dynamic_allocation(tmp_path: Path) -> None:
    """Both hold at once: the new maximum under load, the new minimum without any."""
    assert steps("dynamic", tmp_path) == {
        "begins": 1,
        "wanted": 1,
        "grows": 2,
        "shrinks": 1,
        "raised": 3,
        "lowered": 1,
        "under_load": 1,
        "least": 2,
        "sum": 4950,
    }
