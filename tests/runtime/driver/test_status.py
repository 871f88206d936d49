"""What the workers note of a job's end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from streamjob.runtime.driver.status import Notes, problem_of
from streamjob.runtime.spark.max_watermark import DrainResult


def drained(output_rows: int | None, state_rows_left: int | None) -> DrainResult:
    return DrainResult(7, 1, output_rows, 0.1, state_rows_left, timers_left=False)


@pytest.mark.parametrize(
    ("message", "reason"),
    [("Job aborted: java.io.IOException: No space left on device", "StorageFull"), ("a bug", "QueryFailed")],
)
def test_a_query_that_finds_no_room_says_so(message: str, reason: str) -> None:
    problem = problem_of(RuntimeError(message))
    assert (problem.reason, problem.retryable) == (reason, True)
    assert ("spec.storage.checkpoints" in problem.remedy) == (reason == "StorageFull")


def test_r7_what_stages_give_and_leave_is_summed() -> None:
    notes = Notes()
    assert (notes.flushed_rows, notes.state_rows_left) == (None, None)
    notes.drained(drained(None, None))
    assert (notes.flushed_rows, notes.state_rows_left) == (None, None), "nobody counts, so none is told"
    notes.drained(drained(5, 0))
    notes.drained(drained(None, 3))
    assert (notes.flushed_rows, notes.state_rows_left) == (5, 3)


def test_r7_stages_that_drain_at_once_are_all_summed() -> None:
    notes = Notes()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: notes.drained(drained(1, 2)), range(2000)))
    assert (notes.flushed_rows, notes.state_rows_left) == (2000, 4000)
