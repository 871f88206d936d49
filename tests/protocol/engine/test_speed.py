"""The work for an event does not grow with the number of tasks: counted in calls, so that no clock can make
it fail.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from dev.bench.protocol import JOBS, live


def calls_per_event(name: str, tasks: int, *, script_waits: bool) -> float:
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        events = live(JOBS[name](tasks), script_waits=script_waits)
    finally:
        sys.setprofile(before)
    return calls / events


@pytest.mark.parametrize("script_waits", [False, True], ids=["the script has ended", "the script waits"])
@pytest.mark.parametrize("name", JOBS)
def test_the_work_for_an_event_does_not_grow_with_the_job(name: str, script_waits: bool) -> None:
    few, many = (calls_per_event(name, tasks, script_waits=script_waits) for tasks in (100, 400))
    assert many < 1.2 * few
