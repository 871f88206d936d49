"""What a batch costs is found again in progress that was made from known costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from streamjob.protocol.messages.figures import Load
from streamjob.runtime.spark.executors.cost import Cost

FIXED, CAPACITY = 2.0, 500.0


def progress(batch: int, rows: int, cores: int, rate: float | None = 100.0) -> dict[str, Any]:
    took = FIXED + rows / (cores * CAPACITY)
    return {
        "batchId": batch,
        "numInputRows": rows,
        "durationMs": {"triggerExecution": took * 1000},
        "inputRowsPerSecond": rate,
    }


def seen(cost: Cost, batches: Iterator[tuple[int, int]], tasks: int | None = None) -> Load | None:
    load = None
    for batch, (rows, cores) in enumerate(batches):
        load = cost.see(progress(batch, rows, min(cores, tasks or cores)), cores, tasks, batch * 10.0)
    return load


@pytest.mark.parametrize(("cores", "tasks"), [(4, None), (4, 16), (16, 4)])
def test_both_costs_are_told_apart(cores: int, tasks: int | None) -> None:
    load = seen(Cost(), ((rows, cores) for rows in range(1000, 20_000, 1000)), tasks)
    assert load == Load(100.0, FIXED, CAPACITY, tasks)


def test_a_change_of_the_cores_tells_them_apart_too() -> None:
    load = seen(Cost(), ((10_000, cores) for cores in (2,) * 10 + (4,) * 10))
    assert load == Load(100.0, FIXED, CAPACITY)


def test_where_they_cannot_be_told_apart_all_is_of_the_rows() -> None:
    load = seen(Cost(), ((10_000, 4) for _ in range(10)))
    assert load is not None
    assert load.fixed_seconds == 0.0
    assert load.rows_per_core_second == pytest.approx(10_000 / 4 / 7.0, rel=1e-3)


def test_the_same_progress_again_is_no_batch() -> None:
    cost = Cost()
    for at in range(10):
        assert cost.see(progress(0, 1000, 4), 4, None, at) is None


def test_what_is_no_number_is_left_out() -> None:
    cost = Cost()
    nothing = {"batchId": 0, "numInputRows": 0, "durationMs": {}, "inputRowsPerSecond": float("nan")}
    assert cost.see(nothing, 4, None, 0.0) is None
    assert cost.see({"batchId": 1}, 4, None, 1.0) is None
    assert seen(cost, ((rows, 4) for rows in (1000, 2000, 3000))) == Load(100.0, FIXED, CAPACITY)


def test_the_arrival_follows_within_a_minute() -> None:
    cost = Cost()
    seen(cost, ((rows, 4) for rows in (1000, 2000)))
    for at in range(20, 80):
        load = cost.see(progress(9, 1000, 4, rate=500.0), 4, None, at)
    assert load is not None
    assert 400 < load.rows_per_second < 500


def test_an_idle_query_has_a_load_of_nothing_in_the_end() -> None:
    cost = Cost()
    seen(cost, ((rows, 4) for rows in (1000, 2000)))
    idle = {"batchId": 2, "numInputRows": 0, "durationMs": {"triggerExecution": 3}, "inputRowsPerSecond": 0.0}
    for at in range(20, 600):
        load = cost.see(idle, 4, None, at)
    assert load == Load(0.0, FIXED, CAPACITY)
