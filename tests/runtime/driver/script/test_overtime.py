"""When a script that runs on is told, and when its process ends."""

from __future__ import annotations

import pytest

from streamjob.runtime.driver.script.overtime import Overtime, limit_of


def told(overtime: Overtime) -> list[int]:
    """Every time at which the script is told, until the process ends."""
    found: list[int] = []
    for now in range(int(overtime.since), int(overtime.limit)):
        if overtime.is_due(now, found[-1] if found else None):
            found.append(now)
    return found


def test_a_script_is_told_after_30_seconds_and_again_after_as_long() -> None:
    assert told(Overtime(since=100, limit=200)) == [130, 160, 190]


def test_a_script_that_has_less_time_is_told_after_a_third_of_it() -> None:
    assert told(Overtime(since=100, limit=130)) == [110, 120]


def test_one_that_may_work_is_told_before_its_time_is_over() -> None:
    assert told(Overtime(since=100, limit=1900, works=True)) == [1870]
    assert told(Overtime(since=100, limit=130, works=True)) == [120]


def test_one_without_a_query_is_told_at_once() -> None:
    assert told(Overtime(since=100, limit=130, at_once=True)) == [100, 110, 120]


def test_its_listeners_wait_for_it_for_some_seconds_in_a_drain_and_until_it_is_told_in_a_stop() -> None:
    drains = Overtime(since=100, limit=1900, works=True)
    assert [now for now in range(100, 110) if drains.listeners_are_due(now)] == [105, 106, 107, 108, 109]
    assert not Overtime(since=100, limit=1900).listeners_are_due(1900)


@pytest.mark.parametrize(
    ("alone", "timeout", "limit"),
    [
        pytest.param(20, 600, 610, id="the request's time"),
        pytest.param(608, 600, 618, id="the savepoint took almost all of it"),
        pytest.param(700, 600, 710, id="the savepoint took longer"),
        pytest.param(20, 3, 23, id="short"),
        pytest.param(20, None, 50, id="the grace period"),
    ],
)
def test_the_process_ends_when_the_time_of_the_request_is_over(
    alone: float, timeout: float | None, limit: float
) -> None:
    assert limit_of(10, alone, timeout, grace=30) == limit
