"""Another number of executors while Spark runs, with real ones (`local-cluster`): more, fewer, and other
bounds of dynamic allocation. What is private of Spark here has the same names in all versions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .apps import said_by

pytestmark = pytest.mark.timeout(900)


@pytest.mark.slow
def test_fewer_and_more(tmp_path: Path) -> None:
    """Those that go have moved their shuffle files to the one that stays."""
    assert said_by("executor_numbers", "static", home=tmp_path, timeout=800) == {
        "begins": 3,
        "fewer": 1,
        "wanted": 1,
        "same": True,
        "more": 2,
        "sum": 4950,
        "again": 2,
        "let_go": "",
        "died": "Command exited with code 137",
    }


@pytest.mark.slow
@pytest.mark.default_spark
def test_other_bounds_of_dynamic_allocation(tmp_path: Path) -> None:
    """Both hold at once: the new maximum under load, the new minimum without any."""
    assert said_by("executor_numbers", "dynamic", home=tmp_path, timeout=800) == {
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
